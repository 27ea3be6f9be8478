//! The parts that a host registers, before the agent runs and while it does.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_context::flow::{End, RespondRules, Why};
use memory_context::records::{Audience, RoomState};
use memory_context::state::{
    ContextPart, ContextParts, ContextProvider, Cx, Evaluation, Evaluator, EvaluatorInfo, ProviderInfo, ProviderResult,
};
use memory_context::template::{Template, Templates};
use memory_context::tool::{self, Tool, ToolOutput};
use memory_core::Result;

use crate::stage::{
    Call, IGNORE, RESPOND, Stage, Task, actions as answer, audience, entity, once, said, said_in_group, text,
};

/// Gives a text.
#[derive(Debug)]
struct Note(ProviderInfo, &'static str);

#[async_trait]
impl ContextProvider for Note {
    fn info(&self) -> &ProviderInfo {
        &self.0
    }

    async fn get(&self, _: &Cx<'_>) -> Result<ProviderResult> {
        Ok(ProviderResult::text(self.1))
    }
}

fn note(info: ProviderInfo, text: &'static str) -> Arc<dyn ContextProvider> {
    Arc::new(Note(info, text))
}

async fn state_of(stage: &Stage) -> Option<RoomState> {
    let agent = stage.records.participants().get(&audience(), &entity("eliza")).await.expect("read");
    agent.and_then(|agent| agent.state)
}

/// Each action is offered where it is possible, and its effect also holds for another process.
#[tokio::test]
async fn rooms_are_followed_and_muted_until_that_is_changed() {
    use RoomState::{Followed, Muted};
    let mut stage = Stage::with_parts(tool::built_in_tools()).await;
    for (action, offered, state) in [
        ("FOLLOW_ROOM", "FOLLOW_ROOM MUTE_ROOM", Some(Followed)),
        ("UNFOLLOW_ROOM", "UNFOLLOW_ROOM MUTE_ROOM", None),
        ("UNMUTE_ROOM", "FOLLOW_ROOM MUTE_ROOM", None),
        ("NONE", "FOLLOW_ROOM MUTE_ROOM", None),
        ("follow_chat", "FOLLOW_ROOM MUTE_ROOM", Some(Followed)),
        ("MUTE_ROOM", "UNFOLLOW_ROOM MUTE_ROOM", Some(Muted)),
        ("FOLLOW_ROOM", "UNMUTE_ROOM", Some(Muted)),
        ("UNMUTE_ROOM", "UNMUTE_ROOM", None),
        ("MUTE_ROOM", "FOLLOW_ROOM MUTE_ROOM", Some(Muted)),
    ] {
        let mut incoming = said_in_group("ana", "Eliza!", 1);
        incoming.is_addressed = true;
        let run = stage.receive(incoming);
        let call = stage.asked().await;
        for name in ["UNFOLLOW_ROOM", "FOLLOW_ROOM", "UNMUTE_ROOM", "MUTE_ROOM"] {
            let is_offered = offered.split(' ').any(|one| one == name);
            assert_eq!(call.prompt.contains(&format!("**{name}**")), is_offered, "{name} before {action}");
        }
        call.answer(answer(action, ""));
        stage.asked().await.answer(answer("IGNORE", ""));
        assert_eq!(run.await.expect("no panic"), End::Completed);
        assert_eq!(state_of(&stage).await, state, "{action}");
    }
    // A message that does not address the agent is stored and not answered, before and after a restart.
    let mut stage = stage.restarted();
    for (words, is_addressed, end) in [
        ("hello", false, End::Ignored(Why::Muted)),
        ("hello", true, End::Completed),
        ("hello, eliza", false, End::Completed),
    ] {
        let mut incoming = said_in_group("ana", words, 1);
        incoming.is_addressed = is_addressed;
        let before = stage.stored().await.len();
        let (ended, asked) = stage.play(incoming, |_| text("Hi")).await;
        assert_eq!((&ended, asked.len()), (&end, usize::from(end == End::Completed)), "{words} {is_addressed}");
        assert_eq!(stage.stored().await.len(), before + 1 + asked.len(), "it is stored");
    }
    for _ in 0..8 {
        let (ended, _) = stage.play(said_in_group("ana", "hello", 0), |_| text("Hi")).await;
        assert_eq!(ended, End::Ignored(Why::Muted));
    }
    // If the agent follows a room, the model answers without being asked first whether to.
    for (state, end, asked_first) in
        [(Some(Followed), End::Completed, Task::Answer), (None, End::Ignored(Why::Model), Task::Decide)]
    {
        stage.records.participants().set_state(&audience().room, &entity("eliza"), state).await.expect("set");
        let says = |call: &Call| if call.task == Task::Decide { IGNORE.to_owned() } else { text("Hi") };
        assert_eq!(stage.play(said_in_group("bo", "hello", 0), says).await, (end, vec![asked_first]), "{state:?}");
    }
}

#[tokio::test]
async fn whether_to_answer_is_asked_over_the_hosts_providers_and_a_list() {
    let parts = ContextParts::default()
        .with_provider(note(ProviderInfo::new("MINE", ""), "host-note"))
        .with_provider(note(ProviderInfo::new("LISTED", "").dynamic(), "listed-note"))
        .with_provider(note(ProviderInfo::new("OTHER", "").dynamic(), "other-note"));
    let mut stage = Stage::build_with(parts, |service| {
        service.with_rules(RespondRules::default().with_providers(["LISTED", "RECENT_MESSAGES"]))
    })
    .await;
    let run = stage.receive(said_in_group("ana", "hello", 1));
    let call = stage.asked().await;
    assert_eq!(call.task, Task::Decide);
    for (note, is_there) in [("host-note", true), ("listed-note", true), ("other-note", false)] {
        assert_eq!(call.prompt.contains(note), is_there, "{note}");
    }
    call.answer(IGNORE);
    assert_eq!(run.await.expect("no panic"), End::Ignored(Why::Model));
}

/// What an evaluator has received.
#[derive(Debug, Default)]
struct Seen {
    answered: Vec<bool>,
    responses: Vec<Vec<String>>,
    texts: Vec<String>,
}

/// Examines everything, and records it.
#[derive(Debug)]
struct Critic(EvaluatorInfo, Arc<Mutex<Seen>>);

#[async_trait]
impl Evaluator for Critic {
    fn info(&self) -> &EvaluatorInfo {
        &self.0
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        let said = evaluation.responses.iter().map(|message| message.content.text.clone()).collect();
        {
            let mut seen = self.1.lock().expect("no panic");
            seen.answered.push(evaluation.has_answered);
            seen.responses.push(said);
            seen.texts.push(evaluation.state.text.clone());
        }
        if evaluation.has_answered {
            let message = evaluation.say("One more thing.").await?;
            assert_eq!(message.content.in_reply_to, Some(evaluation.cx.message().id));
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_evaluator_sees_what_the_host_provides_and_what_was_said_and_may_speak() {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let mut info = EvaluatorInfo::new("CRITIC", "");
    info.always_run = true;
    let parts = ContextParts::default()
        .with_provider(note(ProviderInfo::new("MINE", ""), "host-note"))
        .with_evaluator(Arc::new(Critic(info, Arc::clone(&seen))));
    let mut stage = Stage::with_parts(parts).await;
    let (end, _) = stage.play(said("ana", "hello", 9), |call| once(call, &answer("REPLY,LOOK", "Hi"))).await;
    assert_eq!(end, End::Completed);
    let (end, _) = stage.play(said("ana", "psst", 5), |_| answer("IGNORE", "")).await;
    assert_eq!(end, End::Ignored(Why::Model));
    assert_eq!(stage.platform.texts(), ["Hi", "One more thing."]);
    let last = stage.stored().await.into_iter().filter(|message| message.content.text == "One more thing.").count();
    assert_eq!(last, 1, "what is said is stored");
    {
        let seen = seen.lock().expect("no panic");
        assert_eq!(seen.answered, [true, false]);
        assert_eq!(seen.responses, [vec!["Hi".to_owned(), "there are no tools".to_owned()], vec![]]);
        assert!(seen.texts.iter().all(|text| text.contains("host-note")));
    }
    // After its removal it examines nothing.
    assert!(stage.composer.remove(&ContextPart::Evaluator("CRITIC".into())));
    stage.play(said("ana", "again", 1), |_| text("Yes")).await;
    assert_eq!(stage.platform.texts(), ["Hi", "One more thing.", "Yes"]);
}

#[tokio::test]
async fn nobody_else_sees_what_was_for_one_answer_alone() {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let look =
        Tool::new("LOOK", |(), _| async { Ok(ToolOutput::new("a secret").with_value("v", "a secret").private()) });
    let critic = Critic(EvaluatorInfo::new("CRITIC", ""), Arc::clone(&seen));
    let parts = ContextParts::default().with_tool(look).with_evaluator(Arc::new(critic));
    let mut stage = Stage::with_parts(parts).await;
    let looks = |call: &Call| match call.prompt.contains("# Results of Actions") {
        true => {
            assert!(call.prompt.contains("a secret"), "the model sees it: {}", call.prompt);
            text("Hi")
        }
        false => answer("LOOK", ""),
    };
    let (end, asked) = stage.play(said("ana", "hello", 9), looks).await;
    assert_eq!((end, asked.len()), (End::Completed, 2));
    let stored = stage.stored().await;
    let said = stored.iter().find(|message| message.content.text == "Hi").expect("the answer");
    assert_eq!(said.content.thought, None, "it may tell of that");
    assert!(!serde_json::to_string(&stored).expect("JSON").contains("a secret"), "{stored:?}");
    let state = seen.lock().expect("no panic").texts.pop().expect("evaluated");
    assert!(state.contains("LOOK (completed)") && !state.contains("a secret"), "{state}");
}

#[tokio::test]
async fn every_template_is_replaced_while_the_agent_runs() {
    let mut stage = Stage::reflecting(1).await;
    let mut templates = Templates::default();
    for (template, words) in [
        (&mut templates.should_respond, "Decide whether, my way"),
        (&mut templates.message_handler, "What {{agentName}} says and does next, my way"),
        (&mut templates.reflection, "Reflect on it, my way"),
    ] {
        *template = Template::parse(words).expect("a template");
    }
    stage.composer.set_templates(templates);
    let run = stage.receive(said_in_group("ana", "hello", 1));
    for (task, answer) in [
        (Task::Decide, RESPOND.to_owned()),
        (Task::Answer, text("Hi")),
        (Task::Reflect, r#"{"thought":"t"}"#.to_owned()),
    ] {
        let call = stage.asked().await;
        assert!(call.task == task && call.prompt.ends_with(", my way"), "{task:?} {}", call.prompt);
        call.answer(answer);
    }
    assert_eq!(run.await.expect("no panic"), End::Completed);
}

/// Looks at the sky.
fn look() -> Tool {
    let tool = Tool::new("LOOK", |(), _| async {
        Ok(ToolOutput::new("It rains").with_value("sky", "grey").with_value("completedActions", 99))
    });
    tool.with_description("Looks at the sky")
}

#[tokio::test]
async fn what_a_tool_found_reaches_the_templates() {
    let mut stage = Stage::with_parts(ContextParts::default().with_tool(look())).await;
    let mut templates = Templates::default();
    let words = "{{agentName}} says and does next; the sky is {{sky}}, {{completedActions}} done";
    templates.message_handler = Template::parse(words).expect("a template");
    stage.composer.set_templates(templates);
    let run = stage.receive(said("ana", "How is the weather?", 1));
    let call = stage.asked().await;
    assert!(call.prompt.contains("the sky is {{sky}}, 0 done"), "{}", call.prompt);
    call.answer(answer("LOOK,REPLY", "Hm"));
    let call = stage.asked().await;
    assert!(call.prompt.contains("the sky is grey, 1 done"), "{}", call.prompt);
    call.answer(text("It rains"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert_eq!(stage.platform.texts(), ["It rains"]);
    // After its removal, while the agent runs, it is not offered any more.
    assert!(stage.composer.remove(&ContextPart::Tool("LOOK".into())));
    stage.play(said("ana", "And now?", 1), |call| once(call, &answer("LOOK", ""))).await;
    let elsewhere = Audience::new(audience().room, entity("ana"));
    let newest = stage.records.messages().recent(&elsewhere, 1).await.expect("read").remove(0);
    assert_eq!(newest.content.text, "there are no tools");
}
