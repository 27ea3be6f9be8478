//! Patterns of LIKE (F4), matched in linear time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::filter::value::quoted;
use crate::{Error, Result};

/// A LIKE pattern: `%` matches any run, `_` one character; the escape character, if any, makes the next character
/// literal.
#[derive(Debug, Clone)]
pub struct LikePattern {
    text: String,
    escape: Option<char>,
    case: Case,
    /// The part before the first `%`.
    start: Vec<Place>,
    /// The parts between two `%`.
    middle: Vec<Segment>,
    /// The part after the last `%`; `None` for a pattern without `%`.
    end: Option<Vec<Place>>,
}

/// Whether upper and lower case differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Sensitive,
    /// Only A to Z are folded (F4).
    IgnoreAscii,
}

/// One character of a pattern; `None` is `_`.
type Place = Option<char>;

/// Maximum length of a pattern, in bytes.
const MAX_PATTERN: usize = 1 << 10;

impl LikePattern {
    pub(super) fn new(text: &str, escape: Option<char>, case: Case) -> Result<Self> {
        if text.len() > MAX_PATTERN {
            let size = text.len();
            return Err(Error::invalid(format!("a LIKE pattern of {size} bytes; at most {MAX_PATTERN} are allowed")));
        }
        let mut segments = vec![Vec::new()];
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            let place = match char {
                escaped if Some(escaped) == escape => match chars.next() {
                    Some(literal) => Some(literal),
                    None => return Err(Error::invalid("a LIKE pattern ends with its escape character")),
                },
                '%' => {
                    segments.push(Vec::new());
                    continue;
                }
                '_' => None,
                literal => Some(literal),
            };
            let folded = if case == Case::IgnoreAscii { place.map(|char| char.to_ascii_lowercase()) } else { place };
            segments.last_mut().into_iter().for_each(|segment| segment.push(folded));
        }
        let end = if segments.len() > 1 { segments.pop() } else { None };
        let mut segments = segments.into_iter();
        let start = segments.next().unwrap_or_default();
        // An empty part between two `%` matches everywhere.
        let middle = segments.filter(|places| !places.is_empty()).map(|places| Segment::new(&places)).collect();
        Ok(Self { text: text.to_owned(), escape, case, start, middle, end })
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches the whole text.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text = match self.case {
            Case::Sensitive => Cow::Borrowed(text),
            Case::IgnoreAscii => text.to_ascii_lowercase().into(),
        };
        let Some(rest) = after_start(&self.start, &text) else { return false };
        let Some(end) = &self.end else { return rest.is_empty() };
        let Some(mut rest) = before_end(end, rest) else { return false };
        // Each segment takes its first match, which leaves the most text for the segments after it.
        self.middle.iter().all(|segment| match segment.end_in(rest) {
            Some(end) => {
                rest = &rest[end..];
                true
            }
            None => false,
        })
    }
}

impl PartialEq for LikePattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.escape, self.case) == (&other.text, other.escape, other.case)
    }
}

impl fmt::Display for LikePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.case == Case::Sensitive { "LIKE " } else { "ILIKE " })?;
        quoted(f, &self.text)?;
        match self.escape {
            Some(escape) => {
                f.write_str(" ESCAPE ")?;
                quoted(f, escape.encode_utf8(&mut [0; 4]))
            }
            None => Ok(()),
        }
    }
}

/// Matches places at the start of a text, and returns the rest.
fn after_start<'t>(places: &[Place], text: &'t str) -> Option<&'t str> {
    let mut rest = text.chars();
    let matches = places.iter().all(|place| rest.next().is_some_and(|char| allows(*place, char)));
    matches.then_some(rest.as_str())
}

/// Matches places at the end of a text, and returns the rest.
fn before_end<'t>(places: &[Place], text: &'t str) -> Option<&'t str> {
    let mut rest = text.chars();
    let matches = places.iter().rev().all(|place| rest.next_back().is_some_and(|char| allows(*place, char)));
    matches.then_some(rest.as_str())
}

fn allows(place: Place, char: char) -> bool {
    place.is_none_or(|wanted| wanted == char)
}

/// A part of a pattern that may match anywhere in the text.
#[derive(Debug, Clone)]
enum Segment {
    Literal(String),
    /// With a `_`. Matched with bit sets of places, so that a step costs the same for every text.
    Places {
        count: usize,
        /// For each character of the pattern, the places that it matches.
        allowing: BTreeMap<char, Vec<u64>>,
        /// The places that any other character matches.
        any: Vec<u64>,
    },
}

impl Segment {
    fn new(places: &[Place]) -> Self {
        if let Some(literal) = places.iter().copied().collect() {
            return Self::Literal(literal);
        }
        let bit = |at: usize| (at / 64, 1 << (at % 64));
        let mut any = vec![0; places.len().div_ceil(64)];
        for (word, bit) in (0..places.len()).filter(|at| places[*at].is_none()).map(bit) {
            any[word] |= bit;
        }
        let mut allowing = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            if let Some(char) = place {
                let (word, bit) = bit(at);
                allowing.entry(*char).or_insert_with(|| any.clone())[word] |= bit;
            }
        }
        Self::Places { count: places.len(), allowing, any }
    }

    /// Returns the end of the first match.
    fn end_in(&self, text: &str) -> Option<usize> {
        let (count, allowing, any) = match self {
            Self::Literal(literal) => return text.find(literal).map(|start| start + literal.len()),
            Self::Places { count, allowing, any } => (*count, allowing, any),
        };
        // The places reached by the text so far, for all start positions at once (Shift-And).
        let mut reached = vec![0_u64; any.len()];
        for (at, char) in text.char_indices() {
            let allowed = allowing.get(&char).unwrap_or(any);
            let mut carry = 1;
            for (word, allowed) in reached.iter_mut().zip(allowed) {
                let next = *word << 1 | carry;
                carry = *word >> 63;
                *word = next & allowed;
            }
            let last = count - 1;
            if reached[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at + char.len_utf8());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn likes(pattern: &str, escape: Option<char>, case: Case, text: &str) -> bool {
        LikePattern::new(pattern, escape, case).expect("a valid pattern").matches(text)
    }

    #[test]
    fn a_pattern_tells_how_it_was_written() {
        let pattern = LikePattern::new("a!%_B", Some('!'), Case::IgnoreAscii).expect("a valid pattern");
        assert_eq!(pattern.as_str(), "a!%_B");
    }

    /// By the definition: which parts of the text the pattern so far can match, one character after the other.
    fn naive(pattern: &str, case: Case, text: &str) -> bool {
        let fold = |char: char| if case == Case::IgnoreAscii { char.to_ascii_lowercase() } else { char };
        let text: Vec<_> = text.chars().map(fold).collect();
        let mut ends = vec![false; text.len() + 1];
        ends[0] = true;
        for char in pattern.chars() {
            let before = ends.clone();
            for end in 0..ends.len() {
                ends[end] = match char {
                    '%' => before[..=end].contains(&true),
                    '_' => end > 0 && before[end - 1],
                    literal => end > 0 && before[end - 1] && text[end - 1] == fold(literal),
                };
            }
        }
        ends[text.len()]
    }

    proptest! {
        #[test]
        fn it_matches_as_defined(
            pattern in "[abABé%_]{0,8}|[ab]?(%_{0,3}[abAé_]{1,5}){0,4}%?|%a[_b]{60,70}[ab]%|[a%]?_{120,130}[a%]?",
            text in "[abABéÉ]{0,12}|[ab]{60,150}",
            folds: bool,
        ) {
            let case = if folds { Case::IgnoreAscii } else { Case::Sensitive };
            prop_assert_eq!(likes(&pattern, None, case, &text), naive(&pattern, case, &text));
        }
    }

    #[test]
    fn it_knows_its_three_characters() {
        assert!(likes("a%b_", None, Case::Sensitive, "a.*\nbx"));
        assert!(!likes("A%", None, Case::Sensitive, "abc"));
        assert!(likes("A%", None, Case::IgnoreAscii, "abc"));
        assert!(!likes("Ä", None, Case::IgnoreAscii, "ä"));
        assert!(likes("100!%", Some('!'), Case::Sensitive, "100%"));
        assert!(!likes("100!%", Some('!'), Case::Sensitive, "1000"));
        assert!(LikePattern::new("x!", Some('!'), Case::Sensitive).is_err());
    }

    #[test]
    fn segments_of_many_words_of_bits_are_found() {
        let pattern = format!("%x{}y%", "_".repeat(1_000));
        let text = format!("{}{}y", "é".repeat(7), "x".repeat(5_000));
        assert!(likes(&pattern, None, Case::Sensitive, &text));
        assert!(!likes(&pattern, None, Case::Sensitive, &text.replace('y', "x")));
        assert!(!likes(&pattern, None, Case::Sensitive, &format!("x{}y", "z".repeat(999))));
    }

    #[test]
    fn start_and_end_do_not_overlap() {
        assert!(!likes("ab%ba", None, Case::Sensitive, "aba"));
        assert!(likes("ab%ba", None, Case::Sensitive, "abba"));
        assert!(!likes("a%b%b", None, Case::Sensitive, "ab"));
    }
}
