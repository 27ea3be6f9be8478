//! Renders texts of records, times and numbers.

use maud::{Markup, html};
use memory_core::Timestamp;

use crate::output;

/// The most bytes of a text on a page; REST returns the whole text.
pub(super) const MAX_SHOWN: usize = 10_000;
/// The most bytes of a text in a table.
const MAX_PREVIEW: usize = 200;

/// The beginning of a text that may be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Whether the text was cut.
    pub(super) is_cut: bool,
}

impl Shown {
    /// Cuts a text to its first bytes, at a character boundary.
    pub(super) fn of(text: &str) -> Self {
        Self::first(text, MAX_SHOWN)
    }

    /// Returns the beginning of a text, of at most this many bytes.
    pub(super) fn first(text: &str, most: usize) -> Self {
        let first = &text[..text.floor_char_boundary(most)];
        Self { text: tame(first), is_cut: first.len() < text.len() }
    }

    /// Renders a block of text that keeps its lines and isolates its direction.
    pub(super) fn block(&self) -> Markup {
        html! {
            pre dir="auto" { (self.text) }
            @if self.is_cut { (cut_note()) }
        }
    }
}

/// Renders the beginning of a text on one line.
pub(super) fn preview(text: &str) -> Markup {
    let Shown { text, is_cut } = Shown::first(text, MAX_PREVIEW);
    html! { bdi { (text) @if is_cut { "…" } } }
}

/// Renders a note that a text was cut.
pub(super) fn cut_note() -> Markup {
    html! { p class="note" { "Cut: the first " (number(MAX_SHOWN)) " bytes are shown. The API has the whole text." } }
}

/// Renders a time, for people and for programs.
pub(super) fn time(time: Timestamp) -> Markup {
    let shown = output::date(time);
    html! { time datetime=(shown.replace(' ', "T")) { (shown) } }
}

/// Formats a number with separated thousands.
pub(super) fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a count with its noun.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// Replaces control characters, except line breaks and tabs.
pub(super) fn tame(text: &str) -> String {
    text.replace(|character: char| character.is_control() && !matches!(character, '\n' | '\r' | '\t'), "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_end_with_a_whole_character() {
        let long = "é".repeat(MAX_SHOWN);
        let shown = Shown::of(&long[..]);
        assert_eq!((shown.text.len(), shown.is_cut), (MAX_SHOWN, true));
        let shown = Shown::of(&format!("a{long}"));
        assert_eq!((shown.text.len(), shown.is_cut), (MAX_SHOWN - 1, true));
        assert_eq!(Shown::of("a\u{1b}\n"), Shown { text: "a\u{FFFD}\n".to_owned(), is_cut: false });
        let html = preview(&"<".repeat(MAX_PREVIEW + 1)).into_string();
        assert_eq!(html, format!("<bdi>{}…</bdi>", "&lt;".repeat(MAX_PREVIEW)));
    }

    #[test]
    fn thousands_are_apart() {
        for (value, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(value), shown);
        }
        assert_eq!((counted(1, "hit", "hits"), counted(2, "hit", "hits")), ("1 hit".into(), "2 hits".into()));
    }
}
