//! Calls that repeat until the model's answer is valid.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::completion::{Finish, Usage};
use crate::message::ChatMessage;
use crate::model::{Model, Prompt};
use crate::schema::Schema;

/// The most attempts of [`ask`] to get a valid answer.
pub const MAX_ATTEMPTS: usize = 3;
/// The most bytes of an invalid answer that are sent back to the model.
const MAX_RETURNED: usize = 64 << 10;

/// A valid answer, parsed, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<T> {
    /// The parsed answer.
    pub value: T,
    /// The tokens of all attempts together.
    pub usage: Usage,
}

/// Asks a model until `read` accepts its answer. Only the text of an answer is read. For prompts with tools call
/// [`Model::complete`] instead.
///
/// # Behavior
/// - If `read` refuses an answer, the model gets the answer back with the error of `read` and is asked again. After [`MAX_ATTEMPTS`]
///   refused answers the call fails with `Unexpected`, whose message holds the last error of `read`. So that error must not quote
///   the answer.
/// - `limit` holds for each call of the model. A call that takes longer is dropped, and `ask` fails with `Timeout`.
/// - An error of the model is returned at once. Wrap the model in [`Retrying`](crate::Retrying) to retry such calls.
pub async fn ask<T, E: fmt::Display>(
    model: &dyn Model,
    mut prompt: Prompt,
    limit: Duration,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Asked<T>> {
    let (mut attempt, mut usage) = (1, Usage::default());
    loop {
        let completion = timeout(limit, model.complete(&prompt)).await.map_err(|_| late(limit))??;
        usage += completion.usage;
        let mut answer = completion.text;
        let mistake = match read(&answer) {
            Ok(value) => return Ok(Asked { value, usage }),
            Err(mistake) => format!("{mistake}{}", cut(completion.finish)),
        };
        if attempt == MAX_ATTEMPTS {
            let message = format!("the model gave no valid answer in {MAX_ATTEMPTS} attempts; the last: {mistake}");
            return Err(Error::new(ErrorKind::Unexpected, message));
        }
        tracing::debug!(attempt, mistake, "the model is asked again");
        answer.truncate(answer.floor_char_boundary(MAX_RETURNED));
        prompt.messages.push(ChatMessage::assistant(answer));
        prompt.messages.push(ChatMessage::user(format!(
            "That answer is not valid: {mistake}. Answer again in the form that was asked for, whole, and with nothing else."
        )));
        attempt += 1;
    }
}

/// Asks a model for JSON that satisfies a schema and a further check of the caller, and parses it; see [`ask`].
pub async fn structured<T: DeserializeOwned>(
    model: &dyn Model,
    messages: Vec<ChatMessage>,
    schema: &Arc<Schema>,
    check: impl Fn(&T) -> Result<()>,
) -> Result<Asked<T>> {
    let mut prompt = Prompt { messages, schema: Some(Arc::clone(schema)), ..Prompt::default() };
    prompt.messages.push(ChatMessage::system(format!(
        "Answer with one JSON value that satisfies this JSON Schema, and with nothing else:\n{}",
        schema.as_value()
    )));
    let read = |answer: &str| {
        let value = read(answer, schema).and_then(|value| check(&value).map(|()| value));
        value.map_err(|mistake| mistake.message().to_owned())
    };
    // No limit for each call: the caller limits the time of the whole.
    ask(model, prompt, Duration::MAX, read).await
}

fn late(limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("the model gave no answer within {} ms", limit.as_millis())).retryable()
}

/// Says why an invalid answer may be incomplete; empty if it is complete.
fn cut(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => " (the limit of tokens cut the answer)",
        Finish::Filtered => " (a filter cut the answer)",
        Finish::Stop | Finish::ToolCalls | Finish::Other => "",
    }
}

fn read<T: DeserializeOwned>(answer: &str, schema: &Schema) -> Result<T> {
    let json = without_fence(answer);
    let place = |error: serde_json::Error| {
        // The parser's own message may quote the text, so only the position is told.
        Error::invalid(format!("not valid JSON at line {} column {}", error.line(), error.column()))
    };
    let value: Value = serde_json::from_str(json).map_err(place)?;
    schema.check(&value)?;
    serde_json::from_str(json)
        .map_err(|error| Error::invalid("the JSON does not have the expected shape").with_source(error))
}

/// Strips the Markdown code fence that many models put around JSON.
fn without_fence(answer: &str) -> &str {
    let answer = answer.trim();
    let fenced = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match fenced.and_then(|block| block.split_once('\n')) {
        Some((_, body)) => body.trim(),
        None => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::completion::Completion;

    /// Gives the answers of a list, and records the prompts.
    #[derive(Debug)]
    struct Scripted {
        answers: Mutex<Vec<&'static str>>,
        prompts: Mutex<Vec<Prompt>>,
    }

    #[async_trait]
    impl Model for Scripted {
        async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
            self.prompts.lock().expect("no panic").push(prompt.clone());
            let usage = Usage { input_tokens: 10, output_tokens: 1 };
            Ok(Completion { usage, ..self.answers.lock().expect("no panic").remove(0).into() })
        }
    }

    async fn asked(answers: &[&'static str]) -> (Result<Vec<u32>>, Vec<Prompt>) {
        let (answer, prompts) = asked_at_cost(answers).await;
        (answer.map(|asked| asked.value), prompts)
    }

    async fn asked_at_cost(answers: &[&'static str]) -> (Result<Asked<Vec<u32>>>, Vec<Prompt>) {
        let model = Scripted { answers: Mutex::new(answers.to_vec()), prompts: Mutex::default() };
        let schema = Schema::new("numbers", json!({ "type": "array", "items": { "type": "integer" } }));
        let even = |numbers: &Vec<u32>| match numbers.iter().position(|number| number % 2 == 1) {
            Some(at) => Err(Error::invalid(format!("/{at}: must be even"))),
            None => Ok(()),
        };
        let asked = vec![ChatMessage::user("Even numbers?")];
        let answer = structured(&model, asked, &Arc::new(schema.expect("a schema")), even).await;
        (answer, model.prompts.into_inner().expect("no panic"))
    }

    #[tokio::test]
    async fn a_valid_answer_is_taken_at_once() {
        for answer in ["[2,4]", " [2, 4]\n", "```json\n[2,4]\n```", "```\n[2,4]```"] {
            let (numbers, prompts) = asked(&[answer]).await;
            assert_eq!(numbers.expect(answer), [2, 4]);
            assert_eq!(prompts.len(), 1);
            assert!(prompts[0].messages[1].content.contains(r#""type":"integer""#), "the schema is in the prompt");
        }
    }

    #[tokio::test]
    async fn a_mistake_is_sent_back_with_the_answer() {
        let (numbers, prompts) = asked(&["Sure: 2", r#"["x"]"#, "[2]"]).await;
        assert_eq!(numbers.expect("the third"), [2]);
        let last = |prompt: &Prompt| prompt.messages.last().expect("messages").content.clone();
        assert!(last(&prompts[1]).contains("not valid JSON at line 1"), "{}", last(&prompts[1]));
        assert!(last(&prompts[2]).contains("/0: "), "{}", last(&prompts[2]));
        let [.., answer, _] = &prompts[2].messages[..] else { panic!("an answer and a mistake") };
        assert_eq!(*answer, ChatMessage::assistant(r#"["x"]"#));
        let (numbers, prompts) = asked(&["[1]", "[2]"]).await;
        assert_eq!(numbers.expect("the second"), [2]);
        assert!(last(&prompts[1]).contains("/0: must be even"), "the further check counts as well");
    }

    #[tokio::test]
    async fn the_usage_of_all_attempts_is_added_up() {
        let (asked, _) = asked_at_cost(&["x", "[1]", "[2]"]).await;
        assert_eq!(asked.expect("the third").usage, Usage { input_tokens: 30, output_tokens: 3 });
    }

    /// Always gives the same answer.
    #[derive(Debug)]
    struct Same(Completion);

    #[async_trait]
    impl Model for Same {
        async fn complete(&self, _: &Prompt) -> Result<Completion> {
            Ok(self.0.clone())
        }
    }

    #[tokio::test]
    async fn a_mistake_tells_that_the_answer_was_cut() {
        let read = |answer: &str| answer.parse::<u32>().map_err(|_| "no number");
        for (finish, message) in [
            (Finish::Stop, "no number"),
            (Finish::Length, "no number (the limit of tokens cut the answer)"),
            (Finish::Filtered, "no number (a filter cut the answer)"),
        ] {
            let model = Same(Completion { finish, ..Completion::default() });
            let error = ask(&model, Prompt::default(), Duration::MAX, read).await.expect_err("no number");
            assert!(error.message().ends_with(&format!("the last: {message}")), "{error}");
        }
        let model = Same(Completion { finish: Finish::Length, ..Completion::from("7") });
        let asked = ask(&model, Prompt::default(), Duration::MAX, read).await.expect("what can be read is an answer");
        assert_eq!(asked.value, 7);
    }

    #[tokio::test]
    async fn attempts_are_bounded() {
        let (numbers, prompts) = asked(&["xyzzy", "[1]", "[2,3]", "[2]"]).await;
        let error = numbers.expect_err("three mistakes");
        assert_eq!((error.kind(), prompts.len()), (ErrorKind::Unexpected, MAX_ATTEMPTS));
        assert!(error.message().ends_with("the last: /1: must be even"), "{error}");
    }

    /// Answers with a list, and then not at all.
    #[derive(Debug)]
    struct Slow(Mutex<Vec<&'static str>>);

    #[async_trait]
    impl Model for Slow {
        async fn complete(&self, _: &Prompt) -> Result<Completion> {
            let next = self.0.lock().expect("no panic").pop();
            match next {
                Some("") => Err(Error::new(ErrorKind::Unavailable, "down")),
                Some(answer) => Ok(answer.into()),
                None => std::future::pending().await,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_the_model_and_the_end_of_its_time_end_it() {
        let read = |answer: &str| answer.parse::<u32>().map_err(|_| "no number");
        for (answers, kind) in
            [(&["1", "", "x"][..], ErrorKind::Unavailable), (&["x"], ErrorKind::Timeout), (&[], ErrorKind::Timeout)]
        {
            let model = Slow(Mutex::new(answers.to_vec()));
            let asked = ask(&model, Prompt::default(), Duration::from_secs(60), read).await;
            assert_eq!(asked.expect_err("no answer").kind(), kind);
        }
    }

    #[tokio::test]
    async fn of_a_long_answer_only_the_beginning_goes_back() {
        let long: &str = Box::leak("\u{e9}".repeat(MAX_RETURNED).into_boxed_str());
        let model = Scripted { answers: Mutex::new(vec![long, "1"]), prompts: Mutex::default() };
        let read = |answer: &str| answer.parse::<u32>().map_err(|_| "no number");
        assert_eq!(ask(&model, Prompt::default(), Duration::MAX, read).await.expect("the second").value, 1);
        assert_eq!(model.prompts.lock().expect("no panic")[1].messages[0].content.len(), MAX_RETURNED);
    }
}
