//! What was erased, and what was verified, for who has to prove it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use memory_core::{Actor, Collection, DocumentId, MemoryId, Reason, RecordId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::input;
use crate::usage::Usage;

/// What was erased, by one run or by several that went on with the same file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Certificate {
    reason: String,
    by: Option<Actor>,
    /// When it began, in milliseconds since 1970 UTC.
    from: Timestamp,
    /// When it ended.
    pub(super) until: Timestamp,
    /// What was to be erased, as it was given.
    selection: Value,
    pub(super) memories: BTreeSet<MemoryId>,
    pub(super) documents: BTreeSet<DocumentName>,
    pub(super) counts: Counts,
    /// What was found true behind the erasure, as sentences.
    pub(super) verified: Vec<String>,
    /// What the engine still holds, and what ends that.
    pub(super) engine: String,
}

/// How many records were erased.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) memories: usize,
    pub(super) documents: usize,
}

/// What a document was called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct DocumentName {
    pub(super) collection: Collection,
    pub(super) id: DocumentId,
}

/// The file that a certificate goes to.
pub(super) struct CertificateFile {
    path: PathBuf,
    /// What takes its name when it is complete: a reader never sees half a certificate.
    file: NamedTempFile,
}

impl Certificate {
    /// One of nothing so far.
    pub(super) fn new(reason: &Reason, by: Option<&Actor>, selection: Value, from: Timestamp, engine: String) -> Self {
        Self {
            reason: reason.as_str().to_owned(),
            by: by.cloned(),
            from,
            until: from,
            selection,
            memories: BTreeSet::new(),
            documents: BTreeSet::new(),
            counts: Counts::default(),
            verified: Vec::new(),
            engine,
        }
    }

    /// Adds what was erased.
    pub(super) fn add(&mut self, erased: &BTreeSet<RecordId>) {
        for record in erased {
            match record.clone() {
                RecordId::Memory(id) => self.memories.insert(id),
                RecordId::Document { collection, id } => self.documents.insert(DocumentName { collection, id }),
            };
        }
        self.counts = Counts { memories: self.memories.len(), documents: self.documents.len() };
    }

    /// Takes over what an earlier run of the same erasure has erased; tells whether it was the same.
    fn goes_on(&mut self, earlier: Self) -> bool {
        let is_same = (&self.reason, &self.by, &self.selection) == (&earlier.reason, &earlier.by, &earlier.selection);
        if is_same {
            self.from = earlier.from;
            self.memories.extend(earlier.memories);
            self.documents.extend(earlier.documents);
            self.counts = Counts { memories: self.memories.len(), documents: self.documents.len() };
        }
        is_same
    }
}

impl CertificateFile {
    /// Makes sure that it can be written. A certificate that is there must be one of the same erasure, which the new one then goes on with.
    pub(super) fn open(path: &Path, certificate: &mut Certificate) -> anyhow::Result<Self> {
        let name = input::name(path);
        if path.exists() {
            let other = || Usage(format!("--certificate: {name} has something else than this erasure; name another"));
            let text = fs::read_to_string(path).map_err(|_| other())?;
            let earlier: Certificate = serde_json::from_str(&text).map_err(|_| other())?;
            if !certificate.goes_on(earlier) {
                return Err(other().into());
            }
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // The message of the system about a folder that is not there would quote its name.
        if !folder.is_dir() {
            return Err(anyhow!("can't write in {}: it is no folder", input::name(folder)));
        }
        let file = NamedTempFile::new_in(folder).with_context(|| format!("can't write in {}", input::name(folder)))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes it in one step.
    pub(super) fn write(self, certificate: &Certificate) -> anyhow::Result<()> {
        let failed = |error: std::io::Error| {
            anyhow::Error::new(error).context(format!("can't write {}", input::name(&self.path)))
        };
        let mut out = BufWriter::new(self.file);
        serde_json::to_writer_pretty(&mut out, certificate).map_err(|error| failed(error.into()))?;
        out.write_all(b"\n").map_err(failed)?;
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn certificate(reason: &str) -> Certificate {
        let reason = Reason::parse(reason).expect("a reason");
        Certificate::new(&reason, None, json!({ "ids": [] }), Timestamp::MIN, "nothing is left".to_owned())
    }

    #[test]
    fn an_erasure_goes_on_with_its_own_certificate_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("certificate.json");
        let mut first = certificate("why");
        let file = CertificateFile::open(&path, &mut first).expect("it can be written");
        let id = MemoryId::generate();
        first.add(&BTreeSet::from([id.into()]));
        file.write(&first).expect("it is written");
        let mut second = certificate("why");
        drop(CertificateFile::open(&path, &mut second).expect("it goes on"));
        assert_eq!((second.memories, second.counts.memories), (BTreeSet::from([id]), 1));
        assert!(CertificateFile::open(&path, &mut certificate("another")).is_err());
        fs::write(&path, "{}").expect("a file");
        assert!(CertificateFile::open(&path, &mut certificate("why")).is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left there");
    }
}
