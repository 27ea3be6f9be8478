//! The progress of a watch, and its token.

use crate::cursor::{CursorKey, Fingerprint, Position};
use crate::engine::FeedPosition;
use crate::engine::session::Reader;
use crate::{Collection, Error, Result, Timestamp, WatchToken};

/// The progress of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// The snapshot is not complete.
    Snapshot {
        /// The end of the feed when the snapshot began; the watch continues there.
        feed: FeedProgress,
        /// The current part of the snapshot.
        part: Part,
        /// The last record of that part that was delivered or skipped.
        behind: Option<Position>,
    },
    /// The snapshot is complete; the watch follows the feed.
    Feed(FeedProgress),
}

/// The progress of a watch in the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FeedProgress {
    /// The watch continues after this position.
    pub(super) after: FeedPosition,
    /// The end of the feed after the delivered records were read: `after`, or a later position. The records may be as
    /// recent as that, so the watch can't continue if the storage goes back to before it.
    pub(super) seen: FeedPosition,
}

/// A part of a snapshot: first the memories, then the collections in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Memories,
    Documents(Collection),
}

/// The first byte of a token.
const FEED: u8 = 2;
const SNAPSHOT: u8 = 3;
/// Tokens of earlier programs begin with a byte that is lower by this; they do not have what was seen.
const SEEN: u8 = 2;

impl Progress {
    /// Returns what the watch needs of the feed in order to continue.
    pub(super) fn feed(&self) -> &FeedProgress {
        match self {
            Self::Snapshot { feed, .. } | Self::Feed(feed) => feed,
        }
    }

    /// Notes the end of the feed after everything up to here was read.
    pub(super) fn see(&mut self, end: &FeedPosition) {
        let (Self::Snapshot { feed, .. } | Self::Feed(feed)) = self;
        feed.seen = end.max(&feed.after).clone();
    }

    /// Seals the progress in a token of the watch with this fingerprint.
    pub(super) fn seal(&self, key: &CursorKey, fingerprint: &Fingerprint) -> Result<WatchToken> {
        let FeedProgress { after, seen } = self.feed();
        let mut bytes = vec![if let Self::Feed(_) = self { FEED } else { SNAPSHOT }];
        push(&mut bytes, after.as_bytes());
        push(&mut bytes, seen.as_bytes());
        match self {
            Self::Feed(_) => {}
            Self::Snapshot { part, behind, .. } => {
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
        progress.ok_or_else(|| Error::invalid("the token is not from a watch of these records: begin without it"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (after, mut rest) = split(rest)?;
        let mut feed = FeedProgress::from(FeedPosition::new(after).ok()?);
        if *kind >= SEEN {
            let (seen, behind) = split(rest)?;
            (feed.seen, rest) = (FeedPosition::new(seen).ok()?, behind);
        }
        if kind % SEEN == FEED % SEEN {
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

impl FeedProgress {
    /// Advances to a position behind entries that do not concern the watch, and to what was seen with them.
    pub(super) fn skip_to(&mut self, reached: FeedPosition, seen: FeedPosition) {
        let seen = seen.max(reached.clone());
        if self.seen < seen {
            self.seen = seen;
        }
        self.after = reached;
    }

    /// Fails with `FeedReset` unless the feed has what was seen. It need not be asked about the position after which the
    /// watch continues, because reading on from there checks that.
    pub(super) async fn check_seen(&self, reader: &mut impl Reader) -> Result<()> {
        if self.seen != self.after {
            reader.changes(&self.seen, 0).await?;
        }
        Ok(())
    }
}

impl From<FeedPosition> for FeedProgress {
    fn from(after: FeedPosition) -> Self {
        Self { seen: after.clone(), after }
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
        let longest = |byte| FeedPosition::new([byte; FeedPosition::MAX_BYTES]).expect("short enough");
        let shortest = FeedProgress::from(FeedPosition::new([]).expect("short enough"));
        let position = |id: Vec<u8>| Some(Position { created_at: Timestamp::MIN, id });
        let notes = || Part::Documents(Collection::parse("n".repeat(64)).expect("a valid name"));
        for feed in [shortest, longest(7).into(), FeedProgress { after: longest(7), seen: longest(9) }] {
            let snapshot = |part, behind| Progress::Snapshot { feed: feed.clone(), part, behind };
            for progress in [
                Progress::Feed(feed.clone()),
                snapshot(Part::Memories, None),
                snapshot(Part::Memories, position(vec![0; 16])),
                snapshot(notes(), None),
                snapshot(notes(), position(vec![255; 256])),
            ] {
                let token = progress.seal(&key, &mine).expect("sealed");
                assert_eq!(Progress::open(token.as_str(), &key, &mine).expect("mine"), progress);
                assert!(Progress::open(token.as_str(), &key, &Fingerprint([2; 32])).is_err());
            }
        }
        assert!(FeedPosition::new([7; FeedPosition::MAX_BYTES + 1]).is_err());
    }

    #[test]
    fn a_token_of_an_earlier_program_is_read() {
        let (key, mine) = (CursorKey::generate().expect("a key"), Fingerprint([1; 32]));
        let feed = || FeedProgress::from(FeedPosition::new([7; 3]).expect("short enough"));
        let behind = Position { created_at: Timestamp::MIN, id: vec![9; 16] };
        let snapshot = [&[1, 3, 7, 7, 7, 0][..], &behind.created_at.as_millis().to_be_bytes(), &behind.id].concat();
        let expected = [
            (vec![0, 3, 7, 7, 7], Progress::Feed(feed())),
            (snapshot, Progress::Snapshot { feed: feed(), part: Part::Memories, behind: Some(behind) }),
        ];
        for (bytes, progress) in expected {
            let token = key.seal_bytes(&mine, bytes).expect("sealed");
            assert_eq!(Progress::open(&token, &key, &mine).expect("a token"), progress);
        }
    }
}
