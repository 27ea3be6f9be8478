//! Limits on the size of a filter.

use crate::filter::ast::Filter;
use crate::filter::field::Field;
use crate::filter::value::Value;
use crate::{Error, Number, Result};

/// Maximum length of a predicate, in bytes. For a built filter: of its keys and strings together.
pub const MAX_FILTER_BYTES: usize = 16 << 10;
/// Maximum number of nested AND, OR, NOT and parentheses above a condition.
pub const MAX_DEPTH: usize = 16;
/// Maximum number of conditions in a filter; a BETWEEN counts as two.
pub const MAX_CONDITIONS: usize = 256;
/// Maximum number of values in an IN.
pub const MAX_VALUES: usize = 1_000;

/// The records that a filter applies to: `status` exists only in the ledger, `content` only in documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSource {
    /// The ledger.
    Ledger,
    /// A collection of documents.
    Documents,
}

impl Filter {
    /// Checks a filter, parsed or built: its limits, and that its fields exist in the source.
    ///
    /// `TooLarge` over [`MAX_DEPTH`], [`MAX_CONDITIONS`], [`MAX_VALUES`] or [`MAX_FILTER_BYTES`]; `InvalidInput` for a field of the
    /// other source, a metadata field without a key, U+0000, and a number that is not finite or has more than 64 bits.
    pub fn check(&self, source: RecordSource) -> Result<()> {
        Limits { source: Some(source), ..Limits::default() }.add(self, 0)
    }

    /// Checks the limits only.
    pub(super) fn check_limits(&self) -> Result<()> {
        Limits::default().add(self, 0)
    }
}

/// The parts of its limits that a filter has used.
#[derive(Default)]
struct Limits {
    source: Option<RecordSource>,
    conditions: usize,
    bytes: usize,
}

impl Limits {
    /// Adds a part below `level` connectives; recurses no deeper than [`MAX_DEPTH`].
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
            (Field::Status, Some(RecordSource::Documents)) => {
                Err(Error::invalid("unknown field status: only memories have it"))
            }
            (Field::Content, Some(RecordSource::Ledger)) => {
                Err(Error::invalid("unknown field content: memories have text"))
            }
            (Field::Metadata(keys), _) if keys.is_empty() => Err(Error::invalid("a metadata field needs a key")),
            (Field::Metadata(keys), _) => keys.iter().try_for_each(|key| self.add_text(key)),
            _ => Ok(()),
        }
    }

    fn add_value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::String(text) => self.add_text(text),
            Value::Number(Number::Float(float)) if !float.is_finite() => {
                Err(Error::invalid("a filter must not compare with a number that is not finite"))
            }
            Value::Number(Number::Int(int)) if i64::try_from(*int).is_err() && u64::try_from(*int).is_err() => {
                Err(Error::invalid("a filter must not compare with an integer of more than 64 bits"))
            }
            Value::Number(_) | Value::Bool(_) => Ok(()),
        }
    }

    fn add_text(&mut self, text: &str) -> Result<()> {
        self.bytes += text.len();
        if self.bytes > MAX_FILTER_BYTES {
            return Err(too_long(self.bytes));
        }
        // No record holds U+0000, and not every engine accepts it in a query.
        if text.contains('\0') { Err(Error::invalid("a filter must not hold U+0000")) } else { Ok(()) }
    }
}

pub(super) fn too_long(bytes: usize) -> Error {
    Error::too_large(format!("a filter of {bytes} bytes or more; at most {MAX_FILTER_BYTES} are allowed"))
}

pub(super) fn too_deep() -> Error {
    Error::too_large(format!("a filter nests more than {MAX_DEPTH} deep"))
}

fn too_many_conditions() -> Error {
    Error::too_large(format!("a filter has more than {MAX_CONDITIONS} conditions"))
}

fn too_many_values() -> Error {
    Error::too_large(format!("IN has more than {MAX_VALUES} values"))
}
