//! Doing what an answer says: its actions, one after the other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use super::answer::{MessageAnswer, REPLY, is};
use super::{Journal, MessageService, Recorded, Run, Step, voice};
use crate::records::{self, ActionStatus};
use crate::state::{
    Action, ActionCall, ActionPlan, ActionResult, ActionState, ComposeOptions, Note, PlanStep, StepStatus, Turn,
};

/// How many notes are kept, the newest.
const NOTES: usize = 50;

/// The actions of an answer while they are done.
struct Plan<'a> {
    service: &'a MessageService,
    run: &'a Run,
    journal: &'a Journal,
    answer: &'a MessageAnswer,
    options: ComposeOptions,
    /// Whether something came up since the text was written: what providers or other actions gave.
    has_news: bool,
}

/// What the name in an answer stands for.
#[derive(Clone, Copy)]
enum Chosen<'a> {
    Action(&'a dyn Action),
    /// The one that is built in: to say the text.
    Reply,
    Unknown,
}

impl MessageService {
    /// Runs the actions of an answer in their order, each with a state of the default providers, those that the answer asks for and
    /// `ACTION_STATE`. Gives the turn with what came of them.
    ///
    /// # Behavior
    /// - Each action sees the results of those before it, the plan where there is more than one, and a note of each success.
    /// - One that is not known, not valid now, fails, panics or is not over within the limit is a failed result, and the rest goes
    ///   on. What is late is dropped.
    /// - `REPLY` says the text at its place. Where providers were asked for, or other actions were done before it, the text is
    ///   written anew with what they gave; if that fails, the text is said as it was.
    /// - A text is said first where `REPLY` is not among the actions.
    /// - Each result is a message of the agent in the room, before the next action begins. When it can't be stored, that is the
    ///   error, and no further action begins.
    /// - An action whose result the journal has is not done again. One that was begun and has no result is done again where it may be
    ///   repeated; else it has failed, and the room is told that it may have been done.
    pub(super) async fn run_actions(
        &self,
        run: &Run,
        journal: &Journal,
        turn: &Turn,
        answer: &MessageAnswer,
    ) -> Result<Turn> {
        let mut answer = answer.clone();
        if !answer.text.is_empty() && !answer.actions.iter().any(|name| is(name, REPLY)) {
            answer.actions.insert(0, REPLY.to_owned());
        }
        let options = ComposeOptions::with(answer.providers.iter().map(String::as_str).chain(["ACTION_STATE"]))
            .refresh(["RECENT_MESSAGES"]);
        let has_news = !answer.providers.is_empty();
        Plan { service: self, run, journal, answer: &answer, options, has_news }.run(turn).await
    }
}

impl Plan<'_> {
    async fn run(mut self, turn: &Turn) -> Result<Turn> {
        let mut actions = ActionState::clone(&turn.actions);
        let step = |action: &String| PlanStep { action: action.clone(), status: StepStatus::Pending };
        let (thought, steps) = (self.answer.thought.clone(), self.answer.actions.iter().map(step).collect::<Vec<_>>());
        actions.plan = (steps.len() > 1).then_some(ActionPlan { thought, steps });
        for (at, name) in self.answer.actions.iter().enumerate() {
            let result = self.step(&turn.clone().with_actions(actions.clone()), at, name).await?;
            self.store(turn, at, &result).await?;
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

    /// One action, with its events. Its name is told only where it is one of the host's: what a model writes stays out of logs.
    ///
    /// An error says that the journal can't be written, or that somebody else goes on with the run.
    async fn step(&mut self, turn: &Turn, at: usize, name: &str) -> Result<ActionResult> {
        let chosen = chosen(self.service.composer.services().actions(), name);
        let action = match chosen {
            Chosen::Action(action) => action.info().name.to_string(),
            Chosen::Reply => REPLY.to_owned(),
            Chosen::Unknown => String::new(),
        };
        self.run.step(Step::ActionStarted { action: action.clone() });
        let step = step_name(at);
        let result = match (self.journal.recorded(&step)?, chosen) {
            (Recorded::Done(result), _) => result,
            (Recorded::Begun, Chosen::Action(action)) if !action.info().repeatable => {
                let text = format!("{}: {UNCLEAR}", action.info().name);
                let told = self.service.say(self.run, self.journal, &unclear(at), turn, self.answer, &text).await;
                told.or_else(unless_lost)?;
                self.keep(&step, ActionResult::failed(name, UNCLEAR)).await?
            }
            _ => {
                if let Chosen::Action(action) = chosen
                    && !action.info().repeatable
                {
                    self.journal.begun(&step).await?;
                }
                let result = match AssertUnwindSafe(self.attempt(turn, at, chosen)).catch_unwind().await {
                    Ok(Ok(result)) => ActionResult { action: name.to_owned(), ..result },
                    Ok(Err(error)) => ActionResult::failed(name, error.to_string()),
                    Err(_) => ActionResult::failed(name, "the action panicked"),
                };
                self.keep(&step, result).await?
            }
        };
        self.has_news = !matches!(chosen, Chosen::Reply);
        self.run.step(Step::ActionEnded { action, success: result.success });
        Ok(result)
    }

    /// Keeps a result in the journal; what it can't hold is a failure.
    async fn keep(&self, step: &str, result: ActionResult) -> Result<ActionResult> {
        match self.journal.done(step, &result).await {
            Ok(()) => Ok(result),
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                let failed = ActionResult::failed(result.action, error.to_string());
                self.journal.done(step, &failed).await?;
                Ok(failed)
            }
            Err(error) => Err(error),
        }
    }

    async fn attempt(&self, turn: &Turn, at: usize, chosen: Chosen<'_>) -> Result<ActionResult> {
        match chosen {
            Chosen::Action(action) => {
                let limit = self.service.limits.action;
                let message = || format!("no result within {} ms", limit.as_millis());
                let late = |_| Error::new(ErrorKind::Timeout, message());
                timeout(limit, self.act(turn, action)).await.map_err(late).flatten()
            }
            // To ask and to say have limits of their own.
            Chosen::Reply => self.reply(turn, at).await,
            Chosen::Unknown => Err(Error::new(ErrorKind::NotFound, "there is no action of this name")),
        }
    }

    async fn act(&self, turn: &Turn, action: &dyn Action) -> Result<ActionResult> {
        let composer = &self.service.composer;
        let state = composer.compose_state(turn, &self.options).await;
        let snapshot = state.snapshot();
        let cx = composer.cx(turn, &snapshot);
        if !action.validate(&cx).await? {
            return Err(Error::invalid("the action can't be done now"));
        }
        action.run(&ActionCall::new(&cx, &state, &self.answer.parameters_of(&action.info().name))).await
    }

    async fn reply(&self, turn: &Turn, at: usize) -> Result<ActionResult> {
        let step = format!("{}.text", step_name(at));
        // What is known of it is said as it was to be said, so no model is asked again.
        let is_known = self.journal.said(&step).is_some();
        let text = if self.has_news && !is_known { self.rewritten(turn).await } else { self.answer.text.clone() };
        self.service.say(self.run, self.journal, &step, turn, self.answer, &text).await?;
        Ok(ActionResult { success: true, ..ActionResult::default() })
    }

    /// The text, with what came up since it was written.
    async fn rewritten(&self, turn: &Turn) -> String {
        let text = match self.service.ask_for_answer(turn, &self.options).await {
            Ok(answer) => answer.text,
            Err(error) => {
                tracing::warn!(%error, "the answer is said as it was before the actions");
                String::new()
            }
        };
        if text.is_empty() { self.answer.text.clone() } else { text }
    }

    /// Keeps a result as a message of the agent.
    async fn store(&self, turn: &Turn, at: usize, result: &ActionResult) -> Result<()> {
        let services = self.service.composer.services();
        let text = result.text.as_ref().or(result.error.as_ref()).cloned().unwrap_or_default();
        let mut message = voice::reply(services, &turn.message, text).with_run(self.run.context().id);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        message.content.action_result = Some(records::ActionResult {
            run: self.run.context().id.to_string(),
            action: result.action.clone(),
            status: if result.success { ActionStatus::Completed } else { ActionStatus::Failed },
            step: count(at + 1),
            steps: count(self.answer.actions.len()),
            thought: Some(self.answer.thought.clone()),
        });
        let step = format!("{}.result", step_name(at));
        services.records().messages().add_keyed(message, self.journal.message(), &step).await.map(drop)
    }
}

/// What is told of an action that may have been done.
const UNCLEAR: &str = "it was cut off and may have been done; it was not done again";

/// The name of an action in the journal, by its place in the answer.
fn step_name(at: usize) -> String {
    format!("action.{at}")
}

/// Under which the room is told that an action may have been done.
fn unclear(at: usize) -> String {
    format!("{}.unclear", step_name(at))
}

/// What can't be said does not end a run, unless it has lost its message.
fn unless_lost(error: Error) -> Result<()> {
    if error.kind() == ErrorKind::Conflict {
        return Err(error);
    }
    tracing::warn!(%error, "the room was not told that an action may have been done");
    Ok(())
}

fn chosen<'a>(actions: &'a [Arc<dyn Action>], name: &str) -> Chosen<'a> {
    match find(actions, name) {
        Some(action) => Chosen::Action(action),
        None if is(name, REPLY) => Chosen::Reply,
        None => Chosen::Unknown,
    }
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::state::{ActionInfo, Cx};

    #[derive(Debug)]
    struct Named(ActionInfo);

    #[async_trait]
    impl Action for Named {
        fn info(&self) -> &ActionInfo {
            &self.0
        }

        async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
            Ok(true)
        }

        async fn run(&self, _: &ActionCall<'_>) -> Result<ActionResult> {
            Ok(ActionResult::done("", ""))
        }
    }

    fn named(name: &'static str) -> Arc<dyn Action> {
        let mut info = ActionInfo::new(name, "");
        info.similes.push(format!("DO_{name}"));
        Arc::new(Named(info))
    }

    #[test]
    fn actions_are_found_by_name_then_by_simile_and_not_by_a_part() {
        let actions = [named("REPLY_ALL"), named("DO_FOLLOW"), named("FOLLOW")];
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
