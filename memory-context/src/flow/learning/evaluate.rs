//! Runs the evaluators after an answer.

use std::panic::AssertUnwindSafe;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::join_all;
use memory_core::{Error, ErrorKind, Result};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use crate::flow::dialogue::{MAX_CALLS, MAX_ROUNDS};
use crate::flow::door::Stopping;
use crate::flow::{End, FlowStep, MessageService, REFLECTION_PROVIDERS, Run, voice};
use crate::records::Message;
use crate::state::{ComposeOptions, Evaluation, Evaluator, EvaluatorInfo, Snapshot, State, Turn, Voice};

/// How many messages of the agent one turn usually has at most: a result and a text for each call, and a text for each round. A tool that
/// says more texts can exceed it; then the oldest are not seen.
pub(super) const RESPONSES: usize = 2 * MAX_CALLS + MAX_ROUNDS;

impl MessageService {
    /// Does the work after a message was answered or ignored: runs the awaited evaluators, sends the answer to its caller, counts the
    /// interaction if there was an answer, runs the other evaluators, and makes missing vectors. A step that fails, panics or is late does
    /// not change the answer, and the other steps still run. What comes after the interaction needs one of a few permits; a run that gets
    /// none in time skips it.
    pub(in crate::flow) async fn evaluate(&self, run: &Run, turn: &Turn, end: &End) {
        let (turn, has_answered) = (&turn.clone().with_actions(turn.actions.shared()), *end == End::Completed);
        let is_concerned = |info: &EvaluatorInfo| has_answered || info.always_run;
        self.run_evaluators(run, turn, end, |info| info.is_awaited && is_concerned(info)).await;
        run.tap().end(end);
        if has_answered {
            self.touch(turn).await;
        }
        let Some(_place) = self.place_to_learn().await else {
            tracing::warn!("a run learns nothing: too many others do");
            return;
        };
        self.run_evaluators(run, turn, end, |info| !info.is_awaited && is_concerned(info)).await;
        let services = self.composer.services();
        let upkeep = AssertUnwindSafe(services.records().upkeep()).catch_unwind();
        match timeout(self.limits.evaluators, upkeep).await {
            Ok(Ok(Ok(_))) => {}
            Ok(Err(_)) => tracing::error!("the embedder panicked"),
            Ok(Ok(Err(error))) => tracing::warn!(%error, "there are records without vectors"),
            Err(_) => tracing::warn!("the vectors took too long, and were given up until the next answer"),
        }
    }

    /// Waits for a permit to learn; `None` if none is free in time or before a shutdown.
    async fn place_to_learn(&self) -> Option<SemaphorePermit<'_>> {
        let place = timeout(self.limits.evaluators, self.learning.acquire());
        self.door.unless(Stopping::Undecided, place).await.ok()?.ok()?.ok()
    }

    /// Counts an interaction of the author with the agent.
    async fn touch(&self, turn: &Turn) {
        let services = self.composer.services();
        let (records, author) = (services.records(), &turn.message.content.author);
        let (agent, message) = (records.agent().entity(), &turn.message);
        let relationships = records.relationships();
        let counted = relationships.interact_by(author, &agent, message.id, message.created_at);
        if let Err(error) = self.in_time(counted).await {
            tracing::warn!(%error, "an interaction is not counted");
        }
    }

    /// Runs these evaluators concurrently, with one deadline for all.
    async fn run_evaluators(&self, run: &Run, turn: &Turn, end: &End, is_meant: impl Fn(&EvaluatorInfo) -> bool) {
        let services = self.composer.services();
        let evaluators = services.evaluators().iter().map(AsRef::as_ref);
        let meant: Vec<_> = evaluators.filter(|evaluator| is_meant(evaluator.info())).collect();
        let done = self.run_all(run, turn, end, meant);
        if timeout(self.limits.evaluators, done).await.is_err() {
            tracing::warn!("the evaluators took too long, and were given up");
        }
    }

    async fn run_all(&self, run: &Run, turn: &Turn, end: &End, evaluators: Vec<&dyn Evaluator>) {
        let validated = join_all(evaluators.into_iter().map(|evaluator| async move {
            let is_valid = guarded(evaluator, evaluator.validate(&self.composer.cx(turn, &Snapshot::default()))).await;
            is_valid.unwrap_or_default().then_some(evaluator)
        }));
        let busy: Vec<_> = validated.await.into_iter().flatten().collect();
        if busy.is_empty() {
            return;
        }
        let (state, responses) = (self.evaluated_state(turn).await, self.responses(turn).await);
        let (snapshot, state, responses) = (&state.snapshot(), &state, &responses[..]);
        let (voice, has_answered) = (&Speaking { service: self, run, turn }, *end == End::Completed);
        let runs = busy.into_iter().map(|evaluator| async move {
            let cx = &self.composer.cx(turn, snapshot);
            guarded(evaluator, evaluator.evaluate(&Evaluation { cx, state, responses, has_answered, voice })).await;
        });
        join_all(runs).await;
    }

    /// Composes the state for evaluators, which includes what the agent has just said.
    async fn evaluated_state(&self, turn: &Turn) -> State {
        let names = REFLECTION_PROVIDERS.into_iter().chain(["EVALUATORS"]);
        let options = ComposeOptions::with(names).refresh(["RECENT_MESSAGES"]);
        self.composer.compose_state(turn, &options).await
    }

    /// The messages that the agent said in this turn, including the results of its tools, oldest first.
    async fn responses(&self, turn: &Turn) -> Vec<Message> {
        let services = self.composer.services();
        let until = services.records().messages().until(&turn.message, RESPONSES).await;
        let mut responses = until.unwrap_or_else(|error| {
            tracing::warn!(%error, "the evaluators see no responses");
            Vec::new()
        });
        responses.retain(|message| message.content.in_reply_to == Some(turn.message.id));
        responses.reverse();
        responses
    }
}

/// Says the messages of an evaluator, as messages of the run that it evaluates.
struct Speaking<'a> {
    service: &'a MessageService,
    run: &'a Run,
    turn: &'a Turn,
}

#[async_trait]
impl Voice for Speaking<'_> {
    async fn say(&self, text: &str) -> Result<Message> {
        let Self { service, run, turn } = self;
        let services = service.composer.services();
        let new = voice::reply(&services, &turn.message, text).with_run(run.context().id);
        let message = service.voice().say(new).await?;
        run.tap().said(&message);
        run.step(FlowStep::Answered(message.id));
        Ok(message)
    }
}

/// Runs an evaluator, and logs an error or a panic.
async fn guarded<T>(evaluator: &dyn Evaluator, work: impl Future<Output = Result<T>>) -> Option<T> {
    let panicked = |_| Error::new(ErrorKind::Unexpected, "the evaluator panicked");
    let done = AssertUnwindSafe(work).catch_unwind().await.map_err(panicked).flatten();
    done.inspect_err(|error| tracing::warn!(evaluator = %evaluator.info().name, %error, "an evaluator failed")).ok()
}
