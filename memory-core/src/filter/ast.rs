//! The tree: what a filter is, how it is built, what it matches and how it is written.

use std::cmp::Ordering;
use std::fmt;

use crate::filter::field::{Field, Found, Subject};
use crate::filter::like::{Case, LikePattern};
use crate::{MemoryId, Number, Result, SpaceId, Status, Timestamp};

/// A condition on a memory or a document.
///
/// Made by [`Filter::parse`] and by the methods of [`Field`], so that each has one form: no AND within an AND, no NOT of a
/// NOT. The variants are there for engines to read.
///
/// The logic has two values (F2): a comparison with a missing field or a value of another type is false, and NOT turns that
/// into true.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All of two or more.
    #[non_exhaustive]
    And(Vec<Filter>),
    /// At least one of two or more.
    #[non_exhaustive]
    Or(Vec<Filter>),
    /// The opposite; `<>` and `NOT IN` are written with it too.
    #[non_exhaustive]
    Not(Box<Filter>),
    /// A field compares with a value of its own type.
    #[non_exhaustive]
    Compare {
        /// The left side.
        field: Field,
        /// How the two stand to each other.
        comparison: Comparison,
        /// The right side.
        value: Value,
    },
    /// A field equals one of the values.
    #[non_exhaustive]
    OneOf {
        /// The left side.
        field: Field,
        /// What it may equal.
        values: Vec<Value>,
    },
    /// A string field matches as a whole.
    #[non_exhaustive]
    Like {
        /// The left side.
        field: Field,
        /// What it has to match.
        pattern: LikePattern,
    },
    /// An array field holds this value.
    #[non_exhaustive]
    Contains {
        /// The array.
        field: Field,
        /// What one item equals.
        value: Value,
    },
    /// A field is missing or JSON null.
    #[non_exhaustive]
    IsNull {
        /// The field.
        field: Field,
    },
}

/// How the two sides of a comparison stand to each other. Numbers compare by value, strings byte for byte (F3), and false
/// comes before true.
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

/// What a field is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `true` or `false`
    Bool(bool),
    /// Any number.
    Number(Number),
    /// A string.
    String(String),
}

impl Filter {
    /// Starts a condition on the field that is written like this, for example `createdAt` or `metadata.a."b c"`.
    pub fn field(text: &str) -> Result<Field> {
        text.parse()
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::And(mut parts), Self::And(others)) => {
                parts.extend(others);
                Self::And(parts)
            }
            (Self::And(mut parts), other) => {
                parts.push(other);
                Self::And(parts)
            }
            (first, Self::And(mut parts)) => {
                parts.insert(0, first);
                Self::And(parts)
            }
            (first, second) => Self::And(vec![first, second]),
        }
    }

    /// At least one of the two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Or(mut parts), Self::Or(others)) => {
                parts.extend(others);
                Self::Or(parts)
            }
            (Self::Or(mut parts), other) => {
                parts.push(other);
                Self::Or(parts)
            }
            (first, Self::Or(mut parts)) => {
                parts.insert(0, first);
                Self::Or(parts)
            }
            (first, second) => Self::Or(vec![first, second]),
        }
    }

    /// The opposite.
    #[must_use]
    pub fn negate(self) -> Self {
        match self {
            Self::Not(part) => *part,
            part => Self::Not(Box::new(part)),
        }
    }

    /// Whether a record satisfies the filter. This is the definition, and it has the last word on every engine (F5).
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
}

/// The builder: each method makes a condition of the field.
impl Field {
    /// Equals; arrays and objects equal nothing.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Equal, value)
    }

    /// Does not equal, which is also true for a missing field.
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        self.eq(value).negate()
    }

    /// Is less.
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Less, value)
    }

    /// Is less or equal.
    pub fn le(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Is greater.
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Greater, value)
    }

    /// Is greater or equal.
    pub fn ge(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// Lies between the two, or equals one of them.
    pub fn between(self, low: impl Into<Value>, high: impl Into<Value>) -> Filter {
        self.clone().ge(low).and(self.le(high))
    }

    /// Equals one of these; with none of them, nothing matches. At most 1,000.
    pub fn one_of(self, values: impl IntoIterator<Item = impl Into<Value>>) -> Filter {
        Filter::OneOf { field: self, values: values.into_iter().map(Into::into).collect() }
    }

    /// Matches a pattern (F4); `InvalidInput` over 1 KiB.
    pub fn like(self, pattern: &str) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, None, Case::Sensitive)? })
    }

    /// Matches a pattern in which A to Z and a to z are the same (F4); `InvalidInput` over 1 KiB.
    pub fn ilike(self, pattern: &str) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, None, Case::IgnoreAscii)? })
    }

    /// As [`Field::like`], with an escape character; `InvalidInput` also when the pattern ends with it.
    pub fn like_escaped(self, pattern: &str, escape: char) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, Some(escape), Case::Sensitive)? })
    }

    /// As [`Field::ilike`], with an escape character; `InvalidInput` also when the pattern ends with it.
    pub fn ilike_escaped(self, pattern: &str, escape: char) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, Some(escape), Case::IgnoreAscii)? })
    }

    /// Is an array that holds this value.
    pub fn any(self, value: impl Into<Value>) -> Filter {
        Filter::Contains { field: self, value: value.into() }
    }

    /// Is missing or JSON null.
    pub fn is_null(self) -> Filter {
        Filter::IsNull { field: self }
    }

    /// Is there, and not JSON null.
    pub fn is_not_null(self) -> Filter {
        self.is_null().negate()
    }

    fn compare(self, comparison: Comparison, value: impl Into<Value>) -> Filter {
        Filter::Compare { field: self, comparison, value: value.into() }
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
    /// A predicate that parses back to an equal filter; different filters are written differently.
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

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Number(Number::Int(int)) => int.fmt(f),
            // The debug form is the shortest that reads back, with an exponent where digits would be many.
            Self::Number(Number::Float(float)) => write!(f, "{float:?}"),
            Self::String(text) => quoted(f, text),
        }
    }
}

pub(super) fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

/// Writes `From` for each type that a value is made of.
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
