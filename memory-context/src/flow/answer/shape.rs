//! The fields of an answer, and the tags by which they are found.

use std::iter::{from_fn, once};
use std::ops::Range;

use regex::Regex;

/// The element around the fields; it may be left out.
pub(super) const RESPONSE: &str = "response";

/// The names of an answer's fields.
pub(super) struct Shape {
    /// Those that hold text.
    leaves: &'static [&'static str],
    /// Those that may hold others.
    groups: &'static [&'static str],
    /// Matches a tag of a field, or the beginning of a CDATA section.
    markup: Regex,
}

const SECTION: &str = "<![CDATA[";
const SECTION_END: &str = "]]>";

impl Shape {
    pub(super) fn new(leaves: &'static [&'static str], groups: &'static [&'static str]) -> Self {
        let names: Vec<_> = once(&RESPONSE).chain(leaves).chain(groups).copied().collect();
        let pattern = format!(r"<!\[CDATA\[|</?(?:{})(?:\s[^<>]*)?/?>", names.join("|"));
        // The names are words of this module.
        let markup = Regex::new(&pattern).expect("a pattern made of words");
        Self { leaves, groups, markup }
    }

    pub(super) fn is_leaf(&self, name: &str) -> bool {
        self.leaves.contains(&name)
    }

    /// Escapes each `<` of a text that begins neither a tag of this answer nor a complete CDATA section.
    pub(super) fn escaped(&self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        let mut end = 0;
        for found in self.markup(text) {
            escaped.push_str(&text[end..found.start].replace('<', "&lt;"));
            escaped.push_str(&text[found.clone()]);
            end = found.end;
        }
        escaped.push_str(&text[end..].replace('<', "&lt;"));
        escaped
    }

    /// Finds the tags and the complete CDATA sections. The time is linear in the length of the text, even if many sections begin and none
    /// ends.
    pub(super) fn markup<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let last_end = text.rfind(SECTION_END).unwrap_or_default();
        let mut at = 0;
        from_fn(move || {
            while let Some(found) = self.markup.find_at(text, at) {
                at = found.end();
                if found.as_str() != SECTION {
                    return Some(found.range());
                }
                if found.end() <= last_end
                    && let Some(length) = text[found.end()..].find(SECTION_END)
                {
                    at += length + SECTION_END.len();
                    return Some(found.start()..at);
                }
            }
            None
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        name == RESPONSE || self.is_leaf(name) || self.groups.contains(&name)
    }
}
