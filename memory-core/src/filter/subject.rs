//! The record that a filter is applied to.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;

use crate::filter::field::Field;
use crate::filter::value::Value;
use crate::{Document, Json, JsonObject, Memory, Number, Timestamp, words};

/// The record that a filter is applied to. Metadata and text are parsed on first use, once.
#[derive(Debug)]
pub struct Subject<'a> {
    record: Record<'a>,
    metadata: OnceCell<JsonObject>,
    text: OnceCell<String>,
}

#[derive(Debug, Clone, Copy)]
enum Record<'a> {
    Memory(&'a Memory),
    Document(&'a Document),
}

impl<'a> From<&'a Memory> for Subject<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self { record: Record::Memory(memory), metadata: OnceCell::new(), text: OnceCell::new() }
    }
}

impl<'a> From<&'a Document> for Subject<'a> {
    fn from(document: &'a Document) -> Self {
        Self { record: Record::Document(document), metadata: OnceCell::new(), text: OnceCell::new() }
    }
}

impl Subject<'_> {
    /// Returns the value of a field; `None` if it is missing or null.
    pub(super) fn find(&self, field: &Field) -> Option<Found<'_>> {
        match (field, self.record) {
            (Field::Metadata(keys), record) => {
                let metadata = match record {
                    Record::Memory(memory) => &memory.metadata,
                    Record::Document(document) => &document.metadata,
                };
                find_in(self.metadata.get_or_init(|| metadata.to_object()), keys)
            }
            (Field::Id, Record::Memory(memory)) => Some(Found::String(memory.id.to_string().into())),
            (Field::Id, Record::Document(document)) => Some(Found::string(document.id.as_str())),
            (Field::SpaceId, Record::Memory(memory)) => Some(Found::string(memory.space_id.as_str())),
            (Field::SpaceId, Record::Document(document)) => Some(Found::string(document.space_id.as_str())),
            (Field::CreatedAt, Record::Memory(memory)) => Some(Found::time(memory.created_at)),
            (Field::CreatedAt, Record::Document(document)) => Some(Found::time(document.created_at)),
            (Field::UpdatedAt, Record::Memory(memory)) => memory.updated_at.map(Found::time),
            (Field::UpdatedAt, Record::Document(document)) => document.updated_at.map(Found::time),
            (Field::Status, Record::Memory(memory)) => Some(Found::string(memory.status.as_str())),
            (Field::Text, Record::Memory(memory)) => {
                let text = self.text.get_or_init(|| words::text_of(&memory.trigger, memory.context.as_ref()));
                Some(Found::string(text))
            }
            (Field::Text | Field::Content, Record::Document(document)) => {
                Some(Found::string(document.content.as_str()))
            }
            (Field::Status, Record::Document(_)) | (Field::Content, Record::Memory(_)) => None,
        }
    }
}

fn find_in<'a>(object: &'a JsonObject, keys: &[String]) -> Option<Found<'a>> {
    let (last, path) = keys.split_last()?;
    let mut object = object;
    for key in path {
        match object.get(key)? {
            Json::Object(inner) => object = inner,
            _ => return None,
        }
    }
    Found::from_json(object.get(last)?)
}

/// The value of a field.
pub(super) enum Found<'a> {
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(&'a [Json]),
    Object,
}

impl<'a> Found<'a> {
    /// Converts a JSON value; `None` for null.
    pub(super) fn from_json(json: &'a Json) -> Option<Self> {
        match json {
            Json::Null => None,
            Json::Bool(value) => Some(Self::Bool(*value)),
            Json::Number(number) => Some(Self::Number(*number)),
            Json::String(text) => Some(Self::string(text)),
            Json::Array(items) => Some(Self::Array(items)),
            Json::Object(_) => Some(Self::Object),
        }
    }

    fn string(text: &'a str) -> Self {
        Self::String(text.into())
    }

    fn time(time: Timestamp) -> Self {
        Self::Number(Number::Int(time.as_millis().into()))
    }

    /// Compares with a literal; `None` if the types differ (F2).
    pub(super) fn compare(&self, value: &Value) -> Option<Ordering> {
        match (self, value) {
            (Self::Bool(found), Value::Bool(value)) => Some(found.cmp(value)),
            (Self::Number(found), Value::Number(value)) => Some(found.compare(*value)),
            (Self::String(found), Value::String(value)) => Some(found.as_ref().cmp(value.as_str())),
            _ => None,
        }
    }
}
