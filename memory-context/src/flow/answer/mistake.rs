//! Why the answer of a model is invalid.

use std::error::Error as StdError;
use std::fmt;

use memory_core::Error;

/// Why an answer could not be parsed. It never quotes the answer, so it can be logged and sent back to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mistake {
    /// The answer is too long.
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// There is neither XML nor JSON with one of the fields.
    NoAnswer,
    /// There is no text, though plain text was asked for.
    NoText,
    /// A tag is not closed, for example because the answer was cut.
    Unclosed {
        /// The name of the tag.
        tag: String,
    },
    /// The text begins as JSON but is not valid JSON.
    NotJson {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The text begins as XML but is not valid XML.
    NotXml,
    /// Required fields are missing or empty.
    Missing {
        /// All missing fields, in order, with their paths in lists, as in `facts[0].claim`.
        fields: Vec<String>,
    },
    /// A field has an invalid value.
    Invalid {
        /// The name of the field, with its path in lists.
        field: String,
        /// What the field should hold.
        expected: &'static str,
    },
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(f, "longer than {limit} bytes"),
            Self::NoAnswer => f.write_str("there is no answer in XML or JSON"),
            Self::NoText => f.write_str("there is no text"),
            Self::Unclosed { tag } => write!(f, "<{tag}> is not closed"),
            Self::NotJson { line, column } => write!(f, "not valid JSON at line {line} column {column}"),
            Self::NotXml => f.write_str("not valid XML"),
            Self::Missing { fields } => write!(f, "missing: {}", fields.join(", ")),
            Self::Invalid { field, expected } => write!(f, "{field} must be {expected}"),
        }
    }
}

impl StdError for Mistake {}

impl From<Mistake> for Error {
    /// Makes an `InvalidInput` error, whose source is the mistake.
    fn from(mistake: Mistake) -> Self {
        Self::invalid(format!("the answer of the model can't be read: {mistake}")).with_source(mistake)
    }
}
