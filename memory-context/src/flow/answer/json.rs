//! Finds JSON in the text of a model.

use serde_json::{Deserializer, Map, Value};

use super::Mistake;
use super::shape::RESPONSE;

/// The most broken objects that are read, since each may extend to the end of the text.
const MAX_BROKEN: usize = 32;

/// Finds the first object with a known field that begins before a position. If there is none, fails with the mistake at the first brace
/// that begins no valid object, and returns `None` if there is no such brace.
pub(super) fn find(
    text: &str,
    before: usize,
    is_field: impl Fn(&str) -> bool,
) -> Result<Option<Map<String, Value>>, Mistake> {
    let mut mistake = None;
    let (mut begin, mut broken) = (0, 0);
    while broken < MAX_BROKEN && begin < before {
        let Some(at) = text[begin..before].find('{').map(|at| begin + at) else { break };
        let mut values = Deserializer::from_str(&text[at..]).into_iter::<Map<String, Value>>();
        match values.next() {
            Some(Ok(object)) if object.keys().any(|name| is_field(name)) => return Ok(Some(unwrapped(object))),
            Some(Ok(_)) => begin = at + values.byte_offset(),
            Some(Err(error)) => {
                mistake.get_or_insert_with(|| place(text, at, &error));
                begin = at + 1;
                // A brace before anything else, as in code, fails at once.
                broken += usize::from(text[begin..].trim_start().starts_with('"'));
            }
            None => break,
        }
    }
    mistake.map_or(Ok(None), Err)
}

/// Returns the fields of an object: those of its member `response`, which corresponds to the element in XML, if it has that.
fn unwrapped(mut object: Map<String, Value>) -> Map<String, Value> {
    match object.remove(RESPONSE) {
        Some(Value::Object(fields)) => fields,
        _ => object,
    }
}

/// The position of a mistake in the whole text.
fn place(text: &str, begin: usize, error: &serde_json::Error) -> Mistake {
    let before = &text[..begin];
    let lines = before.matches('\n').count();
    let last = before.rsplit('\n').next().map_or(0, str::len);
    let column = if error.line() == 1 { last + error.column() } else { error.column() };
    Mistake::NotJson { line: lines + error.line(), column }
}
