//! An embedding model for cases. It derives vectors from words, or misbehaves as a case demands.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::{Embedder, Error, ErrorKind, Precision, Result, Vector, VectorModel};
use tokio::sync::Semaphore;

use crate::random::mix;

/// Each word has a direction of its own, and the vector of a text is the sum of the directions of its words. Models with different names
/// share no direction.
#[derive(Debug)]
pub(crate) struct WordModel {
    name: &'static str,
    width: usize,
    manner: Mutex<Manner>,
    /// The texts that were embedded since the last [`WordModel::take_asked`], in order.
    asked: Mutex<Vec<String>>,
    /// Gets one permit for each call of `embed`.
    calls: Semaphore,
    /// Calls wait here while the manner is [`Manner::Hangs`].
    release: Semaphore,
}

/// How the model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Soundly,
    /// Fails with `Unavailable`.
    Fails,
    /// Blocks until [`WordModel::release`] is called.
    Hangs,
    OneTooFew,
    OneTooMany,
    /// Returns vectors with one number more than the model's width.
    TooWide,
    NotFinite,
    Zeros,
    /// Fails with `InvalidInput` if a text contains this.
    Refuses(&'static str),
}

impl WordModel {
    /// A model that answers soundly, with vectors of 32 numbers.
    pub(crate) fn new(name: &'static str) -> Self {
        Self::with_width(name, 32)
    }

    pub(crate) fn with_width(name: &'static str, width: usize) -> Self {
        let (asked, manner) = (Mutex::default(), Mutex::new(Manner::Soundly));
        Self { name, width, manner, asked, calls: Semaphore::new(0), release: Semaphore::new(0) }
    }

    /// Sets how the model answers from now on.
    pub(crate) fn answers(&self, manner: Manner) {
        *locked(&self.manner) = manner;
    }

    /// Releases the calls that hang, and those that follow.
    pub(crate) fn release(&self) {
        self.release.add_permits(1);
    }

    /// Makes the following calls hang again. No call may hang at this time.
    pub(crate) fn hold(&self) {
        self.release.forget_permits(1);
    }

    /// Waits until one more call has arrived.
    pub(crate) async fn called(&self) {
        self.calls.acquire().await.expect("it is never closed").forget();
    }

    /// Returns the texts that were embedded since the last call of this function.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.asked))
    }

    /// The vector of a text.
    pub(crate) fn vector(&self, text: &str) -> Vector {
        Vector::new(&self.numbers(text)).expect("a direction")
    }

    /// The description of the model that a namespace stores.
    pub(crate) fn kept(&self, precision: Precision) -> VectorModel {
        VectorModel::new(self.name, self.width, precision).expect("a model")
    }

    fn numbers(&self, text: &str) -> Vec<f32> {
        let hash = |seed: u64, text: &str| text.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)));
        let seed = hash(0, self.name);
        let mut numbers = vec![0.0; self.width];
        let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
        // A text without words has a direction, too.
        for word in words.map(str::to_lowercase).chain([String::new()].into_iter().filter(|_| is_blank(text))) {
            let word = hash(seed, &word);
            for (number, place) in numbers.iter_mut().zip(0..) {
                *number += (mix(word.wrapping_add(place)) % 2_001) as f32 - 1_000.0;
            }
        }
        numbers
    }
}

#[async_trait]
impl Embedder for WordModel {
    fn model(&self) -> &str {
        self.name
    }

    fn width(&self) -> usize {
        self.width
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        locked(&self.asked).extend_from_slice(texts);
        let manner = *locked(&self.manner);
        self.calls.add_permits(1);
        let mut vectors: Vec<_> = texts.iter().map(|text| self.numbers(text)).collect();
        match manner {
            Manner::Soundly => {}
            Manner::Fails => return Err(Error::new(ErrorKind::Unavailable, "the model is not there")),
            // Dropping the permit returns it, so that every hanging call proceeds.
            Manner::Hangs => drop(self.release.acquire().await.expect("it is never closed")),
            Manner::OneTooFew => drop(vectors.pop()),
            Manner::OneTooMany => vectors.push(self.numbers("one more")),
            Manner::TooWide => vectors.iter_mut().for_each(|vector| vector.push(1.0)),
            Manner::NotFinite => vectors.iter_mut().for_each(|vector| vector[0] = f32::NAN),
            Manner::Zeros => vectors.iter_mut().for_each(|vector| vector.fill(0.0)),
            Manner::Refuses(part) if texts.iter().any(|text| text.contains(part)) => {
                return Err(Error::invalid("the model refuses a text"));
            }
            Manner::Refuses(_) => {}
        }
        Ok(vectors)
    }
}

fn is_blank(text: &str) -> bool {
    !text.contains(char::is_alphanumeric)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
