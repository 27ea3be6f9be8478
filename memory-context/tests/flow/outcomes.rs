//! Each way in which a run ends, and that it ends once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory_context::flow::{End, EventKind, FlowStep, Limits, Why};
use memory_context::records::{ChannelType, Room, RoomId};
use memory_context::state::{ContextParts, Cx, Evaluation, Evaluator, EvaluatorInfo};
use memory_context::tool::Tool;
use memory_core::{Error, ErrorKind, Outcome, Result};
use memory_model::{Completion, Finish, ToolCall};
use tokio::sync::Semaphore;

use crate::stage::{IGNORE, Stage, Task, room, said, said_in_group, text};

/// Does what its name says.
#[derive(Debug)]
struct Scripted(EvaluatorInfo, Arc<Semaphore>);

fn evaluator(name: &'static str, gate: &Arc<Semaphore>) -> Arc<dyn Evaluator> {
    let mut info = EvaluatorInfo::new(name, "");
    info.always_run = true;
    Arc::new(Scripted(info, Arc::clone(gate)))
}

#[async_trait]
impl Evaluator for Scripted {
    fn info(&self) -> &EvaluatorInfo {
        &self.0
    }

    async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
        match &*self.0.name {
            "PANIC_FIRST" => panic!("as a test"),
            "FAIL_FIRST" => Err(Error::invalid("no")),
            _ => Ok(true),
        }
    }

    async fn evaluate(&self, _: &Evaluation<'_>) -> Result<()> {
        match &*self.0.name {
            "PANIC" => panic!("as a test"),
            "FAIL" => Err(Error::invalid("no")),
            _ => {
                self.1.acquire().await.expect("the gate is not closed").forget();
                Ok(())
            }
        }
    }
}

/// Counts how many of its calls run at once.
#[derive(Debug)]
struct Crowd {
    info: EvaluatorInfo,
    present: AtomicUsize,
    most: Arc<AtomicUsize>,
}

#[async_trait]
impl Evaluator for Crowd {
    fn info(&self) -> &EvaluatorInfo {
        &self.info
    }

    async fn evaluate(&self, _: &Evaluation<'_>) -> Result<()> {
        self.most.fetch_max(self.present.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        self.present.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn few_runs_learn_at_once_and_the_others_wait() {
    let most = Arc::new(AtomicUsize::new(0));
    let crowd = Crowd { info: EvaluatorInfo::new("CROWD", ""), present: AtomicUsize::new(0), most: Arc::clone(&most) };
    let mut stage = Stage::build_with(ContextParts::default().with_evaluator(Arc::new(crowd)), |service| {
        service.with_limits(Limits { learning: 2, ..Limits::default() })
    })
    .await;
    let mut runs = Vec::new();
    for number in 0..8 {
        let mut incoming = said("ana", "hello", 1);
        incoming.message.content.room = RoomId::parse(format!("r{number}")).expect("valid");
        runs.push(stage.receive(incoming));
    }
    for _ in &runs {
        stage.asked().await.answer(text("Hi"));
    }
    for run in runs {
        assert_eq!(run.await.expect("no panic"), End::Completed);
    }
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

/// The ends among the events of one run; its first event is its beginning.
fn ends(events: &[EventKind]) -> Vec<&End> {
    assert_eq!(events.first(), Some(&EventKind::Started));
    assert!(matches!(events.last(), Some(EventKind::Ended(_))), "{events:?}");
    let ends = events.iter().filter_map(|kind| if let EventKind::Ended(end) = kind { Some(end) } else { None });
    ends.collect()
}

#[tokio::test(start_paused = true)]
async fn every_run_ends_with_one_event() {
    let limits = Limits { run: Duration::from_secs(10), ..Limits::default() };
    for expected in ["completed", "ignored", "timedOut", "failed"] {
        let mut stage = Stage::with(|services| services, |service| service.with_limits(limits)).await;
        let run = stage.receive(said_in_group("ana", "hello", 1));
        let call = stage.asked().await;
        match expected {
            "completed" => {
                call.answer("<action>RESPOND</action>");
                stage.asked().await.answer(text("Hi"));
            }
            "ignored" => call.answer(IGNORE),
            "timedOut" => call.dropped().await,
            _ => call.fail(),
        }
        let end = run.await.expect("no panic");
        assert_eq!(end.as_str(), expected);
        assert_eq!(ends(&stage.events()), [&end]);
    }
}

#[tokio::test]
async fn a_superseded_run_ends_with_one_event() {
    let mut stage = Stage::new().await;
    let older = stage.receive(said("ana", "one", 2));
    let call = stage.asked().await;
    let newer = stage.receive(said("ana", "two", 1));
    call.dropped().await;
    assert_eq!(older.await.expect("no panic"), End::Superseded);
    stage.asked().await.answer(text("Hi"));
    assert_eq!(newer.await.expect("no panic"), End::Completed);
    let ended = stage.events().into_iter().filter(|kind| *kind == EventKind::Ended(End::Superseded)).count();
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_its_message() {
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "one", 2));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    assert!(run.await.is_err());
    let events = stage.events();
    assert!(matches!(&ends(&events)[..], [End::Left { .. }]), "{events:?}");
    let (end, _) = stage.play(said("ana", "two", 1), |_| text("Hi")).await;
    assert_eq!(end, End::Completed, "the room goes on");
}

#[tokio::test]
async fn an_evaluator_that_fails_or_panics_changes_nothing() {
    let gate = Arc::new(Semaphore::new(1));
    let names = ["PANIC_FIRST", "FAIL_FIRST", "PANIC", "FAIL", "WAIT"];
    let parts = names.into_iter().fold(ContextParts::default(), |all, name| all.with_evaluator(evaluator(name, &gate)));
    let mut stage = Stage::with_parts(parts).await;
    let (end, _) = stage.play(said("ana", "hello", 1), |_| text("Hi")).await;
    assert_eq!(end, End::Completed);
    assert_eq!(ends(&stage.events()), [&end]);
    assert_eq!(gate.available_permits(), 0, "the last one ran");
}

#[tokio::test]
async fn the_room_does_not_wait_for_the_evaluators() {
    let gate = Arc::new(Semaphore::new(0));
    let mut stage = Stage::with_parts(ContextParts::default().with_evaluator(evaluator("WAIT", &gate))).await;
    let first = stage.receive(said("ana", "one", 2));
    stage.asked().await.answer(text("Hi"));
    stage.step(|step| matches!(step, FlowStep::Answered(_))).await;
    let second = stage.receive(said("ana", "two", 1));
    stage.asked().await.answer(text("Hi again"));
    stage.step(|step| matches!(step, FlowStep::Answered(_))).await;
    assert!(!first.is_finished() && !second.is_finished(), "both wait for theirs");
    gate.add_permits(2);
    assert_eq!((first.await.expect("no panic"), second.await.expect("no panic")), (End::Completed, End::Completed));
    assert_eq!(stage.platform.texts(), ["Hi", "Hi again"]);
}

#[tokio::test]
async fn an_answer_without_what_it_must_have_is_asked_for_again() {
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "hello", 1));
    for _ in 0..2 {
        stage.asked().await.answer("<thought>t</thought><actions>REPLY</actions><text> </text>");
    }
    stage.asked().await.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let run = stage.receive(said("ana", "hello", 0));
    for _ in 0..3 {
        stage.asked().await.answer("<thought>t</thought><actions>REPLY</actions>");
    }
    let End::Failed { reason } = run.await.expect("no panic") else { panic!("three mistakes") };
    assert!(reason.contains("missing: text"), "{reason}");
    assert_eq!(stage.platform.texts(), ["Hi"]);
}

fn cut(text: &str) -> Completion {
    Completion { finish: Finish::Length, ..Completion::from(text) }
}

#[tokio::test]
async fn what_the_limit_of_tokens_cut_is_not_said_as_if_it_were_whole() {
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "hello", 2));
    stage.asked().await.answer(cut("Once upon a"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    // An answer in a form shows by itself whether it is whole.
    let run = stage.receive(said("ana", "and?", 1));
    stage.asked().await.answer(cut("<response><thought>t</thought><actions>REPLY</actions><text>Once up"));
    stage.asked().await.answer(cut(&text("The end")));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let marked = "Once upon a\n[cut off: the model has come to its limit of tokens]";
    assert_eq!(stage.platform.texts(), [marked, "The end"]);
    let run = stage.receive(said("ana", "go on", 0));
    for _ in 0..3 {
        stage.asked().await.answer(cut("<response><thought>t"));
    }
    let End::Failed { reason } = run.await.expect("no panic") else { panic!("three mistakes") };
    assert!(reason.contains(" is not closed (the limit of tokens cut it short)"), "{reason}");
}

#[tokio::test]
async fn what_a_filter_cut_is_not_said_as_if_it_were_whole() {
    let filtered = |text: &str| Completion { finish: Finish::Filtered, ..Completion::from(text) };
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "hello", 2));
    stage.asked().await.answer(filtered("Once upon a"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert_eq!(stage.platform.texts(), ["Once upon a\n[cut off: the endpoint has filtered the answer]"]);
    let run = stage.receive(said("ana", "go on", 1));
    for _ in 0..3 {
        stage.asked().await.answer(filtered("<response><thought>t"));
    }
    let End::Failed { reason } = run.await.expect("no panic") else { panic!("three mistakes") };
    assert!(reason.contains(" is not closed (a filter cut it short)"), "{reason}");
}

#[tokio::test]
async fn a_call_that_the_limit_of_tokens_cut_is_not_made() {
    let quiet = Tool::new("quiet", |(), _| async { Ok(()) });
    let mut stage = Stage::with_parts(ContextParts::default().with_tool(quiet)).await;
    let run = stage.receive(said("ana", "hello", 1));
    let call = ToolCall { id: "1".to_owned(), name: "quiet".to_owned(), arguments: "{}".to_owned() };
    stage.asked().await.answer(Completion { tool_calls: vec![call], ..cut("") });
    stage.asked().await.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert_eq!((stage.results().await.len(), stage.platform.texts()), (0, vec!["Hi".to_owned()]));
}

#[tokio::test]
async fn a_post_is_a_run_of_its_own() {
    let mut stage = Stage::new().await;
    let service = Arc::clone(&stage.service);
    let mut feed = Room::new(room("r"), ChannelType::Feed);
    feed.source = "blog".into();
    let post = {
        let feed = feed.clone();
        tokio::spawn(async move { service.post(&feed).await })
    };
    let call = stage.asked().await;
    assert_eq!(call.task, Task::Post);
    call.answer("<thought>why</thought><post>The sea is wide</post><imagePrompt>a wide sea</imagePrompt>");
    let posted = post.await.expect("no panic").expect("posted");
    assert_eq!(posted.post.image_prompt, "a wide sea");
    let stored = stage.stored().await;
    assert!(stored.len() == 1 && stored[0] == posted.message);
    let memory = stage.provider.get(posted.message.id).await.expect("answers").expect("stored");
    assert!(memory.metadata.to_object().contains_key("run"));
    let content = posted.message.content;
    assert_eq!((content.channel_type, content.source.as_str(), content.in_reply_to), (ChannelType::Feed, "blog", None));
    assert_eq!(stage.platform.texts(), ["The sea is wide"]);
    assert_eq!(ends(&stage.events()), [&End::Completed]);
    stage.platform.fails();
    let service = Arc::clone(&stage.service);
    let post = tokio::spawn(async move { service.post(&feed).await });
    stage.asked().await.answer("<thought>why</thought><post>The sea is deep</post>");
    let error = post.await.expect("no panic").expect_err("the platform is down");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown), "the message is stored");
    assert!(matches!(&ends(&stage.events())[..], [End::Failed { .. }]));
}

#[tokio::test]
async fn a_post_is_given_up_when_the_service_stops() {
    let mut stage = Stage::new().await;
    let service = Arc::clone(&stage.service);
    let post = tokio::spawn(async move { service.post(&Room::new(room("r"), ChannelType::Feed)).await });
    let _call = stage.asked().await;
    stage.service.stop().await;
    let error = post.await.expect("no panic").expect_err("it was given up");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Closed, Outcome::Unknown));
    assert!(stage.stored().await.is_empty());
}

#[tokio::test]
async fn an_answer_of_the_model_to_ignore_is_no_completed_run() {
    let mut stage = Stage::new().await;
    let (end, _) = stage.play(said("ana", "hello", 1), |_| crate::stage::actions("IGNORE", "")).await;
    assert_eq!(end, End::Ignored(Why::Model));
    assert_eq!(ends(&stage.events()), [&end]);
}
