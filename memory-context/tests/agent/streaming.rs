//! Answers that are heard while they are written.

use memory_context::agent::{AnswerStream, End, Piece};

use crate::model::within;
use crate::stage::Stage;

async fn text(stream: &mut AnswerStream) -> String {
    match within(stream.next()).await.expect("a piece").expect("no failure") {
        Piece::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

async fn end(mut stream: AnswerStream) -> String {
    let Some(Ok(Piece::Answer(answer))) = within(stream.next()).await else { panic!("no answer") };
    assert!(within(stream.next()).await.is_none(), "the answer is the end");
    answer.text
}

/// Polls a stream in the background, so that it asks.
async fn first(mut stream: AnswerStream) -> (String, AnswerStream) {
    let piece = text(&mut stream).await;
    (piece, stream)
}

#[tokio::test]
async fn plain_text_is_heard_as_it_is_written() {
    let mut stage = Stage::new().await;
    let stream = tokio::spawn(first(stage.agent.ask_stream("ana", "Does it rain?")));
    let writing = stage.model.asked().await.begins();
    writing.writes("It rains");
    let (piece, mut stream) = within(stream).await.expect("no panic");
    assert_eq!(piece, "It rains", "heard before the answer is whole");
    writing.writes(" in Lima.");
    assert_eq!(text(&mut stream).await, " in Lima.");
    writing.ends();
    assert_eq!(end(stream).await, "It rains in Lima.");
    stage.ends().await;
}

#[tokio::test]
async fn an_answer_in_xml_is_heard_without_its_tags() {
    let mut stage = Stage::new().await;
    let mut stream = stage.agent.ask_stream("ana", "Does it rain?");
    let stream = tokio::spawn(async move {
        let Some(Ok(Piece::Result(result))) = within(stream.next()).await else { panic!("no result") };
        assert_eq!((result.tool.as_str(), result.success), ("weather", false), "told before the answer");
        stream
    });
    stage.model.asked().await.acts("weather", "", "");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("weather (failed): wrong arguments"), "{}", asked.prompt);
    let mut stream = within(stream).await.expect("no panic");
    asked.says("I can't tell");
    assert_eq!(text(&mut stream).await, "I can't tell");
    assert_eq!(end(stream).await, "I can't tell");
    stage.ends().await;
}

#[tokio::test]
async fn an_answer_that_is_interrupted_ends_as_superseded() {
    let mut stage = Stage::new().await;
    let conversation = stage.agent.direct("ana").expect("a conversation");
    let stream = tokio::spawn(first(conversation.ask_stream("ana", "Does it rain?")));
    let writing = stage.model.asked().await.begins();
    writing.writes("It rains");
    let (_, mut stream) = within(stream).await.expect("no panic");
    stage.agent.direct("bo").expect("another").interrupt();
    conversation.interrupt();
    let Some(Ok(Piece::Answer(answer))) = within(stream.next()).await else { panic!("no answer") };
    assert_eq!((answer.end, answer.text.as_str()), (End::Superseded, ""));
    // What is asked later is answered.
    let asked = stage.asks("ana", "Hello");
    stage.model.asked().await.writes("Hi");
    assert_eq!(crate::stage::answer(asked).await.text, "Hi");
    stage.ends().await;
}

#[tokio::test]
async fn a_failure_ends_the_stream() {
    let mut stage = Stage::new().await;
    let mut stream = stage.agent.ask_stream("a\nb", "Hello");
    assert!(matches!(within(stream.next()).await, Some(Err(_))));
    assert!(within(stream.next()).await.is_none());
    let asked = tokio::spawn({
        let mut stream = stage.agent.ask_stream("ana", "Hello");
        async move { stream.next().await }
    });
    stage.model.asked().await.fails(axum::http::StatusCode::UNAUTHORIZED);
    assert!(matches!(within(asked).await.expect("no panic"), Some(Err(_))));
    stage.ends().await;
}

#[tokio::test]
async fn what_is_heard_of_an_answer_that_is_refused_stands_by_itself() {
    let mut stage = Stage::new().await;
    let stream = tokio::spawn(first(stage.agent.ask_stream("ana", "Does it rain?")));
    stage.model.asked().await.writes("Well then: <thought>it");
    stage.model.asked().await.writes("It rains.");
    let (piece, mut stream) = within(stream).await.expect("no panic");
    assert_eq!((piece.as_str(), text(&mut stream).await.as_str()), ("Well then:", "\n\nIt rains."));
    assert_eq!(end(stream).await, "It rains.", "what was refused is no part of the answer");
    stage.ends().await;
}

/// What was heard can't be taken back, so another answer behind it would be a second one.
#[tokio::test]
async fn a_stream_that_breaks_behind_its_first_text_is_not_asked_for_again() {
    let mut stage = Stage::new().await;
    let stream = tokio::spawn(first(stage.agent.ask_stream("ana", "Does it rain?")));
    let writing = stage.model.asked().await.begins();
    writing.writes("It rains");
    let (_, mut stream) = within(stream).await.expect("no panic");
    drop(writing);
    let Some(Err(broken)) = within(stream.next()).await else { panic!("no failure") };
    assert!(broken.message().contains("ended in the middle"), "{broken}");
    assert!(within(stream.next()).await.is_none());
    stage.ends().await;
}
