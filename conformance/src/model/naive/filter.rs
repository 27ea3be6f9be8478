//! Whether a record satisfies a condition (F1 to F4), evaluated on its JSON.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::model::condition::{Condition, Path};

/// What a condition is evaluated on.
pub(super) struct View {
    /// The JSON of the record.
    pub(super) json: Value,
    /// The value of its field `text`.
    pub(super) text: Value,
}

/// Whether the record satisfies the condition.
pub(super) fn holds(condition: &Condition, record: &View) -> bool {
    let compares = |field, operator, value| {
        let order = find(record, field).and_then(|found| compare(found, value));
        order.is_some_and(|order| match operator {
            "=" => order.is_eq(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            other => panic!("no operator: {other}"),
        })
    };
    match condition {
        Condition::Compare { field, operator: "<>", value } => !compares(field, "=", value),
        Condition::Compare { field, operator, value } => compares(field, operator, value),
        Condition::Between { field, low, high } => compares(field, ">=", low) && compares(field, "<=", high),
        Condition::OneOf { field, values } => values.iter().any(|value| compares(field, "=", value)),
        Condition::Like { field, pattern, ignore_case } => match find(record, field) {
            Some(Value::String(text)) if *ignore_case => {
                like(&chars(&pattern.to_ascii_lowercase()), &chars(&text.to_ascii_lowercase()))
            }
            Some(Value::String(text)) => like(&chars(pattern), &chars(text)),
            _ => false,
        },
        Condition::Contains { field, value } => match find(record, field) {
            Some(Value::Array(items)) => items.iter().any(|item| compare(item, value) == Some(Ordering::Equal)),
            _ => false,
        },
        Condition::IsNull { field } => find(record, field).is_none(),
        Condition::Not(part) => !holds(part, record),
        Condition::All(parts) => parts.iter().all(|part| holds(part, record)),
        Condition::Any(parts) => parts.iter().any(|part| holds(part, record)),
    }
}

/// Whether a condition names a field.
pub(super) fn mentions(condition: &Condition, name: &str) -> bool {
    match condition {
        Condition::Compare { field, .. }
        | Condition::Between { field, .. }
        | Condition::OneOf { field, .. }
        | Condition::Like { field, .. }
        | Condition::Contains { field, .. }
        | Condition::IsNull { field } => field == &[name],
        Condition::Not(part) => mentions(part, name),
        Condition::All(parts) | Condition::Any(parts) => parts.iter().any(|part| mentions(part, name)),
    }
}

/// The value of a field; `None` if it is missing or null, which are the same (F2).
fn find(record: &View, field: Path) -> Option<&Value> {
    let found = match field {
        ["text"] => Some(&record.text),
        keys => keys.iter().try_fold(&record.json, |value, key| value.as_object()?.get(*key)),
    };
    found.filter(|value| !value.is_null())
}

/// The order of two values of the same type; `None` for values of different types.
fn compare(found: &Value, value: &Value) -> Option<Ordering> {
    match (found, value) {
        (Value::Bool(found), Value::Bool(value)) => Some(found.cmp(value)),
        (Value::Number(found), Value::Number(value)) => compare_numbers(found, value),
        (Value::String(found), Value::String(value)) => Some(found.as_bytes().cmp(value.as_bytes())),
        _ => None,
    }
}

/// Compares whole numbers as integers, since a float can't represent all of them.
fn compare_numbers(found: &Number, value: &Number) -> Option<Ordering> {
    match (whole(found), whole(value)) {
        (Some(found), Some(value)) => Some(found.cmp(&value)),
        // A float with a fraction is so small that rounding the integer does not move it past the float.
        _ => found.as_f64()?.partial_cmp(&value.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    let int = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    int.or(number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e30).map(|float| float as i128))
}

fn like(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some(('%', rest)), _) => (0..=text.len()).any(|skipped| like(rest, &text[skipped..])),
        (Some(('_', rest)), Some((_, text))) => like(rest, text),
        (Some((wanted, rest)), Some((found, text))) => wanted == found && like(rest, text),
        (Some(_), None) => false,
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}
