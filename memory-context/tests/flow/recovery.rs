//! Messages whose process stops working on them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory_context::flow::{End, FlowStep, Incoming, Limits, MessageService, Why};
use memory_context::records::{ActionStatus, ChannelType, Entity, Room};
use memory_context::state::{ContextParts, Services};
use memory_context::tool::{Tool, ToolOutput};
use memory_core::{Error, ErrorKind, Json, Memory, Status};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::stage::{IGNORE, Stage, actions, audience, room, said, said_in_group, text};

fn plain(services: Services) -> Services {
    services
}

fn same(service: MessageService) -> MessageService {
    service
}

fn delivered(mut incoming: Incoming) -> Incoming {
    incoming.message = incoming.message.with_external_id("7");
    incoming
}

fn label(memory: &Memory, name: &str) -> Option<String> {
    match memory.metadata.to_object().get(name) {
        Some(Json::String(label)) => Some(label.clone()),
        _ => None,
    }
}

/// A tool that counts its calls, and returns when the test allows it.
#[derive(Debug)]
struct Counted {
    count: AtomicUsize,
    gate: Semaphore,
}

impl Counted {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self { count: AtomicUsize::new(0), gate: Semaphore::new(permits) })
    }

    fn tool(self: &Arc<Self>, name: &str) -> Tool {
        let counted = Arc::clone(self);
        Tool::with_schema(name, "", json!({ "type": "object" }), move |_, _| {
            let counted = Arc::clone(&counted);
            async move {
                counted.count.fetch_add(1, Ordering::SeqCst);
                counted.gate.acquire().await.expect("the gate is not closed").forget();
                Ok("counted".to_owned())
            }
        })
    }

    async fn is_called(&self, times: usize) {
        while self.count.load(Ordering::SeqCst) < times {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn one_that_was_cut_off_is_answered_by_another_when_its_lease_has_run_out() {
    let mut stage = Stage::new().await;
    let run = stage.receive(delivered(said("ana", "hello", 1)));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    let mut other = stage.elsewhere(ContextParts::default(), same);
    assert_eq!(other.recover().await.expect("no panic"), [], "its lease has not run out");
    let (end, asked) = other.play(delivered(said("ana", "hello", 1)), |_| text("Hi")).await;
    assert_eq!((end, asked.len()), (End::Ignored(Why::Known), 0));
    assert_eq!(other.memory("hello").await.status, Status::Pending);
    stage.leases_run_out();
    let recovered = other.recover();
    other.asked().await.answer(text("Hi"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    assert_eq!((stage.platform.texts().len(), other.platform.texts()), (0, vec!["Hi".to_owned()]));
    let memory = other.memory("hello").await;
    assert_eq!((memory.status, label(&memory, "end").as_deref()), (Status::Completed, Some("completed")));
    let answer = other.memory("Hi").await;
    assert_eq!(label(&answer, "run"), label(&memory, "run"), "the run goes on");
    let (again, _) = stage.play(delivered(said("ana", "hello", 1)), |_| text("Hi")).await;
    assert_eq!((again, other.recover().await.expect("no panic")), (End::Ignored(Why::Known), Vec::new()));
}

#[tokio::test]
async fn a_recovery_puts_nobody_back_who_has_left() {
    let mut stage = Stage::new().await;
    stage.records.entities().ensure(&Entity::new(audience().entity, "Ana")).await.expect("stored");
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    stage.records.participants().leave(&audience().room, &audience().entity).await.expect("left");
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), same);
    let recovered = other.recover();
    other.asked().await.answer(text("Hi"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    let present = other.records.participants().of_room(&audience()).await.expect("read");
    assert!(present.iter().all(|one| one.entity != audience().entity));
}

#[tokio::test]
async fn one_that_nobody_works_on_is_answered_when_it_is_delivered_again() {
    let mut stage = Stage::new().await;
    let run = stage.receive(delivered(said("ana", "hello", 1)));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), same);
    let (end, asked) = other.play(delivered(said("ana", "hello", 1)), |_| text("Hi")).await;
    assert_eq!((end, asked.len()), (End::Completed, 1));
    assert_eq!((other.platform.texts(), other.stored().await.len()), (vec!["Hi".to_owned()], 2));
}

#[tokio::test]
async fn an_answer_that_was_decided_on_is_said_under_its_id() {
    let mut stage = Stage::new().await;
    stage.platform.gate.forget_permits(1_000);
    let run = stage.receive(said("ana", "hello", 1));
    stage.asked().await.answer(text("Hi"));
    while stage.stored().await.len() < 2 {
        tokio::task::yield_now().await;
    }
    run.abort();
    assert!(run.await.is_err());
    assert_eq!(stage.memory("hello").await.status, Status::Running);
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), same);
    // A newer message does not supersede it.
    let recovered = other.recover();
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    assert!(other.asked_already().is_none(), "no model is asked again");
    let [heard] = &other.platform.messages()[..] else { panic!("one answer") };
    assert_eq!((heard.id, other.stored().await.len()), (stage.memory("Hi").await.id, 2));
    let memory = other.memory("hello").await;
    assert_eq!((memory.status, label(&memory, "why").as_deref()), (Status::Completed, Some("channelType")));
    assert!(!memory.context.expect("a context").as_str().contains("Hi"), "the journal is gone");
}

#[tokio::test]
async fn a_tool_is_called_again_only_where_it_is_repeatable() {
    for (is_repeatable, times) in [(false, 1), (true, 2)] {
        let (before, cut) = (Counted::new(9), Counted::new(0));
        let parts = || {
            let cut = cut.tool("CUT");
            let cut = if is_repeatable { cut.repeatable() } else { cut };
            ContextParts { tools: vec![before.tool("BEFORE"), cut], ..ContextParts::default() }
        };
        let mut stage = Stage::with_parts(parts()).await;
        let run = stage.receive(said("ana", "hello", 1));
        stage.asked().await.answer(actions("BEFORE, CUT", ""));
        cut.is_called(1).await;
        run.abort();
        assert!(run.await.is_err());
        stage.leases_run_out();
        cut.gate.add_permits(9);
        let mut other = stage.elsewhere(parts(), same);
        let recovered = other.recover();
        // The decision is kept: the model is asked with the results only.
        let next = other.asked().await;
        assert!(next.prompt.contains("counted"), "{}", next.prompt);
        assert_eq!(next.prompt.contains("may have happened"), !is_repeatable, "{}", next.prompt);
        next.answer(text("Hi"));
        assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
        let counts = [&before, &cut].map(|tool| tool.count.load(Ordering::SeqCst));
        assert_eq!(counts, [1, times], "repeatable: {is_repeatable}");
        let steps: Vec<_> = other.results().await.into_iter().map(|result| (result.action, result.step)).collect();
        assert_eq!(steps, [("BEFORE".to_owned(), 1), ("CUT".to_owned(), 2)], "each result is there once");
        let mut told = other.platform.texts();
        assert_eq!(told.pop().as_deref(), Some("Hi"));
        assert_eq!(told.iter().filter(|text| text.contains("CUT: it was cut off")).count(), 2 - times, "{told:?}");
        assert_eq!(told.len(), 2 - times, "{told:?}");
    }
}

/// Others may be in the room when the run continues.
#[tokio::test]
async fn what_is_for_one_answer_alone_is_found_anew_after_a_cut() {
    for fails in [false, true] {
        let count: Arc<AtomicUsize> = Arc::default();
        let parts = || {
            let count = Arc::clone(&count);
            let look = Tool::new("LOOK", move |(), _| {
                let time = count.fetch_add(1, Ordering::SeqCst);
                async move {
                    match fails && time > 0 {
                        true => Err(Error::invalid("as a test")),
                        false => Ok(ToolOutput::new(format!("secret {time}")).private()),
                    }
                }
            });
            ContextParts::default().with_tool(look.repeatable())
        };
        let mut stage = Stage::with_parts(parts()).await;
        let run = stage.receive(said("ana", "hello", 1));
        stage.asked().await.answer(actions("LOOK", ""));
        let call = stage.asked().await;
        assert!(call.prompt.contains("secret 0"), "{}", call.prompt);
        let context = stage.memory("hello").await.context.expect("a journal");
        assert!(context.as_str().contains("LOOK") && !context.as_str().contains("secret"), "{}", context.as_str());
        run.abort();
        call.dropped().await;
        stage.leases_run_out();
        let mut other = stage.elsewhere(parts(), same);
        let recovered = other.recover();
        let next = other.asked().await;
        let expected = if fails { "can't be read again" } else { "secret 1" };
        assert!(next.prompt.contains(expected) && !next.prompt.contains("secret 0"), "{}", next.prompt);
        next.answer(text("Hi"));
        assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
        let found: Vec<_> = other.results().await.into_iter().map(|result| (result.action, result.status)).collect();
        assert_eq!(found, [("LOOK".to_owned(), ActionStatus::Completed)], "it is there once");
    }
}

#[tokio::test]
async fn what_could_not_be_said_is_kept_in_the_same_words_again() {
    let counted = Counted::new(9);
    let parts = || ContextParts { tools: vec![counted.tool("COUNT")], ..ContextParts::default() };
    let mut stage = Stage::with_parts(parts()).await;
    stage.platform.fails();
    let run = stage.receive(said("ana", "hello", 1));
    stage.asked().await.answer(actions("REPLY, COUNT", "Hi"));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    stage.leases_run_out();
    let mut other = stage.elsewhere(parts(), same);
    let recovered = other.recover();
    other.asked().await.answer(text("Hello"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    assert_eq!(other.platform.texts(), ["Hello"]);
}

#[tokio::test]
async fn one_who_stood_still_writes_nothing_after_another_has_gone_on() {
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), same);
    let recovered = other.recover();
    let second = other.asked().await;
    call.answer(text("late"));
    let End::Left { reason } = run.await.expect("no panic") else { panic!("it has lost the message") };
    assert!(!reason.contains("late"), "{reason}");
    assert_eq!((stage.stored().await.len(), stage.platform.texts().len()), (1, 0), "nothing is stored or said");
    second.answer(text("Hi"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    let stored: Vec<_> = other.stored().await.into_iter().map(|message| message.content.text).collect();
    assert_eq!(stored, ["hello", "Hi"]);
    assert_eq!(other.memory("hello").await.status, Status::Completed);
}

#[tokio::test]
async fn of_two_that_recover_each_message_is_answered_by_one() {
    let mut stage = Stage::new().await;
    let mut cut = Vec::new();
    for number in 0..20 {
        let mut incoming = said("ana", &format!("hello {number}"), 1);
        incoming.message.content.room = room(&format!("r{number}"));
        let run = stage.receive(incoming);
        cut.push(stage.asked().await);
        run.abort();
    }
    for call in cut {
        call.dropped().await;
    }
    stage.leases_run_out();
    let mut others = [stage.elsewhere(ContextParts::default(), same), stage.elsewhere(ContextParts::default(), same)];
    let recovered = [others[0].recover(), others[1].recover()];
    let (mut answered, mut asked) = (BTreeSet::new(), 0);
    while asked < 20 {
        for other in &mut others {
            while let Some(call) = other.asked_already() {
                asked += 1;
                assert!(answered.insert(call.received().to_owned()), "a model is asked once for each");
                call.answer(text("Hi"));
            }
        }
        tokio::task::yield_now().await;
    }
    let mut ends = 0;
    for recovered in recovered {
        let all = recovered.await.expect("no panic");
        assert!(all.iter().all(|end| *end == End::Completed), "{all:?}");
        ends += all.len();
    }
    let rooms = others.iter().flat_map(|other| other.platform.messages()).map(|message| message.content.room);
    let rooms: Vec<_> = rooms.collect();
    assert_eq!((ends, rooms.len(), rooms.iter().collect::<BTreeSet<_>>().len()), (20, 20, 20));
}

#[tokio::test]
async fn a_shutdown_gives_back_what_is_not_decided_and_finishes_what_is() {
    let mut stage = Stage::new().await;
    stage.platform.gate.forget_permits(1_000);
    let decided = stage.receive(said("ana", "hello", 2));
    stage.asked().await.answer(text("Hi"));
    while stage.stored().await.len() < 2 {
        tokio::task::yield_now().await;
    }
    let mut elsewhere = said("bo", "good day", 1);
    elsewhere.message.content.room = room("s");
    let thinking = stage.receive(elsewhere);
    let call = stage.asked().await;
    let service = Arc::clone(&stage.service);
    let shutdown = tokio::spawn(async move { service.shutdown().await });
    assert!(matches!(thinking.await.expect("no panic"), End::Left { .. }));
    call.dropped().await;
    assert!(!shutdown.is_finished(), "an answer is being said");
    let late = stage.service.receive(said("ana", "too late", 0)).await;
    assert!(matches!(&late, End::Failed { reason } if reason.contains("shut down")), "{late:?}");
    // At once: no lease has to expire.
    let mut other = stage.elsewhere(ContextParts::default(), same);
    let recovered = other.recover();
    let call = other.asked().await;
    assert!(call.received().ends_with("bo: good day"), "{}", call.received());
    call.answer(text("Good day"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    stage.platform.gate.add_permits(1);
    shutdown.await.expect("no panic");
    assert_eq!((decided.await.expect("no panic"), stage.platform.texts()), (End::Completed, vec!["Hi".to_owned()]));
    assert_eq!(stage.stored().await.len(), 2, "what came too late is not stored");
    let post = stage.service.post(&Room::new(room("r"), ChannelType::Group)).await;
    assert_eq!(post.expect_err("too late").kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_newer_message_supersedes_an_older_one_after_a_restart_too() {
    let mut stage = Stage::new().await;
    let runs = [stage.receive(said_in_group("ana", "one", 3)), stage.receive(said_in_group("ana", "two", 2))];
    for _ in 0..2 {
        stage.step(|step| matches!(step, FlowStep::Stored(_))).await;
    }
    let call = stage.asked().await;
    for run in runs {
        run.abort();
    }
    call.dropped().await;
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), same);
    let recovered = other.recover();
    let call = other.asked().await;
    assert!(call.received().ends_with("ana: one"), "the oldest first: {}", call.received());
    call.answer(crate::stage::RESPOND);
    let answer = other.asked().await;
    let next = other.asked().await;
    let (answer, next) = if answer.received().ends_with("ana: one") { (answer, next) } else { (next, answer) };
    next.answer(crate::stage::RESPOND);
    answer.dropped().await;
    other.asked().await.answer(text("Hi"));
    let mut ends = recovered.await.expect("no panic");
    ends.sort_by_key(End::as_str);
    assert_eq!(ends, [End::Completed, End::Superseded]);
    let [one, two] = [other.memory("one").await, other.memory("two").await];
    assert_eq!((one.status, label(&one, "end").as_deref()), (Status::Observed, Some("superseded")));
    assert_eq!((two.status, label(&two, "end").as_deref()), (Status::Completed, Some("completed")));
    assert_eq!(other.platform.texts(), ["Hi"]);
}

#[tokio::test]
async fn one_whose_successor_was_answered_meanwhile_is_superseded() {
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "one", 3));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    let mut other = stage.elsewhere(ContextParts::default(), same);
    let (end, _) = other.play(said("ana", "two", 2), |_| text("Hi")).await;
    assert_eq!(end, End::Completed);
    stage.leases_run_out();
    assert_eq!(other.recover().await.expect("no panic"), [End::Superseded]);
    assert!(other.asked_already().is_none());
    assert_eq!(other.memory("one").await.status, Status::Observed);
}

/// Another process knows only from the ledger why the chatter was answered.
#[tokio::test]
async fn chatter_in_a_followed_room_takes_no_answer_from_who_asked_before_a_cut() {
    for is_addressed in [true, false] {
        let mut stage = Stage::new().await;
        stage.follows().await;
        let asks = Incoming { is_addressed, ..said_in_group("ana", "one", 3) };
        let run = stage.receive(asks);
        let call = stage.asked().await;
        run.abort();
        call.dropped().await;
        let mut other = stage.elsewhere(ContextParts::default(), same);
        let (end, _) = other.play(said_in_group("bo", "lol", 2), |_| text("Hi")).await;
        assert_eq!(end, End::Completed);
        stage.leases_run_out();
        let mut recovered = other.recover();
        if is_addressed {
            tokio::select! {
                call = other.asked() => call.answer(text("A cat")),
                end = &mut recovered => panic!("nobody was asked: {end:?}"),
            }
        }
        let end = if is_addressed { End::Completed } else { End::Superseded };
        assert_eq!(recovered.await.expect("no panic"), [end], "what is its like supersedes it");
        assert!(other.asked_already().is_none());
    }
}

#[tokio::test]
async fn the_status_says_how_it_ended_and_what_is_no_open_work_is_left_alone() {
    let mut stage = Stage::new().await;
    // The format of programs without open messages.
    let old = said("ana", "old", 9).message;
    stage.records.messages().add(old).await.expect("stored");
    let (end, _) = stage.play(said_in_group("ana", "aside", 3), |_| IGNORE.to_owned()).await;
    assert_eq!((end, stage.memory("aside").await.status), (End::Ignored(Why::Model), Status::Observed));
    let run = stage.receive(said("ana", "hello", 2));
    stage.asked().await.fail();
    assert_eq!(run.await.expect("no panic").as_str(), "failed");
    assert_eq!(stage.memory("hello").await.status, Status::Failed);
    let (end, _) = stage.play(said("ana", "again", 1), |_| text("Hi")).await;
    // Stored, decided and ended: one write more than without a journal.
    let memory = stage.memory("again").await;
    assert_eq!((end, memory.status, memory.revision.get()), (End::Completed, Status::Completed, 3));
    assert!(stage.stored().await.iter().all(|message| !message.is_undelivered), "all that was received came in");
    stage.leases_run_out();
    assert_eq!(stage.elsewhere(ContextParts::default(), same).recover().await.expect("no panic"), []);
}

#[tokio::test]
async fn one_that_never_comes_to_its_end_has_failed() {
    let with = |service: MessageService| service.with_limits(Limits { runs: 2, ..Limits::default() });
    let mut stage = Stage::with(plain, with).await;
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    stage.leases_run_out();
    let mut second = stage.elsewhere(ContextParts::default(), with);
    let recovered = second.recover();
    let call = second.asked().await;
    recovered.abort();
    call.dropped().await;
    stage.leases_run_out();
    let mut third = stage.elsewhere(ContextParts::default(), with);
    let ends = third.recover().await.expect("no panic");
    assert!(matches!(&ends[..], [End::Failed { reason }] if reason.contains("begun 2 times")), "{ends:?}");
    assert!(third.asked_already().is_none());
    assert_eq!(third.memory("hello").await.status, Status::Failed);
}

/// Whether a message supersedes another depends on why that was to be answered.
#[tokio::test]
async fn one_that_never_comes_to_its_end_keeps_why_it_was_to_be_answered() {
    let with = |service: MessageService| service.with_limits(Limits { runs: 1, ..Limits::default() });
    let cut = Counted::new(0);
    let parts = || ContextParts::default().with_tool(cut.tool("CUT"));
    let mut stage = Stage::build_with(parts(), with).await;
    stage.follows().await;
    let run = stage.receive(said_in_group("bo", "lol", 1));
    stage.asked().await.answer(actions("CUT", ""));
    cut.is_called(1).await;
    run.abort();
    assert!(run.await.is_err());
    stage.leases_run_out();
    let other = stage.elsewhere(parts(), with);
    let ends = other.recover().await.expect("no panic");
    assert!(matches!(&ends[..], [End::Failed { reason }] if reason.contains("begun 1 times")), "{ends:?}");
    assert_eq!(label(&other.memory("lol").await, "why").as_deref(), Some("followed"));
}

#[tokio::test]
async fn one_that_is_begun_for_the_last_time_is_recovered_alone() {
    let with = |service: MessageService| service.with_limits(Limits { runs: 2, ..Limits::default() });
    let mut stage = Stage::with(plain, with).await;
    for (name, ago) in [("r", 2), ("s", 1)] {
        let mut incoming = said("ana", name, ago);
        incoming.message.content.room = room(name);
        let run = stage.receive(incoming);
        let call = stage.asked().await;
        run.abort();
        call.dropped().await;
    }
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), with);
    let recovered = other.recover();
    let call = other.asked().await;
    assert!(call.received().ends_with("ana: r"), "{}", call.received());
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(other.asked_already().is_none(), "the other one is not begun");
    call.answer(text("Hi"));
    other.asked().await.answer(text("Hi"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed, End::Completed]);
}

#[tokio::test]
async fn one_room_can_be_recovered_alone() {
    let mut stage = Stage::new().await;
    for name in ["r", "s"] {
        let mut incoming = said("ana", name, 1);
        incoming.message.content.room = room(name);
        let run = stage.receive(incoming);
        let call = stage.asked().await;
        run.abort();
        call.dropped().await;
    }
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), same);
    let service = Arc::clone(&other.service);
    let recovered = tokio::spawn(async move { service.recover_room(&room("s")).await });
    other.asked().await.answer(text("Hi"));
    assert_eq!(recovered.await.expect("no panic").expect("looks").len(), 1);
    assert_eq!(other.platform.messages()[0].content.room, room("s"));
    assert_eq!(other.memory("r").await.status, Status::Pending);
}
