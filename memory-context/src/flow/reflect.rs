//! `REFLECTION`: looks at a conversation from time to time, and keeps what was learned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{MemoryId, Result};
use memory_runtime::Model;

use super::answer::ReflectionAnswer;
use super::{ask, is_reflection_due, learn};
use crate::records::RoomId;
use crate::state::{Cx, Evaluator, EvaluatorInfo, State};
use crate::template::Template;

/// Reflects on a room when more messages came since the last time than a quarter of the length of a conversation.
///
/// What it looked at last is known to this value only: after a restart it looks once more, and finds its facts known.
#[derive(Debug)]
pub struct ReflectionEvaluator {
    info: EvaluatorInfo,
    model: Arc<dyn Model>,
    template: Template,
    limit: Duration,
    /// The newest message of each room that was looked at.
    seen: Mutex<HashMap<RoomId, MemoryId>>,
}

impl ReflectionEvaluator {
    /// Asks this model with this template, within this time.
    pub fn new(model: Arc<dyn Model>, template: Template, limit: Duration) -> Self {
        let info = EvaluatorInfo::new("REFLECTION", "Looks at the conversation, and keeps facts and relationships");
        Self { info: EvaluatorInfo { always_run: true, ..info }, model, template, limit, seen: Mutex::default() }
    }

    /// How many messages came since the last time, as far as a conversation reaches, and the newest of them.
    async fn since(&self, cx: &Cx<'_>) -> Result<(usize, Option<MemoryId>)> {
        let services = cx.services();
        let recent = services.records().messages().recent(&cx.scope(), services.conversation_length()).await?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&cx.message().content.room).copied();
        let new = recent.iter().take_while(|message| Some(message.id) != seen);
        let said = new.filter(|message| message.content.action_result.is_none()).count();
        Ok((said, recent.first().map(|message| message.id)))
    }
}

#[async_trait]
impl Evaluator for ReflectionEvaluator {
    fn info(&self) -> &EvaluatorInfo {
        &self.info
    }

    async fn validate(&self, cx: &Cx<'_>) -> Result<bool> {
        let (since, _) = self.since(cx).await?;
        Ok(is_reflection_due(since, cx.services().conversation_length()))
    }

    async fn evaluate(&self, cx: &Cx<'_>, state: &State) -> Result<()> {
        let (_, newest) = self.since(cx).await?;
        let prompt = self.template.render(&state.values)?.text;
        let answer = ask(&*self.model, prompt, self.limit, ReflectionAnswer::parse).await?;
        let services = cx.services();
        let learned = learn(services.records(), cx.message(), &answer, services.clock().now()).await?;
        tracing::debug!(facts = learned.facts.len(), refused = learned.refused, "reflected");
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(newest.map(|newest| (cx.message().content.room.clone(), newest)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use memory_core::{InMemory, MemoryProvider, Timestamp};
    use memory_runtime::model::Prompt;

    use super::*;
    use crate::flow::{REFLECTION_PROVIDERS, Templates};
    use crate::records::{AgentId, EntityId, MessageContent, NewMessage, Records, Scope};
    use crate::state::{Character, ComposeOptions, Composer, Services, Snapshot, Turn};

    #[derive(Debug)]
    struct Scripted;

    #[async_trait]
    impl Model for Scripted {
        async fn complete(&self, _: &Prompt) -> Result<String> {
            Ok(r#"{"thought":"t","facts":[{"claim":"Ana likes tea","subject":"ana"}]}"#.to_owned())
        }
    }

    #[tokio::test]
    async fn it_reflects_after_every_quarter_of_a_conversation() {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
        let scope = Scope::new(RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
        let services = Services::new(records.clone(), Character::named("Eliza")).with_conversation_length(8);
        let composer = Composer::builder(services).built_in().build().expect("names differ");
        let evaluator =
            ReflectionEvaluator::new(Arc::new(Scripted), Templates::default().reflection, Duration::from_secs(60));
        let mut due = Vec::new();
        for number in 1..=9 {
            let content = MessageContent::new(scope.room.clone(), scope.entity.clone(), "I like tea");
            let at = Timestamp::from_millis(number).expect("valid");
            let turn = Turn::new(records.messages().add(NewMessage::new(content, at)).await.expect("stored"));
            let none = Snapshot::default();
            if !evaluator.validate(&composer.cx(&turn, &none)).await.expect("read") {
                continue;
            }
            due.push(number);
            let state = composer.compose_state(&turn, &ComposeOptions::only(REFLECTION_PROVIDERS)).await;
            evaluator.evaluate(&composer.cx(&turn, &state.snapshot()), &state).await.expect("kept");
        }
        assert_eq!(due, [3, 6, 9], "more than two each time");
        let facts = records.facts().newest(&scope, 10).await.expect("read");
        let facts: Vec<_> = facts.iter().map(|fact| (fact.text.as_str(), fact.subject.as_str())).collect();
        assert_eq!(facts, [("Ana likes tea", "ana")]);
    }
}
