//! Runs work in sessions of an engine.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinError, spawn_blocking};
use tracing::{Instrument, Span};

use super::living::{LivingWork, View};
use super::open::Open;
use crate::engine::Engine;
use crate::engine::heavy::Permit;
use crate::engine::watch::Watch;
use crate::{Error, ErrorKind, Result};

impl<E: Engine> Open<E> {
    /// Runs work. Work that writes is retried only if it has written nothing.
    pub(super) async fn run<A, T>(
        &self,
        view: impl Into<View>,
        argument: A,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.run_until(self.until(), view, argument, work).await
    }

    pub(super) async fn run_until<A, T>(
        &self,
        until: Instant,
        view: impl Into<View>,
        argument: A,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (view, argument) = (view.into(), Arc::new(argument));
        let attempt = |_| self.in_session(view, until, Arc::clone(&argument), work);
        self.retry().run(|error| self.engine.is_temporary(error), attempt).await
    }

    /// Runs work that may examine many records.
    ///
    /// With a permit it runs on a blocking thread, because it would occupy a thread of the executor that other calls
    /// need. It ends soon after its caller is gone, and holds the permit until then.
    pub(super) async fn run_watched<A, T>(
        self: &Arc<Self>,
        permit: Option<Arc<Permit>>,
        watch: &Watch,
        view: View,
        argument: A,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let is_heavy = permit.is_some();
        let (until, watched) = (watch.until(), Watched { argument, work, _permit: permit });
        let work: LivingWork<E::Session, Watched<E::Session, A, T>, T> =
            |session, watched| (watched.work)(session, &watched.argument);
        match is_heavy {
            true => self.run_apart(until, view, watched, work).await,
            false => self.run_until(until, view, watched, work).await,
        }
    }

    /// Runs work on a blocking thread, unless the engine has threads of its own, because it would occupy a thread of
    /// the executor that other calls need. It ends soon after its caller is gone.
    pub(super) async fn run_apart<A, T>(
        self: &Arc<Self>,
        until: Instant,
        view: impl Into<View>,
        argument: A,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let view = view.into();
        if E::OWN_THREADS {
            return self.run_until(until, view, argument, work).await;
        }
        let (open, executor) = (Arc::clone(self), Handle::current());
        // Dropping this future closes the channel.
        let (_caller, given_up) = oneshot::channel::<()>();
        let run = async move {
            tokio::select! {
                biased;
                _ = given_up => Err(Error::new(ErrorKind::Timeout, "nobody waits for the answer any more")),
                done = open.run_until(until, view, argument, work) => done,
            }
        };
        let run = run.instrument(Span::current());
        ended(spawn_blocking(move || executor.block_on(run)).await)
    }
}

/// Work with its call's permit, which is returned when the work has ended, even if its caller is gone.
struct Watched<S, A, T> {
    argument: A,
    work: LivingWork<S, A, T>,
    _permit: Option<Arc<Permit>>,
}

/// Returns a task's result, or resumes its panic.
pub(super) fn ended<T>(task: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    task.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "the executor is shutting down")),
    })
}
