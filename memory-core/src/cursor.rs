//! Cursors: the position where a page ended, sealed so that only its namespace can read it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};

use crate::{Error, ErrorKind, Result, Timestamp};

/// The position at which the next page begins. It is sealed, so it reveals nothing; it survives a restart and belongs
/// to its query (Q6).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

/// The position of a record in the order of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The record's creation time.
    pub created_at: Timestamp,
    /// The bytes of the record's id.
    pub id: Vec<u8>,
}

/// The key that seals the cursors of a namespace. All handles on the namespace share it, also after a restart.
///
/// A cursor names the last candidate that was examined, which its reader may not be allowed to see. So it is encrypted
/// and authenticated (XChaCha20-Poly1305), and padded because even the length of an id reveals something (Q6).
#[derive(Clone)]
pub struct CursorKey(Key);

/// A hash of the query that a cursor belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) [u8; 32]);

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// The plain text is padded to a multiple of this.
const BLOCK_BYTES: usize = 64;
/// The longest cursor text that is opened. The longest real ones are those of a listing: they hold a space and the id
/// of the document up to which it was examined.
const MAX_TEXT: usize = 1_280;

/// Where an opened cursor continues.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The position after which the next page begins.
    pub(crate) after: Position,
    /// How many matching records to skip there.
    pub(crate) skip: usize,
}

impl CursorKey {
    /// Generates a random key. `Unavailable` if the operating system gives no random numbers.
    pub fn generate() -> Result<Self> {
        Key::try_generate().map(Self).map_err(|_| no_randomness())
    }

    /// Parses a stored key. `Corrupt` if the text is not a key.
    pub fn parse(text: &str) -> Result<Self> {
        let bytes = STANDARD_NO_PAD.decode(text).ok().and_then(|bytes| Key::try_from(bytes.as_slice()).ok());
        bytes.map(Self).ok_or_else(|| Error::corrupt("the key that seals cursors can't be read"))
    }

    /// Returns the key as a text to store. It is a secret.
    pub fn to_text(&self) -> String {
        STANDARD_NO_PAD.encode(self.0)
    }

    /// Seals the position where a page of a query ended, with the number of records that are still to be skipped.
    pub(crate) fn seal(&self, fingerprint: &Fingerprint, position: &Position, skip: usize) -> Result<Cursor> {
        let mut place = Vec::with_capacity(2 * BLOCK_BYTES);
        // An offset is at most 10,000.
        place.extend((skip as u16).to_be_bytes());
        place.extend(position.created_at.as_millis().to_be_bytes());
        place.extend(&position.id);
        self.seal_bytes(fingerprint, place).map(Cursor)
    }

    /// Opens a cursor. `InvalidInput` unless this key sealed it for this query.
    pub(crate) fn open(&self, text: &str, fingerprint: &Fingerprint) -> Result<Opened> {
        let unknown =
            || Error::invalid("the cursor is not from a page of this query: leave it out to begin at the first page");
        let place = self.open_bytes(text, fingerprint).ok_or_else(unknown)?;
        let (skip, rest) = place.split_first_chunk::<2>().ok_or_else(unknown)?;
        let (millis, id) = rest.split_first_chunk::<8>().ok_or_else(unknown)?;
        let created_at = Timestamp::from_millis(i64::from_be_bytes(*millis)).map_err(|_| unknown())?;
        Ok(Opened { after: Position { created_at, id: id.to_vec() }, skip: u16::from_be_bytes(*skip).into() })
    }

    /// Encrypts at most 895 bytes, because [`open_bytes`](Self::open_bytes) refuses a longer text; it needs the same
    /// fingerprint.
    pub(crate) fn seal_bytes(&self, fingerprint: &Fingerprint, mut bytes: Vec<u8>) -> Result<String> {
        // Padding is one byte that is not 0, then zeros.
        bytes.push(1);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        let nonce = XNonce::try_generate().map_err(|_| no_randomness())?;
        let sealed = XChaCha20Poly1305::new(&self.0).encrypt(&nonce, Payload { msg: &bytes, aad: &fingerprint.0 });
        let sealed = sealed.map_err(|_| Error::corrupt("the cursor can't be encrypted"))?;
        Ok(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Returns the bytes that this key sealed for this fingerprint; `None` for any other text.
    pub(crate) fn open_bytes(&self, text: &str, fingerprint: &Fingerprint) -> Option<Vec<u8>> {
        let bytes = Some(text).filter(|text| text.len() <= MAX_TEXT).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let bytes = bytes.filter(|bytes| bytes.len() >= NONCE_BYTES + TAG_BYTES)?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: sealed, aad: &fingerprint.0 };
        let mut bytes = XChaCha20Poly1305::new(&self.0).decrypt(&XNonce::from(*nonce), payload).ok()?;
        let end = bytes.iter().rposition(|byte| *byte != 0)?;
        bytes.truncate(end);
        Some(bytes)
    }
}

fn no_randomness() -> Error {
    Error::new(ErrorKind::Unavailable, "the operating system gives no random numbers")
}

impl Cursor {
    /// Wraps a text that a [`CursorKey`] sealed.
    pub(crate) fn sealed(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(..)")
    }
}

impl Cursor {
    /// Returns the sealed text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Cursor {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Fingerprint = Fingerprint([1; 32]);

    fn position(id: Vec<u8>) -> Position {
        Position { created_at: Timestamp::MIN, id }
    }

    #[test]
    fn a_cursor_comes_back_with_its_key_and_its_query_only() {
        let (key, other) = (CursorKey::generate().expect("a key"), CursorKey::generate().expect("a key"));
        let kept = CursorKey::parse(&key.to_text()).expect("a key");
        for id in [vec![0; 16], vec![255; 256]] {
            let cursor = key.seal(&MINE, &position(id.clone()), 10_000).expect("sealed");
            let opened = kept.open(cursor.as_str(), &MINE).expect("mine");
            assert_eq!(opened, Opened { after: position(id), skip: 10_000 });
            assert!(other.open(cursor.as_str(), &MINE).is_err());
            assert!(key.open(cursor.as_str(), &Fingerprint([2; 32])).is_err());
        }
    }

    #[test]
    fn whatever_is_changed_in_a_cursor_makes_it_none() {
        let key = CursorKey::generate().expect("a key");
        let cursor = key.seal(&MINE, &position(vec![7; 16]), 0).expect("sealed");
        let bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).expect("base64");
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(key.open(&URL_SAFE_NO_PAD.encode(&changed), &MINE).is_err(), "byte {place}");
            assert!(key.open(&URL_SAFE_NO_PAD.encode(&bytes[..place]), &MINE).is_err(), "{place} bytes");
        }
        // The last but one is what an earlier version gave.
        let old = "AVoKCDYQQSMBY3Y-FsE4dG4AAwAAB9uoIYAABwcHBwcHBwcHBwcHBwcHBw";
        for text in ["", "AQ", "not base64!", &format!("{cursor}AA"), old, &"A".repeat(10_000)] {
            assert!(key.open(text, &MINE).is_err(), "{text}");
        }
    }

    #[test]
    fn two_cursors_of_one_place_have_nothing_in_common_but_their_length() {
        let key = CursorKey::generate().expect("a key");
        let cursor = |id: &[u8]| key.seal(&MINE, &position(id.to_vec()), 0).expect("sealed").to_string();
        assert_ne!(cursor(b"secret"), cursor(b"secret"));
        assert_eq!(cursor(b"a").len(), cursor(&[b'a'; 53]).len());
        assert!(CursorKey::parse("AA").is_err());
        assert!(!format!("{key:?}").contains(&key.to_text()));
    }
}
