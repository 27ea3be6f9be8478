//! Events between a message and its answer.

use std::time::Duration;

use memory_context::flow::{End, Limits, Why};

use crate::model::Question;
use crate::stage::{Setting, Stage, end};

#[tokio::test]
async fn the_echo_of_the_agent_does_not_cost_an_answer() {
    let mut stage = Stage::set(Setting::default()).await;
    let first = stage.writes("Hello").await;
    stage.model.asked_to(Question::Answer).await.says("Hi");
    assert_eq!((end(first).await, stage.hears().await.1), (End::Completed, "Hi".into()));

    let second = stage.writes("How are you?").await;
    let asked = stage.model.asked_to(Question::Answer).await;
    // The platform is late with the echo of the first answer.
    assert_eq!(end(stage.echoes("Hi").await).await, End::Ignored(Why::Own));
    assert!(asked.is_awaited(), "the second answer is still worked on");
    asked.says("Well");
    assert_eq!((end(second).await, stage.hears().await.1), (End::Completed, "Well".into()));
    assert_eq!(stage.texts().await, ["Hello", "Hi", "How are you?", "Well"], "the echo is not stored");
    assert_eq!(stage.ends().await.len(), 2, "the echo has no run");
}

#[tokio::test]
async fn a_newer_message_supersedes_an_answer() {
    let mut stage = Stage::set(Setting::default()).await;
    let older = stage.writes("Where is").await;
    let mut given_up = stage.model.asked_to(Question::Answer).await;
    let newer = stage.writes("the key?").await;
    assert_eq!(end(older).await, End::Superseded);
    given_up.is_given_up().await;
    given_up.says("Where is what?");
    let asked = stage.model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains(": Where is\n") && asked.prompt.contains(": the key?"), "{}", asked.prompt);
    asked.says("On the table");
    assert_eq!((end(newer).await, stage.hears().await.1), (End::Completed, "On the table".into()));
    assert_eq!(stage.texts().await, ["Where is", "the key?", "On the table"]);
    let stored = stage.stored().await;
    assert_eq!(stored[2].content.in_reply_to, Some(stored[1].id));
    let ends: Vec<_> = stage.ends().await.into_iter().map(|run| run.end).collect();
    assert_eq!(ends, [Some(End::Superseded), Some(End::Completed)]);
}

#[tokio::test]
async fn an_answer_after_the_end_of_its_run_is_never_said() {
    let minute = Duration::from_secs(60);
    let limits = Limits { model: minute * 10, run: minute, ..Limits::default() };
    let mut stage = Stage::set(Setting { limits, ..Setting::default() }).await;
    let first = stage.writes("Hello").await;
    let mut late = stage.model.asked_to(Question::Answer).await;
    // Time passes only here, while the model is silent.
    tokio::time::pause();
    tokio::time::advance(minute).await;
    tokio::time::resume();
    assert_eq!(end(first).await, End::TimedOut { after: minute });
    late.is_given_up().await;
    late.says("Hi");

    let second = stage.writes("Are you there?").await;
    let asked = stage.model.asked_to(Question::Answer).await;
    asked.says("Yes");
    assert_eq!((end(second).await, stage.hears().await.1), (End::Completed, "Yes".into()));
    assert_eq!(stage.texts().await, ["Hello", "Are you there?", "Yes"]);
    let ends: Vec<_> = stage.ends().await.into_iter().map(|run| run.end).collect();
    assert_eq!(ends, [Some(End::TimedOut { after: minute }), Some(End::Completed)]);
}

#[tokio::test]
async fn two_rooms_don_t_wait_for_each_other() {
    let mut stage = Stage::set(Setting::default()).await;
    let mut held = Vec::new();
    for user in [7, 8] {
        let run = stage.receives(user, user, &format!("I am {user}"), None).await;
        let asked = stage.model.asked_to(Question::Answer).await;
        assert!(asked.prompt.contains(&format!("I am {user}")), "{}", asked.prompt);
        assert!(!asked.prompt.contains(&format!("I am {}", 15 - user)), "the other room is not shown");
        held.push((user, run, asked));
    }
    for (user, run, asked) in held.into_iter().rev() {
        // The action does not exist, and its result names its run.
        asked.acts("REPLY, WAVE", "", &format!("You are {user}"));
        stage.model.asked_to(Question::Answer).await.acts("IGNORE", "", "");
        assert_eq!(end(run).await, End::Completed);
        let (room, text) = stage.hears().await;
        assert_eq!((room.as_str(), text), (format!("telegram:{user}").as_str(), format!("You are {user}")));
    }
    let mut results = Vec::new();
    for user in [7, 8] {
        let stored = stage.stored_of(user).await;
        let [message, answer, result] = &stored[..] else { panic!("{stored:?}") };
        assert_eq!(answer.content.in_reply_to, Some(message.id));
        results.push(result.content.action_result.clone().expect("a result").run);
    }
    let runs = stage.ends().await;
    let ids: Vec<_> = runs.iter().map(|run| run.id.to_string()).collect();
    let rooms: Vec<_> = runs.iter().map(|run| run.room.as_str()).collect();
    assert_eq!((ids, rooms), (results, vec!["telegram:7", "telegram:8"]), "each result is of the run of its room");
}

#[tokio::test]
async fn a_message_that_comes_twice_is_answered_once() {
    let mut stage = Stage::set(Setting::default()).await;
    let first = stage.receives(7, 7, "Hello", Some("42")).await;
    let asked = stage.model.asked_to(Question::Answer).await;
    // The platform is not sure that it was received.
    let again = stage.receives(7, 7, "Hello", Some("42")).await;
    asked.says("Hi");
    assert_eq!((end(first).await, stage.hears().await.1), (End::Completed, "Hi".into()));
    assert_eq!(end(again).await, End::Ignored(Why::Known));
    // After a restart it is not answered either.
    let late = stage.receives(7, 7, "Hello", Some("42")).await;
    assert_eq!(end(late).await, End::Ignored(Why::Known));
    assert_eq!(stage.stored_of(7).await.len(), 2, "one message and one answer");
    stage.ends().await;
}
