//! The document of a prompt memory store.

use memory_core::{Collection, Document, DocumentId, Error, Json, JsonObject, Metadata, Result, SpaceId};

use super::context::MAX_PART;
use super::{MemoryLoadContext, MemoryScope, MemoryStore};
use crate::hash;

/// The collection that holds only prompt memory. The name is reserved, so no plugin reaches it.
pub const COLLECTION: &str = "_prompt";

/// The space of all prompt memory. The metadata say to whom a document belongs.
const SPACE: &str = "prompt";

/// Where one store is kept: the id, the collection and the space of its document, and its metadata.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) id: DocumentId,
    /// The document that is read until the agent has its own: that of all agents, in which earlier versions kept profiles.
    pub(super) of_all: Option<DocumentId>,
    pub(super) collection: Collection,
    pub(super) space_id: SpaceId,
    /// The parts of the key by name, for operators: `metadata.user = 'ana'` finds what is known of Ana.
    pub(super) metadata: Metadata,
}

impl MemoryLoadContext {
    /// Returns the context and the store of a document in [`COLLECTION`]; `None` if prompt memory did not write it. Changes with this
    /// context are recorded for the given session and platform; the text of a session still belongs to its own session key.
    pub fn of_document(
        document: &Document,
        session_id: impl Into<String>,
        platform: impl Into<String>,
    ) -> Option<(Self, MemoryStore)> {
        let mut parts = document.metadata.to_object();
        let mut part = |name: &str| match parts.remove(name) {
            Some(Json::String(part)) => Some(part),
            _ => None,
        };
        let store = [MemoryStore::User, MemoryStore::Memory];
        let store = part("store").and_then(|name| store.into_iter().find(|store| store.as_str() == name))?;
        let session_id = session_id.into();
        // The profile of a user belongs to no session.
        let session_key = part("session").unwrap_or_else(|| session_id.clone());
        let mut context = Self::new(session_id, session_key, platform);
        (context.user_id, context.agent_id) = (part("user"), part("agent"));
        if let Some(personality) = part("personality") {
            context = context.with_personality(personality, MemoryScope::PerPersonality);
        }
        let is_its_own = Key::of(&context, store).is_ok_and(|key| key.id == document.id);
        (is_its_own && document.collection.as_str() == COLLECTION).then_some((context, store))
    }
}

impl Key {
    /// Returns the key of a store in this context. Fails with `InvalidInput` or `TooLarge` if an id of the context is not valid.
    pub(super) fn of(context: &MemoryLoadContext, store: MemoryStore) -> Result<Self> {
        check("sessionId", &context.session_id)?;
        check("sessionKey", &context.session_key)?;
        check("platform", &context.platform)?;
        context.user_id.as_deref().map_or(Ok(()), |id| check("userId", id))?;
        context.agent_id.as_deref().map_or(Ok(()), |id| check("agentId", id))?;
        context.personality_id.as_deref().map_or(Ok(()), |id| check("personalityId", id))?;
        let session = ("session", context.session_key.as_str());
        let parts = match (store, &context.user_id, context.memory_scope, &context.personality_id) {
            (MemoryStore::User, Some(user), _, _) => vec![("user", user.as_str())],
            (MemoryStore::User, None, _, _) => vec![session],
            (MemoryStore::Memory, _, MemoryScope::PerPersonality, Some(personality)) => {
                vec![session, ("personality", personality.as_str())]
            }
            (MemoryStore::Memory, ..) => vec![session],
        };
        match (store, &context.agent_id) {
            (MemoryStore::User, Some(agent)) => {
                let of_all = Some(document(store, &parts)?);
                let own = [&[("agent", agent.as_str())], &parts[..]].concat();
                Ok(Self { of_all, ..Self::from_parts(store, &own)? })
            }
            (MemoryStore::User, None) | (MemoryStore::Memory, _) => Self::from_parts(store, &parts),
        }
    }

    fn from_parts(store: MemoryStore, parts: &[(&str, &str)]) -> Result<Self> {
        let mut metadata = JsonObject::from([("store".to_owned(), Json::String(store.as_str().to_owned()))]);
        metadata.extend(parts.iter().map(|(name, value)| ((*name).to_owned(), Json::String((*value).to_owned()))));
        Ok(Self {
            id: document(store, parts)?,
            of_all: None,
            collection: Collection::parse(COLLECTION)?,
            space_id: SpaceId::parse(SPACE)?,
            metadata: Metadata::from_object(&metadata)?,
        })
    }
}

fn document(store: MemoryStore, parts: &[(&str, &str)]) -> Result<DocumentId> {
    let digits = hash::of_parts(parts.iter().flat_map(|(name, value)| [*name, *value]));
    DocumentId::parse(format!("{store}-{digits}"))
}

fn check(name: &str, part: &str) -> Result<()> {
    if part.is_empty() {
        return Err(Error::invalid(format!("{name} must not be empty")));
    }
    if part.len() > MAX_PART {
        let size = part.len();
        return Err(Error::too_large(format!("{name} of {size} bytes; at most {MAX_PART} are allowed")));
    }
    if part.contains(char::is_control) {
        return Err(Error::invalid(format!("{name} must not hold control characters")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use memory_core::{Content, ErrorKind, Revision, Timestamp};

    use super::*;

    fn context(session: &str, user: Option<&str>, personality: Option<&str>, scope: MemoryScope) -> MemoryLoadContext {
        let mut context = MemoryLoadContext::new("s", session, "cli");
        context.user_id = user.map(str::to_owned);
        context.personality_id = personality.map(str::to_owned);
        context.memory_scope = scope;
        context
    }

    #[test]
    fn no_two_keys_collide() {
        let hostile = [
            "a",
            "b",
            "apersonalityb",
            "sessiona",
            "agenta",
            "a:b",
            "b:a",
            "a:",
            ":a",
            "a:b:a",
            "a-b",
            "a/b",
            "../a",
            "ä",
            "A",
            " a",
            "a ",
        ];
        let mut ids = BTreeSet::new();
        let mut add = |context: MemoryLoadContext, store| {
            let key = Key::of(&context, store).expect("valid");
            assert!(ids.insert(key.id.clone()), "{context:?} {store}");
        };
        for one in hostile {
            add(context(one, None, None, MemoryScope::Global), MemoryStore::Memory);
            add(context(one, None, None, MemoryScope::Global), MemoryStore::User);
            add(context("s", Some(one), None, MemoryScope::Global), MemoryStore::User);
            for other in hostile {
                add(context(one, None, None, MemoryScope::Global).with_agent(other), MemoryStore::User);
                add(context("s", Some(one), None, MemoryScope::Global).with_agent(other), MemoryStore::User);
                add(context(one, None, Some(other), MemoryScope::PerPersonality), MemoryStore::Memory);
            }
        }
    }

    #[test]
    fn what_does_not_belong_to_a_key_does_not_change_it() {
        let id = |context, store| Key::of(&context, store).expect("valid").id;
        let plain = context("s", None, None, MemoryScope::Global);
        let global = context("s", Some("u"), Some("p"), MemoryScope::Global);
        let nobody = context("s", None, None, MemoryScope::PerPersonality);
        assert_eq!(id(global.clone(), MemoryStore::Memory), id(plain.clone(), MemoryStore::Memory));
        assert_eq!(id(nobody, MemoryStore::Memory), id(plain, MemoryStore::Memory));
        let elsewhere = context("t", Some("u"), Some("q"), MemoryScope::PerPersonality);
        assert_eq!(id(elsewhere, MemoryStore::User), id(global.clone(), MemoryStore::User));
        assert_eq!(id(global.clone().with_agent("a"), MemoryStore::Memory), id(global, MemoryStore::Memory));
    }

    #[test]
    fn a_document_tells_whose_it_is() {
        let document = |key: Key| Document {
            id: key.id,
            collection: key.collection,
            space_id: key.space_id,
            content: Content::parse("").expect("valid"),
            metadata: key.metadata,
            created_at: Timestamp::MIN,
            updated_at: None,
            revision: Revision::FIRST,
            expires_at: None,
        };
        let personal = context("s", Some("u"), Some("p"), MemoryScope::PerPersonality);
        for written in [context("s", None, None, MemoryScope::Global), personal.clone(), personal.with_agent("a")] {
            for store in [MemoryStore::Memory, MemoryStore::User] {
                let key = Key::of(&written, store).expect("valid");
                let kept = document(key.clone());
                let (read, of) = MemoryLoadContext::of_document(&kept, "later", "web").expect("its own");
                assert_eq!((Key::of(&read, of).expect("valid").id, of), (key.id, store));
                assert_eq!((read.session_id.as_str(), read.platform.as_str()), ("later", "web"));
                let notes = Collection::parse("notes").expect("valid");
                for other in [
                    Document { id: DocumentId::generate(), ..kept.clone() },
                    Document { collection: notes, ..kept.clone() },
                    Document { metadata: Metadata::default(), ..kept },
                ] {
                    assert_eq!(MemoryLoadContext::of_document(&other, "later", "web"), None);
                }
            }
        }
    }

    #[test]
    fn an_agent_falls_back_to_the_profile_of_all_agents() {
        let of_user = context("s", Some("u"), None, MemoryScope::Global);
        for shared in [of_user, context("s", None, None, MemoryScope::Global)] {
            let of_all = Key::of(&shared, MemoryStore::User).expect("valid");
            let own = Key::of(&shared.clone().with_agent("a"), MemoryStore::User).expect("valid");
            assert_eq!((of_all.of_all, own.of_all), (None, Some(of_all.id)));
            assert_eq!(Key::of(&shared.with_agent("a"), MemoryStore::Memory).expect("valid").of_all, None);
        }
    }

    #[test]
    fn parts_are_checked() {
        let long = "x".repeat(257);
        for (part, kind) in [
            ("", ErrorKind::InvalidInput),
            ("a\nb", ErrorKind::InvalidInput),
            ("a\0", ErrorKind::InvalidInput),
            (long.as_str(), ErrorKind::TooLarge),
        ] {
            for context in [
                context(part, None, None, MemoryScope::Global),
                context("s", Some(part), None, MemoryScope::Global),
                context("s", None, None, MemoryScope::Global).with_agent(part),
                context("s", None, Some(part), MemoryScope::PerPersonality),
                MemoryLoadContext::new(part, "s", "cli"),
                MemoryLoadContext::new("s", "s", part),
            ] {
                for store in [MemoryStore::Memory, MemoryStore::User] {
                    assert_eq!(Key::of(&context, store).expect_err("not valid").kind(), kind, "{context:?}");
                }
            }
        }
        assert!(Key::of(&MemoryLoadContext::new("s", "x".repeat(256), "cli"), MemoryStore::Memory).is_ok());
    }
}
