//! The mark: a document of the target that says how far it has followed its source.

use memory_core::{
    Changes, Clock as _, Collection, Collections, Content, DocumentId, DocumentSelection, DocumentStore, DocumentWrite,
    ErrorKind, Expect, MemoryId, MemoryProvider, MemoryQuery, Result, Revision, SpaceId, SystemClock, Watch, WatchFrom,
    Watched,
};
use serde::{Deserialize, Serialize};

use crate::collections::MARK_COLLECTION;
use crate::usage::Usage;

/// The error if the target is the source.
pub(super) const SAME_PLACE: &str = "--to: this is the database of --url itself; name another one";

/// The id of the mark in its collection.
const ID: &str = "source";

/// The state of a move. It is written after the changes that it covers, so a run that continues repeats at most some of them. It is written
/// by compare-and-set: after a second run of the command has begun, the first one can't write it any more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mark {
    /// The id of the move, which is the same in all its runs.
    pub(super) r#move: String,
    /// The id of the run that owns the target: the last one that has begun.
    #[serde(default)]
    run: String,
    /// The token after which the feed continues; `None` for the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// The last token before the feed was read from its beginning again, by which the source is still recognized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// Whether the target may lack records that no later change reports, or hold documents whose removal was missed.
    #[serde(default)]
    pub(super) has_gap: bool,
    /// Whether the target has replaced the source.
    #[serde(default)]
    pub(super) is_finished: bool,
    /// The revision of the mark in the target, for compare-and-set; `None` if it has none yet.
    #[serde(skip)]
    revision: Option<Revision>,
}

impl Mark {
    /// Reads the mark of a target; `None` if it follows no source yet.
    pub(super) async fn read(target: &dyn DocumentStore) -> Result<Option<Self>> {
        let Some(document) = target.get(&collection()?, &DocumentId::parse(ID)?).await? else { return Ok(None) };
        let unreadable = |error| memory_core::Error::corrupt("the mark in the target can't be read").with_source(error);
        let mark: Self = serde_json::from_str(document.content.as_str()).map_err(unreadable)?;
        Ok(Some(Self { revision: Some(document.revision), ..mark }))
    }

    /// Makes the first mark of a new move.
    pub(super) fn of_new_move() -> Self {
        Self { r#move: MemoryId::generate().to_string(), ..Self::default() }.of_new_run()
    }

    /// Returns the mark for a new run.
    pub(super) fn of_new_run(mut self) -> Self {
        // The previous run may have ended in its first batch. A feed from the beginning does not report which of the documents that it
        // applied were removed at the source since.
        self.has_gap |= self.revision.is_some() && self.token.is_none();
        Self { run: MemoryId::generate().to_string(), ..self }
    }

    /// Writes the mark to the target. Fails with `Conflict` if another run has written or removed it since it was read.
    pub(super) async fn put(&mut self, target: &dyn DocumentStore) -> Result<()> {
        let error = match self.put_once(target).await {
            Err(error) if error.kind() == ErrorKind::Conflict => error,
            put => return put,
        };
        // An earlier write of this run whose outcome was unknown may have succeeded.
        match Self::read(target).await? {
            Some(there) if there.run == self.run && there.revision != self.revision => {
                self.revision = there.revision;
                self.put_once(target).await
            }
            _ => Err(error.with_message("another run of copy works on this target, or --unfence has ended the move")),
        }
    }

    async fn put_once(&mut self, target: &dyn DocumentStore) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|error| {
            memory_core::Error::new(ErrorKind::Unexpected, "a mark can't be written").with_source(error)
        })?;
        let expect = self.revision.map_or(Expect::Absent, Expect::Revision);
        let put = target.put(write(DocumentId::parse(ID)?, &text)?.expect(expect)).await?;
        self.revision = Some(put.revision);
        Ok(())
    }

    /// Removes the mark of a target.
    pub(super) async fn remove(target: &dyn DocumentStore) -> Result<()> {
        remove(target, DocumentId::parse(ID)?).await
    }

    /// Makes the next attempt read the feed from its beginning and then remove the documents that only the target has, since the feed no
    /// longer reports everything from the token on.
    pub(super) fn begin_anew(&mut self) {
        self.has_gap = true;
        self.origin = self.token.take().or(self.origin.take());
    }

    /// Watches the source from the mark on. Fails, as a mistake in the arguments, if the target follows another source.
    pub(super) async fn watch(&self, source: &dyn MemoryProvider) -> anyhow::Result<Changes> {
        match self.token.clone() {
            Some(token) => watch(source, WatchFrom::Token(token)).await,
            None => {
                self.check(source).await?;
                watch(source, WatchFrom::Beginning).await
            }
        }
    }

    /// Fails, as a mistake in the arguments, if the target follows or has followed another source.
    pub(super) async fn check(&self, source: &dyn MemoryProvider) -> anyhow::Result<()> {
        let Some(token) = self.token.clone().or(self.origin.clone()) else { return Ok(()) };
        match watch(source, WatchFrom::Token(token)).await {
            Err(error) if !is_reset(&error) => Err(error),
            // Even if the feed no longer reaches back to the token, the token was made by this source.
            _ => Ok(()),
        }
    }
}

async fn watch(source: &dyn MemoryProvider, from: WatchFrom) -> anyhow::Result<Changes> {
    let everything = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    source.watch(&everything.from(from)).await.map_err(|error| match error.kind() {
        // Only the ledger that made a token can open it.
        ErrorKind::InvalidInput => {
            Usage("--to: the target follows another source: name that source with --url, or another target".to_owned())
                .into()
        }
        _ => error.into(),
    })
}

fn is_reset(error: &anyhow::Error) -> bool {
    error.downcast_ref::<memory_core::Error>().is_some_and(|error| error.kind() == ErrorKind::FeedReset)
}

/// Whether source and target are the same database under two URLs: puts a document into the target and looks for it in the source.
pub(super) async fn is_one_place(source: &dyn DocumentStore, target: &dyn DocumentStore) -> Result<bool> {
    let id = DocumentId::generate();
    target.put(write(id.clone(), "{}")?).await?;
    let found = source.get(&collection()?, &id).await;
    remove(target, id).await?;
    Ok(found?.is_some())
}

pub(super) fn collection() -> Result<Collection> {
    Collection::parse(MARK_COLLECTION)
}

/// Makes the write of a document of the move.
pub(super) fn write(id: DocumentId, content: &str) -> Result<DocumentWrite> {
    let (space, content) = (SpaceId::parse("follow")?, Content::parse(content)?);
    Ok(DocumentWrite::new(collection()?, space, content, SystemClock.now()).with_id(id))
}

async fn remove(target: &dyn DocumentStore, id: DocumentId) -> Result<()> {
    let selection = DocumentSelection::ids(collection()?, [id])?;
    target.remove(&selection, 1).await.map(drop)
}

#[cfg(test)]
mod tests {
    use memory_core::InMemory;

    use super::*;

    #[tokio::test]
    async fn a_run_puts_no_mark_once_another_one_has() {
        let target = InMemory::new();
        target.init().await.expect("opens");
        let documents = target.documents();
        let mut first = Mark::of_new_move();
        first.put(&*documents).await.expect("the first one");
        let mut second = Mark::read(&*documents).await.expect("read").expect("a mark").of_new_run();
        second.put(&*documents).await.expect("it was read");
        let refused = first.put(&*documents).await.expect_err("another one has put it");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        Mark::remove(&*documents).await.expect("removed");
        let refused = second.put(&*documents).await.expect_err("there is none any more");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert_eq!(Mark::read(&*documents).await.expect("read"), None);
    }

    #[tokio::test]
    async fn a_put_that_had_no_answer_stands_in_nobodys_way() {
        let target = InMemory::new();
        target.init().await.expect("opens");
        let documents = target.documents();
        let mut mark = Mark::of_new_move();
        for has_gap in [true, false] {
            // Done, while the run does not know.
            mark.clone().put(&*documents).await.expect("put");
            mark.has_gap = has_gap;
            mark.put(&*documents).await.expect("its own one was there");
            assert_eq!(Mark::read(&*documents).await.expect("read"), Some(mark.clone()));
        }
    }

    #[tokio::test]
    async fn one_place_is_known_under_two_names() {
        let (one, other) = (InMemory::new(), InMemory::new());
        let same = one.reopen(std::sync::Arc::new(SystemClock), memory_core::DEFAULT_DEADLINE);
        for provider in [&one, &other, &same] {
            provider.init().await.expect("opens");
        }
        assert!(is_one_place(&*one.documents(), &*same.documents()).await.expect("asked"));
        assert!(!is_one_place(&*one.documents(), &*other.documents()).await.expect("asked"));
        let left = same.documents().collections().await.expect("listed");
        assert!(left.is_empty(), "{left:?}");
    }
}
