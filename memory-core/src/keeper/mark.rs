//! A keeper's position in the feed, stored as a document of the namespace.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::own::{collection, space};
use super::refused::RETRY_AT;
use crate::filter::Field;
use crate::{
    Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite, Error, ErrorKind,
    Expect, Result, Revision, Timestamp, VectorModel,
};

/// A position in the feed, for one model. It is stored after the work that it covers, so that a keeper that resumes
/// repeats at most some work.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    id: DocumentId,
    /// The token to continue after; `None` for the beginning.
    pub(super) token: Option<String>,
    /// The mark that the namespace has, as this keeper last saw it; `None` if it has none of this model.
    kept: Option<Kept>,
}

/// A stored mark as it was last written or read.
#[derive(Debug, Clone)]
struct Kept {
    revision: Revision,
    /// Identifies the document: one that was removed and put again has another createdAt, whatever its revision.
    created_at: Timestamp,
    has_token: bool,
}

/// The content of a mark's document.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    model: String,
    width: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// Number of attempts to replace the mark of another keeper of the model, and the first and longest pause between them:
/// a read may lag behind.
const TURNS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);
const MOST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of marks that are removed at once.
const MOST: usize = 1_000;

impl Mark {
    /// Reads the mark of the keepers with this name, if it is of this model; else returns one at the beginning, because
    /// under another model records may have lost the vectors that an older mark covers.
    pub(super) async fn read(documents: &dyn DocumentStore, name: &str, model: &VectorModel) -> Result<Self> {
        let id = DocumentId::parse(if name.is_empty() { "feed".to_owned() } else { format!("feed-{name}") })?;
        let mut mark = Self { id, token: None, kept: None };
        let document = mark.present(documents).await?;
        if let Some((document, state)) = document.and_then(|one| State::of(&one, model).map(|state| (one, state))) {
            mark.kept = Some(Kept::of(&document, state.token.is_some()));
            mark.token = state.token;
        }
        Ok(mark)
    }

    pub(super) fn id(&self) -> &DocumentId {
        &self.id
    }

    /// Returns whether the namespace has a mark of the model.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns whether the stored mark has a token.
    pub(super) fn has_token(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.has_token)
    }

    /// Resets to the beginning; the next [`put`](Self::put) replaces whatever is stored.
    pub(super) fn begin_anew(&mut self) {
        (self.token, self.kept) = (None, None);
    }

    /// Stores the mark. Of several keepers of one model the last write wins, because each mark covers finished work.
    /// `FeedReset` if the mark that this keeper knows was removed: what it covered no longer holds.
    pub(super) async fn put(
        &mut self,
        documents: &dyn DocumentStore,
        model: &VectorModel,
        now: Timestamp,
    ) -> Result<()> {
        let state = State { model: model.name().to_owned(), width: model.width(), token: self.token.clone() };
        let content = serde_json::to_string(&state)
            .map_err(|error| Error::new(ErrorKind::Unexpected, "a mark can't be written").with_source(error))?;
        let write = DocumentWrite::new(collection()?, space()?, Content::parse(content)?, now).with_id(self.id.clone());
        let mut expect = match &self.kept {
            Some(kept) => Expect::Revision(kept.revision),
            None => self.expected(documents, model).await?,
        };
        let mut pause = PAUSE;
        for _ in 0..TURNS {
            match documents.put(write.clone().expect(expect)).await {
                Ok(put) => {
                    let before = self.kept.replace(Kept::of(&put, state.token.is_some()));
                    // Revisions start anew after a removal, so this put may have replaced another document.
                    return match before.is_none_or(|before| before.created_at == put.created_at) {
                        true => Ok(()),
                        false => Err(Error::feed_reset()),
                    };
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(MOST_PAUSE);
            expect = self.expected(documents, model).await?;
        }
        Err(Error::new(ErrorKind::Unavailable, "other keepers keep writing their marks").retryable())
    }

    /// Returns what the put expects: the stored mark, if this keeper knows it or knows none.
    async fn expected(&self, documents: &dyn DocumentStore, model: &VectorModel) -> Result<Expect> {
        let present = self.present(documents).await?;
        let is_known = |kept: &Kept| {
            let is_it = |one: &Document| one.created_at == kept.created_at && State::of(one, model).is_some();
            present.as_ref().is_some_and(is_it)
        };
        match self.kept.as_ref().is_none_or(is_known) {
            true => Ok(present.map_or(Expect::Absent, |document| Expect::Revision(document.revision))),
            false => Err(Error::feed_reset()),
        }
    }

    async fn present(&self, documents: &dyn DocumentStore) -> Result<Option<Document>> {
        documents.get(&collection()?, &self.id).await
    }
}

impl Kept {
    fn of(document: &Document, has_token: bool) -> Self {
        Self { revision: document.revision, created_at: document.created_at, has_token }
    }
}

impl State {
    /// Parses a document's content; `None` unless it is a mark of the model.
    fn of(document: &Document, model: &VectorModel) -> Option<Self> {
        let state: Self = serde_json::from_str(document.content.as_str()).ok()?;
        ((state.model.as_str(), state.width) == (model.name(), model.width())).then_some(state)
    }
}

/// Removes the marks of all keepers, so that each examines every record again.
pub(crate) async fn remove_marks(documents: &dyn DocumentStore) -> Result<()> {
    // Earlier versions stored refusals in the same space.
    let marks = DocumentQuery::builder(collection()?).exact(space()?).filter(Field::metadata([RETRY_AT]).is_null());
    documents.remove(&DocumentSelection::matching(marks)?, MOST).await.map(drop)
}
