//! How filters are built.

use crate::filter::ast::{Comparison, Filter};
use crate::filter::field::Field;
use crate::filter::like::{Case, LikePattern};
use crate::filter::value::Value;
use crate::{BOUNDARIES, Result, SpaceId};

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
}

/// Each method makes a condition of the field.
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

/// A space that starts with a text whose last character is a boundary.
fn starts_with(start: String) -> Filter {
    let mut end = start.clone();
    // Boundaries are ASCII, and so is the character after each.
    if let Some(boundary) = end.pop() {
        end.push(char::from(boundary as u8 + 1));
    }
    Field::SpaceId.ge(start).and(Field::SpaceId.lt(end))
}
