//! The certificate of an erasure: what was erased and what was verified.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use memory_core::{Actor, Clock as _, Collection, DocumentId, MemoryId, Reason, RecordId, SystemClock, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::input;
use crate::usage::Usage;

/// The certificate of an erasure, by one run or by several that continued with the same file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Certificate {
    reason: String,
    by: Option<Actor>,
    /// The start of the erasure, in milliseconds since 1970 UTC.
    from: Timestamp,
    /// The end of the erasure.
    pub(super) until: Timestamp,
    /// The selection, as it was given.
    selection: Value,
    pub(super) memories: BTreeSet<MemoryId>,
    pub(super) documents: BTreeSet<DocumentName>,
    pub(super) counts: Counts,
    /// The records that a failed call may have erased; their state is still unknown.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    unknown: Names,
    /// The number of named records that neither exist nor were erased.
    #[serde(default)]
    pub(super) absent: usize,
    /// The facts that were verified after the erasure, as sentences.
    pub(super) verified: Vec<String>,
    /// What the files of the engine still hold, and what ends that.
    pub(super) engine: String,
}

/// The numbers of erased records.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) memories: usize,
    pub(super) documents: usize,
}

/// The names of records.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Names {
    memories: BTreeSet<MemoryId>,
    documents: BTreeSet<DocumentName>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct DocumentName {
    pub(super) collection: Collection,
    pub(super) id: DocumentId,
}

struct CertificateFile {
    path: PathBuf,
    folder: PathBuf,
}

/// A certificate with its file, if one is named.
pub(super) struct Certified {
    pub(super) certificate: Certificate,
    file: Option<CertificateFile>,
}

impl Certificate {
    /// Makes a certificate without records.
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
            unknown: Names::default(),
            absent: 0,
            verified: Vec::new(),
            engine,
        }
    }

    /// Names records as erased, and counts them anew.
    pub(super) fn add(&mut self, erased: &[RecordId]) {
        for record in erased {
            match record.clone() {
                RecordId::Memory(id) => self.memories.insert(id),
                RecordId::Document { collection, id } => self.documents.insert(DocumentName { collection, id }),
            };
        }
        self.counts = Counts { memories: self.memories.len(), documents: self.documents.len() };
    }

    /// Adds records that may have been erased.
    pub(super) fn add_unknown(&mut self, records: &[RecordId]) {
        for record in records {
            match record.clone() {
                RecordId::Memory(id) => self.unknown.memories.insert(id),
                RecordId::Document { collection, id } => self.unknown.documents.insert(DocumentName { collection, id }),
            };
        }
    }

    pub(super) fn has_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Takes out the records that may have been erased, to find out.
    pub(super) fn take_unknown(&mut self) -> Vec<RecordId> {
        let Names { memories, documents } = std::mem::take(&mut self.unknown);
        let documents = documents.into_iter().map(|name| RecordId::from((name.collection, name.id)));
        memories.into_iter().map(RecordId::from).chain(documents).collect()
    }

    /// Takes over the records of an earlier run. Returns whether it was the same erasure.
    fn goes_on(&mut self, earlier: Self) -> bool {
        let is_same = (&self.reason, &self.by, &self.selection) == (&earlier.reason, &earlier.by, &earlier.selection);
        if is_same {
            self.from = earlier.from;
            self.memories.extend(earlier.memories);
            self.documents.extend(earlier.documents);
            self.unknown = earlier.unknown;
            self.counts = Counts { memories: self.memories.len(), documents: self.documents.len() };
        }
        is_same
    }
}

impl Names {
    fn is_empty(&self) -> bool {
        self.memories.is_empty() && self.documents.is_empty()
    }
}

impl Certified {
    /// Checks that the file can be written, if there is one. An existing certificate must be of the same erasure, which this one continues.
    pub(super) fn open(mut certificate: Certificate, path: Option<&Path>) -> anyhow::Result<Self> {
        let file = path.map(|path| CertificateFile::open(path, &mut certificate)).transpose()?;
        Ok(Self { certificate, file })
    }

    /// Sets the end to now, and writes the certificate atomically if there is a file. Returns whether there is one.
    pub(super) fn save(&mut self) -> anyhow::Result<bool> {
        self.certificate.until = SystemClock.now();
        self.file.as_ref().map(|file| file.write(&self.certificate)).transpose().map(|written| written.is_some())
    }
}

impl CertificateFile {
    fn open(path: &Path, certificate: &mut Certificate) -> anyhow::Result<Self> {
        let name = input::name(path);
        if path.exists() {
            let other =
                || Usage(format!("--certificate: {name} holds something other than this erasure; name another"));
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
        // The system's message about a missing folder would quote its name.
        if !folder.is_dir() {
            return Err(anyhow!("can't write in {}: it is no folder", input::name(folder)));
        }
        // Only checks that a file can be made there; each write makes its own.
        NamedTempFile::new_in(folder).with_context(|| format!("can't write in {}", input::name(folder)))?;
        Ok(Self { path: path.to_owned(), folder: folder.to_owned() })
    }

    /// Writes the certificate atomically, so that a reader never sees half of it.
    fn write(&self, certificate: &Certificate) -> anyhow::Result<()> {
        let failed = |error: std::io::Error| {
            anyhow::Error::new(error).context(format!("can't write {}", input::name(&self.path)))
        };
        let mut out = BufWriter::new(NamedTempFile::new_in(&self.folder).map_err(failed)?);
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
        let (id, unknown) = (MemoryId::generate(), RecordId::from(MemoryId::generate()));
        file.write(&first).expect("it is written");
        first.add(&[id.into()]);
        first.add_unknown(std::slice::from_ref(&unknown));
        file.write(&first).expect("it is written again");
        let mut second = certificate("why");
        CertificateFile::open(&path, &mut second).expect("it goes on");
        assert!(second.has_unknown());
        assert_eq!((second.take_unknown(), second.has_unknown()), (vec![unknown], false));
        assert_eq!((second.memories, second.counts.memories), (BTreeSet::from([id]), 1));
        assert!(CertificateFile::open(&path, &mut certificate("another")).is_err());
        fs::write(&path, "{}").expect("a file");
        assert!(CertificateFile::open(&path, &mut certificate("why")).is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left there");
    }
}
