//! Embeddings.

use axum::http::StatusCode;
use memory_core::ErrorKind;
use memory_model::Embedder;
use memory_model::openai::{OpenAiConfig, OpenAiEmbedder};
use serde_json::json;

use crate::endpoint::Endpoint;

/// An answer with these vectors, each under its place.
fn vectors(of: &[(usize, &[f32])]) -> (StatusCode, String) {
    let one = |(index, embedding): &(usize, &[f32])| json!({ "index": index, "embedding": embedding });
    (
        StatusCode::OK,
        json!({ "object": "list", "data": of.iter().map(one).collect::<Vec<_>>(), "model": "e" }).to_string(),
    )
}

fn embedder(url: &str) -> OpenAiEmbedder {
    OpenAiEmbedder::new(OpenAiConfig::new(url, "e"), 2).expect("an embedder")
}

#[tokio::test]
async fn vectors_are_asked_for_and_put_in_order() {
    let (endpoint, url) = Endpoint::start([vectors(&[(1, &[0.0, 1.0]), (0, &[0.5, -1e-7])])]).await;
    let mut config = OpenAiConfig::new(format!("{url}/"), "e");
    config.key = Some("xyzzy".into());
    let embedder = OpenAiEmbedder::new(config, 2).expect("an embedder");
    let made = embedder.embed(&["tea".into(), "cat".into()]).await.expect("two vectors");
    assert_eq!(made, [[0.5, -1e-7], [0.0, 1.0]]);
    assert_eq!((embedder.model(), embedder.width()), ("e", 2));
    let (key, body) = endpoint.requests().remove(0);
    assert_eq!(key.as_deref(), Some("Bearer xyzzy"));
    assert_eq!(body, json!({ "model": "e", "input": ["tea", "cat"], "encoding_format": "float" }));
    assert!(!format!("{embedder:?}").contains("xyzzy") && !format!("{embedder:?}").contains(&url));
}

#[tokio::test]
async fn an_answer_that_is_not_one_vector_for_each_text_is_refused() {
    let short: &[f32] = &[0.0, 1.0];
    let answers = [
        vectors(&[]),
        vectors(&[(0, short)]),
        vectors(&[(0, short), (0, short)]),
        vectors(&[(0, short), (2, short)]),
        vectors(&[(0, short), (1, short), (2, short)]),
        (StatusCode::OK, json!({ "data": [{ "index": 0, "embedding": "AACAPw==" }] }).to_string()),
        (StatusCode::OK, json!("xyzzy").to_string()),
    ];
    let count = answers.len();
    let (_, url) = Endpoint::start(answers).await;
    for _ in 0..count {
        let error = embedder(&url).embed(&["xyzzy".into(), "cat".into()]).await.expect_err("no vectors");
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    }
    assert_eq!(
        OpenAiEmbedder::new(OpenAiConfig::new("localhost", "e"), 2).expect_err("no URL").kind(),
        ErrorKind::InvalidInput
    );
}
