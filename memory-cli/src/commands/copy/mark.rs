//! How far a target has come that follows a source: a document of the target itself.

use memory_core::{
    Changes, Clock as _, Collection, Collections, Content, DocumentId, DocumentSelection, DocumentStore, DocumentWrite,
    ErrorKind, Expect, MemoryId, MemoryProvider, MemoryQuery, Result, Revision, SpaceId, SystemClock, VectorKeeper,
    Watch, WatchFrom, Watched,
};
use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// The collection of a target that says how far it is.
const COLLECTION: &str = "_follow";
const ID: &str = "source";

/// The state of a move. It is put behind what it tells of, so that whoever goes on from it repeats some of that at most, and only in the
/// place of what was read: of two runs of the command, the one that began first can't put it any more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mark {
    /// The move that it is of: the same in all its runs.
    pub(super) r#move: String,
    /// The run of the command that goes on with the target: the last that has begun.
    #[serde(default)]
    run: String,
    /// What the feed goes on behind; the beginning without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// A token by which the source is known where the feed is begun anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// Whether the target may lack what no change will tell of again, or hold documents whose removal was missed.
    #[serde(default)]
    pub(super) has_gap: bool,
    /// Whether the target has taken over.
    #[serde(default)]
    pub(super) is_finished: bool,
    /// The revision in place of which it is put; `None` where the target has none yet.
    #[serde(skip)]
    revision: Option<Revision>,
}

impl Mark {
    /// What the target has; `None` when it follows nobody yet.
    pub(super) async fn read(target: &dyn DocumentStore) -> Result<Option<Self>> {
        let Some(document) = target.get(&collection()?, &DocumentId::parse(ID)?).await? else { return Ok(None) };
        let unreadable =
            |error| memory_core::Error::corrupt("what the target has noted can't be read").with_source(error);
        let mark: Self = serde_json::from_str(document.content.as_str()).map_err(unreadable)?;
        Ok(Some(Self { revision: Some(document.revision), ..mark }))
    }

    /// The first one of a move.
    pub(super) fn of_new_move() -> Self {
        Self { r#move: MemoryId::generate().to_string(), ..Self::default() }.of_new_run()
    }

    /// The same for a run that begins.
    pub(super) fn of_new_run(mut self) -> Self {
        // The run before may have ended amid its first batch, and what was removed since at the source is told by no change.
        self.has_gap |= self.revision.is_some() && self.token.is_none();
        Self { run: MemoryId::generate().to_string(), ..self }
    }

    /// Keeps it in the target. `Conflict` where another run has put or removed one since this one was read.
    pub(super) async fn put(&mut self, target: &dyn DocumentStore) -> Result<()> {
        let error = match self.put_once(target).await {
            Err(error) if error.kind() == ErrorKind::Conflict => error,
            put => return put,
        };
        // An earlier put of this run that had no answer may have been done.
        match Self::read(target).await? {
            Some(there) if there.run == self.run && there.revision != self.revision => {
                self.revision = there.revision;
                self.put_once(target).await
            }
            _ => {
                Err(error.with_message("another run of copy goes on with this target, or --unfence has ended the move"))
            }
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

    /// Lets the target forget that it has followed.
    pub(super) async fn remove(target: &dyn DocumentStore) -> Result<()> {
        remove(target, DocumentId::parse(ID)?).await
    }

    /// Lets the target begin with a walk along both sides, since no change will tell of all that it lacks.
    pub(super) fn begin_anew(&mut self) {
        self.has_gap = true;
        self.origin = self.token.take().or(self.origin.take());
    }

    /// The changes of the source from the mark on. A mistake of the caller where the target follows another source.
    pub(super) async fn watch(&self, source: &dyn MemoryProvider) -> anyhow::Result<Changes> {
        match self.token.clone() {
            Some(token) => watch(source, WatchFrom::Token(token)).await,
            None => {
                self.check(source).await?;
                watch(source, WatchFrom::Beginning).await
            }
        }
    }

    /// A mistake of the caller where the target follows another source, or has followed one.
    pub(super) async fn check(&self, source: &dyn MemoryProvider) -> anyhow::Result<()> {
        let Some(token) = self.token.clone().or(self.origin.clone()) else { return Ok(()) };
        match watch(source, WatchFrom::Token(token)).await {
            Err(error) if !is_reset(&error) => Err(error),
            // Whose the token is, is known too where the feed does not go back so far.
            _ => Ok(()),
        }
    }
}

/// Whether what a collection holds goes along with a copy or an export. Marks and what a keeper notes of its vectors belong to the place that they
/// are in.
pub(crate) fn is_copied(collection: &Collection) -> bool {
    ![COLLECTION, VectorKeeper::COLLECTION].contains(&collection.as_str())
}

async fn watch(source: &dyn MemoryProvider, from: WatchFrom) -> anyhow::Result<Changes> {
    let everything = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    source.watch(&everything.from(from)).await.map_err(|error| match error.kind() {
        // Only who has made a token can open it.
        ErrorKind::InvalidInput => {
            Usage("--to: what is there follows another source: name that one, or another place".to_owned()).into()
        }
        _ => error.into(),
    })
}

fn is_reset(error: &anyhow::Error) -> bool {
    error.downcast_ref::<memory_core::Error>().is_some_and(|error| error.kind() == ErrorKind::FeedReset)
}

/// Whether the source and the target are one place under two URLs: what is put into one is in the other then.
pub(super) async fn is_one_place(source: &dyn DocumentStore, target: &dyn DocumentStore) -> Result<bool> {
    let id = DocumentId::generate();
    target.put(write(id.clone(), "{}")?).await?;
    let found = source.get(&collection()?, &id).await;
    remove(target, id).await?;
    Ok(found?.is_some())
}

pub(super) fn collection() -> Result<Collection> {
    Collection::parse(COLLECTION)
}

/// A document of the move.
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
