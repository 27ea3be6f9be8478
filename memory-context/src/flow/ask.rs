//! Asking a model until it gives an answer that can be read.

use std::time::Duration;

use memory_core::{Error, ErrorKind, Result};
use memory_runtime::Model;
use memory_runtime::model::{MAX_ATTEMPTS, Message, Prompt};
use tokio::time::timeout;

use super::answer::Mistake;

/// Asks a model, and reads what it answers.
///
/// # Behavior
/// - An answer that can't be read is sent back with what is wrong or missing, until [`MAX_ATTEMPTS`] were refused: then the error
///   is `Unexpected` and says what was wrong with the last one.
/// - Each call has the limit for itself, and is dropped at its end: then the error is `Timeout`.
/// - An error of the model itself ends it at once.
///
/// ```
/// # use memory_context::flow::answer::RespondAnswer;
/// # use memory_context::flow::ask;
/// # async fn example(model: &dyn memory_runtime::Model, prompt: String) -> memory_core::Result<()> {
/// let answer = ask(model, prompt, std::time::Duration::from_secs(60), RespondAnswer::parse).await?;
/// # Ok(()) }
/// ```
pub async fn ask<T>(
    model: &dyn Model,
    prompt: impl Into<String>,
    limit: Duration,
    parse: impl Fn(&str) -> Result<T, Mistake>,
) -> Result<T> {
    let mut prompt = Prompt { messages: vec![Message::user(prompt)], schema: None };
    let mut attempt = 1;
    loop {
        let answer = timeout(limit, model.complete(&prompt)).await.map_err(|_| late(limit))??;
        let mistake = match parse(&answer) {
            Ok(value) => return Ok(value),
            Err(mistake) => mistake,
        };
        if attempt == MAX_ATTEMPTS {
            let message =
                format!("the model gave no answer that can be read in {MAX_ATTEMPTS} attempts; the last: {mistake}");
            return Err(Error::new(ErrorKind::Unexpected, message).with_source(mistake));
        }
        tracing::debug!(attempt, %mistake, "the model is asked again");
        prompt.messages.push(Message::assistant(answer));
        prompt.messages.push(Message::user(format!(
            "That answer can't be read: {mistake}. Answer again in the form that was asked for, whole, and with nothing else."
        )));
        attempt += 1;
    }
}

fn late(limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("the model gave no answer within {} ms", limit.as_millis())).retryable()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::flow::answer::MessageAnswer;

    /// Answers with a list, and then not at all; remembers what it was asked.
    #[derive(Debug, Default)]
    struct Scripted {
        answers: Mutex<Vec<&'static str>>,
        prompts: Mutex<Vec<Prompt>>,
    }

    #[async_trait]
    impl Model for Scripted {
        async fn complete(&self, prompt: &Prompt) -> Result<String> {
            self.prompts.lock().expect("no panic").push(prompt.clone());
            let next = self.answers.lock().expect("no panic").pop();
            match next {
                Some("") => Err(Error::new(ErrorKind::Unavailable, "down")),
                Some(answer) => Ok(answer.to_owned()),
                None => pending().await,
            }
        }
    }

    async fn asked(answers: &[&'static str]) -> (Result<MessageAnswer>, Vec<Prompt>) {
        let answers = Mutex::new(answers.iter().rev().copied().collect());
        let model = Scripted { answers, prompts: Mutex::default() };
        let answer = ask(&model, "What?", Duration::from_secs(60), MessageAnswer::parse).await;
        (answer, model.prompts.into_inner().expect("no panic"))
    }

    const WHOLE: &str = "<thought>t</thought><actions>REPLY</actions><text>Hi</text>";

    #[tokio::test]
    async fn what_is_missing_is_asked_for_again() {
        let (answer, prompts) = asked(&["<text>Hi</text>", "Hi", WHOLE]).await;
        assert_eq!(answer.expect("the third").text, "Hi");
        let [question, refused, mistake] = &prompts[1].messages[..] else { panic!("three messages") };
        assert_eq!((question, refused), (&Message::user("What?"), &Message::assistant("<text>Hi</text>")));
        assert!(mistake.content.contains("missing: thought, actions"), "{}", mistake.content);
        assert_eq!((prompts.len(), prompts[2].messages.len()), (3, 5));
    }

    #[tokio::test]
    async fn attempts_are_bounded() {
        let (answer, prompts) = asked(&["Hi", "Hi", "<text>Hi</text>", WHOLE]).await;
        let error = answer.expect_err("three mistakes");
        assert_eq!((error.kind(), prompts.len()), (ErrorKind::Unexpected, MAX_ATTEMPTS));
        assert!(error.message().ends_with("missing: thought, actions"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_the_model_and_the_end_of_its_time_end_it() {
        let (answer, prompts) = asked(&["Hi", "", WHOLE]).await;
        assert_eq!((answer.expect_err("down").kind(), prompts.len()), (ErrorKind::Unavailable, 2));
        let (answer, prompts) = asked(&["Hi"]).await;
        assert_eq!((answer.expect_err("late").kind(), prompts.len()), (ErrorKind::Timeout, 2));
    }
}
