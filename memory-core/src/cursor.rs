//! Where a page ended, as an opaque text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::{Error, Result, Timestamp};

/// Goes on where a page ended. Opaque; survives a restart; belongs to its query (Q6).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

/// The place of a record in the order of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// When the record was created.
    pub created_at: Timestamp,
    /// The bytes of its id.
    pub id: Vec<u8>,
}

/// What tells the queries apart that cursors belong to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The first half of a SHA-256.
    pub(crate) fn from_hash(hash: &[u8]) -> Self {
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&hash[..16]);
        Self(fingerprint)
    }
}

/// The layout that this program writes: version, fingerprint, records to skip, createdAt, id.
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 16 + 2 + 8;
const MAX_ID_BYTES: usize = 256;

impl Cursor {
    pub(crate) fn encode(fingerprint: &Fingerprint, position: &Position, skip: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + position.id.len());
        bytes.push(VERSION);
        bytes.extend(fingerprint.0);
        // An offset is at most 10,000.
        bytes.extend((skip as u16).to_be_bytes());
        bytes.extend(position.created_at.as_millis().to_be_bytes());
        bytes.extend(&position.id);
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The position after which to go on, and how many records to skip there.
    pub(crate) fn decode(text: &str, fingerprint: &Fingerprint) -> Result<(Position, usize)> {
        let unknown = || Error::invalid("not a cursor that a page of this program gave");
        if text.len() > (HEAD_BYTES + MAX_ID_BYTES).div_ceil(3) * 4 {
            return Err(unknown());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| unknown())?;
        let (version, rest) = bytes.split_first().ok_or_else(unknown)?;
        let (owner, rest) = rest.split_first_chunk::<16>().ok_or_else(unknown)?;
        let (skip, rest) = rest.split_first_chunk::<2>().ok_or_else(unknown)?;
        let (millis, id) = rest.split_first_chunk::<8>().ok_or_else(unknown)?;
        if *version != VERSION || id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(unknown());
        }
        if *owner != fingerprint.0 {
            return Err(Error::invalid("the cursor belongs to another query"));
        }
        let created_at = Timestamp::from_millis(i64::from_be_bytes(*millis)).map_err(|_| unknown())?;
        Ok((Position { created_at, id: id.to_vec() }, u16::from_be_bytes(*skip).into()))
    }

    /// The text.
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

    #[test]
    fn a_cursor_comes_back_and_knows_its_query() {
        let (mine, other) = (Fingerprint([1; 16]), Fingerprint([2; 16]));
        let position = Position { created_at: Timestamp::MIN, id: vec![255; MAX_ID_BYTES] };
        let cursor = Cursor::encode(&mine, &position, 10_000);
        assert_eq!(Cursor::decode(cursor.as_str(), &mine).expect("mine"), (position, 10_000));
        assert!(Cursor::decode(cursor.as_str(), &other).is_err());
        for text in ["", "AQ", "not base64!", &"A".repeat(10_000), &format!("{cursor}AA")] {
            assert!(Cursor::decode(text, &mine).is_err(), "{text}");
        }
    }
}
