//! An embedding model that runs in this process.

mod bert;
mod settings;
mod weights;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Embedder, Error, ErrorKind, Result};
use ndarray::{ArrayView2, Axis};
use sha2::{Digest, Sha256};
use tokenizers::{Tokenizer, TruncationParams};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

use bert::Bert;
use settings::{Pooling, Settings, refused};
use weights::Weights;

/// How many calls compute at the same time. With two, a single question doesn't wait for a large batch.
const MAX_CALLS: usize = 2;
/// Limit of a pass through the model, in tokens; a longer text goes alone. It bounds the memory of a call.
const MAX_PASS: usize = 512;
/// Limit of a text, in bytes; the rest is cut before the tokenizer sees it. No model takes so many tokens.
const MAX_TEXT: usize = 64 << 10;
/// The smallest supported `max_seq_length`. Below it there is hardly room for content beside the tokens that the tokenizer adds.
const MIN_TOKENS: usize = 8;

/// An [`Embedder`] that computes vectors in this process, from the folder of a [sentence-transformers] model with BERT
/// architecture, such as all-MiniLM-L6-v2. It uses no network. Clones share the weights.
///
/// # Behavior
/// - Each vector has the length 1, so the dot product of two vectors is their cosine. The other texts of the same call change a
///   vector by rounding only: by less than 1e-5 in each number.
/// - A long text is cut: to `max_seq_length` of the model, in tokens, and to 64 KiB.
/// - A call computes on one thread of tokio's pool for blocking work. At most two calls of an embedder and its clones compute at
///   the same time; the others wait in turn. A dropped call stops after the current pass of up to 512 tokens (or one longer text).
/// - [`Embedder::embed`] fails with `Unexpected` if a vector is not finite or is zero, which damaged weights cause.
///
/// [sentence-transformers]: https://sbert.net
#[derive(Clone)]
pub struct LocalEmbedder {
    loaded: Arc<Loaded>,
    turns: Arc<Semaphore>,
}

/// A model in memory.
struct Loaded {
    name: String,
    width: usize,
    tokenizer: Tokenizer,
    lowercases: bool,
    bert: Bert,
    pooling: Pooling,
}

impl LocalEmbedder {
    /// Loads a model from its folder, on a thread of tokio's pool for blocking work. The weights stay in memory as `f32`: 91 MB for
    /// all-MiniLM-L6-v2.
    ///
    /// # Errors
    /// `InvalidInput` if a file is missing or damaged, or if the model is not supported. The message names the file and says what
    /// to do.
    pub async fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref().to_owned();
        let loaded = spawn_blocking(move || Loaded::open(&folder)).await.map_err(|_| ended())??;
        Ok(Self { loaded: Arc::new(loaded), turns: Arc::new(Semaphore::new(MAX_CALLS)) })
    }
}

#[async_trait]
impl Embedder for LocalEmbedder {
    /// The name in `config.json`, then a hash of everything that vectors depend on: weights, tokenizer and settings. Copies of a
    /// folder have the same name wherever they are; a model that was trained further has another.
    fn model(&self) -> &str {
        &self.loaded.name
    }

    fn width(&self) -> usize {
        self.loaded.width
    }

    /// A small batch, so that a question does not wait for long behind one.
    fn batch(&self) -> usize {
        32
    }

    fn max_text(&self) -> usize {
        MAX_TEXT
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| ended())?;
        let texts: Vec<_> = texts.iter().map(|text| text[..text.floor_char_boundary(MAX_TEXT)].to_owned()).collect();
        let loaded = Arc::clone(&self.loaded);
        let (answer, answered) = oneshot::channel();
        spawn_blocking(move || {
            let vectors = loaded.embed(&texts, || answer.is_closed());
            drop(turn);
            // This fails if the caller has left.
            let _ = answer.send(vectors);
        });
        answered.await.map_err(|_| ended())?
    }
}

impl fmt::Debug for LocalEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEmbedder").field("model", &self.loaded.name).field("width", &self.loaded.width).finish()
    }
}

impl Loaded {
    fn open(folder: &Path) -> Result<Self> {
        let settings = Settings::read(folder)?;
        let file = settings::read(&settings.tokenizer)?;
        let tokenizer = tokenizer(&settings, &file)?;
        let mut weights = Weights::read(&settings.weights)?;
        let bert = Bert::new(&settings.bert, &mut weights)?;
        if tokenizer.get_vocab(true).into_values().any(|token| token as usize >= bert.vocabulary()) {
            let file = &settings.tokenizer;
            return Err(refused(
                file,
                "it has tokens that the weights don't have: the two files are of different models",
            ));
        }
        Ok(Self {
            name: name(&settings, &weights.digest, &file),
            width: settings.bert.width,
            tokenizer,
            lowercases: settings.lowercases,
            bert,
            pooling: settings.pooling,
        })
    }

    /// Computes the vectors of these texts; stops between passes once `is_over` returns true.
    fn embed(&self, texts: &[String], is_over: impl Fn() -> bool) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        let mut pass = Vec::new();
        let mut tokens = 0;
        for text in texts {
            let text = self.tokens(text)?;
            if tokens + text.len() > MAX_PASS {
                if is_over() {
                    return Err(ended());
                }
                self.embed_pass(&pass, &mut vectors)?;
                (pass, tokens) = (Vec::new(), 0);
            }
            tokens += text.len();
            pass.push(text);
        }
        self.embed_pass(&pass, &mut vectors)?;
        Ok(vectors)
    }

    /// The token ids of a text: at least one, at most as many as the model takes.
    fn tokens(&self, text: &str) -> Result<Vec<u32>> {
        let lower = self.lowercases.then(|| text.to_lowercase());
        // The tokenizer's error is left out, since it may quote the text.
        let encoding = self.tokenizer.encode_fast(lower.as_deref().unwrap_or(text), true);
        let encoding = encoding.map_err(|_| Error::new(ErrorKind::Unexpected, "the tokenizer failed on a text"))?;
        Ok(encoding.get_ids().to_vec())
    }

    fn embed_pass(&self, texts: &[Vec<u32>], vectors: &mut Vec<Vec<f32>>) -> Result<()> {
        let rows = self.bert.run(texts);
        for place in bert::places(texts) {
            vectors.push(self.pooling.pool(rows.slice(ndarray::s![place, ..]))?);
        }
        Ok(())
    }
}

impl Pooling {
    /// The vector of a text from those of its tokens, scaled to length 1.
    fn pool(self, tokens: ArrayView2<'_, f32>) -> Result<Vec<f32>> {
        let sum = match self {
            // Sum and mean have the same direction, and the length becomes 1.
            Self::Mean => tokens.sum_axis(Axis(0)),
            Self::Cls => tokens.row(0).to_owned(),
        };
        let length = sum.dot(&sum).sqrt();
        if !(length.is_finite() && length > 0.0) {
            let message = "the model made a vector that is not finite or is zero: its weights may be damaged";
            return Err(Error::new(ErrorKind::Unexpected, message));
        }
        Ok((sum / length).to_vec())
    }
}

/// The tokenizer of a model, without padding. It cuts texts to the limit in the settings: its own file often has another.
fn tokenizer(settings: &Settings, file: &[u8]) -> Result<Tokenizer> {
    let path = &settings.tokenizer;
    let mut tokenizer = Tokenizer::from_bytes(file).map_err(|error| {
        refused(path, "this is not a tokenizer that this program can read: download it again").with_source(error)
    })?;
    if settings.max_tokens < MIN_TOKENS {
        return Err(refused(path, format!("a model for texts of {} tokens is not supported", settings.max_tokens)));
    }
    tokenizer.with_padding(None);
    tokenizer
        .with_truncation(Some(TruncationParams { max_length: settings.max_tokens, ..TruncationParams::default() }))
        .map_err(|error| refused(path, "the tokenizer can't cut texts").with_source(error))?;
    // Without [CLS] and [SEP] an empty text would have no token to make a vector of.
    if !tokenizer.encode_fast("", true).is_ok_and(|encoding| !encoding.is_empty()) {
        return Err(refused(path, "the tokenizer adds no [CLS] and [SEP] to a text, as a tokenizer of BERT does"));
    }
    Ok(tokenizer)
}

/// The name of a model. Vectors are compared where names are equal, so the hash covers everything that vectors depend on.
fn name(settings: &Settings, weights: &[u8; 32], tokenizer: &[u8]) -> String {
    let Settings { bert, pooling, max_tokens, lowercases, .. } = settings;
    // Stored vectors go by this name: a change here makes all of them invalid.
    let rest = format!(
        "heads={} layers={} epsilon={:08x} activation={} pooling={} tokens={max_tokens} lowercases={lowercases}",
        bert.heads,
        bert.layers,
        bert.epsilon.to_bits(),
        bert.activation.name(),
        pooling.name(),
    );
    let hash =
        Sha256::new().chain_update(weights).chain_update(Sha256::digest(tokenizer)).chain_update(rest).finalize();
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}@{hash}", settings.label)
}

fn ended() -> Error {
    Error::new(ErrorKind::Unexpected, "the computation ended without an answer")
}
