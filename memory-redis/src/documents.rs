//! The documents: translation of the contract to Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite,
    Error, ErrorKind, RestoreReport, Result, Timestamp, Verdict, record_rows,
};
use redis::{Cmd, Pipeline, Value};

use crate::connection::{Connections, command, unexpected_answer};
use crate::provider::Shared;
use crate::query::{self, document_id};
use crate::rows;
use crate::statements::{Call, score, words_of_document};
use crate::walk::{Candidate, Range, Source, Walk, fetch};

/// How many documents are read or restored at once.
const AT_ONCE: usize = 64;

/// The documents of a [`RedisMemory`](crate::RedisMemory).
#[derive(Debug)]
pub(crate) struct RedisDocuments {
    shared: Arc<Shared>,
}

impl RedisDocuments {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl DocumentStore for RedisDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        let id = write.id.clone().unwrap_or_else(DocumentId::generate);
        let work = async {
            let connections = self.shared.connections()?;
            loop {
                // Only a race that was lost is run again, until the deadline.
                let attempt = connections.retry(|| connections.put(&write, &id, self.shared.config.clock.now()));
                if let Some(document) = attempt.await? {
                    return Ok(document);
                }
            }
        };
        self.shared.gate.write("documents.put", work).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let work = async {
            let connections = self.shared.connections()?;
            connections
                .retry(|| connections.document(collection, id))
                .await
                .map(|found| found.map(|(document, _)| document))
        };
        self.shared.gate.read("documents.get", work).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let work = async {
            let connections = self.shared.connections()?;
            let page = connections.retry(|| query::documents(&connections, query)).await?;
            record_rows(page.documents.len());
            Ok(page)
        };
        self.shared.gate.read("documents.query", work).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let work = async {
            let connections = self.shared.connections()?;
            loop {
                // What has changed since it was found is looked at again.
                if let Some(removed) = connections.retry(|| connections.remove(selection, max)).await? {
                    record_rows(removed.len());
                    return Ok(removed);
                }
            }
        };
        self.shared.gate.write("documents.remove", work).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.connections()?.restore_documents(&documents).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("documents.restore", work).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let work = async {
            let connections = self.shared.connections()?;
            connections.retry(|| connections.collections()).await
        };
        self.shared.gate.read("documents.collections", work).await
    }
}

/// A document, and its row as it was read.
type Found = (Document, Vec<u8>);

impl Connections {
    /// `None` when the document was changed meanwhile.
    async fn put(&self, write: &DocumentWrite, id: &DocumentId, now: Timestamp) -> Result<Option<Document>> {
        let present = self.document(&write.collection, id).await?;
        let document = write.apply(id, present.as_ref().map(|(document, _)| document), now)?;
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(self.put_call(&document, present.as_ref()));
        let answers = self.write(pipeline).await?;
        Ok((answers.first() == Some(&Value::Int(1))).then_some(document))
    }

    fn put_call(&self, document: &Document, present: Option<&Found>) -> Cmd {
        let words = |document: &Document| words_of_document(document).into_iter().collect::<BTreeSet<_>>();
        let (before, after) = (present.map(|(present, _)| words(present)).unwrap_or_default(), words(document));
        let Document { collection, id, created_at, .. } = document;
        let new = rows::from_document(document);
        let word = |word: &String| self.keys.document_word(collection, word);
        Call::new(&self.scripts.put)
            .key(self.keys.document(collection, id))
            .key(self.keys.collection(collection))
            .key(self.keys.collections())
            .keys(before.difference(&after).map(word))
            .keys(after.difference(&before).map(word))
            .arg(present.map_or(&[][..], |(_, row)| rows::head(row)))
            .arg(rows::head(&new))
            .arg(new.as_slice())
            .arg(score(*created_at))
            .arg(id.as_str())
            .arg(collection.as_str())
            .number(before.difference(&after).count() as i64)
            .into_cmd()
    }

    /// `None` when some of what was found has changed meanwhile; then nothing is removed.
    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Option<Vec<DocumentId>>> {
        let collection = selection.collection();
        let mut found = self.selected(selection).await?;
        if found.len() > max {
            return Err(Error::limit_exceeded(max));
        }
        if found.is_empty() {
            return Ok(Some(Vec::new()));
        }
        found.sort_unstable_by(|(left, _), (right, _)| left.id.cmp(&right.id));
        let mut words = BTreeMap::<_, Vec<Vec<u8>>>::new();
        for (document, _) in &found {
            for word in words_of_document(document) {
                let ids = words.entry(self.keys.document_word(collection, &word)).or_default();
                ids.push(document.id.as_str().into());
            }
        }
        let mut call = Call::new(&self.scripts.remove)
            .key(self.keys.collection(collection))
            .key(self.keys.collections())
            .keys(found.iter().map(|(document, _)| self.keys.document(collection, &document.id)))
            .keys(words.keys().cloned())
            .arg(collection.as_str())
            .number(found.len() as i64);
        for (document, row) in &found {
            call = call.arg(document.id.as_str()).arg(rows::head(row));
        }
        for ids in words.into_values() {
            call = call.number(ids.len() as i64).args(ids);
        }
        let answers = self.write(call.into_pipeline()).await?;
        let ids = found.into_iter().map(|(document, _)| document.id);
        Ok((answers.first() == Some(&Value::Int(1))).then(|| ids.collect()))
    }

    /// The selected documents. One that can't be read is not selected.
    async fn selected(&self, selection: &DocumentSelection) -> Result<Vec<Found>> {
        let collection = selection.collection();
        let mut found = Vec::new();
        let mut take = |Candidate { id, row, .. }: &Candidate| {
            let Some(row) = row else { return Ok(Verdict::Skip) };
            match document_id(id).and_then(|id| rows::document(collection, id, row)) {
                Ok(document) if selection.matches(&document) => found.push((document, row.clone())),
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                _ => {}
            }
            Ok(Verdict::Skip)
        };
        let range = Range::all(self.keys.documents(collection));
        match selection.candidate_ids() {
            Some(ids) => {
                for some in ids.chunks(AT_ONCE) {
                    let some: Vec<_> = some.iter().map(|id| (0, id.as_str().as_bytes())).collect();
                    fetch(self, &range, &some).await?.iter().try_for_each(|candidate| take(candidate).map(drop))?;
                }
            }
            None => {
                let sources = [Source::Ids(self.keys.collection(collection))].into();
                let mut walk = Walk::new(sources, range, AT_ONCE);
                while walk.step(self, &mut take).await? != Verdict::Stop {}
            }
        }
        Ok(found)
    }

    async fn restore_documents(&self, documents: &[Document]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        for (start, some) in (0..).step_by(AT_ONCE).zip(documents.chunks(AT_ONCE)) {
            let calls: Vec<_> = some.iter().map(|document| self.put_call(document, None)).collect();
            let send = || async {
                let mut pipeline = Pipeline::with_capacity(calls.len());
                for call in &calls {
                    pipeline.add_command(call.clone());
                }
                self.write(pipeline).await
            };
            for (at, answer) in self.retry_repeatable(send).await?.into_iter().enumerate() {
                if answer == Value::Int(1) {
                    report.written += 1;
                    continue;
                }
                let document = &some[at];
                // What is there and can't be read differs from what is given.
                match self.retry(|| self.document(&document.collection, &document.id)).await {
                    Ok(Some((present, _))) if present == *document => report.equal += 1,
                    Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                    _ => report.conflicts.push(start + at),
                }
            }
        }
        Ok(report)
    }

    async fn document(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Found>> {
        let answers = self.read(&command("GET", &[&self.keys.document(collection, id)])).await?;
        match answers.into_iter().next() {
            Some(Value::BulkString(row)) => Ok(Some((rows::document(collection, id.clone(), &row)?, row))),
            _ => Ok(None),
        }
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let (mut found, mut from) = (Vec::<Collection>::new(), b"-".to_vec());
        loop {
            let slice: [&[u8]; 6] = [&self.keys.collections(), &from, b"+", b"LIMIT", b"0", b"1000"];
            let answers = self.read(&command("ZRANGEBYLEX", &slice)).await?;
            let Some(Value::Array(names)) = answers.first() else { return Err(unexpected_answer()) };
            for name in names {
                let Value::BulkString(name) = name else { return Err(unexpected_answer()) };
                found.push(Collection::parse(String::from_utf8_lossy(name))?);
            }
            match found.last() {
                Some(last) if !names.is_empty() => from = format!("({last}").into_bytes(),
                _ => return Ok(found),
            }
        }
    }
}
