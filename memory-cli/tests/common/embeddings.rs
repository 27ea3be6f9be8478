//! An embedding model that a test plays: a server of OpenAI's embeddings.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The words of each line have one meaning.
const MEANINGS: [&[&str]; 3] =
    [&["animal", "kitten", "cat"], &["vessel", "boat", "canoe"], &["weather", "rain", "sunshine"]];

/// The endpoint, in the background of the test.
pub(crate) struct Embeddings {
    pub(crate) url: String,
    /// The texts that it was asked about.
    texts: Arc<Mutex<Vec<String>>>,
}

impl Embeddings {
    /// How many numbers its vectors have.
    pub(crate) const WIDTH: usize = MEANINGS.len() + 1;

    /// Starts the endpoint on a free port.
    pub(crate) fn start() -> Self {
        let texts = Arc::<Mutex<Vec<String>>>::default();
        let routes = Router::new().route("/v1/embeddings", post(embed)).with_state(Arc::clone(&texts));
        let (sender, listening) = mpsc::channel::<SocketAddr>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                sender.send(listener.local_addr().expect("an address")).expect("the test waits");
                axum::serve(listener, routes).await
            })
        });
        let url = format!("http://{}/v1", listening.recv().expect("it listens"));
        Self { url, texts }
    }

    /// The options that name it, under this name of a model.
    pub(crate) fn options<'a>(&'a self, model: &'a str) -> [&'a str; 6] {
        ["--embedder", &self.url, "--embedder-model", model, "--embedder-width", "4"]
    }

    /// How often it was asked about a text.
    pub(crate) fn asked(&self, text: &str) -> usize {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().filter(|asked| asked.contains(text)).count()
    }

    /// The vector of a text.
    pub(crate) fn vector(text: &str) -> [f32; Self::WIDTH] {
        let mut vector = [0.0; Self::WIDTH];
        // A text without a meaning has a direction, too.
        vector[MEANINGS.len()] = 0.25;
        for (number, words) in vector.iter_mut().zip(MEANINGS) {
            *number = words.iter().filter(|word| text.contains(**word)).count() as f32;
        }
        vector
    }
}

async fn embed(State(texts): State<Arc<Mutex<Vec<String>>>>, Json(asked): Json<Value>) -> Json<Value> {
    let given: Vec<_> = asked["input"].as_array().expect("texts").iter().filter_map(Value::as_str).collect();
    texts.lock().unwrap_or_else(PoisonError::into_inner).extend(given.iter().map(|text| (*text).to_owned()));
    let data = given
        .iter()
        .enumerate()
        .map(|(index, text)| json!({ "object": "embedding", "index": index, "embedding": Embeddings::vector(text) }));
    Json(json!({ "object": "list", "data": data.collect::<Vec<_>>() }))
}
