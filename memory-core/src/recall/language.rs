//! From texts to terms: stems without the words that every text has (R2).

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use snowball_stemmers_rs::{Algorithm, Stemmer};

use crate::{Error, Result, words};

/// In which language questions and records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Language {
    /// None in particular: a word counts by its first five characters, and no word is left out.
    None,
    Arabic,
    Basque,
    Catalan,
    Danish,
    Dutch,
    #[default]
    English,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Indonesian,
    Italian,
    Nepali,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
}

/// How many characters of a word count where there is no stemmer.
const PREFIX: usize = 5;

impl Language {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::None,
        Self::Arabic,
        Self::Basque,
        Self::Catalan,
        Self::Danish,
        Self::Dutch,
        Self::English,
        Self::Finnish,
        Self::French,
        Self::German,
        Self::Greek,
        Self::Hungarian,
        Self::Indonesian,
        Self::Italian,
        Self::Nepali,
        Self::Norwegian,
        Self::Portuguese,
        Self::Romanian,
        Self::Russian,
        Self::Spanish,
        Self::Swedish,
        Self::Tamil,
        Self::Turkish,
    ];

    /// The name, as configurations have it: `english`.
    pub fn as_str(self) -> &'static str {
        self.parts().0
    }

    /// Its name, the code of its stop list, and its stemmer.
    fn parts(self) -> (&'static str, &'static str, Option<Algorithm>) {
        match self {
            Self::None => ("none", "", None),
            Self::Arabic => ("arabic", "ar", Some(Algorithm::Arabic)),
            Self::Basque => ("basque", "eu", Some(Algorithm::Basque)),
            Self::Catalan => ("catalan", "ca", Some(Algorithm::Catalan)),
            Self::Danish => ("danish", "da", Some(Algorithm::Danish)),
            Self::Dutch => ("dutch", "nl", Some(Algorithm::Dutch)),
            Self::English => ("english", "en", Some(Algorithm::English)),
            Self::Finnish => ("finnish", "fi", Some(Algorithm::Finnish)),
            Self::French => ("french", "fr", Some(Algorithm::French)),
            Self::German => ("german", "de", Some(Algorithm::German)),
            Self::Greek => ("greek", "el", Some(Algorithm::Greek)),
            Self::Hungarian => ("hungarian", "hu", Some(Algorithm::Hungarian)),
            Self::Indonesian => ("indonesian", "id", Some(Algorithm::Indonesian)),
            Self::Italian => ("italian", "it", Some(Algorithm::Italian)),
            Self::Nepali => ("nepali", "ne", Some(Algorithm::Nepali)),
            Self::Norwegian => ("norwegian", "no", Some(Algorithm::Norwegian)),
            Self::Portuguese => ("portuguese", "pt", Some(Algorithm::Portuguese)),
            Self::Romanian => ("romanian", "ro", Some(Algorithm::Romanian)),
            Self::Russian => ("russian", "ru", Some(Algorithm::Russian)),
            Self::Spanish => ("spanish", "es", Some(Algorithm::Spanish)),
            Self::Swedish => ("swedish", "sv", Some(Algorithm::Swedish)),
            Self::Tamil => ("tamil", "ta", Some(Algorithm::Tamil)),
            Self::Turkish => ("turkish", "tr", Some(Algorithm::Turkish)),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = Error;

    /// `InvalidInput` when it is none of [`Language::ALL`].
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|language| language.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("this language is not known; the known ones are {names}"))
        })
    }
}

/// Makes terms of the words of a language.
pub(super) struct Terms {
    stop: HashSet<&'static str>,
    stemmer: Option<Stemmer>,
}

impl Terms {
    pub(super) fn new(language: Language) -> Self {
        let (_, code, algorithm) = language.parts();
        let stop = stop_words::lookup(code).unwrap_or_default().iter().copied().collect();
        Self { stop, stemmer: algorithm.map(Stemmer::create) }
    }

    /// The term that a word stands for, which has no capital letters; `None` when it is left out.
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

    /// The terms of a question, each once, in the order of their bytes. Ideographs and kana that stand side by side count in pairs.
    pub(super) fn of_question(&self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        let words: Vec<_> = words::found(text).collect();
        for (at, word) in words.iter().enumerate() {
            let is_joined = |other: Option<&words::Word<'_>>| {
                other.is_some_and(|other| {
                    let is_beside = word.start == other.end() || other.start == word.end();
                    is_beside && word.is_character() && other.is_character()
                })
            };
            let (before, after) = (at.checked_sub(1).and_then(|at| words.get(at)), words.get(at + 1));
            match before.filter(|_| is_joined(before)) {
                Some(before) => terms.push(pair(before.text, word.text)),
                // The next one makes the pair.
                None if is_joined(after) => {}
                None => terms.extend(self.of(&word.lower()).map(Cow::into_owned)),
            }
        }
        terms.sort_unstable();
        terms.dedup();
        terms
    }
}

/// The term of two ideographs or kana side by side.
pub(super) fn pair(left: &str, right: &str) -> String {
    format!("{left}{right}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(language: Language, question: &str) -> Vec<String> {
        Terms::new(language).of_question(question)
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

    #[test]
    fn every_language_has_a_name_and_a_list_of_stop_words() {
        for language in Language::ALL {
            assert_eq!(language.as_str().parse::<Language>().expect("its own name"), language);
            assert_eq!(Terms::new(language).stop.is_empty(), language == Language::None, "{language}");
        }
        "klingon".parse::<Language>().expect_err("unknown");
    }
}
