//! What is wrong with an answer.

use std::error::Error as StdError;
use std::fmt;

use memory_core::Error;

/// Why an answer could not be read. It never quotes the answer, and may be sent back to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mistake {
    /// It is too long to be read.
    TooLong {
        /// How many bytes it may have.
        limit: usize,
    },
    /// There is neither XML nor JSON with any of the fields.
    NoAnswer,
    /// Nothing is said, where plain text was asked for.
    NoText,
    /// A tag is not closed, as where an answer was cut.
    Unclosed {
        /// Its name.
        tag: String,
    },
    /// What begins as JSON does not go on as such.
    NotJson {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// What begins as XML does not go on as such.
    NotXml,
    /// Fields are not there, or empty.
    Missing {
        /// All of them, in their order, with their places in lists, as in `facts[0].claim`.
        fields: Vec<String>,
    },
    /// A field holds something else.
    Invalid {
        /// Its name, with its place in a list.
        field: String,
        /// What it should be.
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
    /// `InvalidInput`.
    fn from(mistake: Mistake) -> Self {
        Self::invalid(format!("the answer of the model can't be read: {mistake}")).with_source(mistake)
    }
}
