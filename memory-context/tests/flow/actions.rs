//! What an answer has done.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use memory_context::flow::{End, EventKind, Step};
use memory_context::records::ActionStatus;
use memory_context::state::{
    Action, ActionCall, ActionInfo, ActionPlan, ActionResult, ActionState, ContextParts, ContextProvider, Cx,
    ProviderInfo, ProviderResult,
};
use memory_core::{Error, Result};

use crate::stage::{Stage, Task, actions, said, text};

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
            "TOLD" => Ok(ActionResult::done("", serde_json::to_string(call.parameters).expect("JSON"))),
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

async fn stage() -> Stage {
    let names = ["SEE", "INVALID", "FAIL", "PANIC", "HANG", "TOLD"];
    let scripted = |name| Arc::new(Scripted(ActionInfo::new(name, "")));
    Stage::with(
        |services, _| names.into_iter().fold(services, |services, name| services.with_action(scripted(name))),
        |service| service,
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_does_not_lose_the_rest() {
    let mut stage = stage().await;
    let answer = actions("SEE,FAIL,PANIC,HANG,INVALID,xyzzy,SEE", "");
    let (end, _) = stage.play(said("ana", "do it", 1), |_| answer.clone()).await;
    assert_eq!(end, End::Completed);
    let stored = stage.stored().await;
    let results: Vec<_> = stored.iter().filter(|message| message.content.action_result.is_some()).collect();
    let texts: Vec<_> = results.iter().map(|message| message.content.text.as_str()).collect();
    assert_eq!((texts[0], texts[6]), ("saw 0 results, 0 steps, 0 notes", "saw 6 results, 6 steps, 1 notes"));
    let (completed, failed) = (ActionStatus::Completed, ActionStatus::Failed);
    let expected = [completed, failed, failed, failed, failed, failed, completed];
    for (at, result) in stage.results().await.into_iter().enumerate() {
        assert_eq!((result.step as usize, result.steps, result.status), (at + 1, 7, expected[at]));
        assert_eq!(result.thought.as_deref(), Some("why"));
    }
    let steps: Vec<_> = stage.events().into_iter().filter(|kind| matches!(kind, EventKind::Step(_))).collect();
    let ended = |kind: &&EventKind| matches!(kind, EventKind::Step(Step::ActionEnded { .. }));
    assert_eq!(steps.iter().filter(ended).count(), 7);
    assert!(!format!("{steps:?}").contains("xyzzy"), "what a model writes stays out of events");
}

#[tokio::test]
async fn one_action_is_no_plan_and_hears_its_parameters() {
    let mut stage = stage().await;
    let answer = r#"{"thought":"t","actions":["TOLD"],"parameters":{"TOLD":{"to":"bo","times":2}}}"#;
    let (end, _) = stage.play(said("ana", "tell it", 1), |_| answer.to_owned()).await;
    assert_eq!(end, End::Completed);
    let stored = stage.stored().await;
    assert_eq!(stored[1].content.text, r#"{"times":2,"to":"bo"}"#);
    let results = stage.results().await;
    assert_eq!((results.len(), results[0].steps), (1, 1));
}

#[tokio::test]
async fn a_reply_is_said_at_its_place_with_what_came_up_before_it() {
    for (chosen, asked, says) in [
        ("REPLY,SEE", 1, &["old"][..]),
        ("SEE,REPLY", 2, &["new"]),
        ("REPLY,SEE,REPLY", 2, &["old", "new"]),
        ("REPLY,REPLY,SEE", 1, &["old"]),
        ("SEE", 1, &["old"]),
    ] {
        let mut stage = stage().await;
        let played = stage.play(said("ana", "do it", 1), |call| match call.prompt.contains(" steps, ") {
            true => text("new"),
            false => actions(chosen, "old"),
        });
        let (end, tasks) = played.await;
        // REPLY comes first where it is not named, and sees nothing; the action behind it sees its result.
        assert_eq!((end, tasks), (End::Completed, vec![Task::Answer; asked]), "{chosen}");
        assert_eq!(stage.platform.texts(), says, "{chosen}");
    }
}

#[tokio::test]
async fn a_text_is_not_lost_when_it_can_not_be_written_anew() {
    let mut stage = stage().await;
    let run = stage.receive(said("ana", "do it", 1));
    stage.asked().await.answer(actions("SEE,REPLY", "old"));
    stage.asked().await.fail();
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert_eq!(stage.platform.texts(), ["old"]);
}

#[tokio::test]
async fn a_reply_that_can_not_be_said_does_not_lose_the_rest() {
    let mut stage = stage().await;
    stage.platform.fails();
    let (end, _) = stage.play(said("ana", "do it", 1), |_| actions("REPLY,SEE", "Hi")).await;
    assert_eq!(end, End::Completed);
    let statuses: Vec<_> = stage.results().await.into_iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ActionStatus::Failed, ActionStatus::Completed]);
    let undelivered = stage.stored().await.into_iter().filter(|message| message.is_undelivered).count();
    assert_eq!(undelivered, 1);
}

/// A provider that says its name.
#[derive(Debug)]
struct Named(ProviderInfo);

#[async_trait]
impl ContextProvider for Named {
    fn info(&self) -> &ProviderInfo {
        &self.0
    }

    async fn get(&self, _: &Cx<'_>) -> Result<ProviderResult> {
        Ok(ProviderResult::text(format!("this is {}", self.0.name)))
    }
}

#[tokio::test]
async fn a_model_asks_for_providers_that_are_there_and_not_private() {
    let (open, closed) = (ProviderInfo::new("OPEN", "").dynamic(), ProviderInfo::new("SECRET_ONE", "").private());
    let providers: Vec<Arc<dyn ContextProvider>> = vec![Arc::new(Named(open)), Arc::new(Named(closed))];
    let mut stage = Stage::with_parts(ContextParts { providers, ..ContextParts::default() }).await;
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    assert!(!call.prompt.contains("this is"));
    call.answer(
        "<thought>t</thought><actions>REPLY</actions><providers>open,SECRET_ONE,xyzzy</providers><text>old</text>",
    );
    let call = stage.asked().await;
    assert!(call.prompt.contains("this is OPEN") && !call.prompt.contains("this is SECRET_ONE"), "{}", call.prompt);
    call.answer(text("new"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let stored = stage.stored().await;
    let answer = stored.iter().find(|message| message.content.thought.is_some()).expect("an answer");
    assert_eq!((answer.content.providers.join(","), answer.content.text.as_str()), ("OPEN".into(), "new"));
}
