//! Digests: what the ranking needs of a record.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use foldhash::fast::RandomState as FastState;

use super::language::{Terms, pair};
use super::{Container, Recall};
use crate::engine::Mark;
use crate::page::{Head, Selects};
use crate::vector::Seal;
use crate::{BOUNDARIES, Json, JsonObject, Timestamp, Vector, VectorModel, words};

/// The cache of words is cleared at this size, because records decide how many different words there are.
const MAX_KNOWN: usize = 65_536;
/// Maximum length of a cached word, in bytes; a longer one is analysed each time.
const MAX_KNOWN_WORD: usize = 256;
/// The cache of speakers is cleared at this size.
const MAX_SPEAKERS: usize = 1_024;
/// Number of words between two checks whether to go on.
const PAUSE: usize = 4_096;
/// Only this many bytes of a name count.
const MAX_NAME: usize = 256;

/// What the ranking needs of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Digest {
    /// The position of the record in the order of its container.
    pub(crate) mark: Mark,
    /// The hash of its container.
    pub(crate) container: u64,
    /// Number of terms in the record.
    pub(crate) length: u32,
    /// The question's terms in the record: number of the term, and how often it occurs; ascending by number.
    pub(crate) counts: Box<[(u16, u32)]>,
    /// Whether one of its texts ends with a question mark.
    pub(crate) asks: bool,
    /// The hash of the speaker's name, if the question names the speaker.
    pub(crate) named: Option<u64>,
    /// Whether the record satisfies all conditions of the query, so that it may be a hit.
    pub(crate) is_wanted: bool,
    /// Approximate size of the record in bytes; 0 if only its head was read.
    pub(crate) bytes: usize,
    /// The record's vector of the namespace's model, if vectors are compared.
    pub(crate) vector: Option<Vector>,
}

/// Makes the digests of one recall.
pub(crate) struct Digester<'r, K> {
    recall: &'r Recall<K>,
    /// Opens the vectors of the model that is compared.
    seal: Option<Seal>,
    terms: &'static Terms,
    /// Cache: what each word means to the question, by its spelling in the text. Its hash is not keyed: colliding words
    /// slow down only this recall.
    known: HashMap<String, Known, FastState>,
    /// Reused buffer for the lower-case form of a word.
    lower: String,
    /// Cache: for each speaker, the hash of the name if the question names the speaker.
    speakers: HashMap<String, Option<u64>>,
    /// The terms of the question that name a speaker, by the hash of the name.
    names: HashMap<u64, Vec<u16>>,
    /// Randomly keyed, so that nobody can make two containers collide.
    hasher: RandomState,
    goes_on: &'r (dyn Fn() -> bool + Sync),
}

#[derive(Clone, Copy)]
enum Known {
    /// A stop word.
    Stop,
    /// A term that is not in the question; counts towards the length.
    Other,
    /// A term of the question, by its number.
    Asked(u16),
}

impl<'r, K: Selects> Digester<'r, K> {
    /// Calls `goes_on` regularly to ask whether a caller still waits; if not, a digest ends early and must not be used.
    pub(crate) fn new(recall: &'r Recall<K>, goes_on: &'r (dyn Fn() -> bool + Sync)) -> Self {
        let (known, lower, speakers, names, hasher) = Default::default();
        let terms = Terms::of_language(recall.options.language.unwrap_or_default());
        let seal = recall.model.as_ref().map(VectorModel::sealing);
        Self { recall, seal, terms, known, lower, speakers, names, hasher, goes_on }
    }

    /// Makes the digest of a record of the scope, from its head alone if nothing else counts
    /// ([`Recall::looks_into_records`]).
    pub(crate) fn digest(&mut self, head: &Head<'_>, record: Option<&K::Record>, vector: Option<&[u8]>) -> Digest {
        let mut counts = Counts::default();
        if !self.recall.terms.is_empty() {
            self.count_record(head, record, &mut counts);
        }
        let metadata = record.map(|record| K::metadata(record).to_object()).unwrap_or_default();
        let mut terms = counts.terms.into_boxed_slice();
        terms.sort_unstable();
        let query = &self.recall.query;
        Digest {
            mark: Mark { millis: head.created_at.as_millis(), id: head.id.to_vec() },
            container: self.container(head.space, &metadata),
            length: counts.length,
            counts: terms,
            asks: counts.asks,
            named: self.named(&metadata),
            is_wanted: query.of.admits(head) && record.is_none_or(|record| query.has_content::<K>(record)),
            bytes: record.map_or(0, K::size),
            vector: self.seal.as_ref().and_then(|seal| seal.open(vector?)),
        }
    }

    /// Returns the question's terms that name speakers of these records.
    pub(crate) fn names_in(&self, digests: &[Digest]) -> BTreeSet<u16> {
        let named: BTreeSet<_> = digests.iter().filter_map(|digest| digest.named).collect();
        named.iter().filter_map(|name| self.names.get(name)).flatten().copied().collect()
    }

    fn count_record(&mut self, head: &Head<'_>, record: Option<&K::Record>, counts: &mut Counts) {
        if let Some(record) = record {
            K::each_text(record, &mut |text| {
                self.count(text, counts);
                counts.asks |= text.trim_end().ends_with(['?', '？', '؟', '\u{37e}']);
            });
        }
        for word in date(head.created_at) {
            self.count(&word, counts);
        }
    }

    /// Counts the terms of a text.
    fn count(&mut self, text: &str, counts: &mut Counts) {
        let mut before: Option<words::Word<'_>> = None;
        for (number, word) in words::found(text).enumerate() {
            if number % PAUSE == PAUSE - 1 && !(self.goes_on)() {
                return;
            }
            let is_beside = |before: &words::Word<'_>| before.end() == word.start;
            if let Some(before) = before.filter(is_beside).filter(|before| before.is_character() && word.is_character())
            {
                counts.add(self.asked(&pair(before.text, word.text)));
            }
            counts.add(self.known(word));
            before = Some(word);
        }
    }

    /// Classifies a word with respect to the question.
    fn known(&mut self, word: words::Word<'_>) -> Known {
        if let Some(known) = self.known.get(word.text) {
            return *known;
        }
        word.lower_into(&mut self.lower);
        let known = self.terms.of(&self.lower).map_or(Known::Stop, |term| self.asked(&term));
        if self.known.len() == MAX_KNOWN {
            self.known.clear();
        }
        // A word may be as long as a megabyte.
        if word.text.len() <= MAX_KNOWN_WORD {
            self.known.insert(word.text.to_owned(), known);
        }
        known
    }

    fn asked(&self, term: &str) -> Known {
        let asked = self.recall.terms.binary_search_by(|asked| asked.as_str().cmp(term));
        asked.map_or(Known::Other, |number| Known::Asked(number as u16))
    }

    fn container(&self, space: &str, metadata: &JsonObject) -> u64 {
        let parent = || space.rfind(BOUNDARIES).map_or(space, |at| &space[..at]);
        // The flag keeps a space and a metadata text with the same bytes apart.
        let container = match &self.recall.options.container {
            Container::Parent => (false, parent()),
            Container::Depth(depth) => {
                let end = space.match_indices(BOUNDARIES).nth(depth - 1).map_or(space.len(), |(at, _)| at);
                (false, &space[..end])
            }
            Container::Metadata(key) => {
                let text = text_of(metadata, key);
                text.map_or_else(|| (false, parent()), |text| (true, text))
            }
        };
        self.hasher.hash_one(container)
    }

    /// Returns the hash of the speaker's name, if the name has a term of the question.
    fn named(&mut self, metadata: &JsonObject) -> Option<u64> {
        let name = text_of(metadata, &self.recall.options.speaker)?;
        if let Some(named) = self.speakers.get(name) {
            return *named;
        }
        // A single character names nobody.
        let number = |term: &String| {
            term.chars().nth(1)?;
            self.recall.terms.binary_search(term).ok()
        };
        let numbers: Vec<_> = self.terms.of_question(name).iter().filter_map(number).collect();
        let named = (!numbers.is_empty()).then(|| self.hasher.hash_one(name));
        if let Some(named) = named {
            self.names.insert(named, numbers.into_iter().map(|number| number as u16).collect());
        }
        if self.speakers.len() == MAX_SPEAKERS {
            self.speakers.clear();
        }
        self.speakers.insert(name.to_owned(), named);
        named
    }
}

/// Term counts of a record.
#[derive(Default)]
struct Counts {
    /// A short list: a record holds few distinct terms of the question.
    terms: Vec<(u16, u32)>,
    length: u32,
    asks: bool,
}

impl Counts {
    #[inline]
    fn add(&mut self, known: Known) {
        self.length = self.length.saturating_add(u32::from(!matches!(known, Known::Stop)));
        if let Known::Asked(number) = known {
            match self.terms.iter_mut().find(|(other, _)| *other == number) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => self.terms.push((number, 1)),
            }
        }
    }
}

/// Returns the text of a metadata key, cut to [`MAX_NAME`] bytes.
fn text_of<'m>(metadata: &'m JsonObject, key: &str) -> Option<&'m str> {
    match metadata.get(key)? {
        Json::String(text) => Some(&text[..text.floor_char_boundary(MAX_NAME)]),
        _ => None,
    }
}

/// Returns the words of a date: `may 2023 8`.
fn date(time: Timestamp) -> [String; 3] {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    // The calendar repeats every 146,097 days; a year that begins in March ends with its leap day.
    let days = time.as_millis().div_euclid(86_400_000) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    // Counted from March, months are 0 to 11.
    let (month, next) = if month < 10 { (month + 2, 0) } else { (month - 10, 1) };
    [MONTHS[month as usize].to_owned(), (year + era * 400 + next).to_string(), day.to_string()]
}

/// Returns the range around a place in its container, at most `count` on each side.
pub(super) fn window(digests: &[Digest], place: usize, count: usize) -> Range<usize> {
    let is_beside = |other: &usize| digests[*other].container == digests[place].container;
    let start = (place.saturating_sub(count)..place).find(is_beside).unwrap_or(place);
    let end = (place..digests.len().min(place + count + 1)).rev().find(is_beside).unwrap_or(place);
    start..end + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_the_words_of_the_calendar() {
        let check = |millis, words: &str| {
            let time = Timestamp::from_millis(millis).expect("in range");
            assert_eq!(date(time).join(" "), words, "{millis}");
        };
        check(0, "january 1970 1");
        check(-1, "december 1969 31");
        check(1_683_554_160_000, "may 2023 8");
        check(951_782_400_000, "february 2000 29");
        check(951_868_800_000, "march 2000 1");
        check(-8_640_000_000_000, "march 1696 17");
        check(4_107_542_400_000, "march 2100 1");
    }
}
