use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use memory_context::agent::{Agent, Answer, Piece};
use memory_context::model::{Completion, Delta, Model, Prompt};
use memory_core::{InMemory, Result};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
}

/// A model that streams a text piece by piece, whatever the prompt.
#[derive(Debug, Clone)]
struct Written {
    pieces: Vec<String>,
    calls_tools: bool,
}

/// A byte that chooses how an answer is cut and whether the model calls tools, and the answer: pieces give the same
/// answer as the whole text, and the streamed text has the paragraphs of the answer in their order, the last one at its
/// end. It may have more in between: what a model writes before a form is streamed before the form is read.
pub fn stream(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest).into_owned();
    let calls_tools = how % 2 == 0;
    let pieces = cut(&text, usize::from(how / 2 % 16) + 1);
    let whole = Written { pieces: vec![text], calls_tools };
    RUNTIME.with(|runtime| {
        let (_, whole) = runtime.block_on(heard(whole)).expect("an agent");
        let (heard, answer) = runtime.block_on(heard(Written { pieces, calls_tools })).expect("an agent");
        assert_eq!(answer.is_some(), whole.is_some(), "an answer, and none");
        let Some((answer, whole)) = answer.zip(whole) else { return };
        assert_eq!((&answer.text, &answer.end), (&whole.text, &whole.end), "another answer than the whole one");
        let mut rest = heard.as_str();
        for (number, paragraph) in answer.text.rsplit("\n\n").enumerate() {
            let at = rest.rfind(paragraph).filter(|at| number > 0 || at + paragraph.len() == rest.len());
            rest = &rest[..at.unwrap_or_else(|| panic!("heard {heard:?}, said {:?}", answer.text))];
        }
    });
}

/// Cuts a text into pieces of this many characters.
fn cut(text: &str, length: usize) -> Vec<String> {
    let characters: Vec<_> = text.chars().collect();
    characters.chunks(length).map(|piece| piece.iter().collect()).collect()
}

/// The streamed text, and the answer; `None` if the model gives no valid one.
async fn heard(model: Written) -> Result<(String, Option<Answer>)> {
    let memory = Arc::new(InMemory::new());
    let builder = Agent::builder("ada").memory(memory).model_client(model).without_built_in_tools();
    let agent = builder.without_reflection().build().await?;
    let mut pieces = agent.ask_stream("ana", "Hello");
    let (mut heard, mut answer) = (String::new(), None);
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(Piece::Text(text)) => heard.push_str(&text),
            Ok(Piece::Answer(whole)) => answer = Some(whole),
            Ok(_) | Err(_) => {}
        }
    }
    agent.shutdown().await?;
    Ok((heard, answer))
}

#[async_trait]
impl Model for Written {
    async fn complete(&self, _: &Prompt) -> Result<Completion> {
        Ok(self.pieces.concat().into())
    }

    fn calls_tools(&self) -> bool {
        self.calls_tools
    }

    fn stream<'a>(&'a self, _: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
        let pieces = self.pieces.iter().filter(|piece| !piece.is_empty()).cloned().map(Delta::Text);
        let done = Delta::Done(self.pieces.concat().into());
        stream::iter(pieces.chain([done]).map(Ok).collect::<Vec<_>>()).boxed()
    }
}
