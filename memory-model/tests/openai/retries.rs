//! Asking an endpoint again.

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use memory_core::{Error, ErrorKind};
use memory_model::openai::{OpenAiConfig, OpenAiEmbedder, OpenAiModel};
use memory_model::{Embedder, Model, Prompt, Retries, RetryAfter};
use serde_json::json;

use crate::endpoint::{Endpoint, Reply};

fn refused(status: StatusCode, retry_after: Option<&str>) -> Reply {
    Reply::Whole { status, retry_after: retry_after.map(str::to_owned), body: "xyzzy".to_owned() }
}

fn says(text: &str) -> Reply {
    (StatusCode::OK, json!({ "choices": [{ "message": { "content": text } }] }).to_string()).into()
}

/// An endpoint whose calls are retried at once.
fn config(url: String) -> OpenAiConfig {
    let mut config = OpenAiConfig::new(url, "small");
    config.retries = Retries { pause_ms: 0, ..Retries::default() };
    config
}

fn in_seconds(seconds: u64) -> String {
    httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds))
}

/// How an endpoint with these replies answers, and how often it was asked.
async fn asked(replies: impl IntoIterator<Item = Reply>) -> (Result<String, Error>, usize) {
    let (endpoint, url) = Endpoint::start(replies).await;
    let model = OpenAiModel::new(config(url)).expect("a model");
    let answer = model.complete(&Prompt::default()).await.map(|completion| completion.text);
    (answer, endpoint.requests().len())
}

#[tokio::test]
async fn what_may_pass_is_asked_again_and_nothing_else() {
    let cut = || Reply::Whole { status: StatusCode::OK, retry_after: None, body: r#"{"choices":[{"#.to_owned() };
    let replies = [refused(StatusCode::TOO_MANY_REQUESTS, Some("0")), cut(), refused(StatusCode::BAD_GATEWAY, None)];
    let (answer, count) = asked(replies.into_iter().chain([says("Hello")])).await;
    assert_eq!((answer.expect("the fourth").as_str(), count), ("Hello", 4));
    let busy = || refused(StatusCode::SERVICE_UNAVAILABLE, Some("Wed, 21 Oct 2015 07:28:00 GMT"));
    let (answer, count) = asked([busy(), busy(), busy(), busy(), says("never asked")]).await;
    let error = answer.expect_err("four failures");
    assert_eq!((error.kind(), error.message(), count), (ErrorKind::Unavailable, "the endpoint answered 503", 4));
    for status in [StatusCode::UNAUTHORIZED, StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE] {
        let (answer, count) = asked([refused(status, Some("0")), says("never asked")]).await;
        assert_eq!((answer.expect_err("refused").is_retryable(), count), (false, 1), "{status}");
    }
}

#[tokio::test]
async fn an_endpoint_that_wants_a_long_pause_is_left_alone() {
    let huge = [u64::MAX.to_string(), format!("1{}", u64::MAX), "9".repeat(1_000)];
    for after in ["121".to_owned(), in_seconds(500), "Fri, 31 Dec 9999 23:59:59 GMT".to_owned()].into_iter().chain(huge)
    {
        let busy = refused(StatusCode::TOO_MANY_REQUESTS, Some(&after));
        let (answer, count) = asked([busy, says("never asked")]).await;
        let error = answer.expect_err("longer than any attempt may begin");
        assert_eq!((error.kind(), error.is_retryable(), count), (ErrorKind::Unavailable, true, 1), "{after}");
        let pause = error.source_as::<RetryAfter>().expect("what the endpoint wants").pause;
        assert!(pause > Duration::from_secs(120), "{after}: {pause:?}");
    }
    // A header that is not a time is ignored.
    for after in ["-1", "soon", "1.5", ""] {
        let (answer, count) = asked([refused(StatusCode::TOO_MANY_REQUESTS, Some(after)), says("Hello")]).await;
        assert_eq!((answer.expect("the second").as_str(), count), ("Hello", 2), "{after}");
    }
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_made_again() {
    // A machine that is busy may take long for the others too.
    let (endpoint, url) = Endpoint::start([Reply::Never, says("Hello"), says("Hello"), says("Hello")]).await;
    let mut config = config(url);
    config.deadline_ms = 500;
    let model = OpenAiModel::new(config).expect("a model");
    assert_eq!(model.complete(&Prompt::default()).await.expect("a later one").text, "Hello");
    endpoint.given_up().await.forget();
}

#[tokio::test]
async fn vectors_are_asked_for_again_too() {
    let vector = (StatusCode::OK, json!({ "data": [{ "index": 0, "embedding": [1.0] }] }).to_string());
    let (_, url) = Endpoint::start([refused(StatusCode::TOO_MANY_REQUESTS, None), vector.into()]).await;
    let embedder = OpenAiEmbedder::new(config(url), 1).expect("an embedder");
    assert_eq!(embedder.embed(&["tea".into()]).await.expect("the second"), [[1.0]]);
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_the_request() {
    let (endpoint, url) = Endpoint::start([Reply::Never]).await;
    let model = OpenAiModel::new(config(url)).expect("a model");
    let prompt = Prompt::default();
    tokio::select! {
        answer = model.complete(&prompt) => panic!("it never answers: {answer:?}"),
        permit = endpoint.hanging() => permit.forget(),
    }
    endpoint.given_up().await.forget();
    assert_eq!(endpoint.requests().len(), 1);
}
