//! Doing what an answer says: its actions, one after the other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use super::answer::MessageAnswer;
use super::{Run, Step};
use crate::records::{self, ActionStatus, MessageContent, NewMessage};
use crate::state::{
    Action, ActionCall, ActionPlan, ActionResult, ActionState, ComposeOptions, Composer, Note, PlanStep, StepStatus,
    Turn, Values,
};

/// How many notes are kept, the newest.
const NOTES: usize = 50;

/// Runs the actions of an answer in their order, each with a state of the default providers, those that the answer asks for and
/// `ACTION_STATE`. Gives the turn with what came of them.
///
/// # Behavior
/// - Each action sees the results of those before it, the plan where there is more than one, and a note of each success.
/// - One that is not known, not valid now, fails, panics or is not over within the limit is a failed result, and the rest goes on.
///   What is late is dropped.
/// - Each result is a message of the agent in the room, before the next action begins. When it can't be stored, that is the error,
///   and no further action begins.
pub async fn run_actions(
    run: &Run,
    composer: &Composer,
    turn: &Turn,
    answer: &MessageAnswer,
    limit: Duration,
) -> Result<Turn> {
    let options = ComposeOptions::with(answer.providers.iter().map(String::as_str).chain(["ACTION_STATE"]))
        .refresh(["RECENT_MESSAGES"]);
    let mut actions = ActionState::clone(&turn.actions);
    actions.plan = (answer.actions.len() > 1).then(|| plan(answer));
    for (at, name) in answer.actions.iter().enumerate() {
        let step = turn.clone().with_actions(actions.clone());
        run.step(Step::ActionStarted { action: name.clone() });
        let attempt = AssertUnwindSafe(attempt(composer, &step, &options, name)).catch_unwind();
        let result = match timeout(limit, attempt).await {
            Ok(Ok(Ok(result))) => ActionResult { action: name.clone(), ..result },
            Ok(Ok(Err(error))) => ActionResult::failed(name, error.to_string()),
            Ok(Err(_)) => ActionResult::failed(name, "the action panicked"),
            Err(_) => ActionResult::failed(name, format!("no result within {} ms", limit.as_millis())),
        };
        run.step(Step::ActionEnded { action: name.clone(), success: result.success });
        store(run, composer, turn, answer, at, &result).await?;
        if let Some(plan) = &mut actions.plan {
            plan.steps[at].status = if result.success { StepStatus::Completed } else { StepStatus::Failed };
        }
        if let Some(text) = result.text.clone().filter(|_| result.success) {
            actions.working_memory.push(Note { key: name.clone(), text });
            let old = actions.working_memory.len().saturating_sub(NOTES);
            actions.working_memory.drain(..old);
        }
        actions.results.push(result);
    }
    Ok(turn.clone().with_actions(actions))
}

fn plan(answer: &MessageAnswer) -> ActionPlan {
    let step = |action: &String| PlanStep { action: action.clone(), status: StepStatus::Pending };
    ActionPlan { thought: answer.thought.clone(), steps: answer.actions.iter().map(step).collect() }
}

async fn attempt(composer: &Composer, turn: &Turn, options: &ComposeOptions, name: &str) -> Result<ActionResult> {
    let action = find(composer.services().actions(), name)
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no action of this name"))?;
    let state = composer.compose_state(turn, options).await;
    let snapshot = state.snapshot();
    let cx = composer.cx(turn, &snapshot);
    if !action.validate(&cx).await? {
        return Err(Error::invalid("the action can't be done now"));
    }
    action.run(&ActionCall::new(&cx, &state, &Values::new())).await
}

/// The action that a model means: by its name, else by one of its similes, without regard to case and underscores. A name that is
/// only part of another is not that one.
fn find<'a>(actions: &'a [Arc<dyn Action>], name: &str) -> Option<&'a dyn Action> {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let wanted = plain(name);
    let named = actions.iter().find(|action| plain(&action.info().name) == wanted);
    let similar = || actions.iter().find(|action| action.info().similes.iter().any(|name| plain(name) == wanted));
    named.or_else(similar).map(Arc::as_ref)
}

/// Keeps a result as a message of the agent.
async fn store(
    run: &Run,
    composer: &Composer,
    turn: &Turn,
    answer: &MessageAnswer,
    at: usize,
    result: &ActionResult,
) -> Result<()> {
    let (services, received) = (composer.services(), &turn.message);
    let text = result.text.as_ref().or(result.error.as_ref()).cloned().unwrap_or_default();
    let author = services.records().agent().entity();
    let mut content = MessageContent::new(received.content.room.clone(), author, text);
    content.world = received.content.world.clone();
    content.channel_type = received.content.channel_type;
    content.source = received.content.source.clone();
    content.in_reply_to = Some(received.id);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    content.action_result = Some(records::ActionResult {
        run: run.context().id.to_string(),
        action: result.action.clone(),
        status: if result.success { ActionStatus::Completed } else { ActionStatus::Failed },
        step: count(at + 1),
        steps: count(answer.actions.len()),
        thought: Some(answer.thought.clone()),
    });
    let message = NewMessage::new(content, services.clock().now());
    services.records().messages().add(message).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use async_trait::async_trait;
    use futures::StreamExt;
    use memory_core::{Clock, InMemory, ManualClock, MemoryProvider, Timestamp};

    use super::*;
    use crate::flow::{EventKind, Events, Notice};
    use crate::records::{AgentId, EntityId, Records, RoomId, Scope};
    use crate::state::{ActionInfo, Character, Cx, Services};

    /// Does what its name says.
    #[derive(Debug)]
    struct Scripted(ActionInfo);

    #[async_trait]
    impl Action for Scripted {
        fn info(&self) -> &ActionInfo {
            &self.0
        }

        async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
            Ok(self.0.name != "INVALID")
        }

        async fn run(&self, call: &ActionCall<'_>) -> Result<ActionResult> {
            match &*self.0.name {
                "FAIL" => Err(Error::invalid("no")),
                "PANIC" => panic!("as a test"),
                "HANG" => pending().await,
                // What it sees, in the context and in the text.
                _ => {
                    let ActionState { results, plan, working_memory } = call.cx.actions();
                    let over = plan.as_ref().map_or(0, ActionPlan::steps_over);
                    let notes = working_memory.iter().filter(|note| call.state.text.contains(&note.text)).count();
                    Ok(ActionResult::done("", format!("saw {} results, {over} steps, {notes} notes", results.len())))
                }
            }
        }
    }

    fn scripted(name: &'static str) -> Arc<dyn Action> {
        let mut info = ActionInfo::new(name, "");
        info.similes.push(format!("DO_{name}"));
        Arc::new(Scripted(info))
    }

    fn scope() -> Scope {
        Scope::new(RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"))
    }

    /// What came of the actions, what is stored of them, and what was told.
    async fn ran(actions: &str) -> (ActionState, Vec<records::ActionResult>, Vec<Step>) {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(Timestamp::MIN));
        let content = MessageContent::new(scope().room, scope().entity, "hello");
        let message = records.messages().add(NewMessage::new(content, Timestamp::MIN)).await.expect("stored");
        let mut services = Services::new(records.clone(), Character::named("Eliza")).with_clock(Arc::clone(&clock));
        for name in ["SEE", "INVALID", "FAIL", "PANIC", "HANG"] {
            services = services.with_action(scripted(name));
        }
        let composer = Composer::builder(services).built_in().build().expect("names differ");
        let events = Events::new(100, clock);
        let stream = events.subscribe();
        let run = events.start(scope().room, scope().entity);
        let answer = format!("<thought>why</thought><actions>{actions}</actions>");
        let answer = MessageAnswer::parse(&answer).expect("whole");
        let turn = Turn::new(message);
        let turn = run_actions(&run, &composer, &turn, &answer, Duration::from_secs(60)).await.expect("stored");
        drop((run, events));
        let stored = records.messages().recent(&scope(), 100).await.expect("read");
        let mut stored: Vec<_> = stored.into_iter().filter_map(|message| message.content.action_result).collect();
        stored.sort_by_key(|result| result.step);
        let steps = stream.filter_map(async |notice| match notice {
            Notice::Event(event) => {
                if let EventKind::Step(step) = event.kind {
                    Some(step)
                } else {
                    None
                }
            }
            Notice::Missed(missed) => panic!("{missed} missed"),
        });
        (ActionState::clone(&turn.actions), stored, steps.collect().await)
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_does_not_lose_the_rest() {
        let (actions, stored, steps) = ran("SEE,FAIL,PANIC,HANG,INVALID,UNKNOWN,SEE").await;
        let successes: Vec<_> = actions.results.iter().map(|result| result.success).collect();
        assert_eq!(successes, [true, false, false, false, false, false, true]);
        let text = |at: usize| actions.results[at].text.as_deref();
        assert_eq!(text(0), Some("saw 0 results, 0 steps, 0 notes"));
        assert_eq!(text(6), Some("saw 6 results, 6 steps, 1 notes"));
        let statuses: Vec<_> = actions.plan.expect("seven steps").steps.iter().map(|step| step.status).collect();
        let (completed, failed) = (StepStatus::Completed, StepStatus::Failed);
        assert_eq!(statuses, [completed, failed, failed, failed, failed, failed, completed]);
        assert_eq!(stored.len(), 7);
        for (at, (stored, success)) in stored.iter().zip(&successes).enumerate() {
            assert_eq!((stored.step as usize, stored.steps), (at + 1, 7));
            assert_eq!(stored.status == ActionStatus::Completed, *success);
            assert_eq!(stored.thought.as_deref(), Some("why"));
        }
        let ended = steps.iter().filter(|step| matches!(step, Step::ActionEnded { .. })).count();
        assert_eq!((steps.len(), ended), (14, 7));
    }

    #[tokio::test]
    async fn one_action_is_no_plan() {
        let (actions, stored, _) = ran("SEE").await;
        assert_eq!((actions.plan, actions.results.len(), stored.len()), (None, 1, 1));
    }

    #[test]
    fn actions_are_found_by_name_then_by_simile_and_not_by_a_part() {
        let actions = [scripted("REPLY_ALL"), scripted("DO_FOLLOW"), scripted("FOLLOW")];
        for (name, found) in [
            ("REPLY_ALL", Some("REPLY_ALL")),
            ("replyall", Some("REPLY_ALL")),
            ("DO_REPLY_ALL", Some("REPLY_ALL")),
            ("DO_FOLLOW", Some("DO_FOLLOW")),
            ("REPLY", None),
            ("FOLLOW_ALL", None),
            ("", None),
        ] {
            assert_eq!(find(&actions, name).map(|action| &*action.info().name), found, "{name}");
        }
    }
}
