//! `REFLECTION`: looks at a conversation from time to time and stores what was learned.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use memory_core::{Error, MAX_LIMIT, MemoryId, Result};
use memory_model::{ChatMessage, Prompt, ask};

use super::evaluate::RESPONSES;
use super::learn;
use crate::flow::answer::ReflectionAnswer;
use crate::flow::respond::is_reflection_due;
use crate::records::RoomId;
use crate::state::{Cx, Evaluation, Evaluator, EvaluatorInfo};

/// Reflects on a room when the messages since the last reflection are more than a quarter of the conversation length. Results of actions
/// don't count. A reflection that fails counts as one, so the next one is due a quarter later.
///
/// Which messages were reflected on is kept only in memory, for the 1,000 rooms used last. In other rooms, and after a restart, the last
/// messages are reflected on again; facts that are known are not stored twice.
#[derive(Debug)]
pub struct ReflectionEvaluator {
    info: EvaluatorInfo,
    limit: Duration,
    /// The last messages of each room at its last reflection.
    seen: Mutex<LruCache<RoomId, HashSet<MemoryId>>>,
}

const ROOMS: NonZeroUsize = NonZeroUsize::new(1_000).expect("more than none");

impl ReflectionEvaluator {
    /// Makes an evaluator that asks the small model of the services with their template; `limit` is the deadline of each answer.
    pub fn new(limit: Duration) -> Self {
        let info = EvaluatorInfo::new("REFLECTION", "Looks at the conversation, and keeps facts and relationships");
        let info = EvaluatorInfo { always_run: true, ..info };
        Self { info, limit, seen: Mutex::new(LruCache::new(ROOMS)) }
    }

    /// Returns the ids of the last messages, enough of them to see whether a reflection is due. Messages are told apart by ids and not by
    /// times, since platforms set the times.
    async fn said(&self, cx: &Cx<'_>) -> Result<HashSet<MemoryId>> {
        let services = cx.services();
        let turns = services.conversation_length().div_ceil(4) + 1;
        let limit = turns.saturating_mul(1 + RESPONSES).min(MAX_LIMIT);
        let mut recent = services.records().messages().until(cx.message(), limit).await?;
        recent.retain(|message| message.content.action_result.is_none());
        Ok(recent.into_iter().map(|message| message.id).collect())
    }

    /// Whether a reflection is due. With `mark`, a due one is marked as done in the same step, so that of two concurrent calls only one
    /// reflects.
    fn is_due(&self, cx: &Cx<'_>, said: HashSet<MemoryId>, mark: bool) -> bool {
        let room = &cx.message().content.room;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let new = seen.get(room).map_or(said.len(), |seen| said.difference(seen).count());
        let is_due = is_reflection_due(new, cx.services().conversation_length());
        if is_due && mark {
            seen.put(room.clone(), said);
        }
        is_due
    }
}

#[async_trait]
impl Evaluator for ReflectionEvaluator {
    fn info(&self) -> &EvaluatorInfo {
        &self.info
    }

    async fn validate(&self, cx: &Cx<'_>) -> Result<bool> {
        Ok(self.is_due(cx, self.said(cx).await?, false))
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        let Evaluation { cx, state, .. } = evaluation;
        // Marked before the model is asked, so that a model that is down is not asked again after every message.
        if !self.is_due(cx, self.said(cx).await?, true) {
            return Ok(());
        }
        let services = cx.services();
        let model =
            services.small_model().ok_or_else(|| Error::invalid("a reflection needs a service with a model"))?;
        let prompt = services.templates().reflection.render(&state.values)?.text;
        let prompt = Prompt { messages: vec![ChatMessage::user(prompt)], ..Prompt::default() };
        let answer = ask(model.as_ref(), prompt, self.limit, ReflectionAnswer::parse).await?.value;
        // If the message was erased meanwhile, nothing is learned from it.
        if services.records().messages().get(&cx.audience(), cx.message().id).await?.is_none() {
            return Ok(());
        }
        let learned = learn(services.records(), cx.message(), &answer, services.clock().now()).await?;
        tracing::debug!(facts = learned.facts.len(), refused = learned.refused, "reflected");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use memory_core::{Erasure, InMemory, MemoryProvider, SystemClock, Timestamp};
    use memory_model::{Completion, Model};

    use super::*;
    use crate::flow::{Events, REFLECTION_PROVIDERS};
    use crate::records::{self, ActionStatus, AgentId, Audience, EntityId, MessageContent, NewMessage, Records};
    use crate::state::{Character, ComposeOptions, Composer, Flow, Services, Snapshot, Turn, Voice};

    #[derive(Debug, Default)]
    struct Scripted {
        asked: AtomicUsize,
        is_down: AtomicBool,
    }

    #[async_trait]
    impl Model for Scripted {
        async fn complete(&self, _: &Prompt) -> Result<Completion> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            match self.is_down.load(Ordering::SeqCst) {
                true => Err(Error::invalid("down")),
                false => Ok(r#"{"thought":"t","facts":[{"claim":"Ana likes tea","subject":"ana"}]}"#.into()),
            }
        }
    }

    /// What a reflection has no use for.
    struct Mute;

    #[async_trait]
    impl Voice for Mute {
        async fn say(&self, _: &str) -> Result<records::Message> {
            Err(Error::invalid("nothing is said here"))
        }
    }

    /// A room with one evaluator, whose conversations have eight messages.
    struct Stage {
        records: Records,
        composer: Composer,
        model: Arc<Scripted>,
        evaluator: ReflectionEvaluator,
    }

    impl Stage {
        async fn new() -> Self {
            let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
            provider.init().await.expect("ready");
            let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
            let services = Services::new(records.clone(), Character::named("Eliza")).with_conversation_length(8);
            let composer = Composer::builder(services).built_in().build().expect("names differ");
            let model = Arc::new(Scripted::default());
            let asked: Arc<dyn Model> = Arc::clone(&model) as _;
            let events = Events::new(1, Arc::new(SystemClock));
            composer.set_flow(Flow { model: Arc::clone(&asked), small_model: asked, events });
            let evaluator = ReflectionEvaluator::new(Duration::from_secs(60));
            Self { records, composer, model, evaluator }
        }

        fn audience() -> Audience {
            Audience::new(RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"))
        }

        fn said(millis: i64) -> NewMessage {
            let content = MessageContent::new(Self::audience().room, Self::audience().entity, "I like tea");
            NewMessage::new(content, Timestamp::from_millis(millis).expect("valid"))
        }

        /// Whether a message makes it reflect.
        async fn hears(&self, new: NewMessage) -> bool {
            let turn = Turn::new(self.records.messages().add(new).await.expect("stored"));
            let is_due = self.evaluator.validate(&self.composer.cx(&turn, &Snapshot::default())).await.expect("read");
            let before = self.model.asked.load(Ordering::SeqCst);
            if is_due {
                let state = self.composer.compose_state(&turn, &ComposeOptions::only(REFLECTION_PROVIDERS)).await;
                let snapshot = state.snapshot();
                let cx = self.composer.cx(&turn, &snapshot);
                let evaluation =
                    Evaluation { cx: &cx, state: &state, responses: &[], has_answered: true, voice: &Mute };
                let (one, other) =
                    futures::join!(self.evaluator.evaluate(&evaluation), self.evaluator.evaluate(&evaluation));
                assert_eq!(one.is_err() || other.is_err(), self.model.is_down.load(Ordering::SeqCst));
            }
            let asked = self.model.asked.load(Ordering::SeqCst) - before;
            assert_eq!(asked, usize::from(is_due), "one of two at once");
            is_due
        }
    }

    #[tokio::test]
    async fn it_reflects_after_every_quarter_of_a_conversation() {
        let stage = Stage::new().await;
        let mut due = Vec::new();
        for number in 1..=9 {
            if stage.hears(Stage::said(number)).await {
                due.push(number);
            }
        }
        assert_eq!(due, [3, 6, 9], "more than two each time");
        let facts = stage.records.facts().newest(&Stage::audience(), 10).await.expect("read");
        let facts: Vec<_> = facts.iter().map(|fact| (fact.text.as_str(), fact.subject.as_str())).collect();
        assert_eq!(facts, [("Ana likes tea", "ana")]);
    }

    #[tokio::test]
    async fn what_was_erased_meanwhile_is_not_learned() {
        let stage = Stage::new().await;
        let mut messages = Vec::new();
        for number in 1..=4 {
            messages.push(stage.records.messages().add(Stage::said(number)).await.expect("stored"));
        }
        let turn = Turn::new(messages.remove(3));
        let erasure = Erasure::records([turn.message.id.into()], "a test").expect("valid");
        assert_eq!(stage.records.provider().erase(&erasure).await.expect("erased").records.len(), 1);
        let state = stage.composer.compose_state(&turn, &ComposeOptions::only(REFLECTION_PROVIDERS)).await;
        let snapshot = state.snapshot();
        let cx = stage.composer.cx(&turn, &snapshot);
        let evaluation = Evaluation { cx: &cx, state: &state, responses: &[], has_answered: true, voice: &Mute };
        stage.evaluator.evaluate(&evaluation).await.expect("reflected");
        assert_eq!(stage.model.asked.load(Ordering::SeqCst), 1);
        assert!(stage.records.facts().newest(&Stage::audience(), 10).await.expect("read").is_empty());
    }

    #[tokio::test]
    async fn what_actions_did_does_not_count_and_hides_nothing() {
        let stage = Stage::new().await;
        for number in 1..=3 {
            let new = Stage::said(number * 100);
            let audience = Stage::audience();
            let is_due = stage.hears(new).await;
            assert_eq!(is_due, number == 3);
            let agent = stage.records.agent().entity();
            let question = stage.records.messages().recent(&audience, 1).await.expect("read")[0].id;
            for step in 1..=32 {
                let mut content = MessageContent::new(audience.room.clone(), agent.clone(), "done");
                content.in_reply_to = Some(question);
                let (run, action) = ("run".to_owned(), "LOOK".to_owned());
                let result = records::ActionResult {
                    run,
                    action,
                    status: ActionStatus::Completed,
                    step,
                    steps: 32,
                    thought: None,
                };
                content.action_result = Some(result);
                let at = Timestamp::from_millis(number * 100 + i64::from(step)).expect("valid");
                stage.records.messages().add(NewMessage::new(content, at)).await.expect("stored");
            }
        }
    }

    #[tokio::test]
    async fn a_message_from_the_future_does_not_stop_it() {
        let stage = Stage::new().await;
        let mut due = Vec::new();
        for (number, millis) in [(1, 1), (2, 2), (3, 1_000_000), (4, 4), (5, 5), (6, 6), (7, 7)] {
            if stage.hears(Stage::said(millis)).await {
                due.push(number);
            }
        }
        assert_eq!(due, [3, 6]);
    }

    #[tokio::test]
    async fn a_model_that_is_down_is_asked_once_a_quarter() {
        let stage = Stage::new().await;
        stage.model.is_down.store(true, Ordering::SeqCst);
        let mut due = Vec::new();
        for number in 1..=6 {
            if stage.hears(Stage::said(number)).await {
                due.push(number);
            }
        }
        assert_eq!(due, [3, 6]);
    }
}
