//! Values as engines have changed them on their way in and out.

use memory_core::{
    BOUNDARIES, Error, IdempotencyKey, Json, Memory, MemoryId, Metadata, NewMemory, Number, Result, SpaceId, Status,
    Timestamp, Trigger,
};

use crate::flaw::Flaw;

/// A memory as a broken provider stores it.
pub(crate) fn stored(flaw: Flaw, mut memory: NewMemory) -> Result<NewMemory> {
    let space = memory.space_id.as_str();
    match flaw {
        Flaw::KeyIgnored => memory.idempotency_key = None,
        Flaw::KeysAreFolded => {
            let folded = |key: &IdempotencyKey| IdempotencyKey::parse(key.as_str().to_lowercase());
            memory.idempotency_key = memory.idempotency_key.as_ref().map(folded).transpose()?;
        }
        Flaw::ObservedIsCompleted if memory.status == Status::Observed => memory.status = Status::Completed,
        Flaw::SpacesAreFolded => memory.space_id = SpaceId::parse(space.replace('\u{ff05}', "%"))?,
        Flaw::SpacesAreTrimmed if !space.trim_end().is_empty() => memory.space_id = SpaceId::parse(space.trim_end())?,
        Flaw::BoundariesAreOne => memory.space_id = SpaceId::parse(space.replace(BOUNDARIES, "-"))?,
        Flaw::LongSpacesAreRefused if space.len() > 255 => return Err(Error::too_large("a long space")),
        _ => {}
    }
    Ok(memory)
}

/// A memory as a broken provider gives it to its callers.
pub(crate) fn shown(flaw: Flaw, mut memory: Memory) -> Memory {
    match flaw {
        Flaw::NumbersAreFloats => memory.metadata = with_floats(&memory.metadata),
        Flaw::TriggersAreWrittenAnew => {
            let value: Option<serde_json::Value> = memory.trigger.to_value().ok();
            memory.trigger = value.and_then(|it| Trigger::parse(&it.to_string()).ok()).unwrap_or(memory.trigger);
        }
        Flaw::TimesAreSeconds => {
            let millis = memory.created_at.as_millis();
            memory.created_at = Timestamp::from_millis(millis - millis % 1_000).unwrap_or(memory.created_at);
        }
        Flaw::UpdateMovesCreatedAt => memory.created_at = memory.updated_at.unwrap_or(memory.created_at),
        Flaw::EmptyContextIsAbsent => memory.context = memory.context.filter(|context| context.as_str() != r#""""#),
        _ => {}
    }
    memory
}

/// An id of another version than 7, less than all earlier ones.
pub(crate) fn descending_id() -> MemoryId {
    MemoryId::from_bytes(MemoryId::generate().as_bytes().map(|byte| !byte))
}

/// The metadata after all its numbers were floats.
pub(crate) fn with_floats(metadata: &Metadata) -> Metadata {
    let mut members = metadata.to_object();
    for value in members.values_mut() {
        if let Json::Number(Number::Int(number)) = value {
            *value = Json::Number(Number::Int(*number as f64 as i128));
        }
    }
    Metadata::from_object(&members).unwrap_or_else(|_| metadata.clone())
}
