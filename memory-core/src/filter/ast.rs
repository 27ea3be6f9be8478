//! The filter tree: its variants, what it matches, and its written form.

use std::cmp::Ordering;
use std::fmt;

use crate::filter::field::Field;
use crate::filter::like::LikePattern;
use crate::filter::subject::{Found, Subject};
use crate::filter::value::Value;

/// A condition on a memory or a document.
///
/// Built by [`Filter::parse`] and by the methods of [`Field`], which normalize it: no AND inside an AND, no NOT of a
/// NOT. The variants are public for engines to read.
///
/// The logic has two values (F2): a comparison with a missing field or a value of another type is false, and NOT makes
/// that true.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Matches if all parts match; at least two.
    #[non_exhaustive]
    And(Vec<Filter>),
    /// Matches if at least one part matches; at least two.
    #[non_exhaustive]
    Or(Vec<Filter>),
    /// Matches if the part does not; also the form of `<>` and `NOT IN`.
    #[non_exhaustive]
    Not(Box<Filter>),
    /// Compares a field with a value of the same type.
    #[non_exhaustive]
    Compare {
        /// The left side.
        field: Field,
        /// The operator.
        comparison: Comparison,
        /// The right side.
        value: Value,
    },
    /// A field equals one of the values.
    #[non_exhaustive]
    OneOf {
        /// The left side.
        field: Field,
        /// The values that it may equal.
        values: Vec<Value>,
    },
    /// The whole of a string field matches a pattern.
    #[non_exhaustive]
    Like {
        /// The left side.
        field: Field,
        /// The pattern.
        pattern: LikePattern,
    },
    /// An array field contains a value.
    #[non_exhaustive]
    Contains {
        /// The array field.
        field: Field,
        /// The value that one item equals.
        value: Value,
    },
    /// A field is missing or JSON null.
    #[non_exhaustive]
    IsNull {
        /// The field that is tested.
        field: Field,
    },
}

/// A comparison operator. Numbers compare by value, strings byte for byte (F3), and false comes before true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Filter {
    /// Returns whether a record satisfies the filter. This defines the filter, and decides on every engine (F5).
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.matches(subject)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(subject)),
            Self::Not(part) => !part.matches(subject),
            Self::Compare { field, comparison, value } => {
                let order = subject.find(field).and_then(|found| found.compare(value));
                order.is_some_and(|order| comparison.allows(order))
            }
            Self::OneOf { field, values } => subject
                .find(field)
                .is_some_and(|found| values.iter().any(|value| found.compare(value) == Some(Ordering::Equal))),
            Self::Like { field, pattern } => match subject.find(field) {
                Some(Found::String(text)) => pattern.matches(&text),
                _ => false,
            },
            Self::Contains { field, value } => match subject.find(field) {
                Some(Found::Array(items)) => items
                    .iter()
                    .any(|item| Found::from_json(item).and_then(|found| found.compare(value)) == Some(Ordering::Equal)),
                _ => false,
            },
            Self::IsNull { field } => subject.find(field).is_none(),
        }
    }

    /// Returns whether a condition reads texts or metadata, which may be large.
    pub(crate) fn reads_payload(&self) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::reads_payload),
            Self::Not(part) => part.reads_payload(),
            Self::Compare { field, .. }
            | Self::OneOf { field, .. }
            | Self::Like { field, .. }
            | Self::Contains { field, .. }
            | Self::IsNull { field } => matches!(field, Field::Text | Field::Content | Field::Metadata(_)),
        }
    }
}

impl Comparison {
    fn allows(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl fmt::Display for Filter {
    /// Writes a predicate that parses back to an equal filter. Different filters have different output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::And(parts) => join(f, parts, " AND "),
            Self::Or(parts) => join(f, parts, " OR "),
            Self::Not(part) => match part.as_ref() {
                Self::Compare { field, comparison: Comparison::Equal, value } => write!(f, "{field} <> {value}"),
                Self::OneOf { field, values } => one_of(f, field, "NOT IN", values),
                Self::Like { field, pattern } => write!(f, "{field} NOT {pattern}"),
                Self::IsNull { field } => write!(f, "{field} IS NOT NULL"),
                part => {
                    f.write_str("NOT ")?;
                    operand(f, part)
                }
            },
            Self::Compare { field, comparison, value } => write!(f, "{field} {comparison} {value}"),
            Self::OneOf { field, values } => one_of(f, field, "IN", values),
            Self::Like { field, pattern } => write!(f, "{field} {pattern}"),
            Self::Contains { field, value } => write!(f, "{value} = ANY({field})"),
            Self::IsNull { field } => write!(f, "{field} IS NULL"),
        }
    }
}

fn join(f: &mut fmt::Formatter<'_>, parts: &[Filter], separator: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        operand(f, part)?;
    }
    Ok(())
}

fn operand(f: &mut fmt::Formatter<'_>, part: &Filter) -> fmt::Result {
    match part {
        Filter::And(_) | Filter::Or(_) => write!(f, "({part})"),
        _ => write!(f, "{part}"),
    }
}

fn one_of(f: &mut fmt::Formatter<'_>, field: &Field, operator: &str, values: &[Value]) -> fmt::Result {
    write!(f, "{field} {operator} (")?;
    for (index, value) in values.iter().enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        write!(f, "{separator}{value}")?;
    }
    f.write_str(")")
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}
