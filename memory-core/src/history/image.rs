//! The mutable fields of a version, and the difference between two versions.
//!
//! A difference turns the later version into the earlier one. It holds only the fields that differ, and of a text
//! (other than metadata) only the part between the common prefix and the common suffix. So a version before items were
//! appended costs a few bytes, however long the text is. Each value is preceded by its length, so that a program skips
//! fields that it does not know.

use crate::engine::{StoredDocument, StoredMemory};
use crate::{Collection, Context, Document, DocumentId, Error, ErrorKind, Memory, Result, Timestamp};

/// The format version, the first byte. New fields that may be skipped don't change it.
const FORMAT: u8 = 1;

/// The tag that precedes each value of a difference.
mod tag {
    pub(super) const REVISION: u8 = 1;
    pub(super) const CREATED_AT: u8 = 2;
    pub(super) const UPDATED_AT: u8 = 3;
    pub(super) const NEVER_UPDATED: u8 = 4;
    pub(super) const STATUS: u8 = 5;
    pub(super) const SPACE: u8 = 6;
    pub(super) const METADATA: u8 = 7;
    pub(super) const CONTENT: u8 = 8;
    pub(super) const CONTEXT: u8 = 9;
    pub(super) const NO_CONTEXT: u8 = 10;
    pub(super) const EXPIRES_AT: u8 = 11;
    pub(super) const NEVER_EXPIRES: u8 = 12;
}

/// The fields of a memory or document that a change may touch. Fields that the record does not have are empty.
#[derive(Clone, PartialEq, Default)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Image<T> {
    pub(crate) revision: u64,
    created_at: i64,
    updated_at: Option<i64>,
    expires_at: Option<i64>,
    status: T,
    space: T,
    metadata: T,
    content: T,
    context: Option<T>,
}

impl<'r> From<&'r Memory> for Image<&'r str> {
    fn from(memory: &'r Memory) -> Self {
        Self {
            revision: memory.revision.get(),
            created_at: memory.created_at.as_millis(),
            updated_at: memory.updated_at.map(Timestamp::as_millis),
            expires_at: memory.expires_at.map(Timestamp::as_millis),
            status: memory.status.as_str(),
            metadata: memory.metadata.as_str(),
            context: memory.context.as_ref().map(Context::as_str),
            ..Self::default()
        }
    }
}

impl<'r> From<&'r Document> for Image<&'r str> {
    fn from(document: &'r Document) -> Self {
        Self {
            revision: document.revision.get(),
            created_at: document.created_at.as_millis(),
            updated_at: document.updated_at.map(Timestamp::as_millis),
            expires_at: document.expires_at.map(Timestamp::as_millis),
            space: document.space_id.as_str(),
            metadata: document.metadata.as_str(),
            content: document.content.as_str(),
            ..Self::default()
        }
    }
}

/// Encodes the difference that turns `after` into `before`. The newest version has no successor: its `after` is the
/// empty image.
pub(crate) fn changes(before: &Image<&str>, after: &Image<&str>) -> Vec<u8> {
    let mut changes = vec![FORMAT];
    // Revision, update time and metadata are always written, because later updates that leave no entry change only
    // these (H8).
    put(&mut changes, tag::REVISION, &number(before.revision));
    if before.created_at != after.created_at {
        put(&mut changes, tag::CREATED_AT, &signed(before.created_at));
    }
    match before.updated_at {
        Some(millis) => put(&mut changes, tag::UPDATED_AT, &signed(millis)),
        None => put(&mut changes, tag::NEVER_UPDATED, &[]),
    }
    match before.expires_at {
        same if same == after.expires_at => {}
        Some(millis) => put(&mut changes, tag::EXPIRES_AT, &signed(millis)),
        None => put(&mut changes, tag::NEVER_EXPIRES, &[]),
    }
    let texts = [
        (tag::STATUS, before.status, after.status),
        (tag::SPACE, before.space, after.space),
        (tag::CONTENT, before.content, after.content),
    ];
    if before.metadata != after.metadata {
        put(&mut changes, tag::METADATA, before.metadata.as_bytes());
    }
    for (tag, before, after) in texts.into_iter().filter(|(_, before, after)| before != after) {
        put_text(&mut changes, tag, before.as_bytes(), after.as_bytes());
    }
    match before.context {
        same if same == after.context => {}
        Some(context) => {
            let after = after.context.unwrap_or_default();
            put_text(&mut changes, tag::CONTEXT, context.as_bytes(), after.as_bytes());
        }
        None => put(&mut changes, tag::NO_CONTEXT, &[]),
    }
    changes
}

impl Image<Vec<u8>> {
    /// Copies an image, as the starting point of [`go_back`](Self::go_back).
    pub(crate) fn of(image: &Image<&str>) -> Self {
        let owned = |text: &str| text.as_bytes().to_vec();
        Self {
            revision: image.revision,
            created_at: image.created_at,
            updated_at: image.updated_at,
            expires_at: image.expires_at,
            status: owned(image.status),
            space: owned(image.space),
            metadata: owned(image.metadata),
            content: owned(image.content),
            context: image.context.map(owned),
        }
    }

    /// Turns this version into the one before it. `Corrupt` if these are not changes of this version, `Unsupported` if
    /// a newer program wrote them in a format that this one can't read.
    pub(crate) fn go_back(&mut self, changes: &[u8]) -> Result<()> {
        let unreadable = || Error::corrupt("an entry of a history can't be read");
        match changes.split_first() {
            Some((&FORMAT, values)) => self.take(values).ok_or_else(unreadable),
            Some((format, _)) if *format > FORMAT => {
                Err(Error::new(ErrorKind::Unsupported, "a newer program has written this entry of a history"))
            }
            _ => Err(unreadable()),
        }
    }

    fn take(&mut self, mut values: &[u8]) -> Option<()> {
        while let Some((tag, rest)) = values.split_first() {
            values = rest;
            let length = usize::try_from(take_number(&mut values)?).ok()?;
            let (value, rest) = values.split_at_checked(length)?;
            values = rest;
            match *tag {
                tag::REVISION => self.revision = whole(value, take_number)?,
                tag::CREATED_AT => self.created_at = whole(value, take_signed)?,
                tag::UPDATED_AT => self.updated_at = Some(whole(value, take_signed)?),
                tag::NEVER_UPDATED => self.updated_at = None,
                tag::EXPIRES_AT => self.expires_at = Some(whole(value, take_signed)?),
                tag::NEVER_EXPIRES => self.expires_at = None,
                tag::STATUS => take_text(value, &mut self.status)?,
                tag::SPACE => take_text(value, &mut self.space)?,
                tag::METADATA => self.metadata = value.to_vec(),
                tag::CONTENT => take_text(value, &mut self.content)?,
                tag::CONTEXT => take_text(value, self.context.get_or_insert_default())?,
                tag::NO_CONTEXT => self.context = None,
                // A field that a newer program added.
                _ => {}
            }
        }
        Some(())
    }

    /// Builds the memory with these fields; the immutable ones are those of the current memory.
    pub(crate) fn to_memory(&self, now: &Memory) -> Result<Memory> {
        let stored = StoredMemory {
            id: now.id.as_bytes(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            revision: self.stored_revision(),
            status: text(&self.status)?,
            space_id: now.space_id.as_str(),
            idempotency_key: now.idempotency_key.as_ref().map(AsRef::as_ref),
            metadata: text(&self.metadata)?,
            trigger: now.trigger.as_str(),
            context: self.context.as_deref().map(text).transpose()?,
            expires_at: self.expires_at,
        };
        stored.read()
    }

    /// Builds the document with these fields.
    pub(crate) fn to_document(&self, collection: &Collection, id: &DocumentId) -> Result<Document> {
        let stored = StoredDocument {
            id: id.as_str(),
            collection: collection.as_str(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            revision: self.stored_revision(),
            space_id: text(&self.space)?,
            metadata: text(&self.metadata)?,
            content: text(&self.content)?,
            expires_at: self.expires_at,
        };
        stored.read()
    }

    /// Returns the total bytes of the texts.
    pub(crate) fn size(&self) -> usize {
        let context = self.context.as_ref().map_or(0, Vec::len);
        self.space.len() + self.metadata.len() + self.content.len() + context
    }

    fn stored_revision(&self) -> i64 {
        // A revision that does not fit becomes 0, which is invalid.
        i64::try_from(self.revision).unwrap_or_default()
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::corrupt("an entry of a history belongs to another version"))
}

/// Appends a field: tag, length of the value, value.
fn put(changes: &mut Vec<u8>, tag: u8, value: &[u8]) {
    changes.push(tag);
    put_number(changes, value.len() as u64);
    changes.extend(value);
}

/// LEB128: seven bits a byte, lowest first; the high bit marks that more follow.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn number(number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10);
    put_number(&mut bytes, number);
    bytes
}

/// Reads a number that must fill the whole value.
fn whole<T>(mut value: &[u8], take: fn(&mut &[u8]) -> Option<T>) -> Option<T> {
    take(&mut value).filter(|_| value.is_empty())
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Zigzag encoding: the sign is the lowest bit, so that times around 1970 are short.
fn signed(millis: i64) -> Vec<u8> {
    number(((millis << 1) ^ (millis >> 63)) as u64)
}

fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let number = take_number(bytes)?;
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}

/// Appends a text: the lengths of the common prefix and suffix, and the part between them.
fn put_text(changes: &mut Vec<u8>, tag: u8, before: &[u8], after: &[u8]) {
    let begin = shared_beginning(before, after);
    let (before, after) = (&before[begin..], &after[begin..]);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(one, other)| one == other).count();
    let between = &before[..before.len() - end];
    let shared = [begin, end].map(|shared| number(shared as u64)).concat();
    changes.push(tag);
    put_number(changes, (shared.len() + between.len()) as u64);
    changes.extend(shared);
    changes.extend(between);
}

fn take_text(value: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let mut between = value;
    let mut number = || usize::try_from(take_number(&mut between)?).ok();
    let (begin, end) = (number()?, number()?);
    let end = text.len().checked_sub(end).filter(|end| begin <= *end)?;
    text.splice(begin..end, between.iter().copied());
    Some(())
}

/// Returns the length of the common prefix, in bytes.
fn shared_beginning(one: &[u8], other: &[u8]) -> usize {
    /// Number of bytes that one step compares.
    const BLOCK: usize = 512;
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
    let start = BLOCK * blocks.take_while(|(one, other)| one == other).count();
    start + one[start..].iter().zip(&other[start..]).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn image(revision: u64, updated_at: Option<i64>, context: Option<&str>, content: &str) -> Image<String> {
        // So that versions differ in it, too.
        let expires_at = updated_at.filter(|millis| *millis < 0);
        let (created_at, content) = (-7, content.to_owned());
        Image {
            revision,
            created_at,
            updated_at,
            expires_at,
            content,
            context: context.map(str::to_owned),
            ..Image::default()
        }
    }

    fn borrowed(image: &Image<String>) -> Image<&str> {
        Image {
            revision: image.revision,
            created_at: image.created_at,
            updated_at: image.updated_at,
            expires_at: image.expires_at,
            status: &image.status,
            space: &image.space,
            metadata: &image.metadata,
            content: &image.content,
            context: image.context.as_deref(),
        }
    }

    fn comes_back(before: &Image<String>, after: &Image<String>) -> usize {
        let changes = changes(&borrowed(before), &borrowed(after));
        let mut image = Image::of(&borrowed(after));
        image.go_back(&changes).expect("these changes are of this version");
        assert_eq!(image, Image::of(&borrowed(before)));
        changes.len()
    }

    proptest! {
        #[test]
        fn any_two_versions_come_back(
            before in ("[ab,é]{0,9}", "[ab]{0,9}", any::<Option<i64>>(), any::<u64>()),
            after in ("[ab,é]{0,9}", "[ab]{0,9}", any::<Option<i64>>(), any::<u64>()),
            has_context in any::<(bool, bool)>(),
        ) {
            let image = |(context, content, updated_at, revision): (String, String, _, _), has_context: bool| {
                super::tests::image(revision, updated_at, has_context.then_some(&*context), &content)
            };
            comes_back(&image(before, has_context.0), &image(after, has_context.1));
        }

        #[test]
        fn no_bytes_are_a_panic(changes in any::<Vec<u8>>()) {
            let _ = Image::of(&borrowed(&image(3, None, Some("[1]"), "text"))).go_back(&changes);
        }
    }

    #[test]
    fn what_was_appended_to_is_not_copied() {
        let chain = format!("[{}]", vec![r#"{"step":"search","output":"é"}"#; 10_000].join(","));
        let longer = format!("{},{}]", &chain[..chain.len() - 1], r#"{"step":"answer"}"#);
        let (before, after) =
            (image(7, Some(1_700_000_000_000), Some(&chain), ""), image(8, Some(1_700_000_000_001), Some(&longer), ""));
        assert!(comes_back(&before, &after) < 24);
        assert!(comes_back(&after, &before) < 48);
    }

    #[test]
    fn changes_of_another_version_are_refused() {
        let (before, after) = (image(1, None, None, "a long text"), image(2, None, None, "a long text, and more"));
        let changes = changes(&borrowed(&before), &borrowed(&after));
        assert!(Image::of(&borrowed(&image(2, None, None, "short"))).go_back(&changes).is_err());
        assert!(Image::of(&borrowed(&after)).go_back(&changes[..changes.len() - 1]).is_err());
        assert!(Image::of(&borrowed(&after)).go_back(&[]).is_err());
    }

    #[test]
    fn what_a_newer_program_keeps_is_passed_over_or_refused() {
        let (before, after) = (image(1, None, None, "one"), image(2, None, None, "two"));
        let mut changes = changes(&borrowed(&before), &borrowed(&after));
        put(&mut changes, 200, b"what this program does not know");
        let mut image = Image::of(&borrowed(&after));
        image.go_back(&changes).expect("the rest is of this version");
        assert_eq!(image, Image::of(&borrowed(&before)));
        changes[0] += 1;
        let error = image.go_back(&changes).expect_err("another way to write it");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
