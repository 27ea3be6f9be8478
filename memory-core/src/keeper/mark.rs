//! How far a keeper is: a document of the namespace.

use serde::{Deserialize, Serialize};

use super::other_model;
use crate::{
    Collection, Content, DocumentId, DocumentStore, DocumentWrite, Error, ErrorKind, Expect, Result, Revision, SpaceId,
    Timestamp, VectorKeeper, VectorModel,
};

/// What the feed goes on behind, with a model. It is put behind what it tells of, so that whoever goes on from it repeats some of that at most.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    id: DocumentId,
    /// The beginning without one.
    pub(super) token: Option<String>,
    /// The revision in place of which it is put; `None` where there is none yet.
    revision: Option<Revision>,
    /// The token that is kept; `None` where what is there is no mark of the model.
    kept: Option<Option<String>>,
}

/// The content of the document.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    model: String,
    width: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// How often a mark is put in the place of one that another keeper of the model has put.
const TURNS: usize = 20;

impl Mark {
    /// The mark of the keepers with this name, if it is of the model; else that of the beginning, in the place of whatever is there: with
    /// another model since, records may have lost the vectors that an older mark tells of.
    pub(super) async fn read(documents: &dyn DocumentStore, name: &str, model: &VectorModel) -> Result<Self> {
        let id = DocumentId::parse(if name.is_empty() { "feed".to_owned() } else { format!("feed-{name}") })?;
        let mut mark = Self { id, token: None, revision: None, kept: None };
        if let Some(document) = documents.get(&collection()?, &mark.id).await? {
            mark.revision = Some(document.revision);
            let state = serde_json::from_str::<State>(document.content.as_str()).ok();
            mark.kept = state.filter(|state| state.is_of(model)).map(|state| state.token);
            mark.token = mark.kept.clone().flatten();
        }
        Ok(mark)
    }

    /// Whether the namespace has one of the model.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether the one that it has tells of a place in the feed.
    pub(super) fn has_token(&self) -> bool {
        self.kept.as_ref().is_some_and(Option::is_some)
    }

    pub(super) fn begin_anew(&mut self) {
        self.token = None;
    }

    /// Keeps it. Of keepers of one model the last one counts, since each tells of what is done. `SchemaMismatch` where one of another model
    /// has put its own, `FeedReset` where somebody has removed it.
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
        for _ in 0..TURNS {
            let expect = self.revision.map_or(Expect::Absent, Expect::Revision);
            match documents.put(write.clone().expect(expect)).await {
                Ok(put) => {
                    (self.revision, self.kept) = (Some(put.revision), Some(state.token));
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
            let present = documents.get(&collection()?, &self.id).await?.ok_or_else(Error::feed_reset)?;
            let is_same = serde_json::from_str::<State>(present.content.as_str()).is_ok_and(|one| one.is_of(model));
            if !is_same {
                return Err(other_model(model));
            }
            self.revision = Some(present.revision);
        }
        Err(Error::new(ErrorKind::Unavailable, "other keepers put their marks all the time").retryable())
    }
}

impl State {
    fn is_of(&self, model: &VectorModel) -> bool {
        (self.model.as_str(), self.width) == (model.name(), model.width())
    }
}

/// Where the documents of keepers are.
pub(super) fn collection() -> Result<Collection> {
    Collection::parse(VectorKeeper::COLLECTION)
}

pub(super) fn space() -> Result<SpaceId> {
    SpaceId::parse(VectorKeeper::COLLECTION)
}
