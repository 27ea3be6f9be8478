//! Filters as engines have misread them.

use memory_core::filter::{Comparison, Field, Value};
use memory_core::{Error, ErrorKind, Filter, Json, JsonObject, Memory, Number, Result};

use crate::flaw::Flaw;

/// The filter that a broken provider evaluates instead of another one.
pub(crate) fn misread(flaw: Flaw, filter: &Filter) -> Result<Filter> {
    let written = filter.to_string();
    match flaw {
        Flaw::LikeFoldsCase => Filter::parse(&written.replace(" LIKE ", " ILIKE ")),
        Flaw::EqualityFoldsCase => Filter::parse(&written.replace(" = '", " ILIKE '")),
        // A key with a dot is a path.
        Flaw::DottedKeysArePaths => Filter::parse(&written.replace('"', "")),
        Flaw::QuotesInKeysAreSyntax if keys(filter).iter().any(|key| key.contains('\'')) => {
            Err(Error::new(ErrorKind::Unexpected, "a syntax error near a quote"))
        }
        _ => Ok(filter.clone()),
    }
}

/// Whether a broken engine offers the memory as a candidate for the filter.
pub(crate) fn offers(flaw: Flaw, filter: &Filter, memory: &Memory) -> bool {
    let has = |path: &[String]| path.first().is_some_and(|key| memory.metadata.to_object().contains_key(key));
    match flaw {
        Flaw::NumbersCompareAsText => compares_as_text(filter, memory),
        // The opposite of a negated comparison is the comparison.
        Flaw::NotEqualNeedsTheField => match filter.clone().negate() {
            Filter::Compare { field: Field::Metadata(path), .. } => has(&path),
            _ => true,
        },
        Flaw::NullNeedsTheField => match filter {
            Filter::IsNull { field: Field::Metadata(path), .. } => has(path),
            _ => true,
        },
        _ => true,
    }
}

/// Gives each missing member the value that a filter compares it with.
pub(crate) fn fill_in(members: &mut JsonObject, filter: &Filter) {
    match filter {
        Filter::And { 0: parts, .. } | Filter::Or { 0: parts, .. } => {
            parts.iter().for_each(|part| fill_in(members, part));
        }
        Filter::Not { 0: part, .. } => fill_in(members, part),
        Filter::Compare { field: Field::Metadata(path), comparison: Comparison::Equal, value, .. } => {
            if let [key] = path.as_slice() {
                members.entry(key.clone()).or_insert_with(|| match value {
                    Value::Bool(value) => Json::Bool(*value),
                    Value::Number(value) => Json::Number(*value),
                    Value::String(value) => Json::String(value.clone()),
                });
            }
        }
        _ => {}
    }
}

/// The keys of the metadata that a filter without AND and OR names.
fn keys(filter: &Filter) -> &[String] {
    match filter {
        Filter::Not { 0: part, .. } => keys(part),
        Filter::Compare { field: Field::Metadata(path), .. }
        | Filter::OneOf { field: Field::Metadata(path), .. }
        | Filter::Like { field: Field::Metadata(path), .. }
        | Filter::Contains { field: Field::Metadata(path), .. }
        | Filter::IsNull { field: Field::Metadata(path), .. } => path,
        _ => &[],
    }
}

/// Compares numbers in the metadata as text, so that 9 is more than 10.
fn compares_as_text(filter: &Filter, memory: &Memory) -> bool {
    let Filter::Compare { field: Field::Metadata(path), comparison, value: Value::Number(Number::Int(wanted)), .. } =
        filter
    else {
        return true;
    };
    let members = memory.metadata.to_object();
    let Some(Json::Number(Number::Int(found))) = path.first().and_then(|key| members.get(key)) else { return true };
    let (found, wanted) = (found.to_string(), wanted.to_string());
    match comparison {
        Comparison::Equal => found == wanted,
        Comparison::Less => found < wanted,
        Comparison::LessOrEqual => found <= wanted,
        Comparison::Greater => found > wanted,
        Comparison::GreaterOrEqual => found >= wanted,
    }
}
