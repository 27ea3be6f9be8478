//! Random texts in every field of records, which are then searched for in the files of a server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use memory_core::{DocumentSelection, MemoryPatch, MemoryProvider, RecordId, Result};
use uuid::Uuid;

use crate::fixture::{actor, collection, context, document_id, key, metadata, new_document, new_memory, trigger};
use crate::random::mix;

/// The length of the blocks, in bytes, in which files are searched.
const BLOCK: usize = 16;
/// The length of a mark, in bytes. Records hold its hexadecimal digits.
const BYTES: usize = 32;

/// Random texts, one for each field of a memory, of documents, and of their earlier versions.
///
/// A file contains a mark if it has 31 consecutive digits of it, or the bytes themselves, so that a truncated or compressed text is found
/// as well. Failures print the seed of the marks.
pub struct Marks {
    seed: u64,
    /// Each block that can be a part of a mark, with the field of the mark.
    blocks: HashMap<[u8; BLOCK], &'static str>,
}

impl Marks {
    /// The fields that have a mark.
    pub const FIELDS: [&'static str; 18] = [
        "space of the memory",
        "idempotency key",
        "trigger",
        "context",
        "metadata of the memory",
        "context before",
        "metadata of the memory before",
        "actor of the update",
        "space of the document",
        "content",
        "metadata of the document",
        "space of the document before",
        "content before",
        "metadata of the document before",
        "actor of the put",
        "content of the removed document",
        "metadata of the removed document",
        "actor of the removal",
    ];

    /// Marks from a new random seed.
    pub fn random() -> Self {
        let (_, seed) = Uuid::now_v7().as_u64_pair();
        Self::with_seed(seed)
    }

    fn with_seed(seed: u64) -> Self {
        let mut blocks = HashMap::<[u8; BLOCK], _>::new();
        for field in Self::FIELDS {
            let bytes = bytes(seed, field);
            for form in [hexadecimal(&bytes).into_bytes(), bytes.to_vec()] {
                for block in form.windows(BLOCK) {
                    blocks.insert(block.try_into().expect("a window has the length of a block"), field);
                }
            }
        }
        Self { seed, blocks }
    }

    /// Writes a memory and updates it, puts a document and moves it, and puts another and removes it, with a mark in each field. Returns
    /// the names of these records.
    pub async fn write(&self, provider: &dyn MemoryProvider) -> Result<Vec<RecordId>> {
        let mut memory =
            new_memory(&self.text("space of the memory"), 1).with_context(context(&self.json("context before")));
        memory.trigger = trigger(&self.json("trigger"));
        memory.metadata = metadata(&self.object("metadata of the memory before"));
        let memory = provider.store(memory.with_idempotency_key(key(&self.text("idempotency key")))).await?;
        let patch = MemoryPatch::new().set_context(context(&self.json("context")));
        let patch = patch.replace_metadata(metadata(&self.object("metadata of the memory")));
        provider.update(memory, patch.by(actor(&self.text("actor of the update")))).await?;

        let documents = provider.documents();
        let put = async |id: &str, space: &str, content: &str, object: &str| {
            let write = new_document("notes", id, &self.text(space), &self.text(content));
            let write = write.with_metadata(metadata(&self.object(object))).by(actor(&self.text("actor of the put")));
            documents.put(write).await
        };
        put("moved", "space of the document before", "content before", "metadata of the document before").await?;
        put("moved", "space of the document", "content", "metadata of the document").await?;
        let (content, object) = ("content of the removed document", "metadata of the removed document");
        put("removed", "space of the document", content, object).await?;
        let one = DocumentSelection::ids(collection("notes"), [document_id("removed")])?;
        documents.remove(&one.by(actor(&self.text("actor of the removal"))), 1).await?;
        let names = ["moved", "removed"].map(|id| RecordId::from((collection("notes"), document_id(id))));
        Ok([RecordId::from(memory)].into_iter().chain(names).collect())
    }

    /// The files at or below a path that contain marks, each with the fields of these marks.
    pub fn found(&self, at: &Path) -> io::Result<BTreeMap<PathBuf, BTreeSet<&'static str>>> {
        let (mut found, mut paths) = (BTreeMap::new(), vec![at.to_owned()]);
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                for entry in if_there(fs::read_dir(&path))?.into_iter().flatten() {
                    paths.push(entry?.path());
                }
            } else if let Some(bytes) = if_there(fs::read(&path))? {
                let fields = self.found_in(&bytes);
                if !fields.is_empty() {
                    found.insert(path, fields);
                }
            }
        }
        Ok(found)
    }

    /// Panics unless each mark is in some file at or below a path.
    #[track_caller]
    pub fn check_there(&self, at: &Path) -> io::Result<()> {
        let found = self.found(at)?;
        let is_missing = |field: &&str| !found.values().any(|fields| fields.contains(*field));
        let missing: Vec<_> = Self::FIELDS.into_iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{self}: {missing:?} were not found; the other marks are in {found:#?}");
        Ok(())
    }

    /// Panics if any file at or below a path contains a mark.
    #[track_caller]
    pub fn check_gone(&self, from: &Path) -> io::Result<()> {
        assert!(from.exists(), "{} does not exist", from.display());
        let found = self.found(from)?;
        assert!(found.is_empty(), "{self}: marks are still in {found:#?}");
        Ok(())
    }

    fn found_in(&self, bytes: &[u8]) -> BTreeSet<&'static str> {
        let (blocks, _) = bytes.as_chunks::<BLOCK>();
        // Most blocks of some files are empty.
        let written = blocks.iter().filter(|block| **block != [0; BLOCK]);
        written.filter_map(|block| self.blocks.get(block).copied()).collect()
    }

    /// The mark of a field as records hold it.
    fn text(&self, field: &str) -> String {
        hexadecimal(&bytes(self.seed, field))
    }

    fn json(&self, field: &str) -> String {
        format!("\"{}\"", self.text(field))
    }

    fn object(&self, field: &str) -> String {
        format!(r#"{{"mark":"{}"}}"#, self.text(field))
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "marks of the seed {:#018x}", self.seed)
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marks").field("seed", &self.seed).finish_non_exhaustive()
    }
}

fn bytes(seed: u64, field: &str) -> [u8; BYTES] {
    let place = Marks::FIELDS.iter().position(|name| *name == field).expect("one of the fields") as u64;
    let mut bytes = [0; BYTES];
    for (part, number) in bytes.chunks_exact_mut(8).zip(4 * place..) {
        part.copy_from_slice(&mix(seed.wrapping_add(number)).to_be_bytes());
    }
    bytes
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `None` for a file that was deleted meanwhile: it holds nothing any more.
fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use memory_core::InMemory;

    use super::*;

    #[test]
    fn half_of_a_mark_is_found_wherever_it_begins() {
        let marks = Marks::with_seed(1);
        let (text, bytes) = (marks.text("trigger").into_bytes(), bytes(1, "trigger"));
        for begin in 0..BLOCK {
            for part in [&text[..31], &text[33..], &bytes[..31], &bytes[1..]] {
                let file = [vec![0; begin], part.to_vec(), b"other".to_vec()].concat();
                assert_eq!(marks.found_in(&file), BTreeSet::from(["trigger"]), "behind {begin} bytes");
            }
            let cut = [vec![0; begin], text[..BLOCK - 1].to_vec()].concat();
            assert_eq!(marks.found_in(&cut), BTreeSet::new());
        }
        assert_eq!(Marks::with_seed(1_000).found_in(&text), BTreeSet::new());
    }

    #[test]
    fn files_have_what_is_written_to_them() {
        let (folder, marks) = (tempfile::tempdir().expect("a temporary folder"), Marks::random());
        marks.check_gone(folder.path()).expect("an empty folder");
        for (number, field) in Marks::FIELDS.into_iter().enumerate() {
            let below = folder.path().join(number.to_string());
            fs::create_dir(&below).expect("a folder");
            fs::write(below.join("file"), marks.object(field)).expect("a file");
        }
        marks.check_there(folder.path()).expect("files");
        let found = marks.found(&folder.path().join("2/file")).expect("a file");
        assert_eq!(found.into_values().collect::<Vec<_>>(), [BTreeSet::from(["trigger"])]);
    }

    #[tokio::test]
    async fn records_of_all_fields_are_written() {
        let provider = InMemory::new();
        provider.init().await.expect("an open provider");
        let records = Marks::random().write(&provider).await.expect("writes");
        assert_eq!(records.len(), 3);
    }
}
