//! The results of an answer's actions.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_context::flow::{End, EventKind, FlowStep, Limits};
use memory_context::records::ActionStatus;
use memory_context::state::{ActionPlan, ActionState, ContextParts, ContextProvider, Cx, ProviderInfo, ProviderResult};
use memory_context::tool::{Tool, ToolContext, ToolOutput};
use memory_core::{Error, Result};
use memory_model::{Completion, ToolCall};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{Call, Stage, Task, actions, said, text};

/// A tool that does what its name says.
fn scripted(name: &'static str) -> Tool {
    let anything = json!({ "type": "object" });
    let tool = Tool::with_schema(name, "", anything, move |arguments: Value, context: ToolContext| async move {
        match name {
            "FAIL" => Err(Error::invalid("no")),
            "PANIC" => panic!("as a test"),
            "HANG" => pending().await,
            "TOLD" => Ok(arguments.to_string()),
            "QUIET" => Ok(String::new()),
            // What it sees, in the context and in the text.
            _ => {
                let ActionState { results, plan, working_memory } = context.actions();
                let over = plan.as_ref().map_or(0, ActionPlan::steps_over);
                let notes = working_memory.iter().filter(|note| context.state().text.contains(&note.text)).count();
                Ok(format!("saw {} results, {over} steps, {notes} notes", results.len()))
            }
        }
    });
    if name == "INVALID" { tool.when(|_, _| async { Ok(false) }) } else { tool }
}

async fn stage() -> Stage {
    let names = ["SEE", "INVALID", "FAIL", "PANIC", "HANG", "TOLD", "QUIET"];
    Stage::with_parts(names.into_iter().fold(ContextParts::default(), |all, name| all.with_tool(scripted(name)))).await
}

/// One answer at first, and another once there are results.
fn then(call: &Call, first: &str, then: &str) -> String {
    if call.prompt.contains("# Results of Actions") { then.to_owned() } else { first.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_does_not_lose_the_rest() {
    let mut stage = stage().await;
    let answer = actions("SEE,FAIL,PANIC,HANG,INVALID,xyzzy,SEE", "");
    let (end, _) = stage.play(said("ana", "do it", 1), |call| then(call, &answer, &text("Done"))).await;
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
    let ended = |kind: &&EventKind| matches!(kind, EventKind::Step(FlowStep::ActionEnded { .. }));
    assert_eq!(steps.iter().filter(ended).count(), 7);
    assert!(!format!("{steps:?}").contains("xyzzy"), "what a model writes stays out of events");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_words_hang_ends_at_its_deadline() {
    let talks = Tool::new("TALK", |(), context: ToolContext| async move {
        context.say("Looking").await?;
        Ok("done")
    });
    let limits = Limits { action: Duration::from_secs(2), say: Duration::from_secs(60), ..Limits::default() };
    let mut stage =
        Stage::build_with(ContextParts::default().with_tool(talks), |service| service.with_limits(limits)).await;
    stage.platform.gate.forget_permits(1_000);
    let run = stage.receive(said("ana", "do it", 1));
    stage.asked().await.answer(actions("TALK", ""));
    let began = Instant::now();
    stage.step(|step| matches!(step, FlowStep::ActionEnded { success: false, .. })).await;
    assert_eq!(began.elapsed().as_secs(), 2);
    stage.platform.gate.add_permits(1);
    stage.asked().await.answer(text("Sorry"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert_eq!(stage.platform.texts(), ["Sorry"]);
}

#[tokio::test]
async fn one_action_is_no_plan_and_hears_its_parameters() {
    let mut stage = stage().await;
    let answer = r#"{"thought":"t","actions":["TOLD"],"parameters":{"TOLD":{"to":"bo","times":2}}}"#;
    let (end, _) = stage.play(said("ana", "tell it", 1), |call| then(call, answer, &text("Told"))).await;
    assert_eq!(end, End::Completed);
    let stored = stage.stored().await;
    assert_eq!(stored[1].content.text, r#"{"times":2,"to":"bo"}"#);
    let results = stage.results().await;
    assert_eq!((results.len(), results[0].steps), (1, 1));
}

#[tokio::test]
async fn a_reply_is_said_at_its_place_with_what_came_up_before_it() {
    for (chosen, asked, says) in [
        // The result is new, so there is something to say about it.
        ("REPLY,SEE", 2, &["old", "new"][..]),
        ("SEE,REPLY", 2, &["new"]),
        ("REPLY,SEE,REPLY", 2, &["old", "new"]),
        ("REPLY,REPLY,SEE", 2, &["old", "new"]),
        ("SEE", 2, &["old", "new"]),
        // It has no result to report.
        ("REPLY,QUIET", 1, &["old"]),
        ("QUIET,REPLY", 2, &["new"]),
    ] {
        let mut stage = stage().await;
        let answer = actions(chosen, "old");
        let (end, tasks) = stage.play(said("ana", "do it", 1), |call| then(call, &answer, &text("new"))).await;
        assert_eq!((end, tasks), (End::Completed, vec![Task::Answer; asked]), "{chosen}");
        assert_eq!(stage.platform.texts(), says, "{chosen}");
    }
}

#[tokio::test]
async fn silence_after_a_tool_is_an_end() {
    let mut stage = stage().await;
    let (answer, silence) = (actions("SEE", ""), actions("IGNORE", ""));
    let (end, tasks) = stage.play(said("ana", "do it", 1), |call| then(call, &answer, &silence)).await;
    assert_eq!((end, tasks.len(), stage.platform.texts().len()), (End::Completed, 2, 0));
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
    let (answer, silence) = (actions("REPLY,SEE", "Hi"), actions("IGNORE", ""));
    let (end, _) = stage.play(said("ana", "do it", 1), |call| then(call, &answer, &silence)).await;
    assert_eq!(end, End::Completed);
    let statuses: Vec<_> = stage.results().await.into_iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ActionStatus::Failed, ActionStatus::Completed]);
    let undelivered = stage.stored().await.into_iter().filter(|message| message.is_undelivered).count();
    assert_eq!(undelivered, 1);
}

#[tokio::test]
async fn a_text_beside_calls_that_can_not_be_said_does_not_lose_them() {
    let mut stage = stage().await;
    stage.platform.fails();
    let run = stage.receive(said("ana", "do it", 1));
    let see = ToolCall { id: "1".into(), name: "SEE".into(), arguments: "{}".into() };
    stage.asked().await.answer(Completion { text: "I look".into(), tool_calls: vec![see], ..Completion::default() });
    stage.asked().await.answer(actions("IGNORE", ""));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let statuses: Vec<_> = stage.results().await.into_iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ActionStatus::Completed]);
}

#[tokio::test]
async fn a_tool_whose_text_can_not_be_said_did_its_work() {
    let pays = Tool::with_schema("PAY", "", json!({ "type": "object" }), |_, _| async { Ok(ToolOutput::said("Paid")) });
    let mut stage = Stage::with_parts(ContextParts { tools: vec![pays], ..ContextParts::default() }).await;
    stage.platform.fails();
    let run = stage.receive(said("ana", "pay it", 1));
    stage.asked().await.answer(actions("PAY", ""));
    let call = stage.asked().await;
    assert!(call.prompt.contains("Paid") && !call.prompt.contains("could not be said"), "{}", call.prompt);
    call.answer(actions("IGNORE", ""));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let statuses: Vec<_> = stage.results().await.into_iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ActionStatus::Completed]);
}

#[tokio::test]
async fn a_result_that_the_journal_can_not_hold_keeps_its_success() {
    let large = Tool::with_schema("FIND", "", json!({ "type": "object" }), |_, _| async {
        Ok(ToolOutput::new("found it").with_data("all", "x".repeat(5 << 20)))
    });
    let mut stage = Stage::with_parts(ContextParts { tools: vec![large], ..ContextParts::default() }).await;
    let run = stage.receive(said("ana", "find it", 1));
    stage.asked().await.answer(actions("FIND", ""));
    let call = stage.asked().await;
    assert!(call.prompt.contains("found it"), "{}", call.prompt);
    call.answer(text("Here"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let statuses: Vec<_> = stage.results().await.into_iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ActionStatus::Completed]);
}

#[tokio::test]
async fn a_private_result_reaches_the_model_though_the_journal_is_full() {
    let anything = || json!({ "type": "object" });
    let fill = Tool::with_schema("FILL", "", anything(), |_, _| async {
        Ok(ToolOutput::new("").with_data("all", "x".repeat((4 << 20) - (26 << 10))))
    });
    let look = Tool::with_schema("LOOK", "", anything(), |_, _| async { Ok(ToolOutput::new("secret").private()) });
    let parts = ContextParts { tools: vec![fill, look.repeatable()], ..ContextParts::default() };
    let mut stage = Stage::with_parts(parts).await;
    let run = stage.receive(said("ana", "look", 1));
    let parameters = json!({ "LOOK": { "for": "x".repeat(16 << 10) } });
    let answer = json!({ "thought": "t", "actions": ["FILL", "LOOK"], "parameters": parameters });
    stage.asked().await.answer(answer.to_string());
    let call = stage.asked().await;
    assert!(call.prompt.contains("secret"), "{}", call.prompt);
    call.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert!(stage.stored().await.iter().all(|message| !message.content.text.contains("secret")));
}

/// A provider that contributes its name.
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
    assert_eq!(answer.content.text, "new");
}
