//! The trait that an embedding model implements.

use std::fmt;

use async_trait::async_trait;

use crate::{Error, ErrorKind, Precision, Result, Vector, VectorModel};

/// A model that makes vectors, held as `Arc<dyn Embedder>`: texts that mean alike lie in alike directions.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// The name of the model: 1 to 256 bytes, no control characters. Vectors count by name and width; those of different models are never
    /// compared.
    fn model(&self) -> &str;

    /// How many numbers a vector has, 1 to 4,096.
    fn width(&self) -> usize;

    /// How many texts are best given at once; 64 by default. A keeper gives 1 to 1,000. A wrapper forwards this and `max_text`.
    fn batch(&self) -> usize {
        64
    }

    /// How many bytes of a text count at most; 8,192 by default. The rest of a longer one is not sent.
    fn max_text(&self) -> usize {
        8_192
    }

    /// One vector for each text, in their order, of `width` finite numbers, not all zero, of any length.
    ///
    /// A retryable error (`Unavailable`, `Timeout`) says that the same call may succeed later; `Unauthorized` that the
    /// credentials are refused. A keeper asks for each text by itself then, and tries again later those of which no vector is made while one is
    /// made of another text. No error quotes a text.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>>;
}

impl dyn Embedder {
    /// Asks for the vectors of these texts, as far as the model looks at them, and checks what it gives: `Unexpected` for another number of
    /// vectors, for one of another width, and for one that is none (M4).
    pub async fn vectors(&self, texts: &[String]) -> Result<Vec<Vector>> {
        let texts: Vec<_> =
            texts.iter().map(|text| text[..text.floor_char_boundary(self.max_text())].to_owned()).collect();
        let given = self.embed(&texts).await?;
        let unexpected = |message: String| Error::new(ErrorKind::Unexpected, message);
        if given.len() != texts.len() {
            let (given, asked) = (given.len(), texts.len());
            return Err(unexpected(format!("the model made {given} vectors of {asked} texts")));
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

    /// What a namespace remembers of it, where nothing is said of the precision.
    pub fn vector_model(&self) -> Result<VectorModel> {
        VectorModel::new(self.model(), self.width(), Precision::default())
    }
}

impl fmt::Debug for dyn Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedder({})", self.model())
    }
}
