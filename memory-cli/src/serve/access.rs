//! Access control: the rights of a caller.

use memory_core::plugin::Scope;
use memory_core::{
    Actor, Collection, Document, DocumentSelection, DocumentWrite, Error, ErrorKind, Filter, Memory, MemoryPatch,
    Metadata, MetadataPatch, QueryBuilder, Result, SpaceId, SpaceQueryBuilder, SpaceSelector, Spaces,
};
use memory_runtime::TASK;
use serde::Deserialize;

/// The rights of a caller.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The name of the caller, for logs, and for the history as its actor.
    pub(crate) name: String,
    /// The spaces that it may read.
    pub(crate) readable: Spaces,
    /// The spaces that it may write.
    pub(crate) writable: Writable,
    /// The space of the served agent. Only the agent writes there, even if it lies in the caller's writable spaces.
    pub(crate) reserved: Option<SpaceId>,
    /// The collections that it may use; all if `None`.
    pub(crate) collections: Option<Vec<Collection>>,
    /// Its rights on the ledger.
    pub(crate) ledger: LedgerAccess,
    /// Whether it may erase in its writable spaces, and learn of erasures.
    pub(crate) erases: bool,
}

/// How a call refers to a memory that was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// By its id, to read or change it.
    Itself,
    /// By its idempotency key, to store a memory.
    Key,
}

/// The spaces that a caller may write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Writable {
    Nowhere,
    /// This space and all below it.
    Under(SpaceId),
    Everywhere,
}

/// The rights of a caller on the ledger, within its spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LedgerAccess {
    /// Recall.
    #[default]
    Read,
    /// Also store and update, as the runtime of an agent does.
    Write,
}

impl Access {
    /// All rights, for callers on the same machine.
    pub(crate) fn unlimited() -> Self {
        Self {
            name: "local".to_owned(),
            readable: Spaces::All,
            writable: Writable::Everywhere,
            reserved: None,
            collections: None,
            ledger: LedgerAccess::Write,
            erases: true,
        }
    }

    /// No rights, for requests of paths that hold no data.
    pub(crate) fn nothing() -> Self {
        Self {
            name: "anybody".to_owned(),
            readable: Spaces::Any(Vec::new()),
            writable: Writable::Nowhere,
            reserved: None,
            collections: Some(Vec::new()),
            ledger: LedgerAccess::Read,
            erases: false,
        }
    }

    /// Returns the scope for the memory plugin.
    pub(crate) fn scope(&self) -> Scope {
        let scope = Scope::new(self.readable.clone()).with_collections(self.collections.iter().flatten().cloned());
        let scope = self.reserved.iter().cloned().fold(scope, Scope::with_unwritable);
        let scope = self.actor().into_iter().fold(scope, Scope::with_actor);
        match &self.writable {
            Writable::Under(space) => scope.with_writable(space.clone()),
            Writable::Nowhere | Writable::Everywhere => scope,
        }
    }

    /// Confines a query to the readable spaces.
    pub(crate) fn confine<K: memory_core::Kind>(&self, query: QueryBuilder<K>) -> QueryBuilder<K> {
        match &self.readable {
            Spaces::All => query,
            spaces => query.within(spaces.clone()),
        }
    }

    /// Confines a listing of spaces to the readable ones.
    pub(crate) fn confine_listing(&self, query: SpaceQueryBuilder) -> SpaceQueryBuilder {
        match &self.readable {
            Spaces::All => query,
            spaces => query.within(spaces.clone()),
        }
    }

    /// Whether the caller may read a memory.
    pub(crate) fn may_read(&self, memory: &Memory) -> bool {
        self.readable.matches(memory.space_id.as_str())
    }

    /// Whether the caller may read a document.
    pub(crate) fn may_read_document(&self, document: &Document) -> bool {
        self.readable.matches(document.space_id.as_str())
    }

    /// Fails with `Unauthorized` unless the caller itself may write this space.
    pub(crate) fn check_write(&self, space: &SpaceId) -> Result<()> {
        self.check_reach(space)?;
        match &self.reserved {
            Some(reserved) if SpaceSelector::under(reserved)?.matches(space.as_str()) => {
                Err(unauthorized("only the agent of this server may write in this space"))
            }
            _ => Ok(()),
        }
    }

    /// Fails with `Unauthorized` unless the caller, or the agent on its behalf, may write this space.
    pub(crate) fn check_reach(&self, space: &SpaceId) -> Result<()> {
        let allowed = match &self.writable {
            Writable::Nowhere => false,
            Writable::Under(path) => SpaceSelector::under(path)?.matches(space.as_str()),
            Writable::Everywhere => true,
        };
        if allowed { Ok(()) } else { Err(unauthorized("this space may not be written")) }
    }

    /// Fails with `Unauthorized` unless the caller may write the ledger.
    pub(crate) fn check_ledger_write(&self) -> Result<()> {
        match self.ledger {
            LedgerAccess::Write => Ok(()),
            LedgerAccess::Read => Err(unauthorized("the ledger may only be read")),
        }
    }

    /// Fails with `Unauthorized` unless the caller may erase, and write the ledger, even if only documents are to be erased.
    pub(crate) fn check_erasure(&self) -> Result<()> {
        self.check_erases()?;
        self.check_ledger_write()
    }

    /// Fails with `Unauthorized` unless the caller may read the retention rules, which name spaces.
    pub(crate) fn check_retention(&self) -> Result<()> {
        self.check_erases()?;
        if self.readable == Spaces::All { Ok(()) } else { Err(unauthorized("the rules of all spaces may not be read")) }
    }

    /// Fails with `Unauthorized` unless the caller may erase everything, since retention rules can do that.
    pub(crate) fn check_retention_write(&self) -> Result<()> {
        self.check_retention()?;
        self.check_ledger_write()?;
        if self.writes_everything() { Ok(()) } else { Err(unauthorized("the rules of all spaces may not be changed")) }
    }

    /// Fails with `Unauthorized` unless the caller may set the model of all vectors, that is, may write everything.
    pub(crate) fn check_vector_model_write(&self) -> Result<()> {
        self.check_ledger_write()?;
        if self.writes_everything() { Ok(()) } else { Err(unauthorized("the embedding model may not be changed")) }
    }

    /// The error to return to the caller; for callers who may not erase, that of [`without_erasure`].
    pub(crate) fn told(&self, error: Error, wanted: Wanted) -> Error {
        if self.erases { error } else { without_erasure(error, wanted) }
    }

    /// Fails with `Unauthorized` unless the caller may store these metadata; see [`check_task`].
    pub(crate) fn check_metadata(&self, metadata: &Metadata) -> Result<()> {
        match self.writable {
            Writable::Everywhere => Ok(()),
            Writable::Nowhere | Writable::Under(_) => check_task(metadata),
        }
    }

    /// Fails with `Unauthorized` unless the caller may use this collection.
    pub(crate) fn check_collection(&self, collection: &Collection) -> Result<()> {
        match &self.collections {
            Some(collections) if !collections.contains(collection) => {
                Err(unauthorized("this collection may not be used"))
            }
            _ => Ok(()),
        }
    }

    /// The actor that the history names for its writes; `None` if its name is not valid for an actor.
    pub(crate) fn actor(&self) -> Option<Actor> {
        Actor::parse(&self.name).ok()
    }

    /// Sets the actor of a removal.
    pub(crate) fn sign(&self, selection: DocumentSelection) -> DocumentSelection {
        match self.actor() {
            Some(actor) => selection.by(actor),
            None => selection,
        }
    }

    /// Confines a put to the writable spaces, and sets its actor.
    pub(crate) fn confine_write(&self, mut write: DocumentWrite) -> Result<DocumentWrite> {
        self.check_write(&write.space_id)?;
        write.actor = self.actor();
        let write = match &self.writable {
            Writable::Under(path) => write.within(SpaceSelector::under(path)?)?,
            Writable::Nowhere | Writable::Everywhere => write,
        };
        match &self.reserved {
            Some(reserved) => write.outside(SpaceSelector::under(reserved)?),
            None => Ok(write),
        }
    }

    /// The filter for the writable spaces; `None` if all are writable.
    pub(crate) fn write_filter(&self) -> Result<Option<Filter>> {
        let writable = match &self.writable {
            Writable::Nowhere => return Err(unauthorized("nothing may be written")),
            Writable::Under(path) => Some(Filter::under(path)),
            Writable::Everywhere => None,
        };
        let reserved = self.reserved.as_ref().map(|reserved| Filter::under(reserved).negate());
        Ok(writable.into_iter().chain(reserved).reduce(Filter::and))
    }

    /// Confines a query with this condition to the writable spaces.
    pub(crate) fn confine_to_writable<K: memory_core::Kind>(
        &self,
        query: QueryBuilder<K>,
        condition: Option<Filter>,
    ) -> Result<QueryBuilder<K>> {
        let condition = condition.into_iter().chain(self.write_filter()?).reduce(Filter::and);
        Ok(condition.into_iter().fold(query, QueryBuilder::filter))
    }

    /// Leaves what lies in and below the space of an agent to that agent.
    pub(crate) fn reserve(&mut self, space: &SpaceId) {
        self.reserved = Some(space.clone());
    }

    fn check_erases(&self) -> Result<()> {
        if self.erases { Ok(()) } else { Err(unauthorized("nothing may be erased")) }
    }

    /// Whether the caller may write in all spaces and all collections.
    fn writes_everything(&self) -> bool {
        self.writable == Writable::Everywhere && self.reserved.is_none() && self.collections.is_none()
    }
}

/// Replaces the error `Erased` for callers who may not learn of erasures: the memory does not exist, and its key belongs to another one.
pub(crate) fn without_erasure(error: Error, wanted: Wanted) -> Error {
    if error.kind() != ErrorKind::Erased {
        return error;
    }
    let told = match wanted {
        Wanted::Itself => Error::not_found(),
        // The same words as those of a conflict with an existing memory.
        Wanted::Key => Error::conflict("the idempotency key belongs to a memory with another trigger or space"),
    };
    told.with_outcome(error.outcome())
}

/// Fails with `Unauthorized` if metadata have the member that holds a runtime's claim. With it, a caller that is confined to some spaces
/// could make a recovery read and write others.
pub(crate) fn check_task(metadata: &Metadata) -> Result<()> {
    if metadata.to_object().contains_key(TASK) {
        return Err(unauthorized("the member task of the metadata belongs to the runtime of tasks"));
    }
    Ok(())
}

/// Applies [`check_task`] to the memory that a patch changes, and to the metadata that it would write.
pub(crate) fn check_change(memory: &Memory, patch: &MemoryPatch) -> Result<()> {
    check_task(&memory.metadata)?;
    match &patch.metadata {
        MetadataPatch::Keep => Ok(()),
        MetadataPatch::Replace(metadata) | MetadataPatch::Merge(metadata) => check_task(metadata),
    }
}

fn unauthorized(message: &str) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
}
