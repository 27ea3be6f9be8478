//! The scope that a host gives to a caller of executors.

use crate::{Actor, Collection, Error, ErrorKind, QueryBuilder, Result, SpaceId, SpaceSelector, Spaces, query::Kind};

/// Where a caller may read and write. The host makes it; no argument of the caller widens it (P2).
///
/// A new scope may read the ledger in its spaces, and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    readable: Spaces,
    writable: Option<SpaceId>,
    unwritable: Option<SpaceId>,
    collections: Vec<Collection>,
    actor: Option<Actor>,
}

impl Scope {
    /// Makes a scope that may read these spaces. For tenants use [`SpaceSelector::under`]; a prefix leaks siblings.
    pub fn new(readable: impl Into<Spaces>) -> Self {
        let (writable, unwritable, collections, actor) = (None, None, Vec::new(), None);
        Self { readable: readable.into(), writable, unwritable, collections, actor }
    }

    /// Allows putting documents into this space and below it, and removing readable documents there.
    #[must_use]
    pub fn with_writable(mut self, space: SpaceId) -> Self {
        self.writable = Some(space);
        self
    }

    /// Forbids writing and removing in this space and below it, even below the writable one: a write there is
    /// `Unauthorized`.
    #[must_use]
    pub fn with_unwritable(mut self, space: SpaceId) -> Self {
        self.unwritable = Some(space);
        self
    }

    /// Allows using these collections of documents. The first one is used if a call names none.
    /// [Reserved](Collection::is_reserved) collections are left out.
    #[must_use]
    pub fn with_collections(mut self, collections: impl IntoIterator<Item = Collection>) -> Self {
        self.collections.extend(collections.into_iter().filter(|collection| !collection.is_reserved()));
        self
    }

    /// Sets the actor of writes, for the history (H1).
    #[must_use]
    pub fn with_actor(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Returns the readable spaces.
    pub fn readable(&self) -> &Spaces {
        &self.readable
    }

    /// Returns the space that writes go to, if any.
    pub fn writable(&self) -> Option<&SpaceId> {
        self.writable.as_ref()
    }

    /// Returns the space in and below which writing is forbidden, if any.
    pub fn unwritable(&self) -> Option<&SpaceId> {
        self.unwritable.as_ref()
    }

    /// Returns the collections that may be used.
    pub fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// Returns the actor of writes, if the host names one.
    pub fn actor(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// Confines a query to the readable spaces, or to those of them under a space.
    pub(super) fn confine<K: Kind>(&self, query: QueryBuilder<K>, space: Option<&str>) -> Result<QueryBuilder<K>> {
        let confined = match (space, &self.readable) {
            (_, Spaces::Any(selectors)) if selectors.is_empty() => return Err(refused("nothing may be read here")),
            (Some(space), _) => query.selector(under(space)?),
            (None, Spaces::All) => query.all(),
            // Named explicitly, so that an engine searches only there.
            (None, Spaces::Any(selectors)) => selectors.iter().cloned().fold(query, QueryBuilder::selector),
        };
        Ok(confined.within(self.readable.clone()))
    }

    /// Returns the collection with this name, or the first one.
    pub(super) fn collection(&self, name: Option<&str>) -> Result<&Collection> {
        let first = self.collections.first().ok_or_else(|| refused("no documents may be used here"))?;
        let Some(name) = name else { return Ok(first) };
        self.collections.iter().find(|collection| collection.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = self.collections.iter().map(Collection::as_str).collect();
            Error::invalid(format!("collection: must be one of {}", names.join(", ")))
        })
    }

    /// Returns the space that a write names, or the writable one. `Unauthorized` if no space is writable, or if writing
    /// there is forbidden; `InvalidInput` if it lies outside of the writable one. A message about the space begins with
    /// `space`, the name of the argument.
    pub fn space_to_write(&self, space: Option<&str>) -> Result<SpaceId> {
        SpaceId::parse(self.path_to_write(space)?).map_err(|error| super::NamedArguments::about("space", &error))
    }

    /// Returns the path that writes are confined to: the writable space, or the named space below it.
    pub(super) fn path_to_write<'a>(&'a self, space: Option<&'a str>) -> Result<&'a str> {
        let writable = self.writable.as_ref().ok_or_else(|| refused("nothing may be written here"))?.as_str();
        let space = space.unwrap_or(writable);
        if !under(writable)?.matches(space) {
            return Err(Error::invalid(format!("space: only {writable} and what lies below it may be written")));
        }
        match &self.unwritable {
            Some(unwritable) if under(unwritable.as_str())?.matches(space) => {
                Err(refused(&format!("space: nothing may be written to {unwritable} and below it")))
            }
            _ => Ok(space),
        }
    }
}

fn under(space: &str) -> Result<SpaceSelector> {
    SpaceSelector::under(space).map_err(|error| super::NamedArguments::about("space", &error))
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryQuery;

    fn scope(readable: impl Into<Spaces>) -> Scope {
        Scope::new(readable).with_writable(SpaceId::parse("a-1").expect("valid"))
    }

    #[test]
    fn reads_are_confined() {
        let readable = SpaceSelector::under("a").expect("valid");
        let confined = |space| {
            let query = scope(readable.clone()).confine(MemoryQuery::builder(), space).expect("allowed");
            query.build().expect("valid")
        };
        assert_eq!(*confined(None).spaces(), Spaces::from(readable.clone()));
        assert_eq!(confined(Some("b")).within(), Some(&Spaces::from(readable.clone())));
        let nothing = scope(Vec::new()).confine(MemoryQuery::builder(), Some("a")).expect_err("nothing is readable");
        assert_eq!(nothing.kind(), ErrorKind::Unauthorized);
    }

    #[test]
    fn reserved_collections_are_in_no_scope() {
        let collections = ["_prompt", "notes"].map(|name| Collection::parse(name).expect("valid"));
        let scope = scope(Spaces::All).with_collections(collections);
        assert_eq!(scope.collection(None).expect("the first").as_str(), "notes");
        assert!(scope.collection(Some("_prompt")).is_err());
    }

    #[test]
    fn writes_go_to_one_space_and_below() {
        let scope = scope(Spaces::All);
        for (space, allowed) in [("a-1", true), ("a-1-b", true), ("a-1/b", true), ("a-12", false), ("a", false)] {
            assert_eq!(scope.path_to_write(Some(space)).is_ok(), allowed, "{space}");
        }
        let scope = scope.with_unwritable(SpaceId::parse("a-1-b").expect("valid"));
        assert_eq!(scope.path_to_write(None).expect("allowed"), "a-1");
        for (space, refused) in [
            ("a-1", None),
            ("a-1-bc", None),
            ("a-1-b", Some(ErrorKind::Unauthorized)),
            ("a-1-b/c", Some(ErrorKind::Unauthorized)),
            ("a", Some(ErrorKind::InvalidInput)),
        ] {
            assert_eq!(scope.path_to_write(Some(space)).err().map(|error| error.kind()), refused, "{space}");
        }
        let reader = Scope::new(Spaces::All);
        assert_eq!(reader.path_to_write(None).map_err(|error| error.kind()), Err(ErrorKind::Unauthorized));
    }
}
