//! Where an answer is in what a model wrote.

use serde_json::{Map, Value};

use super::mistake::Mistake;
use super::shape::Shape;
use super::{json, xml};

/// The most bytes of an answer.
pub const MAX_ANSWER: usize = 256 << 10;

/// The fields of the answer of this shape in a text.
pub(super) fn extract(text: &str, shape: &Shape) -> Result<Map<String, Value>, Mistake> {
    if text.len() > MAX_ANSWER {
        return Err(Mistake::TooLong { limit: MAX_ANSWER });
    }
    let text = without_thinking(text);
    let markup = shape.markup(text).next().map(|found| found.start);
    let before = markup.unwrap_or(text.len());
    let mistake = match json::find(text, before, |name| shape.has(name)) {
        Ok(Some(fields)) => return Ok(fields),
        Ok(None) => Mistake::NoAnswer,
        Err(mistake) => mistake,
    };
    match markup {
        Some(_) => xml::read(text, shape),
        None => Err(mistake),
    }
}

/// Without what models that reason put first; drafts of the answer may stand in it.
pub(super) fn without_thinking(text: &str) -> &str {
    let thinking = text.trim_start().strip_prefix("<think>");
    thinking.and_then(|rest| rest.split_once("</think>")).map_or(text, |(_, answer)| answer)
}
