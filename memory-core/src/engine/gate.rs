//! The gate that every call of a provider passes through.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, RwLock};
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use super::heavy::{HeavyWork, Permit};
use super::load::COUNTERS;
use crate::{Error, ErrorKind, Outcome, Result};

/// The deadline of a call unless one is configured (L6).
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
/// The deadline of a health check (L3).
pub(super) const HEALTH_DEADLINE: Duration = Duration::from_secs(2);

/// Enforces a provider's life cycle (L2), deadline (L6) and number of concurrent heavy calls (L8), names operation and
/// backend in its errors, and makes each call a `tracing` span without payloads. A provider and its documents share one
/// gate.
#[derive(Debug)]
pub struct Gate {
    backend: &'static str,
    deadline: Duration,
    // Each call holds a read lock while it runs, so that shutdown waits for it.
    state: RwLock<State>,
    // Serializes init and shutdown. Other calls don't take it, so none waits for an init.
    turn: Mutex<()>,
    heavy: HeavyWork,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Closed,
}

impl Gate {
    /// Makes a closed gate, which [`Gate::init`] opens.
    pub fn new(backend: &'static str, deadline: Duration) -> Self {
        Self { backend, deadline, state: RwLock::new(State::New), turn: Mutex::new(()), heavy: HeavyWork::default() }
    }

    /// Opens the gate after running `work`; does nothing if it is already open (L1).
    pub async fn init(&self, work: impl Future<Output = Result<()>>) -> Result<()> {
        self.run("init", self.deadline, Outcome::Unknown, async {
            let _turn = self.turn.lock().await;
            // An open gate is not write-locked, because that would wait for the slowest call.
            let state = *self.state.read().await;
            match state {
                State::New => {
                    work.await?;
                    *self.state.write().await = State::Open;
                    Ok(())
                }
                State::Open => Ok(()),
                State::Closed => Err(closed()),
            }
        })
        .await
    }

    /// Runs a call that reads.
    pub fn read<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Result<T>> {
        self.run(operation, self.deadline, Outcome::NotDone, self.pass(Box::pin(work)))
    }

    /// Runs a call that writes; past the deadline its outcome is unknown.
    pub fn write<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Result<T>> {
        self.run(operation, self.deadline, Outcome::Unknown, self.pass(Box::pin(work)))
    }

    /// Waits for a permit for a heavy call, first come, first served (L8). A call takes one permit only: two calls that
    /// each wait for a second one would deadlock.
    ///
    /// Fails with `Unavailable` (retryable) if none is free within half of the deadline; the other half is for the
    /// work.
    pub async fn permit(&self) -> Result<Permit> {
        let (begun, waiting) = (Instant::now(), COUNTERS.heavy_waiting.count());
        let permit = self.heavy.permit(self.deadline / 2).await;
        drop(waiting);
        let waited = begun.elapsed();
        COUNTERS.heavy_micros.add(waited.as_micros() as u64);
        Span::current().record("waited_ms", waited.as_millis() as u64);
        let Some(permit) = permit else {
            COUNTERS.heavy_refused.add(1);
            let message = "too many heavy calls at once: try again later";
            return Err(Error::new(ErrorKind::Unavailable, message).retryable());
        };
        COUNTERS.heavy_admitted.add(1);
        Ok(permit.of_call())
    }

    /// Applies the deadline of a reading call to work that consists of several calls with waits in between.
    pub(super) async fn bound<T>(&self, operation: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::time::timeout(self.deadline, work).await;
        done.unwrap_or_else(|_| {
            Err(late(self.deadline, Outcome::NotDone).with_operation(operation).with_backend(self.backend))
        })
    }

    /// Runs a health check, which has a shorter deadline; no answer counts as `Unavailable` (L3).
    pub async fn health<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let deadline = self.deadline.min(HEALTH_DEADLINE);
        let result = self.run("check_health", deadline, Outcome::NotDone, self.pass(Box::pin(work))).await;
        result.map_err(|error| match error.kind() {
            ErrorKind::Timeout => Error::new(ErrorKind::Unavailable, "the engine does not answer")
                .with_operation("check_health")
                .with_backend(self.backend)
                .with_source(error)
                .retryable(),
            _ => error,
        })
    }

    /// Closes the gate, waits for the calls in flight, and runs `work` if the gate was open (L2).
    pub async fn shutdown(&self, work: impl Future<Output = Result<()>>) -> Result<()> {
        // This also waits for heavy calls, so it must not count as a light call.
        let _background = COUNTERS.background.count();
        self.run("shutdown", self.deadline, Outcome::Unknown, async {
            let _turn = self.turn.lock().await;
            let mut state = self.state.write().await;
            let before = std::mem::replace(&mut *state, State::Closed);
            if before == State::Open { work.await } else { Ok(()) }
        })
        .await
    }

    /// The work is boxed, because each async layer around it would otherwise hold it twice and move it.
    async fn pass<T>(&self, work: Pin<Box<impl Future<Output = Result<T>>>>) -> Result<T> {
        let state = self.state.read().await;
        match *state {
            State::Open => work.await,
            State::New => Err(Error::new(ErrorKind::Closed, "the provider is not initialised: call init first")),
            State::Closed => Err(closed()),
        }
    }

    async fn run<T>(
        &self,
        operation: &'static str,
        deadline: Duration,
        outcome: Outcome,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let span = info_span!(
            "memory",
            operation,
            backend = self.backend,
            waited_ms = Empty,
            examined = Empty,
            rows = Empty,
            outcome = Empty
        );
        let _counted = COUNTERS.calls.count();
        async {
            let result = tokio::time::timeout(deadline, work).await;
            let result = result.unwrap_or_else(|_| Err(late(deadline, outcome)));
            let result = result.map_err(|error| error.with_operation(operation).with_backend(self.backend));
            match &result {
                Ok(_) => Span::current().record("outcome", "ok"),
                Err(error) => Span::current().record("outcome", tracing::field::debug(error.kind())),
            };
            result
        }
        .instrument(span)
        .await
    }
}

/// Records in the span of the current call how many rows it read or wrote.
pub fn record_rows(rows: usize) {
    Span::current().record("rows", rows);
}

/// Makes the error of a call that is past its deadline.
fn late(deadline: Duration, outcome: Outcome) -> Error {
    COUNTERS.late.add(1);
    let message = format!("no answer within {} ms", deadline.as_millis());
    Error::new(ErrorKind::Timeout, message).with_outcome(outcome).retryable()
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the provider was shut down")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::heavy_calls;

    #[tokio::test]
    async fn a_gate_opens_once_and_closes_for_good() {
        let gate = Gate::new("test", DEFAULT_DEADLINE);
        let call = || gate.read("get", async { Ok(1) });
        assert_eq!(call().await.expect_err("new").kind(), ErrorKind::Closed);
        gate.init(async { Err(Error::corrupt("bad")) }).await.expect_err("the work failed");
        assert_eq!(call().await.expect_err("still new").kind(), ErrorKind::Closed);
        gate.init(async { Ok(()) }).await.expect("opens");
        gate.init(async { Err(Error::corrupt("not run again")) }).await.expect("is open");
        assert_eq!(call().await.expect("open"), 1);
        gate.shutdown(async { Ok(()) }).await.expect("closes");
        gate.shutdown(async { Err(Error::corrupt("not run again")) }).await.expect("is closed");
        assert_eq!(call().await.expect_err("closed").kind(), ErrorKind::Closed);
        assert_eq!(gate.init(async { Ok(()) }).await.expect_err("closed").kind(), ErrorKind::Closed);
    }

    #[tokio::test]
    async fn nobody_waits_for_an_init_or_for_a_slow_call_to_init() {
        let gate = Gate::new("test", DEFAULT_DEADLINE);
        let quick = || gate.read("get", async { Ok(1) });
        tokio::select! {
            biased;
            _ = gate.init(std::future::pending()) => panic!("an init that never ends"),
            answer = quick() => assert_eq!(answer.expect_err("not open yet").kind(), ErrorKind::Closed),
        }
        gate.init(async { Ok(()) }).await.expect("opens, since the first init was dropped");
        tokio::select! {
            biased;
            _ = gate.read("query", std::future::pending::<Result<()>>()) => panic!("a call that never ends"),
            again = gate.init(async { Err(Error::corrupt("not run again")) }) => again.expect("is open"),
        }
        assert_eq!(quick().await.expect("open"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn heavy_calls_wait_in_turn_and_not_for_ever() {
        let gate = Gate::new("test", DEFAULT_DEADLINE);
        let mut permits = Vec::new();
        for _ in 0..heavy_calls() {
            permits.push(gate.permit().await.expect("a free one"));
        }
        let refused = gate.permit().await.expect_err("none comes free");
        assert_eq!(
            (refused.kind(), refused.outcome(), refused.is_retryable()),
            (ErrorKind::Unavailable, Outcome::NotDone, true)
        );
        let (first, mut second) = (gate.permit(), Box::pin(gate.permit()));
        tokio::pin!(first);
        tokio::select! {
            biased;
            _ = &mut first => panic!("none is free"),
            _ = &mut second => panic!("none is free"),
            () = tokio::task::yield_now() => {}
        }
        drop(permits.pop());
        tokio::select! {
            biased;
            _ = &mut second => panic!("the other one came first"),
            permit = &mut first => drop(permit.expect("its turn")),
        }
        second.await.expect("one was given back");
    }

    #[tokio::test]
    async fn a_late_write_has_an_unknown_outcome() {
        let gate = Gate::new("test", Duration::from_millis(1));
        gate.init(async { Ok(()) }).await.expect("opens");
        let late = gate.write("store", std::future::pending::<Result<()>>()).await.expect_err("late");
        assert_eq!((late.kind(), late.outcome(), late.is_retryable()), (ErrorKind::Timeout, Outcome::Unknown, true));
        assert_eq!(late.to_string(), "store (test): Timeout: no answer within 1 ms");
        let late = gate.read("get", std::future::pending::<Result<()>>()).await.expect_err("late");
        assert_eq!(late.outcome(), Outcome::NotDone);
    }
}
