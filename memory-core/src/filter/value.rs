//! The value on the right side of a condition.

use std::fmt;

use crate::{MemoryId, Number, SpaceId, Status, Timestamp};

/// A literal that a field is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Number(Number::Int(int)) => int.fmt(f),
            // The debug form is the shortest that parses back, with an exponent for long numbers.
            Self::Number(Number::Float(float)) => write!(f, "{float:?}"),
            Self::String(text) => quoted(f, text),
        }
    }
}

/// Writes a string literal of a predicate.
pub(super) fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

/// Implements `From` for each type that converts to a value.
macro_rules! values {
    ($($from:ty => |$value:ident| $into:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $into
            }
        })*
    };
}

values! {
    bool => |value| Self::Bool(value);
    Number => |value| Self::Number(value);
    i32 => |value| Self::Number(Number::Int(value.into()));
    i64 => |value| Self::Number(Number::Int(value.into()));
    u32 => |value| Self::Number(Number::Int(value.into()));
    u64 => |value| Self::Number(Number::Int(value.into()));
    f64 => |value| Self::Number(Number::Float(value));
    &str => |value| Self::String(value.to_owned());
    String => |value| Self::String(value);
    MemoryId => |value| Self::String(value.to_string());
    &SpaceId => |value| Self::String(value.as_str().to_owned());
    Status => |value| Self::String(value.as_str().to_owned());
    Timestamp => |value| Self::Number(Number::Int(value.as_millis().into()));
}
