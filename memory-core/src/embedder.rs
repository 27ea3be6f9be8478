//! The trait that an embedding model implements.

use std::fmt;

use async_trait::async_trait;

use crate::{Error, ErrorKind, Precision, Result, Vector, VectorModel};

/// An embedding model, held as `Arc<dyn Embedder>`: it maps texts of similar meaning to vectors of similar direction.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// The name of the model: 1 to 256 bytes without control characters. Name and width identify a model; vectors of
    /// different models are never compared.
    fn model(&self) -> &str;

    /// The number of dimensions of a vector, 1 to 4,096.
    fn width(&self) -> usize;

    /// The preferred number of texts in one call; 64 by default. A keeper gives 1 to 1,000. A wrapper must forward this
    /// and `max_text`.
    fn batch(&self) -> usize {
        64
    }

    /// The maximum number of bytes of a text that the model reads; 8,192 by default. The rest is not sent.
    fn max_text(&self) -> usize {
        8_192
    }

    /// Returns one vector for each text, in the order given: `width` finite numbers, not all zero, of any length.
    ///
    /// A retryable error (`Unavailable`, `Timeout`) means that the same call may succeed later; `Unauthorized`, that
    /// the credentials are refused. After any failure a keeper asks for the vector of a known text; if the model makes
    /// it, the keeper embeds each text by itself, and tries the refused ones again later. No error quotes a text.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>>;
}

impl dyn Embedder {
    /// Embeds these texts, each cut to [`max_text`](Embedder::max_text), and checks the result: `Unexpected` for a
    /// wrong number of vectors, a wrong width, or a vector that is not finite or all zero (M4).
    pub async fn vectors(&self, texts: &[String]) -> Result<Vec<Vector>> {
        let texts: Vec<_> =
            texts.iter().map(|text| text[..text.floor_char_boundary(self.max_text())].to_owned()).collect();
        let given = self.embed(&texts).await?;
        let unexpected = |message: String| Error::new(ErrorKind::Unexpected, message);
        if given.len() != texts.len() {
            let (given, asked) = (given.len(), texts.len());
            return Err(unexpected(format!("the model made {given} vectors for {asked} texts")));
        }
        let vector = |numbers: Vec<f32>| {
            let (width, wanted) = (numbers.len(), self.width());
            if width != wanted {
                return Err(unexpected(format!("the model made a vector of {width} numbers, not of {wanted}")));
            }
            Vector::new(&numbers).map_err(|error| unexpected(format!("the model made no vector: {}", error.message())))
        };
        given.into_iter().map(vector).collect()
    }

    /// Returns the model's name and width at the default precision, as a namespace stores them.
    pub fn vector_model(&self) -> Result<VectorModel> {
        VectorModel::new(self.model(), self.width(), Precision::default())
    }
}

impl fmt::Debug for dyn Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedder({})", self.model())
    }
}
