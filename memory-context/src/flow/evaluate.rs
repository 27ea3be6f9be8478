//! Looking at what was done.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::join_all;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use super::{MessageService, REFLECTION_PROVIDERS};
use crate::state::{ComposeOptions, Evaluator, Snapshot, State, Turn};

impl MessageService {
    /// Runs the evaluators that have something to do. One that fails, panics or is late does not change what was done, and the
    /// others go on.
    pub(super) async fn evaluate(&self, turn: &Turn, has_answered: bool) {
        if timeout(self.limits.evaluators, self.run_evaluators(turn, has_answered)).await.is_err() {
            tracing::warn!("the evaluators took too long, and were given up");
        }
    }

    async fn run_evaluators(&self, turn: &Turn, has_answered: bool) {
        let evaluators = self.composer.services().evaluators().iter().map(AsRef::as_ref);
        let concerned = evaluators.filter(|evaluator| has_answered || evaluator.info().always_run);
        let validated = join_all(concerned.map(|evaluator| async move {
            let is_valid = guarded(evaluator, evaluator.validate(&self.composer.cx(turn, &Snapshot::default()))).await;
            is_valid.unwrap_or_default().then_some(evaluator)
        }));
        let busy: Vec<_> = validated.await.into_iter().flatten().collect();
        if busy.is_empty() {
            return;
        }
        let state = self.evaluated_state(turn).await;
        let (snapshot, state) = (&state.snapshot(), &state);
        let runs = busy.into_iter().map(|evaluator| async move {
            guarded(evaluator, evaluator.evaluate(&self.composer.cx(turn, snapshot), state)).await;
        });
        join_all(runs).await;
    }

    /// What the agent said since is part of it.
    async fn evaluated_state(&self, turn: &Turn) -> State {
        let names = REFLECTION_PROVIDERS.into_iter().chain(["EVALUATORS"]);
        let options = ComposeOptions::only(names).refresh(["RECENT_MESSAGES"]);
        self.composer.compose_state(turn, &options).await
    }
}

/// What an evaluator gives, unless it fails or panics.
async fn guarded<T>(evaluator: &dyn Evaluator, work: impl Future<Output = Result<T>>) -> Option<T> {
    let panicked = |_| Error::new(ErrorKind::Unexpected, "the evaluator panicked");
    let done = AssertUnwindSafe(work).catch_unwind().await.map_err(panicked).flatten();
    done.inspect_err(|error| tracing::warn!(evaluator = %evaluator.info().name, %error, "an evaluator failed")).ok()
}
