//! Values of the core, as clap parses them.

use std::str::FromStr as _;
use std::time::Duration;

use memory_context::records::{AgentId, EntityId};
use memory_core::{
    Actor, Collection, Container, DocumentId, Error, Filter, IdempotencyKey, Language, MAX_LIMIT, MAX_OFFSET, MemoryId,
    Revision, SpaceId, SpaceSelector, Status, Timestamp,
};

/// Defines parsers for types of the core. The error is the message of the core.
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

/// Parses a time in milliseconds since 1970 UTC.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    let millis = text.parse().map_err(|_| "must be a whole number of milliseconds since 1970 UTC".to_owned())?;
    Timestamp::from_millis(millis).map_err(|error| error.message().to_owned())
}

/// Parses a duration: a whole number and its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|character: char| character.is_ascii_digit());
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    let of_unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, millis)| millis);
    let millis = number.zip(of_unit).and_then(|(number, millis)| number.checked_mul(*millis));
    millis.map(Duration::from_millis).ok_or_else(|| "must be a number with ms, s, m, h, d or w, as in 30d".to_owned())
}

/// Writes a duration as [`duration`] parses it.
pub(crate) fn duration_text(millis: u64) -> String {
    let unit = UNITS.iter().rev().find(|(name, of_unit)| *name != "w" && millis.is_multiple_of(*of_unit));
    unit.map_or_else(|| format!("{millis}ms"), |(name, of_unit)| format!("{}{name}", millis / of_unit))
}

/// The units of a duration, in milliseconds.
const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// Parses the space of a retention rule, which holds in and below it.
pub(crate) fn path(text: &str) -> Result<String, String> {
    under(text).map(|_| text.to_owned())
}

/// Parses the size of a page.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    at_most(MAX_LIMIT, text)
}

/// Parses the number of records to skip.
pub(crate) fn offset(text: &str) -> Result<usize, String> {
    at_most(MAX_OFFSET, text)
}

fn at_most(most: usize, text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number <= most).ok_or_else(|| format!("must be a whole number from 0 to {most}"))
}

/// Parses the revision of a record.
pub(crate) fn revision(text: &str) -> Result<Revision, String> {
    let number = text.parse().map_err(|_| "must be a whole number from 1".to_owned())?;
    Revision::new(number).map_err(|error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_have_a_unit() {
        for (text, millis) in [("5ms", 5), ("90s", 90_000), ("2m", 120_000), ("1h", 3_600_000), ("30d", 2_592_000_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
            assert_eq!(duration(&duration_text(millis)), duration(text));
        }
        assert_eq!(duration("2w"), duration("14d"));
        assert_eq!([duration_text(1_209_600_000), duration_text(90_001)], ["14d", "90001ms"]);
        for text in
            ["", "5", "d", "-5d", "+5d", "1.5h", "5 d", "5D", "5days", "99999999999999999999d", "9999999999999999d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
