//! An embedding model for cases: it makes them of words, or does as it is told.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::{Embedder, Error, ErrorKind, Precision, Result, Vector, VectorModel};
use tokio::sync::Semaphore;

use crate::random::mix;

/// A model in which each word has a direction of its own, and a text the sum of those of its words. Models of different names share none.
#[derive(Debug)]
pub(crate) struct WordModel {
    name: &'static str,
    width: usize,
    manner: Mutex<Manner>,
    /// The texts that it was asked for, in their order.
    asked: Mutex<Vec<String>>,
    /// Has a permit for each call that came.
    calls: Semaphore,
    /// What calls that hang wait for.
    release: Semaphore,
}

/// How a model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Soundly,
    /// With `Unavailable`.
    Fails,
    /// Only when [`WordModel::release`] was called.
    Hangs,
    OneTooFew,
    OneTooMany,
    /// With vectors that have one number more than it says.
    TooWide,
    NotFinite,
    Zeros,
    /// With `InvalidInput` when a text has this in it.
    Refuses(&'static str),
}

impl WordModel {
    /// A sound one with vectors of 32 numbers.
    pub(crate) fn new(name: &'static str) -> Self {
        Self::with_width(name, 32)
    }

    pub(crate) fn with_width(name: &'static str, width: usize) -> Self {
        let (asked, manner) = (Mutex::default(), Mutex::new(Manner::Soundly));
        Self { name, width, manner, asked, calls: Semaphore::new(0), release: Semaphore::new(0) }
    }

    /// From now on it answers so.
    pub(crate) fn answers(&self, manner: Manner) {
        *locked(&self.manner) = manner;
    }

    /// Lets those go on that hang, and those that come.
    pub(crate) fn release(&self) {
        self.release.add_permits(1);
    }

    /// Has those hang again that come, once nobody hangs.
    pub(crate) fn hold(&self) {
        self.release.forget_permits(1);
    }

    /// Waits until one more call has come.
    pub(crate) async fn called(&self) {
        self.calls.acquire().await.expect("it is never closed").forget();
    }

    /// Takes the texts that it was asked for since.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.asked))
    }

    /// The vector of a text.
    pub(crate) fn vector(&self, text: &str) -> Vector {
        Vector::new(&self.numbers(text)).expect("a direction")
    }

    /// What a namespace remembers of it.
    pub(crate) fn kept(&self, precision: Precision) -> VectorModel {
        VectorModel::new(self.name, self.width, precision).expect("a model")
    }

    fn numbers(&self, text: &str) -> Vec<f32> {
        let hash = |seed: u64, text: &str| text.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)));
        let seed = hash(0, self.name);
        let mut numbers = vec![0.0; self.width];
        let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
        // What has no words has a direction, too.
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
            // The permit comes back, so that all of them go on.
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
