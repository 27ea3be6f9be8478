//! Erasure: which records to erase, and the tombstones that stay.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};

use crate::space::SpacePlace;
use crate::{
    Actor, CursorKey, Document, DocumentQuery, Documents, Error, IdempotencyKey, Ledger, Memory, MemoryQuery,
    QueryBuilder, RecordId, Result, SpaceId, Spaces, Timestamp,
};

/// The records that [`MemoryProvider::erase`](crate::MemoryProvider::erase) erases, and why (E1).
///
/// ```
/// use memory_core::{Erasure, MemoryQuery};
///
/// let erasure = Erasure::memories(MemoryQuery::builder().under("guild-1-ana"), "Ana asked for it")?.limit(500)?;
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Erasure {
    pub(crate) of: Erased,
    pub(crate) reason: Reason,
    pub(crate) actor: Option<Actor>,
    pub(crate) limit: usize,
    /// If set, the erasure takes only those of these records that its query finds.
    pub(crate) among: Option<Vec<RecordId>>,
}

/// Which records an erasure selects.
#[derive(Debug, Clone)]
pub(crate) enum Erased {
    Records(Vec<RecordId>),
    Memories(MemoryQuery),
    Documents(DocumentQuery),
}

/// Why a record was erased: 1 to 1,024 bytes of UTF-8 without control characters. The tombstone keeps it, so it must
/// not name a person who is to be forgotten.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason(String);

/// Result of one call of [`MemoryProvider::erase`](crate::MemoryProvider::erase).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedSlice {
    /// The erased records, in ascending order.
    pub records: Vec<RecordId>,
    /// Whether nothing is left to erase. If `false`, the same call erases the next slice.
    pub is_complete: bool,
}

/// What stays of an erased record (E2): nothing of its contents, and its spaces only as keyed hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The id of the erased record.
    pub record: RecordId,
    /// When it was erased, by the provider's clock; for a document, the creation time of the latest one that it keeps
    /// out, if that is later (E2).
    pub at: Timestamp,
    /// Why it was erased.
    pub reason: Reason,
    /// Who erased it, if the erasure names an actor.
    pub actor: Option<Actor>,
    /// The hash of the memory's idempotency key, by which a repeated store is recognised.
    pub key: Option<KeyedHash>,
    /// The hashes of the record's space and earlier spaces, in ascending order, by which a watch decides whether the
    /// record lay within its spaces (E4).
    pub places: Vec<KeyedHash>,
}

/// A page of the tombstones of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TombstonePage {
    /// The tombstones, in an order of the engine. One that is added or replaced during the walk may be on no page, or
    /// on two.
    pub tombstones: Vec<Tombstone>,
    /// The place of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// A keyed hash of a name. Only with the namespace's key can the name be verified; without it the hash reveals nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyedHash(pub [u8; KeyedHash::BYTES]);

/// The key of the hashes in a namespace's tombstones. It is a secret, and is part of export and copy (E5).
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey([u8; 32]);

/// Maximum number of records that one call erases.
pub const MAX_ERASED: usize = 1_000;
/// Number of records that a call erases unless it sets a limit.
const DEFAULT_ERASED: usize = 100;
/// Maximum number of place hashes in a tombstone, 16 KiB in all.
const MAX_PLACES: usize = 1_024;
/// Maximum length of a reason, in bytes.
const MAX_REASON: usize = 1_024;

impl Erasure {
    /// Selects these records: 1 to [`MAX_ERASED`], else `InvalidInput` or `TooLarge`. An invalid reason is
    /// `InvalidInput` or `TooLarge`.
    pub fn records(records: impl IntoIterator<Item = RecordId>, reason: impl AsRef<str>) -> Result<Self> {
        let records = checked(records)?;
        match records.len() {
            0 => Err(Error::invalid("an erasure must name what it erases")),
            count => Ok(Self { limit: count, ..Self::new(Erased::Records(records), reason)? }),
        }
    }

    /// Selects the memories that match a query, whose limit, offset and cursor are ignored; its order decides which are
    /// erased first. `InvalidInput` if it selects all spaces and has neither a status, a filter nor a text.
    pub fn memories(query: QueryBuilder<Ledger>, reason: impl AsRef<str>) -> Result<Self> {
        let query = query.build()?;
        if query.spaces == Spaces::All && query.filter.is_none() && query.text.is_none() && query.statuses().is_empty()
        {
            return Err(everything());
        }
        Self::new(Erased::Memories(query), reason)
    }

    /// Selects the documents of a collection that match a query; like [`memories`](Self::memories).
    pub fn documents(query: QueryBuilder<Documents>, reason: impl AsRef<str>) -> Result<Self> {
        let query = query.build()?;
        if query.spaces == Spaces::All && query.filter.is_none() && query.text.is_none() {
            return Err(everything());
        }
        Self::new(Erased::Documents(query), reason)
    }

    /// Names the actor who erases them.
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Sets how many of the records that its query finds one call erases at most: 1 to [`MAX_ERASED`], else
    /// `InvalidInput`; 100 by default. Has no effect on records that are named ([`records`](Self::records),
    /// [`among`](Self::among)).
    pub fn limit(mut self, limit: usize) -> Result<Self> {
        if !(1..=MAX_ERASED).contains(&limit) {
            return Err(Error::invalid(format!("the limit of an erasure must be from 1 to {MAX_ERASED} records")));
        }
        self.limit = limit;
        Ok(self)
    }

    /// Erases only those of these records that the query still finds; at most [`MAX_ERASED`], else `TooLarge`. With it
    /// a caller that has listed the records can tell which of them a call without an answer may have erased. Has no
    /// effect on an erasure of [`records`](Self::records).
    pub fn among(mut self, records: impl IntoIterator<Item = RecordId>) -> Result<Self> {
        self.among = Some(checked(records)?);
        Ok(self)
    }

    fn new(of: Erased, reason: impl AsRef<str>) -> Result<Self> {
        let reason = Reason::parse(reason)?;
        if reason.0 == Reason::EXPIRED {
            return Err(Error::invalid("this reason is reserved for expired records: give another one"));
        }
        Ok(Self { of, reason, actor: None, limit: DEFAULT_ERASED, among: None })
    }
}

/// Sorts the records and drops duplicates; `TooLarge` for more than [`MAX_ERASED`].
fn checked(records: impl IntoIterator<Item = RecordId>) -> Result<Vec<RecordId>> {
    let mut records: Vec<_> = records.into_iter().collect();
    records.sort_unstable();
    records.dedup();
    match records.len() {
        more if more > MAX_ERASED => Err(Error::too_large(format!("{more} ids; at most {MAX_ERASED} are allowed"))),
        _ => Ok(records),
    }
}

fn everything() -> Error {
    Error::invalid("an erasure of everything is refused: name ids, spaces, a filter or a text")
}

impl Reason {
    /// The reason of tombstones of expired records. No erasure may have it (X4).
    const EXPIRED: &str = "expired";

    /// Checks a reason: `InvalidInput` if it is blank or has control characters, `TooLarge` over 1,024 bytes.
    pub fn parse(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            return Err(Error::invalid("an erasure needs a reason, in one line"));
        }
        if text.len() > MAX_REASON {
            return Err(Error::too_large(format!(
                "a reason of {} bytes; at most {MAX_REASON} are allowed",
                text.len()
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the reason as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tombstone {
    /// Makes the tombstone of a record that expired at this time, without hashes (X4).
    pub fn of_expiry(record: RecordId, at: Timestamp) -> Self {
        Self { record, at, reason: Reason(Reason::EXPIRED.to_owned()), actor: None, key: None, places: Vec::new() }
    }

    /// Returns whether the record expired, and was not erased (X4).
    pub fn is_of_expiry(&self) -> bool {
        self.reason.0 == Reason::EXPIRED
    }

    /// Merges an earlier tombstone of the same record: the result keeps out what either does, and watches learn of the
    /// places of both.
    pub(crate) fn behind(self, earlier: &Self) -> Self {
        let (at, key) = (self.at.max(earlier.at), self.key.or(earlier.key));
        // Once something was erased under a name, the tombstone keeps that reason, even if a later record of the name
        // expired (X4).
        let why = if self.is_of_expiry() { earlier } else { &self };
        let (reason, actor) = (why.reason.clone(), why.actor.clone());
        // A watch that was told of the expiry is not told of a later record of the same name.
        let is_another = earlier.is_of_expiry() && !self.places.is_empty();
        let places = if is_another { &[] } else { earlier.places.as_slice() };
        Self { at, key, reason, actor, ..self.with_places(places.iter().copied(), MAX_PLACES) }
    }

    /// Adds the hashes of a memory.
    pub(crate) fn of_memory(self, memory: &Memory, hash_key: &HashKey) -> Self {
        let key = memory.idempotency_key.as_ref().map(|key| hash_key.of_key(key));
        Self { key, ..self.with_places(hash_key.of_space(&memory.space_id), MAX_PLACES) }
    }

    /// Adds the hashes of a document, and keeps this document out even if its createdAt is later than the clock (E3).
    pub(crate) fn of_document(self, document: &Document, hash_key: &HashKey) -> Self {
        // The tombstone of an expired document never blocks a put (X4).
        let at = if self.is_of_expiry() { self.at } else { self.at.max(document.created_at) };
        Self { at, ..self.with_places(hash_key.of_space(&document.space_id), MAX_PLACES) }
    }

    /// Adds the hashes of a document's earlier spaces, up to half of the places: the rest is for later erasures.
    pub(crate) fn with_spaces<'s>(self, spaces: impl IntoIterator<Item = &'s SpaceId>, hash_key: &HashKey) -> Self {
        self.with_places(spaces.into_iter().flat_map(|space| hash_key.of_space(space)), MAX_PLACES / 2)
    }

    /// Adds these places to its own, up to `most` in all.
    fn with_places(self, places: impl IntoIterator<Item = KeyedHash>, most: usize) -> Self {
        let mut all: BTreeSet<_> = self.places.into_iter().take(MAX_PLACES).collect();
        for place in places {
            if all.len() >= most {
                break;
            }
            all.insert(place);
        }
        Self { places: all.into_iter().collect(), ..self }
    }

    /// Returns whether it keeps this document out of a restore (E3). A document that was put after the erasure is
    /// another one.
    pub fn keeps_out(&self, document: &Document) -> bool {
        document.created_at <= self.at
    }
}

/// What a hash is made of; keeps the hash of a key apart from that of a space with the same text.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Key,
    /// The exact space.
    Space,
    /// A path: a space and everything below it.
    Place,
}

impl KeyedHash {
    /// Length of a hash, in bytes.
    pub const BYTES: usize = 16;

    /// Splits concatenated hashes, as [`Self::concat`] makes them; `None` if the last one is cut.
    pub fn all_of(bytes: &[u8]) -> Option<Vec<Self>> {
        let (hashes, []) = bytes.as_chunks() else { return None };
        Some(hashes.iter().copied().map(Self).collect())
    }

    /// Concatenates hashes, in their order.
    pub fn concat(hashes: &[Self]) -> Vec<u8> {
        hashes.iter().flat_map(|hash| hash.0).collect()
    }
}

impl HashKey {
    /// Generates a random key. `Unavailable` if the operating system gives no random numbers.
    pub fn generate() -> Result<Self> {
        Self::parse(&CursorKey::generate()?.to_text())
    }

    /// Parses a stored key. `Corrupt` if the text is not a key.
    pub fn parse(text: &str) -> Result<Self> {
        let bytes = STANDARD_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| Error::corrupt("the key of tombstones can't be read"))
    }

    /// Returns the key as a text to store. It is a secret.
    pub fn to_text(&self) -> String {
        STANDARD_NO_PAD.encode(self.0)
    }

    /// Returns the hash of an idempotency key.
    pub fn of_key(&self, key: &IdempotencyKey) -> KeyedHash {
        self.hash(Kind::Key, key.as_ref())
    }

    /// Returns the hashes of a space: of the space itself, and of every path that it lies under (itself and each
    /// ancestor, without and with the boundary that follows).
    pub fn of_space(&self, space: &SpaceId) -> Vec<KeyedHash> {
        // An ancestor ends before a boundary, which is one byte, so one byte more ends on a character.
        let with_boundary = |path: &str| &space.as_str()[..path.len() + 1];
        let ancestors = space.ancestors().flat_map(|path| [path, with_boundary(path)]);
        let places = ancestors.chain([space.as_str()]).map(|path| self.hash(Kind::Place, path));
        std::iter::once(self.hash(Kind::Space, space.as_str())).chain(places).collect()
    }

    /// Returns whether a record with these place hashes lay in one of these spaces; `None` if hashes can't tell, as for
    /// a prefix or a pattern.
    pub fn finds(&self, places: &[KeyedHash], spaces: &Spaces) -> Option<bool> {
        let Spaces::Any(selectors) = spaces else { return Some(true) };
        let mut is_open = false;
        for selector in selectors {
            let hash = match selector.place() {
                Some(SpacePlace::Exact(space)) => self.hash(Kind::Space, space),
                Some(SpacePlace::Under(path)) => self.hash(Kind::Place, path),
                None => {
                    is_open = true;
                    continue;
                }
            };
            if places.contains(&hash) {
                return Some(true);
            }
        }
        (!is_open).then_some(false)
    }

    fn hash(&self, kind: Kind, name: &str) -> KeyedHash {
        let kind = match kind {
            Kind::Key => b"k",
            Kind::Space => b"s",
            Kind::Place => b"p",
        };
        let hash = Sha256::new().chain_update(self.0).chain_update(kind).chain_update(name).finalize();
        let mut keyed = [0; KeyedHash::BYTES];
        keyed.copy_from_slice(&hash[..KeyedHash::BYTES]);
        KeyedHash(keyed)
    }
}

impl fmt::Debug for Reason {
    /// Shows only the size, because a reason may name a person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reason({} bytes)", self.0.len())
    }
}

impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHash(..)")
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, MemoryId, SpaceSelector};

    #[test]
    fn hashes_tell_where_a_record_lay_to_who_names_the_place() {
        let key = HashKey::generate().expect("random numbers");
        let places = key.of_space(&SpaceId::parse("guild-1/ana").expect("a space"));
        let of = |selector: Result<SpaceSelector>| Spaces::from(selector.expect("a selector"));
        for (path, is_under) in [
            ("guild", true),
            ("guild-", true),
            ("guild/", false),
            ("guild-1", true),
            ("guild-1/ana", true),
            ("guild-2", false),
            ("gui", false),
        ] {
            assert_eq!(key.finds(&places, &of(SpaceSelector::under(path))), Some(is_under), "{path}");
            assert_eq!(key.finds(&places, &of(SpaceSelector::exact(path))), Some(path == "guild-1/ana"), "{path}");
        }
        let any = |selectors: [Result<SpaceSelector>; 2]| {
            Spaces::from(selectors.into_iter().collect::<Result<Vec<_>>>().expect("selectors"))
        };
        assert_eq!(key.finds(&places, &Spaces::All), Some(true));
        assert_eq!(key.finds(&places, &of(SpaceSelector::prefix("guild"))), None);
        assert_eq!(key.finds(&places, &any([SpaceSelector::prefix("x"), SpaceSelector::under("guild")])), Some(true));
        assert_eq!(key.finds(&places, &any([SpaceSelector::under("x"), SpaceSelector::prefix("guild")])), None);
        let other = HashKey::generate().expect("random numbers");
        assert_eq!(other.finds(&places, &of(SpaceSelector::under("guild"))), Some(false));
        assert_eq!(HashKey::parse(&key.to_text()).expect("the key"), key);
        let named = IdempotencyKey::parse("guild").expect("a key");
        assert!(!places.contains(&key.of_key(&named)), "a key is no place");
    }

    #[test]
    fn hashes_come_back_from_their_bytes() {
        let hashes = [1, 2].map(|byte| KeyedHash([byte; KeyedHash::BYTES]));
        let bytes = KeyedHash::concat(&hashes);
        assert_eq!(KeyedHash::all_of(&bytes), Some(hashes.to_vec()));
        assert_eq!(KeyedHash::all_of(&bytes[..KeyedHash::BYTES + 1]), None);
        assert_eq!(KeyedHash::all_of(&KeyedHash::concat(&[])), Some(Vec::new()));
    }

    #[test]
    fn an_erasure_names_what_goes_and_why() {
        let id = || RecordId::from(MemoryId::generate());
        let all = || MemoryQuery::builder().all();
        for refused in [
            Erasure::records([], "why"),
            Erasure::records([id()], " "),
            Erasure::records([id()], "a\nb"),
            Erasure::memories(all(), "why"),
            Erasure::memories(MemoryQuery::builder().under("a"), "why").and_then(|erasure| erasure.limit(0)),
            Erasure::memories(MemoryQuery::builder().under("a"), "why").and_then(|erasure| erasure.limit(1_001)),
        ] {
            assert_eq!(refused.expect_err("not valid").kind(), ErrorKind::InvalidInput);
        }
        let many = (0..=MAX_ERASED).map(|_| id());
        assert_eq!(Erasure::records(many, "why").expect_err("too many").kind(), ErrorKind::TooLarge);
        let long = "x".repeat(MAX_REASON + 1);
        assert_eq!(Erasure::records([id()], long).expect_err("too long").kind(), ErrorKind::TooLarge);
        assert!(Erasure::memories(all().filter_text("metadata.user = 'ana'"), "why").is_ok());
    }
}
