//! Values of the core, as clap parses them.

use std::str::FromStr as _;

use memory_context::records::{AgentId, EntityId};
use memory_core::{
    Actor, Collection, Container, DocumentId, Error, Filter, IdempotencyKey, Language, MAX_LIMIT, MAX_OFFSET, MemoryId,
    Revision, SpaceId, SpaceSelector, Status, Timestamp,
};

/// Reads a value of the core; its own sentence says what is wrong.
macro_rules! value_parsers {
    ($($name:ident: $type:ty = $parse:expr;)*) => {
        $(
            /// Parses the value of an option.
            pub(crate) fn $name(text: &str) -> Result<$type, String> {
                $parse(text).map_err(|error: Error| error.message().to_owned())
            }
        )*
    };
}

value_parsers! {
    exact: SpaceSelector = SpaceSelector::exact;
    under: SpaceSelector = SpaceSelector::under;
    prefix: SpaceSelector = SpaceSelector::prefix;
    glob: SpaceSelector = SpaceSelector::glob;
    regex: SpaceSelector = SpaceSelector::regex;
    space_id: SpaceId = SpaceId::parse;
    status: Status = Status::parse;
    filter: Filter = Filter::parse;
    memory_id: MemoryId = MemoryId::parse;
    actor: Actor = Actor::parse;
    agent_id: AgentId = AgentId::parse;
    entity_id: EntityId = EntityId::parse;
    document_id: DocumentId = DocumentId::parse;
    collection: Collection = Collection::parse;
    container: Container = Container::from_str;
    language: Language = Language::from_str;
    idempotency_key: IdempotencyKey = IdempotencyKey::parse;
}

/// A time.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    let millis = text.parse().map_err(|_| "a time is a whole number of milliseconds since 1970 UTC".to_owned())?;
    Timestamp::from_millis(millis).map_err(|error| error.message().to_owned())
}

/// The size of a page.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    at_most(MAX_LIMIT, text)
}

/// How many records come before a page.
pub(crate) fn offset(text: &str) -> Result<usize, String> {
    at_most(MAX_OFFSET, text)
}

fn at_most(most: usize, text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number <= most).ok_or_else(|| format!("must be a whole number from 0 to {most}"))
}

/// The revision of a record.
pub(crate) fn revision(text: &str) -> Result<Revision, String> {
    let number = text.parse().map_err(|_| "a revision is a whole number from 1".to_owned())?;
    Revision::new(number).map_err(|error| error.message().to_owned())
}
