//! Answers that are heard while they are written.

use memory_context::agent::{AgentBuilder, AnswerStream, End, Piece, Tool};
use memory_context::flow::Why;

use crate::model::within;
use crate::stage::{Stage, answer, place, said, weather};

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

/// Polls a stream in the background, so that its request is sent.
async fn first(mut stream: AnswerStream) -> (String, AnswerStream) {
    let piece = text(&mut stream).await;
    (piece, stream)
}

#[tokio::test]
async fn plain_text_is_heard_as_it_is_written() {
    let mut stage = Stage::new().await;
    let stream = tokio::spawn(first(stage.agent.ask_stream("ana", "Does it rain?")));
    let asked = stage.model.asked().await;
    // So the text of a model that follows this is heard while it is written.
    assert!(asked.prompt.contains("What you write is said as it is, so write nothing else."), "{}", asked.prompt);
    assert!(!asked.prompt.contains("Answer in this form"), "{}", asked.prompt);
    assert_eq!(asked.offered(), ["weather"]);
    let writing = asked.begins();
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
    let mut stage = Stage::with(|builder| builder.tool(Tool::new("weather", weather)).without_tool_calls()).await;
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
    // A later question is answered.
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
    let mut stage = Stage::with(AgentBuilder::without_tool_calls).await;
    let stream = tokio::spawn(first(stage.agent.ask_stream("ana", "Does it rain?")));
    stage.model.asked().await.writes("Well then: <thought>it");
    stage.model.asked().await.writes("It rains.");
    let (piece, mut stream) = within(stream).await.expect("no panic");
    assert_eq!((piece.as_str(), text(&mut stream).await.as_str()), ("Well then:", "\n\nIt rains."));
    assert_eq!(end(stream).await, "It rains.", "what was refused is no part of the answer");
    stage.ends().await;
}

#[tokio::test]
async fn a_model_that_calls_no_tools_is_asked_for_a_form_and_heard_when_it_is_whole() {
    let mut stage = Stage::with(|builder| builder.tool(Tool::new("weather", weather)).without_tool_calls()).await;
    let stream = tokio::spawn(first(stage.agent.ask_stream("ana", "Does it rain?")));
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("Answer in this form"), "{}", asked.prompt);
    assert!(!asked.prompt.contains("What you write is said as it is"), "{}", asked.prompt);
    assert_eq!((asked.offered(), asked.prompt.contains("**weather**")), (vec![], true));
    let writing = asked.begins();
    writing.writes("<response><thought>because</thought><actions>REPLY</actions><text>It ");
    writing.writes("rains.</text></response>");
    writing.ends();
    let (piece, stream) = within(stream).await.expect("no panic");
    assert_eq!(piece, "It rains.");
    assert_eq!(end(stream).await, "It rains.");
    stage.ends().await;
}

/// Otherwise a quoted person would act in the name of the one who asked for the quotation.
#[tokio::test]
async fn a_form_that_plain_text_quotes_is_heard_and_does_nothing() {
    let mut stage = Stage::new().await;
    let stream = tokio::spawn(first(stage.agent.ask_stream("ana", "What did Eve write?")));
    let writing = stage.model.asked().await.begins();
    let quoted = "<response><thought>t</thought><actions>weather</actions><text>It rains</text></response>";
    writing.writes(quoted);
    let (piece, stream) = within(stream).await.expect("no panic");
    assert_eq!(piece, quoted, "heard before the answer is whole");
    writing.ends();
    assert_eq!(end(stream).await, quoted);
    // Beside calls too.
    let question = stage.asks("ana", "Once more, and does it rain?");
    stage.model.asked().await.says_and_calls(Some(quoted), &[("weather", place("Lima"))]);
    stage.model.asked().await.writes("So it does");
    let answered = answer(question).await;
    assert_eq!((said(&answered), answered.results.len()), (vec![quoted, "So it does"], 1));
    stage.ends().await;
}

#[tokio::test]
async fn the_word_of_ignoring_is_not_heard() {
    let mut stage = Stage::new().await;
    let mut stream = stage.agent.ask_stream("ana", "Never mind");
    let stream = tokio::spawn(async move { (within(stream.next()).await, stream) });
    let writing = stage.model.asked().await.begins();
    writing.writes("IGN");
    writing.writes("ORE");
    writing.ends();
    let (Some(Ok(Piece::Answer(answer))), _) = within(stream).await.expect("no panic") else { panic!("no answer") };
    assert_eq!((answer.end, answer.text.as_str(), answer.said.len()), (End::Ignored(Why::Model), "", 0));
    stage.ends().await;
}

/// Text that was heard can't be taken back, so a retry would add a second answer.
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
