//! From texts to terms: stems, without stop words (R2).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use snowball_stemmers_rs::{Algorithm, Stemmer};

use crate::{Error, Result, words};

/// How many characters of a word count in a language without a stemmer.
const PREFIX: usize = 5;

/// Defines the languages that have both a stemmer and a list of stop words: variant, name, code of the list.
macro_rules! languages {
    ($($(#[$attribute:meta])? $variant:ident $name:literal $code:literal,)+) => {
        /// The language in which questions and records are read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum Language {
            /// No particular language: a word counts by its first five characters, and none is left out.
            None,
            $(#[doc = concat!("Written `", $name, "` in options and URLs.")] $(#[$attribute])? $variant,)+
        }

        impl Language {
            /// Every supported language, including `none`.
            pub const ALL: &[Self] = &[Self::None, $(Self::$variant,)+];

            /// Returns the name, the code of the stop list, and the stemmer.
            fn parts(self) -> (&'static str, &'static str, Option<Algorithm>) {
                match self {
                    Self::None => ("none", "", None),
                    $(Self::$variant => ($name, $code, Some(Algorithm::$variant)),)+
                }
            }
        }
    };
}

languages! {
    Arabic "arabic" "ar",
    Basque "basque" "eu",
    Catalan "catalan" "ca",
    Danish "danish" "da",
    Dutch "dutch" "nl",
    #[default] English "english" "en",
    Finnish "finnish" "fi",
    French "french" "fr",
    German "german" "de",
    Greek "greek" "el",
    Hungarian "hungarian" "hu",
    Indonesian "indonesian" "id",
    Italian "italian" "it",
    Nepali "nepali" "ne",
    Norwegian "norwegian" "no",
    Portuguese "portuguese" "pt",
    Romanian "romanian" "ro",
    Russian "russian" "ru",
    Spanish "spanish" "es",
    Swedish "swedish" "sv",
    Tamil "tamil" "ta",
    Turkish "turkish" "tr",
}

impl Language {
    /// Returns the name as options and URLs write it, such as `english`.
    pub fn as_str(self) -> &'static str {
        self.parts().0
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = Error;

    /// Parses a name; `InvalidInput`, with the supported names, for any other.
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|language| language.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|language| language.as_str()).collect();
            Error::invalid(format!("unknown language; known are {}", names.join(", ")))
        })
    }
}

/// The stop words and the stemmer of a language, which turn words into terms.
pub(super) struct Terms {
    stop: HashSet<&'static str>,
    stemmer: Option<Stemmer>,
}

impl Terms {
    /// Returns those of a language; they are built once.
    pub(super) fn of_language(language: Language) -> &'static Self {
        static TERMS: [OnceLock<Terms>; Language::ALL.len()] = [const { OnceLock::new() }; Language::ALL.len()];
        TERMS[language as usize].get_or_init(|| Self::new(language))
    }

    fn new(language: Language) -> Self {
        let (_, code, algorithm) = language.parts();
        let stop = stop_words::lookup(code).unwrap_or_default().iter().copied().collect();
        Self { stop, stemmer: algorithm.map(Stemmer::create) }
    }

    /// Returns the term of a lower-case word; `None` for a stop word.
    pub(super) fn of<'w>(&self, word: &'w str) -> Option<Cow<'w, str>> {
        if self.stop.contains(word) {
            return None;
        }
        Some(match &self.stemmer {
            Some(stemmer) => stemmer.stem(word),
            None => {
                let end = word.char_indices().nth(PREFIX).map_or(word.len(), |(at, _)| at);
                Cow::Borrowed(&word[..end])
            }
        })
    }

    /// Returns the distinct terms of a question, in byte order.
    pub(super) fn of_question(&self, text: &str) -> Vec<String> {
        let words = words_of_question(text);
        // Stemming does not change a pair, in any language.
        let terms: BTreeSet<_> = words.iter().filter_map(|word| self.of(word).map(Cow::into_owned)).collect();
        terms.into_iter().collect()
    }
}

/// Returns the distinct words of a question. Adjacent ideographs and kana count in pairs.
pub(super) fn words_of_question(text: &str) -> BTreeSet<String> {
    let words: Vec<_> = words::found(text).collect();
    let mut found = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let is_joined = |other: Option<&words::Word<'_>>| {
            other.is_some_and(|other| {
                let is_beside = word.start == other.end() || other.start == word.end();
                is_beside && word.is_character() && other.is_character()
            })
        };
        let (before, after) = (at.checked_sub(1).and_then(|at| words.get(at)), words.get(at + 1));
        match before.filter(|_| is_joined(before)) {
            Some(before) => drop(found.insert(pair(before.text, word.text))),
            // The next iteration adds the pair.
            None if is_joined(after) => {}
            None => drop(found.insert(word.lower())),
        }
    }
    found
}

/// Returns the term of two adjacent ideographs or kana.
pub(super) fn pair(left: &str, right: &str) -> String {
    format!("{left}{right}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(language: Language, question: &str) -> Vec<String> {
        Terms::of_language(language).of_question(question)
    }

    #[test]
    fn words_count_by_their_stems_and_stop_words_not_at_all() {
        assert_eq!(terms(Language::English, "When did Caroline go painting, paintings?"), ["carolin", "go", "paint"]);
        assert_eq!(terms(Language::German, "Wo sind die Häuser?"), ["haus"]);
        assert_eq!(terms(Language::English, "the of and"), [""; 0]);
    }

    #[test]
    fn without_a_language_words_count_by_their_first_characters() {
        assert_eq!(terms(Language::None, "Über die Übertragung"), ["die", "über", "übert"]);
    }

    #[test]
    fn ideographs_count_in_pairs() {
        assert_eq!(terms(Language::English, "東京都 京"), ["京", "京都", "東京"]);
    }

    proptest! {
        /// A stemmer is code of others, which runs on whatever was stored.
        #[test]
        fn every_stemmer_takes_every_word(text in "\\PC{0,40}|[a-zçğıöşüäéèñ']{0,20}|[\u{370}-\u{3ff}]{0,20}|[\u{400}-\u{4ff}]{0,20}|[\u{600}-\u{6ff}]{0,20}|[\u{900}-\u{97f}]{0,20}|[\u{b80}-\u{bff}]{0,20}") {
            for language in Language::ALL {
                terms(*language, &text);
            }
        }
    }

    #[test]
    fn every_language_has_a_name_and_a_list_of_stop_words() {
        for language in Language::ALL {
            assert_eq!(language.as_str().parse::<Language>().expect("its own name"), *language);
            assert_eq!(Terms::of_language(*language).stop.is_empty(), *language == Language::None, "{language}");
        }
        "klingon".parse::<Language>().expect_err("unknown");
    }
}
