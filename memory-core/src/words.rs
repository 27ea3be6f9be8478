//! What a word is, for text search on every engine (T1).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::{Context, Trigger};

/// Of a longer word only this much counts, in bytes.
const MAX_WORD: usize = 128;

/// A run of letters and digits with the marks on them, or one ideograph or kana.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    let ideographs = r"\p{Han}\p{Hiragana}\p{Katakana}";
    let word = format!(r"[{ideographs}]|[\p{{L}}\p{{Nd}}\p{{Nl}}\p{{No}}\p{{M}}--[{ideographs}]]+");
    // The expression is constant and a test compiles it.
    #[allow(clippy::expect_used)]
    Regex::new(&word).expect("a valid expression")
});

/// The words of a text in reading order: runs of Unicode letters and digits, lowercased, diacritics kept; each ideograph
/// and each kana is a word. Of a word over 128 bytes the first 128 count.
///
/// ```
/// let words: Vec<_> = memory_core::words::of("Don't PANIC: café №42, 東京!").collect();
/// assert_eq!(words, ["don", "t", "panic", "café", "42", "東", "京"]);
/// ```
pub fn of(text: &str) -> impl Iterator<Item = String> {
    WORD.find_iter(text).map(|word| {
        let mut word = word.as_str().to_lowercase();
        word.truncate(word.floor_char_boundary(MAX_WORD));
        word
    })
}

/// The words of a text, each once.
pub fn distinct(text: &str) -> BTreeSet<String> {
    of(text).collect()
}

/// The text of a memory, as text search and the `text` field of filters have it: all string values of trigger and context
/// in reading order, one a line.
pub fn text_of(trigger: &Trigger, context: Option<&Context>) -> String {
    let mut strings = trigger.strings();
    strings.extend(context.map(Context::strings).unwrap_or_default());
    strings.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        of(text).collect()
    }

    #[test]
    fn punctuation_separates_and_marks_do_not() {
        assert_eq!(words("foo_bar-baz's"), ["foo", "bar", "baz", "s"]);
        assert_eq!(words("cafe\u{301} Straße İ"), ["cafe\u{301}", "straße", "i\u{307}"]);
        assert_eq!(words("日本語テスト abc漢字def"), ["日", "本", "語", "テ", "ス", "ト", "abc", "漢", "字", "def"]);
        assert_eq!(words("x² ½ Ⅷ ٣"), ["x²", "½", "ⅷ", "٣"]);
        assert_eq!(words("--- \u{1F600} \0"), [""; 0]);
    }

    #[test]
    fn long_words_are_cut_at_a_character() {
        assert_eq!(words(&"é".repeat(100)), ["é".repeat(64)]);
        assert_eq!(words(&format!("a{}", "é".repeat(100))), [format!("a{}", "é".repeat(63))]);
    }

    #[test]
    fn distinct_words_come_once() {
        assert_eq!(distinct("b a B"), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    }
}
