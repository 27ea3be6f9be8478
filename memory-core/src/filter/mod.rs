//! Filters: conditions on the fields of a memory or a document, built in Rust or written as a SQL-like predicate (F1 to F5).
//!
//! ```
//! use memory_core::Filter;
//! use memory_core::filter::Field;
//!
//! let built = Filter::field("metadata.topic")?
//!     .eq("rust")
//!     .and(Field::CreatedAt.gt(1_700_000_000_000_i64))
//!     .and(Field::metadata(["tags"]).any("news").or(Field::Text.ilike("%birthday%")?))
//!     .and(Field::metadata(["odd key"]).is_null().negate());
//! let text = "metadata.topic = 'rust' AND createdAt > 1700000000000 \
//!             AND ('news' = ANY(metadata.tags) OR text ILIKE '%birthday%') AND metadata.\"odd key\" IS NOT NULL";
//! assert_eq!(Filter::parse(text)?, built);
//! assert_eq!(built.to_string(), text);
//! # Ok::<(), memory_core::Error>(())
//! ```

mod ast;
mod field;
mod like;
mod parse;
#[cfg(test)]
mod tests;
mod token;

pub use ast::{Comparison, Filter, Value};
pub use field::{Field, Subject};
pub use like::LikePattern;

use crate::{BOUNDARIES, Error, Number, Result, SpaceId};

/// The longest predicate, in bytes. Of a built tree the keys and the strings count.
pub const MAX_TEXT: usize = 16 << 10;
/// How many levels of AND, OR, NOT and parentheses a condition may stand under.
pub const MAX_DEPTH: usize = 16;
/// The most conditions in one filter; a BETWEEN is two.
pub const MAX_CONDITIONS: usize = 256;
/// The most values in one IN.
pub const MAX_VALUES: usize = 1_000;

/// Where the records come from, since `status` belongs to the ledger and `content` to documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The ledger.
    Ledger,
    /// A collection of documents.
    Documents,
}

impl Filter {
    /// That a record lies in this space or below it: what [`SpaceSelector::under`](crate::SpaceSelector::under) finds (S3), for
    /// where a query has selectors of its own.
    pub fn under(path: &SpaceId) -> Self {
        let path = path.as_str();
        if path.ends_with(BOUNDARIES) {
            return starts_with(path.to_owned());
        }
        BOUNDARIES
            .into_iter()
            .fold(Field::SpaceId.eq(path), |filter, boundary| filter.or(starts_with(format!("{path}{boundary}"))))
    }

    /// Reads a predicate.
    ///
    /// Comparisons have a field on the left and a literal on the right: `= <> != < <= > >=`, `[NOT] IN (..)`,
    /// `[NOT] BETWEEN .. AND ..`, `[NOT] LIKE` and `ILIKE` with `ESCAPE`, `IS [NOT] NULL`; `'x' = ANY(metadata.tags)` looks
    /// into an array; `AND`, `OR`, `NOT` and parentheses combine. Strings take single quotes, keys that are no plain words
    /// double quotes. Everything else is `InvalidInput` that names its place, and what is over a limit `TooLarge`.
    pub fn parse(text: &str) -> Result<Self> {
        let filter = parse::filter(text)?;
        Limits::default().add(&filter, 0)?;
        Ok(filter)
    }

    /// Checks the limits, also of a built filter, and that its fields exist in the source.
    ///
    /// `TooLarge` over [`MAX_DEPTH`], [`MAX_CONDITIONS`], [`MAX_VALUES`] or [`MAX_TEXT`]; `InvalidInput` for a field of the
    /// other source, a metadata field without a key, U+0000, and a number that is not finite or has more than 64 bits.
    pub fn check(&self, source: Source) -> Result<()> {
        Limits { source: Some(source), ..Limits::default() }.add(self, 0)
    }
}

/// What a filter has used up of its limits.
#[derive(Default)]
struct Limits {
    source: Option<Source>,
    conditions: usize,
    bytes: usize,
}

impl Limits {
    /// Adds a part that stands under `level` connectives. Goes no deeper than the limit.
    fn add(&mut self, filter: &Filter, level: usize) -> Result<()> {
        if level > MAX_DEPTH {
            return Err(too_deep());
        }
        match filter {
            Filter::And(parts) | Filter::Or(parts) => parts.iter().try_for_each(|part| self.add(part, level + 1)),
            Filter::Not(part) => self.add(part, level + 1),
            Filter::Compare { field, value, .. } | Filter::Contains { field, value } => {
                self.add_condition(field)?;
                self.add_value(value)
            }
            Filter::OneOf { field, values } => {
                if values.len() > MAX_VALUES {
                    return Err(too_many_values());
                }
                self.add_condition(field)?;
                values.iter().try_for_each(|value| self.add_value(value))
            }
            Filter::Like { field, pattern } => {
                self.add_condition(field)?;
                self.add_text(pattern.as_str())
            }
            Filter::IsNull { field } => self.add_condition(field),
        }
    }

    fn add_condition(&mut self, field: &Field) -> Result<()> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            return Err(too_many_conditions());
        }
        match (field, self.source) {
            (Field::Status, Some(Source::Documents)) => Err(Error::invalid("documents have no field status")),
            (Field::Content, Some(Source::Ledger)) => Err(Error::invalid("memories have no field content, but text")),
            (Field::Metadata(keys), _) if keys.is_empty() => Err(Error::invalid("a metadata field needs a key")),
            (Field::Metadata(keys), _) => keys.iter().try_for_each(|key| self.add_text(key)),
            _ => Ok(()),
        }
    }

    fn add_value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::String(text) => self.add_text(text),
            Value::Number(Number::Float(float)) if !float.is_finite() => {
                Err(Error::invalid("a filter compares with a number that is not finite"))
            }
            Value::Number(Number::Int(int)) if i64::try_from(*int).is_err() && u64::try_from(*int).is_err() => {
                Err(Error::invalid("a filter compares with an integer of more than 64 bits"))
            }
            Value::Number(_) | Value::Bool(_) => Ok(()),
        }
    }

    fn add_text(&mut self, text: &str) -> Result<()> {
        self.bytes += text.len();
        if self.bytes > MAX_TEXT {
            return Err(too_long(self.bytes));
        }
        // No record holds it, and not every engine can be asked for it.
        if text.contains('\0') { Err(Error::invalid("a filter must not hold U+0000")) } else { Ok(()) }
    }
}

/// A space that starts with a text whose last character is a boundary.
fn starts_with(start: String) -> Filter {
    let mut end = start.clone();
    // Boundaries are ASCII, and so is the character after each.
    if let Some(boundary) = end.pop() {
        end.push(char::from(boundary as u8 + 1));
    }
    Field::SpaceId.ge(start).and(Field::SpaceId.lt(end))
}

fn too_long(bytes: usize) -> Error {
    Error::too_large(format!("a filter of {bytes} bytes or more; at most {MAX_TEXT} are allowed"))
}

fn too_deep() -> Error {
    Error::too_large(format!("a filter nests more than {MAX_DEPTH} deep"))
}

fn too_many_conditions() -> Error {
    Error::too_large(format!("a filter has more than {MAX_CONDITIONS} conditions"))
}

fn too_many_values() -> Error {
    Error::too_large(format!("IN has more than {MAX_VALUES} values"))
}
