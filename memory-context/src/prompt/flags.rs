//! Invisible and bidirectional characters.

use std::ops::AddAssign;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

/// The numbers of characters in a text that a reader can't see. The characters are reported and not removed, since some scripts and emoji
/// need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Flags {
    /// Characters without a glyph: zero-width, tag and control characters, and the Braille blank. Line breaks, tabs and the variation
    /// selectors of emoji don't count.
    pub invisible: usize,
    /// Characters that change the direction of the text around them.
    pub bidi: usize,
}

// Neither `expect` can fail: both patterns are constants, and a test compiles them.
static INVISIBLE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"[[\p{Default_Ignorable_Code_Point}\p{Cc}\u2800]--[\t\r\n\uFE0E\uFE0F\p{Bidi_Control}]]";
    Regex::new(pattern).expect("a valid pattern")
});
static BIDI: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\p{Bidi_Control}").expect("a valid pattern"));

impl Flags {
    /// Counts the characters in a text.
    pub fn of(text: &str) -> Self {
        if text.is_ascii() && !text.contains(|c: char| c.is_ascii_control()) {
            return Self::default();
        }
        Self { invisible: INVISIBLE.find_iter(text).count(), bidi: BIDI.find_iter(text).count() }
    }

    /// Whether there are no such characters.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Flags {
    fn add_assign(&mut self, other: Self) {
        self.invisible += other.invisible;
        self.bidi += other.bidi;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_does_not_see_is_counted() {
        for (text, invisible, bidi) in [
            ("plain text\twith a tab\r\nand lines", 0, 0),
            ("Grüße, 東京, שלום, ❤️", 0, 0),
            ("pass\u{200b}word \u{feff}\u{ad}", 3, 0),
            ("\u{e0049}\u{e0067}\u{2800}", 3, 0),
            ("\u{1b}[31m\u{7}", 2, 0),
            ("user\u{202e}txt.exe\u{2066}\u{200f}", 0, 3),
            ("\u{200d}\u{202a}", 1, 1),
        ] {
            assert_eq!(Flags::of(text), Flags { invisible, bidi }, "{text:?}");
        }
    }
}
