//! A language model whose answers a test gives: a server of OpenAI's chat completions whose requests wait for the test.

// Each test program uses a part of this.
#![allow(dead_code)]

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use futures::stream::unfold;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The endpoint.
pub(crate) struct Model {
    pub(crate) url: String,
    requests: mpsc::UnboundedReceiver<Asked>,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The whole prompt.
    pub(crate) prompt: String,
    pub(crate) about: Question,
    /// The header that holds the key.
    pub(crate) authorization: Option<String>,
    pub(crate) model: String,
    /// The whole request.
    pub(crate) body: Value,
    answer: oneshot::Sender<(StatusCode, Body)>,
}

/// An answer that is streamed, until it is dropped.
pub(crate) struct Writing {
    events: mpsc::UnboundedSender<String>,
}

/// The subject of a request, recognized by the templates of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Whether to answer.
    Respond,
    /// What to answer.
    Answer,
    /// What was learned.
    Reflect,
}

/// How long a test waits for something that must come, before it fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

impl Model {
    /// Starts the endpoint on a free port, in the background of the runtime.
    pub(crate) async fn start() -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        let routes = Router::new().route("/v1/chat/completions", post(complete)).with_state(sender);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, requests }
    }

    /// The next request.
    pub(crate) async fn asked(&mut self) -> Asked {
        within(self.requests.recv()).await.expect("the endpoint is there")
    }

    /// The next request, which must have this subject.
    pub(crate) async fn asked_to(&mut self, about: Question) -> Asked {
        let asked = self.asked().await;
        assert_eq!(asked.about, about, "{}", asked.prompt);
        asked
    }

    /// Whether there is no request that the test has not seen.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.requests.try_recv().is_err()
    }
}

impl Asked {
    /// Answers with a text and nothing else: in the form if the request asks for one, and otherwise as plain text.
    pub(crate) fn says(self, text: &str) {
        if self.is_asked_for_form() { self.acts("REPLY", "", text) } else { self.writes(text) }
    }

    /// Whether an answer in the form is asked for.
    pub(crate) fn is_asked_for_form(&self) -> bool {
        self.prompt.contains("Answer in this form")
    }

    /// Does something, with the information of providers.
    pub(crate) fn acts(self, actions: &str, providers: &str, text: &str) {
        assert!(self.is_asked_for_form(), "of plain text that would be said: {}", self.prompt);
        self.writes(&format!(
            "<response><thought>because</thought><actions>{actions}</actions><providers>{providers}</providers>\
             <text>{text}</text></response>"
        ));
    }

    /// Decides whether to answer.
    pub(crate) fn decides(self, action: &str) {
        self.writes(&format!("<response><reasoning>because</reasoning><action>{action}</action></response>"));
    }

    /// Learns one fact about somebody.
    pub(crate) fn learns(self, subject: &str, claim: &str) {
        let fact = json!({ "claim": claim, "subject": subject });
        self.writes(&json!({ "thought": "because", "facts": [fact] }).to_string());
    }

    /// Answers with any text.
    pub(crate) fn writes(self, content: &str) {
        if self.body["stream"] == true {
            let writing = self.begins();
            writing.writes(content);
            return writing.ends();
        }
        let message = json!({ "role": "assistant", "content": content });
        let usage = json!({ "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12 });
        self.responds(StatusCode::OK, &json!({ "choices": [{ "index": 0, "message": message }], "usage": usage }));
    }

    /// Answers with a text that breaks off, with the endpoint's reason.
    pub(crate) fn breaks_off(self, content: &str, reason: &str) {
        let message = json!({ "role": "assistant", "content": content });
        let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
        self.responds(StatusCode::OK, &json!({ "choices": [choice] }));
    }

    /// Calls tools: the name and the arguments of each.
    pub(crate) fn calls(self, tools: &[(&str, Value)]) {
        self.says_and_calls(None, tools);
    }

    /// The same after a text.
    pub(crate) fn says_and_calls(self, text: Option<&str>, tools: &[(&str, Value)]) {
        let call = |(at, (name, arguments)): (usize, &(&str, Value))| {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            json!({ "id": format!("call_{at}"), "type": "function", "function": { "name": name, "arguments": arguments } })
        };
        let calls: Vec<_> = tools.iter().enumerate().map(call).collect();
        let message = json!({ "role": "assistant", "content": text, "tool_calls": calls });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
        let usage = json!({ "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12 });
        self.responds(StatusCode::OK, &json!({ "choices": [choice], "usage": usage }));
    }

    /// The prompt, message by message: the role and the text.
    pub(crate) fn messages(&self) -> Vec<(&str, &str)> {
        let messages = self.body["messages"].as_array().expect("messages").iter();
        let parts = |message| -> (&str, &str) {
            let message: &Value = message;
            (message["role"].as_str().expect("a role"), text_of(&message["content"]))
        };
        messages.map(parts).collect()
    }

    /// The names of the tools that the model is offered.
    pub(crate) fn offered(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().into_iter().flatten();
        tools.map(|tool| tool["function"]["name"].as_str().expect("a name")).collect()
    }

    /// Begins to write an answer to a request that must ask for a stream.
    pub(crate) fn begins(self) -> Writing {
        assert_eq!(self.body["stream"], true, "the answer is wanted in pieces");
        let (events, written) = mpsc::unbounded_channel::<String>();
        let written = unfold(written, |mut written| async {
            let event = written.recv().await?;
            Some((Ok::<_, Infallible>(event), written))
        });
        let _ = self.answer.send((StatusCode::OK, Body::from_stream(written)));
        Writing { events }
    }

    /// Answers with an error.
    pub(crate) fn fails(self, status: StatusCode) {
        self.responds(status, &json!({ "error": { "message": "as a test" } }));
    }

    /// Waits until nobody waits for the answer any more.
    pub(crate) async fn is_given_up(&mut self) {
        within(self.answer.closed()).await;
    }

    /// Whether somebody still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    fn responds(self, status: StatusCode, body: &Value) {
        // An abandoned request gets no answer.
        let _ = self.answer.send((status, body.to_string().into()));
    }
}

impl Writing {
    /// Writes the next piece.
    pub(crate) fn writes(&self, text: &str) {
        self.event(&json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }));
    }

    /// Ends the answer.
    pub(crate) fn ends(self) {
        self.event(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }));
        self.event(
            &json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12 } }),
        );
        let _ = self.events.send("data: [DONE]\n\n".to_owned());
    }

    fn event(&self, event: &Value) {
        // An abandoned request gets no answer.
        let _ = self.events.send(format!("data: {event}\n\n"));
    }
}

/// The text of a message, with or without images and documents after it.
fn text_of(content: &Value) -> &str {
    content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default()
}

/// The result of a future, which must come in time.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it comes")
}

async fn complete(
    State(requests): State<mpsc::UnboundedSender<Asked>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Body) {
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let messages = body["messages"].as_array().expect("messages");
    let texts: Vec<_> = messages.iter().map(|message| text_of(&message["content"])).collect();
    let prompt = texts.join("\n");
    let about = match prompt.as_str() {
        prompt if prompt.contains("\nDecide whether ") => Question::Respond,
        prompt if prompt.contains("\nReflect on this conversation ") => Question::Reflect,
        _ => Question::Answer,
    };
    let authorization = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    let model = body["model"].as_str().expect("a name").to_owned();
    let (answer, answered) = oneshot::channel();
    let asked = Asked { prompt, about, authorization, model, body, answer };
    // The test may have ended.
    let _ = requests.send(asked);
    answered.await.unwrap_or((StatusCode::SERVICE_UNAVAILABLE, Body::empty()))
}
