//! Constructors and combinators of filters.

use crate::filter::ast::{Comparison, Filter};
use crate::filter::field::Field;
use crate::filter::like::{Case, LikePattern};
use crate::filter::value::Value;
use crate::{BOUNDARIES, Result, SpaceId};

impl Filter {
    /// Matches records in this space or below it, as [`SpaceSelector::under`](crate::SpaceSelector::under) does (S3);
    /// for a query that already has selectors.
    pub fn under(path: &SpaceId) -> Self {
        let path = path.as_str();
        if path.ends_with(BOUNDARIES) {
            return starts_with(path.to_owned());
        }
        BOUNDARIES
            .into_iter()
            .fold(Field::SpaceId.eq(path), |filter, boundary| filter.or(starts_with(format!("{path}{boundary}"))))
    }

    /// Matches if both match.
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

    /// Matches if at least one of the two matches.
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

    /// Matches if this filter does not.
    #[must_use]
    pub fn negate(self) -> Self {
        match self {
            Self::Not(part) => *part,
            part => Self::Not(Box::new(part)),
        }
    }
}

/// Each method makes a condition on the field.
impl Field {
    /// The field equals the value; arrays and objects equal nothing.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Equal, value)
    }

    /// The field does not equal the value; also true if the field is missing.
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        self.eq(value).negate()
    }

    /// The field is less than the value.
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Less, value)
    }

    /// The field is less than or equal to the value.
    pub fn le(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// The field is greater than the value.
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Greater, value)
    }

    /// The field is greater than or equal to the value.
    pub fn ge(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// The field lies between the two values, or equals one of them.
    pub fn between(self, low: impl Into<Value>, high: impl Into<Value>) -> Filter {
        self.clone().ge(low).and(self.le(high))
    }

    /// The field equals one of these values, at most 1,000. Without a value, nothing matches.
    pub fn one_of(self, values: impl IntoIterator<Item = impl Into<Value>>) -> Filter {
        Filter::OneOf { field: self, values: values.into_iter().map(Into::into).collect() }
    }

    /// The string matches a LIKE pattern (F4); `InvalidInput` for a pattern over 1 KiB.
    pub fn like(self, pattern: &str) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, None, Case::Sensitive)? })
    }

    /// Like [`like`](Self::like), but the case of ASCII letters is ignored (F4).
    pub fn ilike(self, pattern: &str) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, None, Case::IgnoreAscii)? })
    }

    /// Like [`like`](Self::like), with an escape character; `InvalidInput` also if the pattern ends with it.
    pub fn like_escaped(self, pattern: &str, escape: char) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, Some(escape), Case::Sensitive)? })
    }

    /// Like [`ilike`](Self::ilike), with an escape character; `InvalidInput` also if the pattern ends with it.
    pub fn ilike_escaped(self, pattern: &str, escape: char) -> Result<Filter> {
        Ok(Filter::Like { field: self, pattern: LikePattern::new(pattern, Some(escape), Case::IgnoreAscii)? })
    }

    /// The field is an array that contains this value.
    pub fn any(self, value: impl Into<Value>) -> Filter {
        Filter::Contains { field: self, value: value.into() }
    }

    /// The field is missing or JSON null.
    pub fn is_null(self) -> Filter {
        Filter::IsNull { field: self }
    }

    /// The field is present and not JSON null.
    pub fn is_not_null(self) -> Filter {
        self.is_null().negate()
    }

    fn compare(self, comparison: Comparison, value: impl Into<Value>) -> Filter {
        Filter::Compare { field: self, comparison, value: value.into() }
    }
}

/// Matches spaces that start with a text whose last character is a boundary.
fn starts_with(start: String) -> Filter {
    let mut end = start.clone();
    // Boundaries are ASCII, and the character after each is too.
    if let Some(boundary) = end.pop() {
        end.push(char::from(boundary as u8 + 1));
    }
    Field::SpaceId.ge(start).and(Field::SpaceId.lt(end))
}
