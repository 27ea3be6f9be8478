//! The end of an agent.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use memory_context::ErrorKind;
use memory_context::agent::Agent;
use memory_context::flow::{End, EventKind, Notice};

use crate::model::within;
use crate::stage::{Stage, answer};

#[tokio::test]
async fn what_was_asked_before_a_shutdown_is_answered() {
    let mut stage = Stage::new().await;
    let question = stage.asks("ana", "Hello");
    let asked = stage.model.asked().await;
    let mut closing = Box::pin(stage.agent.shutdown());
    assert!((&mut closing).now_or_never().is_none(), "it waits for the run");
    let error = stage.agent.ask("bo", "Hello").await.expect_err("no more questions");
    assert_eq!(error.kind(), ErrorKind::Closed);
    asked.says("Hi");
    assert_eq!(answer(question).await.text, "Hi");
    within(closing).await.expect("closes");
    // The file is free again, and has what was said.
    let again =
        Agent::builder("ada").memory(stage.url()).model(&stage.model.url, "small").build().await.expect("opens");
    let question = tokio::spawn({
        let again = again.clone();
        async move { again.ask("ana", "And now?").await }
    });
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("ada: Hi"), "{}", asked.prompt);
    asked.says("Bye");
    assert_eq!(answer(question).await.text, "Bye");
    within(again.shutdown()).await.expect("closes");
}

#[tokio::test]
async fn one_that_is_dropped_ends_its_recovery() {
    let stage = Stage::new().await;
    let service = Arc::downgrade(stage.agent.service());
    drop(stage.agent);
    let gone = async {
        while service.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(gone).await;
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_stopped() {
    let mut stage = Stage::with(|builder| builder.grace(Duration::ZERO)).await;
    let question = stage.asks("ana", "Hello");
    let mut asked = stage.model.asked().await;
    within(stage.agent.shutdown()).await.expect("closes");
    let left = answer(question).await;
    assert!(matches!(left.end, End::Left { .. }), "{left:?}");
    asked.is_given_up().await;
    within(stage.agent.shutdown()).await.expect("a second call does nothing");
    // It was given back, so the next agent answers it, without a lease that has to run out.
    let again =
        Agent::builder("ada").memory(stage.url()).model(&stage.model.url, "small").build().await.expect("opens");
    let mut events = Box::pin(again.events().subscribe());
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("Hello"), "{}", asked.prompt);
    asked.says("Hi");
    let is_over =
        |notice: &Notice| matches!(notice, Notice::Event(event) if event.kind == EventKind::Ended(End::Completed));
    while !is_over(&within(events.next()).await.expect("the run ends")) {}
    within(again.shutdown()).await.expect("closes");
}
