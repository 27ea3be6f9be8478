//! Erasure: what is to go, and what stays in its place.

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

/// What one call of [`MemoryProvider::erase`](crate::MemoryProvider::erase) takes away, and why (E1).
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
    /// Of what a query finds only these.
    pub(crate) among: Option<Vec<RecordId>>,
}

/// Which records an erasure takes.
#[derive(Debug, Clone)]
pub(crate) enum Erased {
    Records(Vec<RecordId>),
    Memories(MemoryQuery),
    Documents(DocumentQuery),
}

/// Why a record was erased: 1 to 1,024 bytes of UTF-8 without control characters. It stays, so it should name nobody who is to be forgotten.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason(String);

/// What one call has erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedSlice {
    /// The records, in ascending order.
    pub records: Vec<RecordId>,
    /// Whether nothing is left of what was selected. Otherwise the same call takes the next slice.
    pub is_complete: bool,
}

/// What stays of a record that was erased (E2). It has nothing of what the record said, and not the names of its spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// What it was called.
    pub record: RecordId,
    /// When it was erased, by the provider's clock; of a document when the latest was created that it keeps out, where that is later (E2).
    pub at: Timestamp,
    /// Why.
    pub reason: Reason,
    /// By whom, if the erasure said so.
    pub actor: Option<Actor>,
    /// By which a repeated store is known.
    pub key: Option<KeyedHash>,
    /// By which a watch knows whether the record lay within its spaces: those of its space, and of spaces that it had before, in
    /// ascending order (E4).
    pub places: Vec<KeyedHash>,
}

/// Some of the tombstones of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TombstonePage {
    /// What stays of records, in an order of the engine. One that comes or is replaced while pages are read may be in none of them, or in two.
    pub tombstones: Vec<Tombstone>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A keyed hash of a name: whoever has the key of the namespace and the name can tell that it is that one, and nobody else anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyedHash(pub [u8; KeyedHash::BYTES]);

/// Makes the keyed hashes of a namespace. It is a secret, which goes with export and copy (E5).
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey([u8; 32]);

/// The most records of one call.
pub const MAX_ERASED: usize = 1_000;
/// How many a call takes unless it says otherwise.
const DEFAULT_ERASED: usize = 100;
/// How many hashes of places a tombstone has at most, 16 KiB of them.
const MAX_PLACES: usize = 1_024;
/// The longest reason, in bytes.
const MAX_REASON: usize = 1_024;

impl Erasure {
    /// These records; at most [`MAX_ERASED`], else `TooLarge`. `InvalidInput` for none, and for a reason that is none.
    pub fn records(records: impl IntoIterator<Item = RecordId>, reason: impl AsRef<str>) -> Result<Self> {
        let records = checked(records)?;
        match records.len() {
            0 => Err(Error::invalid("an erasure must name what it erases")),
            count => Ok(Self { limit: count, ..Self::new(Erased::Records(records), reason)? }),
        }
    }

    /// The memories that a query finds; its order, limit and offset mean nothing here. `InvalidInput` for one that names neither spaces nor a
    /// status, a filter or a text.
    pub fn memories(query: QueryBuilder<Ledger>, reason: impl AsRef<str>) -> Result<Self> {
        let query = query.build()?;
        if query.spaces == Spaces::All && query.filter.is_none() && query.text.is_none() && query.statuses().is_empty()
        {
            return Err(everything());
        }
        Self::new(Erased::Memories(query), reason)
    }

    /// The documents of a collection that a query finds, likewise.
    pub fn documents(query: QueryBuilder<Documents>, reason: impl AsRef<str>) -> Result<Self> {
        let query = query.build()?;
        if query.spaces == Spaces::All && query.filter.is_none() && query.text.is_none() {
            return Err(everything());
        }
        Self::new(Erased::Documents(query), reason)
    }

    /// Says who erases them.
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Takes so many records in one call at most: 1 to [`MAX_ERASED`], else `InvalidInput`; 100 by default.
    pub fn limit(mut self, limit: usize) -> Result<Self> {
        if !(1..=MAX_ERASED).contains(&limit) {
            return Err(Error::invalid(format!("a call erases 1 to {MAX_ERASED} records")));
        }
        self.limit = limit;
        Ok(self)
    }

    /// Takes of what a query finds only those with these names, for who has listed them and has to know which of them a call without an answer
    /// may have erased. One that does not match any more stays, as does one of another kind. At most [`MAX_ERASED`], else `TooLarge`. Of an erasure of
    /// [`records`](Self::records) it says nothing.
    pub fn among(mut self, records: impl IntoIterator<Item = RecordId>) -> Result<Self> {
        self.among = Some(checked(records)?);
        Ok(self)
    }

    fn new(of: Erased, reason: impl AsRef<str>) -> Result<Self> {
        let reason = Reason::parse(reason)?;
        if reason.0 == Reason::EXPIRED {
            return Err(Error::invalid("this is the reason of what has expired by itself: an erasure has another one"));
        }
        Ok(Self { of, reason, actor: None, limit: DEFAULT_ERASED, among: None })
    }
}

/// In their order, each once.
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
    /// Why what has expired is gone. No erasure has this reason (X4).
    const EXPIRED: &str = "expired";

    /// Checks a reason: `InvalidInput` for an empty one and for control characters, `TooLarge` beyond 1,024 bytes.
    pub fn parse(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            return Err(Error::invalid("an erasure has a reason, in one line"));
        }
        if text.len() > MAX_REASON {
            return Err(Error::too_large(format!(
                "a reason of {} bytes; at most {MAX_REASON} are allowed",
                text.len()
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The reason as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tombstone {
    /// One of a record that has expired then, without hashes (X4).
    pub fn of_expiry(record: RecordId, at: Timestamp) -> Self {
        Self { record, at, reason: Reason(Reason::EXPIRED.to_owned()), actor: None, key: None, places: Vec::new() }
    }

    /// Whether it stays of a record that has expired, and of none that was erased (X4).
    pub fn is_of_expiry(&self) -> bool {
        self.reason.0 == Reason::EXPIRED
    }

    /// In the place of an earlier one of the same record: it keeps out what that one does, and is told of where that one is.
    pub(crate) fn behind(self, earlier: &Self) -> Self {
        let (at, key) = (self.at.max(earlier.at), self.key.or(earlier.key));
        // What was erased stays so, also when what came after it under its name has expired (X4).
        let why = if self.is_of_expiry() { earlier } else { &self };
        let (reason, actor) = (why.reason.clone(), why.actor.clone());
        // Who was told that something has expired is not told of what came after it under its name.
        let is_another = earlier.is_of_expiry() && !self.places.is_empty();
        let places = if is_another { &[] } else { earlier.places.as_slice() };
        Self { at, key, reason, actor, ..self.with_places(places.iter().copied(), MAX_PLACES) }
    }

    /// With the hashes of a memory.
    pub(crate) fn of_memory(self, memory: &Memory, hash_key: &HashKey) -> Self {
        let key = memory.idempotency_key.as_ref().map(|key| hash_key.of_key(key));
        Self { key, ..self.with_places(hash_key.of_space(&memory.space_id), MAX_PLACES) }
    }

    /// With those of a document, which it keeps out however far behind its clock is (E3).
    pub(crate) fn of_document(self, document: &Document, hash_key: &HashKey) -> Self {
        // What has expired stands in the way of no put (X4).
        let at = if self.is_of_expiry() { self.at } else { self.at.max(document.created_at) };
        Self { at, ..self.with_places(hash_key.of_space(&document.space_id), MAX_PLACES) }
    }

    /// With those of where a document was before. They leave room for those of erasures to come.
    pub(crate) fn with_spaces<'s>(self, spaces: impl IntoIterator<Item = &'s SpaceId>, hash_key: &HashKey) -> Self {
        self.with_places(spaces.into_iter().flat_map(|space| hash_key.of_space(space)), MAX_PLACES / 2)
    }

    /// With these besides its own, until it has so many.
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

    /// Whether it keeps a document of its name out that is restored: one that was put behind the erasure is another one (E3).
    pub fn keeps_out(&self, document: &Document) -> bool {
        document.created_at <= self.at
    }
}

/// What a hash is of, so that a key and a space of the same name have two.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Key,
    /// A space itself.
    Space,
    /// A space, and what is below it.
    Place,
}

impl KeyedHash {
    /// How many bytes one has.
    pub const BYTES: usize = 16;
}

impl HashKey {
    /// A key that nobody else has. `Unavailable` where the machine gives no random numbers.
    pub fn generate() -> Result<Self> {
        Self::parse(&CursorKey::generate()?.to_text())
    }

    /// A key that was kept. `Corrupt` when the text is none.
    pub fn parse(text: &str) -> Result<Self> {
        let bytes = STANDARD_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| Error::corrupt("the key of tombstones can't be read"))
    }

    /// The key as a text to keep. It is a secret.
    pub fn to_text(&self) -> String {
        STANDARD_NO_PAD.encode(self.0)
    }

    /// The hash of an idempotency key.
    pub fn of_key(&self, key: &IdempotencyKey) -> KeyedHash {
        self.hash(Kind::Key, key.as_ref())
    }

    /// The hashes of a space: as the space that it is, and as what lies below itself and each of its ancestors, without and with the boundary
    /// behind it.
    pub fn of_space(&self, space: &SpaceId) -> Vec<KeyedHash> {
        // An ancestor ends before a boundary, which is one byte of the space: so one byte more is in it, and ends a character.
        let with_boundary = |path: &str| &space.as_str()[..path.len() + 1];
        let ancestors = space.ancestors().flat_map(|path| [path, with_boundary(path)]);
        let places = ancestors.chain([space.as_str()]).map(|path| self.hash(Kind::Place, path));
        std::iter::once(self.hash(Kind::Space, space.as_str())).chain(places).collect()
    }

    /// Whether a record with these hashes of its spaces lay in some of these; `None` where that can't be told, as of patterns.
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
    /// What an operator writes may name somebody.
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
