//! The progress of a watch, and its token.

use crate::cursor::{CursorKey, Fingerprint, Position};
use crate::engine::FeedPosition;
use crate::{Collection, Error, Result, Timestamp, WatchToken};

/// The progress of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// The snapshot is not complete.
    Snapshot {
        /// The end of the feed when the snapshot began; the watch continues there.
        feed: FeedPosition,
        /// The current part of the snapshot.
        part: Part,
        /// The last record of that part that was delivered or skipped.
        behind: Option<Position>,
    },
    /// The snapshot is complete; the watch follows the feed after this position.
    Feed(FeedPosition),
}

/// A part of a snapshot: first the memories, then the collections in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Memories,
    Documents(Collection),
}

/// The first byte of a token.
const FEED: u8 = 0;
const SNAPSHOT: u8 = 1;

impl Progress {
    /// Returns the feed position that the watch needs in order to continue.
    pub(super) fn feed(&self) -> &FeedPosition {
        match self {
            Self::Snapshot { feed, .. } | Self::Feed(feed) => feed,
        }
    }

    /// Seals the progress in a token of the watch with this fingerprint.
    pub(super) fn seal(&self, key: &CursorKey, fingerprint: &Fingerprint) -> Result<WatchToken> {
        let mut bytes = Vec::new();
        match self {
            Self::Feed(feed) => {
                bytes.push(FEED);
                push(&mut bytes, feed.as_bytes());
            }
            Self::Snapshot { feed, part, behind } => {
                bytes.push(SNAPSHOT);
                push(&mut bytes, feed.as_bytes());
                // A collection name is never empty.
                push(
                    &mut bytes,
                    if let Part::Documents(collection) = part { collection.as_str().as_bytes() } else { &[] },
                );
                if let Some(Position { created_at, id }) = behind {
                    bytes.extend(created_at.as_millis().to_be_bytes());
                    bytes.extend(id);
                }
            }
        }
        key.seal_bytes(fingerprint, bytes).map(WatchToken)
    }

    /// Opens a token. `InvalidInput` unless this key sealed it for this watch.
    pub(super) fn open(text: &str, key: &CursorKey, fingerprint: &Fingerprint) -> Result<Self> {
        let progress = key.open_bytes(text, fingerprint).and_then(|bytes| Self::parse(&bytes));
        progress.ok_or_else(|| Error::invalid("not a token that a watch of these records gave"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (feed, rest) = split(rest)?;
        let feed = FeedPosition::new(feed).ok()?;
        if *kind == FEED {
            return rest.is_empty().then_some(Self::Feed(feed));
        }
        let (name, rest) = split(rest)?;
        let part = match name {
            [] => Part::Memories,
            name => Part::Documents(Collection::parse(str::from_utf8(name).ok()?).ok()?),
        };
        let behind = match rest.split_first_chunk::<8>() {
            None => None,
            Some((millis, id)) => {
                let created_at = Timestamp::from_millis(i64::from_be_bytes(*millis)).ok()?;
                Some(Position { created_at, id: id.to_vec() })
            }
        };
        Some(Self::Snapshot { feed, part, behind })
    }
}

/// Writes a length byte, then the bytes, of which there are at most 255.
fn push(to: &mut Vec<u8>, bytes: &[u8]) {
    to.push(bytes.len() as u8);
    to.extend(bytes);
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_brings_back_the_longest_progress() {
        let (key, mine) = (CursorKey::generate().expect("a key"), Fingerprint([1; 32]));
        let feed = FeedPosition::new([7; FeedPosition::MAX_BYTES]).expect("short enough");
        let snapshot = |part, behind| Progress::Snapshot { feed: feed.clone(), part, behind };
        let position = |id: Vec<u8>| Some(Position { created_at: Timestamp::MIN, id });
        let notes = || Part::Documents(Collection::parse("n".repeat(64)).expect("a valid name"));
        for progress in [
            Progress::Feed(feed.clone()),
            Progress::Feed(FeedPosition::new([]).expect("short enough")),
            snapshot(Part::Memories, None),
            snapshot(Part::Memories, position(vec![0; 16])),
            snapshot(notes(), None),
            snapshot(notes(), position(vec![255; 256])),
        ] {
            let token = progress.seal(&key, &mine).expect("sealed");
            assert_eq!(Progress::open(token.as_str(), &key, &mine).expect("mine"), progress);
            assert!(Progress::open(token.as_str(), &key, &Fingerprint([2; 32])).is_err());
        }
        assert!(FeedPosition::new([7; FeedPosition::MAX_BYTES + 1]).is_err());
    }
}
