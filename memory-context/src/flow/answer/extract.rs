//! Finds the answer in the text of a model.

use serde_json::{Map, Value};

use super::mistake::Mistake;
use super::shape::Shape;
use super::{json, xml};

/// The most bytes of an answer.
pub const MAX_ANSWER: usize = 256 << 10;

/// The tag with which the thinking of a model begins.
pub(in crate::flow) const THINKING: &str = "<think>";

/// Extracts the fields of an answer with this shape: from JSON if some begins before the first tag of the answer, else from XML.
pub(super) fn extract(text: &str, shape: &Shape) -> Result<Map<String, Value>, Mistake> {
    if text.len() > MAX_ANSWER {
        return Err(Mistake::TooLong { limit: MAX_ANSWER });
    }
    // A draft in thinking that does not end is no answer.
    let text = behind_thinking(text).ok_or(Mistake::NoAnswer)?;
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

/// Returns the text after the thinking that reasoning models put first, which may hold drafts of the answer: the whole text if it does not begin with thinking, `None` if the thinking does not end.
pub(super) fn behind_thinking(text: &str) -> Option<&str> {
    let text = text.trim_start();
    match text.strip_prefix(THINKING) {
        Some(thinking) => thinking.split_once("</think>").map(|(_, answer)| answer.trim_start()),
        None => Some(text),
    }
}

/// Whether there is no text after the thinking.
pub(in crate::flow) fn is_without_text(text: &str) -> bool {
    behind_thinking(text).is_some_and(|text| text.trim().is_empty())
}
