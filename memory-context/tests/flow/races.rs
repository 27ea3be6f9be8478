//! Races between messages and answers.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use memory_context::flow::{End, FlowStep, Incoming, Limits, Why};
use memory_context::state::ContextParts;
use memory_context::tool::Tool;
use tokio::time::advance;

use crate::stage::{Call, IGNORE, NOW, RESPOND, Stage, Task, actions, at, audience, entity, said, said_in_group, text};

fn redelivered(mut incoming: Incoming, id: &str) -> Incoming {
    incoming.message = incoming.message.with_external_id(id);
    incoming
}

#[tokio::test]
async fn a_newer_message_that_is_to_be_answered_supersedes_an_answer() {
    let mut stage = Stage::new().await;
    let older = stage.receive(said("ana", "one", 2));
    let call = stage.asked().await;
    let newer = stage.receive(said("ana", "two", 1));
    call.dropped().await;
    let call = stage.asked().await;
    assert!(call.received().ends_with("ana: two"), "{}", call.received());
    call.answer(text("Hi"));
    assert_eq!((older.await.expect("no panic"), newer.await.expect("no panic")), (End::Superseded, End::Completed));
    assert_eq!(stage.platform.texts(), ["Hi"]);
    assert_eq!(stage.stored().await.len(), 3, "both messages and one answer");
}

#[tokio::test]
async fn the_echo_of_the_agent_supersedes_nothing_and_leaves_no_trace() {
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "hello", 2));
    let call = stage.asked().await;
    stage.events();
    assert_eq!(stage.service.receive(said("eliza", "Hi", 1)).await, End::Ignored(Why::Own));
    assert!(stage.events().is_empty(), "it is no run");
    call.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert_eq!((stage.platform.texts(), stage.stored().await.len()), (vec!["Hi".to_owned()], 2));
}

#[tokio::test]
async fn a_newer_message_that_is_ignored_supersedes_nothing() {
    let mut stage = Stage::new().await;
    let mut older = said_in_group("ana", "one", 2);
    older.is_addressed = true;
    let older = stage.receive(older);
    let answer = stage.asked().await;
    let newer = stage.receive(said_in_group("bo", "two", 1));
    let call = stage.asked().await;
    assert_eq!((answer.task, call.task), (Task::Answer, Task::Decide));
    call.answer(IGNORE);
    assert_eq!(newer.await.expect("no panic"), End::Ignored(Why::Model));
    answer.answer(text("Hi"));
    assert_eq!(older.await.expect("no panic"), End::Completed);
    assert_eq!(stage.platform.texts(), ["Hi"]);
}

#[tokio::test]
async fn a_newer_message_that_fails_undecided_supersedes_nothing() {
    let mut stage = Stage::new().await;
    let older = stage.receive(said("ana", "one", 2));
    let answer = stage.asked().await;
    let newer = stage.receive(said_in_group("bo", "two", 1));
    stage.asked().await.fail();
    assert_eq!(newer.await.expect("no panic").as_str(), "failed");
    answer.answer(text("Hi"));
    assert_eq!(older.await.expect("no panic"), End::Completed);
}

#[tokio::test]
async fn a_message_that_is_delivered_again_is_answered_once() {
    let mut stage = Stage::new().await;
    let first = stage.receive(redelivered(said("ana", "hello", 1), "7"));
    let call = stage.asked().await;
    // While it is worked on, and after that.
    let again = || redelivered(said("ana", "hello", 1), "7");
    assert_eq!(stage.service.receive(again()).await, End::Ignored(Why::Known));
    call.answer(text("Hi"));
    assert_eq!(first.await.expect("no panic"), End::Completed);
    assert_eq!(stage.service.receive(again()).await, End::Ignored(Why::Known));
    let mut other_room = again();
    other_room.message.content.room = crate::stage::room("s");
    let (end, _) = stage.play(other_room, |_| text("Hi there")).await;
    assert_eq!(end, End::Completed, "an id counts in its room");
    assert_eq!((stage.platform.texts(), stage.stored().await.len()), (vec!["Hi".into(), "Hi there".into()], 2));
}

#[tokio::test]
async fn of_two_deliveries_at_once_one_is_answered() {
    let mut stage = Stage::new().await;
    let one = stage.receive(redelivered(said("ana", "hello", 1), "7"));
    let other = stage.receive(redelivered(said("ana", "hello", 1), "7"));
    stage.asked().await.answer(text("Hi"));
    let ends = [one.await.expect("no panic"), other.await.expect("no panic")];
    assert!(ends.contains(&End::Completed) && ends.contains(&End::Ignored(Why::Known)), "{ends:?}");
    assert_eq!((stage.platform.texts().len(), stage.stored().await.len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_is_not_said() {
    let limits = Limits { run: Duration::from_secs(30), ..Limits::default() };
    let mut stage = Stage::with(|services| services, |service| service.with_limits(limits)).await;
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    assert_eq!(run.await.expect("no panic"), End::TimedOut { after: Duration::from_secs(30) });
    call.dropped().await;
    assert!(stage.platform.texts().is_empty());
    assert_eq!(stage.stored().await.len(), 1, "the message is not lost");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_is_stored_and_does_not_time_out_for_the_slowness_of_others() {
    let minute = Duration::from_secs(60);
    let limits = Limits { run: minute * 2, say: minute * 10, model: minute * 10, ..Limits::default() };
    let mut stage = Stage::with(|services| services, |service| service.with_limits(limits)).await;
    stage.platform.gate.forget_permits(1_000);
    let older = stage.receive(said("ana", "one", 2));
    stage.asked().await.answer(text("Hi"));
    // The answer to the first message is claimed and being said when the second comes.
    while stage.stored().await.len() < 2 {
        tokio::task::yield_now().await;
    }
    let mut stored = 0;
    let newer = stage.receive(said("ana", "two", 1));
    while stored < 2 {
        stage.step(|step| matches!(step, FlowStep::Stored(_))).await;
        stored += 1;
    }
    assert!(stage.asked_already().is_none(), "it waits for the answer");
    advance(minute).await;
    stage.platform.gate.add_permits(2);
    assert_eq!(older.await.expect("no panic"), End::Completed);
    let call = stage.asked().await;
    assert!(call.prompt.contains("Eliza: Hi"), "what was said is known: {}", call.prompt);
    advance(minute + minute / 2).await;
    call.answer(text("Hi again"));
    assert_eq!(newer.await.expect("no panic"), End::Completed, "two minutes and a half after it came");
}

#[tokio::test]
async fn a_message_that_was_decided_on_early_is_answered_with_what_was_said_since() {
    let mut stage = Stage::new().await;
    stage.platform.gate.forget_permits(1_000);
    let older = stage.receive(said("ana", "one", 2));
    stage.asked().await.answer(text("Hi"));
    while stage.stored().await.len() < 2 {
        tokio::task::yield_now().await;
    }
    let newer = stage.receive(said_in_group("bo", "two", 1));
    let call = stage.asked().await;
    assert_eq!(call.task, Task::Decide, "it is decided on while the answer is being said");
    call.answer(RESPOND);
    let third = stage.receive(said_in_group("bo", "three", 0));
    let call = stage.asked().await;
    assert_eq!((call.task, call.received().ends_with("bo: three")), (Task::Decide, true), "and so is the next");
    call.answer(IGNORE);
    assert_eq!(third.await.expect("no panic"), End::Ignored(Why::Model));
    stage.platform.gate.add_permits(2);
    let call = stage.asked().await;
    assert!(call.prompt.contains("Eliza: Hi") && !call.prompt.contains("bo: three"), "{}", call.prompt);
    call.answer(text("Hi, Bo"));
    assert_eq!((older.await.expect("no panic"), newer.await.expect("no panic")), (End::Completed, End::Completed));
    assert_eq!(stage.platform.texts(), ["Hi", "Hi, Bo"]);
}

/// Of two messages in a row, the first is not answered as if the second had come before it.
#[tokio::test]
async fn a_message_is_decided_on_without_those_after_it() {
    let mut stage = Stage::new().await;
    let one = stage.receive(said_in_group("ana", "one", 2));
    let two = stage.receive(said_in_group("bo", "two", 1));
    for _ in 0..2 {
        stage.step(|step| matches!(step, FlowStep::Stored(_))).await;
    }
    let call = stage.asked().await;
    assert!(call.received().ends_with("ana: one") && !call.prompt.contains("bo: two"), "{}", call.prompt);
    assert!(stage.asked_already().is_none(), "one after the other");
    call.answer(IGNORE);
    let call = stage.asked().await;
    assert!(call.received().ends_with("bo: two") && call.prompt.contains("ana: one"), "{}", call.prompt);
    call.answer(RESPOND);
    stage.asked().await.answer(text("Hi"));
    let ends = (one.await.expect("no panic"), two.await.expect("no panic"));
    assert_eq!(ends, (End::Ignored(Why::Model), End::Completed));
}

#[tokio::test]
async fn an_answer_stands_behind_a_question_from_the_future() {
    let mut stage = Stage::new().await;
    for ago in [-3_600_000, 0] {
        let (end, _) = stage.play(said("ana", "hello", ago), |_| text("Hi")).await;
        assert_eq!(end, End::Completed);
    }
    let stored = stage.stored().await;
    let authors: Vec<_> = stored.iter().map(|message| message.content.author.as_str()).collect();
    assert_eq!(authors, ["ana", "eliza", "ana", "eliza"]);
    assert_eq!((stored[1].created_at, stored[3].created_at), (at(NOW), at(NOW + 3_600_000)));
}

#[tokio::test]
async fn what_could_not_be_said_is_marked_so() {
    let mut stage = Stage::new().await;
    stage.platform.fails();
    let (end, _) = stage.play(said("ana", "hello", 2), |_| text("Hi")).await;
    assert_eq!(end.as_str(), "failed");
    let stored = stage.stored().await;
    assert_eq!(stored.iter().map(|message| message.is_undelivered).collect::<Vec<_>>(), [false, true]);
    let next = stage.receive(said("ana", "are you there?", -1));
    let call = stage.asked().await;
    assert!(call.prompt.contains("Eliza: Hi\n  (not delivered)"), "{}", call.prompt);
    call.fail();
    assert_eq!(next.await.expect("no panic").as_str(), "failed");
}

#[tokio::test]
async fn what_may_have_been_said_is_said_once_more_under_its_id() {
    for (lost, ends) in [(1, "completed"), (2, "failed")] {
        let mut stage = Stage::new().await;
        stage.platform.loses.store(lost, Ordering::SeqCst);
        let (end, _) = stage.play(said("ana", "hello", 1), |_| text("Hi")).await;
        assert_eq!(end.as_str(), ends);
        let [one, again] = &stage.platform.messages()[..] else { panic!("said twice") };
        assert_eq!(one.id, again.id);
        assert!(
            stage.stored().await.iter().all(|message| !message.is_undelivered),
            "nobody knows that it was not said"
        );
        let memory = stage.memory("hello").await;
        assert_eq!(memory.metadata.as_str().contains("nobody knows whether it was said"), lost == 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_hangs_may_have_said_it() {
    let mut stage = Stage::new().await;
    stage.platform.gate.forget_permits(1_000);
    let (end, _) = stage.play(said("ana", "hello", 1), |_| text("Hi")).await;
    assert!(matches!(&end, End::Failed { reason } if reason.contains("nobody knows whether it was said")), "{end:?}");
    assert!(stage.stored().await.iter().all(|message| !message.is_undelivered));
}

#[tokio::test]
async fn a_muted_room_hears_an_answer_to_the_name_alone() {
    let mut stage = Stage::new().await;
    let (room, eliza) = (audience().room, entity("eliza"));
    stage.records.participants().join(&room, &eliza).await.expect("joins");
    let muted = Some(memory_context::records::RoomState::Muted);
    stage.records.participants().set_state(&room, &eliza, muted).await.expect("muted");
    for (words, end) in
        [("hello", End::Ignored(Why::Muted)), ("Elizabeth?", End::Ignored(Why::Muted)), ("Eliza?", End::Completed)]
    {
        let (ended, _) = stage.play(said("ana", words, 1), |_| text("Hi")).await;
        assert_eq!(ended, end, "{words}");
    }
}

/// In a followed room chatter is addressed to nobody, so it does not supersede the answer to somebody who asked.
#[tokio::test]
async fn chatter_in_a_followed_room_takes_no_answer_from_who_asked() {
    let mut stage = Stage::new().await;
    stage.follows().await;
    let mut asks = said_in_group("ana", "What is it?", 3);
    asks.is_addressed = true;
    let asks = stage.receive(asks);
    let answer = stage.asked().await;
    let chatter = stage.receive(said_in_group("bo", "lol", 2));
    let more = stage.receive(said_in_group("bo", "haha", 1));
    assert_eq!(chatter.await.expect("no panic"), End::Superseded, "by its like");
    answer.answer(text("A cat"));
    assert_eq!(asks.await.expect("no panic"), End::Completed);
    let call = stage.asked().await;
    assert_eq!(call.task, Task::Answer);
    call.answer(actions("IGNORE", ""));
    assert_eq!(more.await.expect("no panic"), End::Ignored(Why::Model));
    assert_eq!(stage.platform.texts(), ["A cat"]);
}

/// Otherwise two agents that follow one room would answer each other for ever.
#[tokio::test]
async fn where_the_agent_says_much_in_a_followed_room_a_model_is_asked() {
    let mut stage = Stage::new().await;
    stage.follows().await;
    let mut asked = Vec::new();
    for _ in 0..12 {
        let says = |call: &Call| if call.task == Task::Decide { IGNORE.to_owned() } else { text("Hi") };
        let (_, tasks) = stage.play(said_in_group("bo", "hello", 0), says).await;
        asked.extend(tasks);
    }
    let answers = asked.iter().filter(|task| **task == Task::Answer).count();
    assert_eq!((asked.len(), asked[..3].to_vec()), (12, vec![Task::Answer, Task::Answer, Task::Decide]));
    assert!((3..6).contains(&answers), "it answers again when others have said more: {answers}");
}

/// The results of its tools were not said.
#[tokio::test]
async fn results_of_tools_are_not_what_the_agent_says() {
    let names = ["ONE", "TWO", "THREE"];
    let tool = |parts: ContextParts, name| parts.with_tool(Tool::new(name, |(), _| async { Ok("done") }));
    let mut stage = Stage::with_parts(names.into_iter().fold(ContextParts::default(), tool)).await;
    stage.follows().await;
    let does = |call: &Call| match call.prompt.contains("# Results of Actions") {
        true => text("Hi"),
        false => actions("ONE,TWO,THREE", ""),
    };
    for _ in 0..2 {
        let (end, asked) = stage.play(said_in_group("bo", "hello", 0), does).await;
        assert_eq!((end, asked), (End::Completed, vec![Task::Answer, Task::Answer]));
    }
}

/// Two agents that follow one room would answer each other without an end.
#[tokio::test]
async fn an_agent_whose_results_fill_the_room_asks_whether_to_answer() {
    let names: Vec<_> = (0..16).map(|number| format!("T{number}")).collect();
    let tool = |parts: ContextParts, name: &String| parts.with_tool(Tool::new(name, |(), _| async { Ok("done") }));
    let mut stage = Stage::with_parts(names.iter().fold(ContextParts::default(), tool)).await;
    stage.follows().await;
    let answers = Cell::new(0);
    let does = |call: &Call| {
        if call.task == Task::Decide {
            return IGNORE.to_owned();
        }
        match answers.replace(answers.get() + 1) % 3 {
            2 => text("Hi"),
            _ => actions(&names.join(","), ""),
        }
    };
    let (end, asked) = stage.play(said_in_group("bo", "hello", 0), does).await;
    assert_eq!((end, asked), (End::Completed, vec![Task::Answer; 3]));
    let (end, asked) = stage.play(said_in_group("bo", "hello", 0), does).await;
    assert_eq!((end, asked), (End::Ignored(Why::Model), vec![Task::Decide]));
}
