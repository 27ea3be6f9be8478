//! A second implementation of the ranking of R4, by brute force, for texts whose words are terms without stemming.

/// The data of a record that the oracle uses.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) id: Vec<u8>,
    pub(super) millis: i64,
    pub(super) container: String,
    /// Its texts, and the terms of its date.
    pub(super) text: String,
    pub(super) speaker: Option<String>,
    pub(super) is_wanted: bool,
}

/// The ids of the hits with their scores, best first, for `most` candidates.
pub(super) fn rank(records: &[Told], question: &str, most: usize) -> Vec<(Vec<u8>, f64)> {
    let mut terms = words(question);
    terms.sort();
    terms.dedup();
    let count_of =
        |record: &Told, term: &String| words(&record.text).iter().filter(|word| *word == term).count() as f64;
    let total = records.len() as f64;
    let holders = |term: &String| records.iter().filter(|record| count_of(record, term) > 0.0).count() as f64;
    let idf: Vec<f64> =
        terms.iter().map(|term| (1.0 + (total - holders(term) + 0.5) / (holders(term) + 0.5)).ln()).collect();
    let average = records.iter().map(|record| words(&record.text).len()).sum::<usize>() as f64 / total;
    let own: Vec<Vec<f64>> = records
        .iter()
        .map(|record| {
            let norm = 1.2 * (1.0 - 0.5 + 0.5 * words(&record.text).len() as f64 / average);
            let weigh = |(term, idf): (&String, &f64)| {
                let count = count_of(record, term);
                idf * count * (1.2 + 1.0) / (count + norm)
            };
            terms.iter().zip(&idf).map(weigh).collect()
        })
        .collect();
    // Here a record is one of its own neighbours.
    let neighbours: Vec<Vec<usize>> = (0..records.len()).map(|place| near(records, place)).collect();
    let presence = |place: usize| -> u64 {
        let held = terms.iter().zip(&idf).filter(|(term, _)| count_of(&records[place], term) > 0.0);
        held.map(|(_, idf)| (idf * 65_536.0).round() as u64).sum()
    };
    let newest = |place: usize| (records[place].millis, records[place].id.clone());
    let mut candidates: Vec<usize> = (0..records.len())
        .filter(|place| terms.iter().any(|term| count_of(&records[*place], term) > 0.0))
        .filter(|place| neighbours[*place].iter().any(|near| records[*near].is_wanted))
        .collect();
    candidates.sort_by_key(|place| std::cmp::Reverse((presence(*place), newest(*place))));
    candidates.truncate(most);
    let mut scored: Vec<usize> = candidates.iter().flat_map(|place| neighbours[*place].clone()).collect();
    scored.sort();
    scored.dedup();
    let greatest = |places: &[usize]| -> f64 {
        (0..terms.len()).map(|term| places.iter().map(|place| own[*place][term]).fold(0.0, f64::max)).sum()
    };
    let words_of = |place: usize| own[place].iter().sum::<f64>();
    let window_of = |place: usize| greatest(&neighbours[place]);
    let container_of = |place: usize| {
        let beside = candidates.iter().filter(|other| records[**other].container == records[place].container);
        greatest(&beside.copied().collect::<Vec<_>>())
    };
    let best = |of: &dyn Fn(usize) -> f64| scored.iter().map(|place| of(*place)).fold(0.0, f64::max);
    let (most_words, most_window, most_container) = (best(&words_of), best(&window_of), best(&container_of));
    let part = |number: f64, most: f64| if most > 0.0 { number / most } else { 0.0 };
    let both = best(&|place| part(words_of(place), most_words) + 1.5 * part(window_of(place), most_window));
    let three = |place: usize| {
        let own = part(part(words_of(place), most_words), both);
        let window = part(1.5 * part(window_of(place), most_window), both);
        [own, window, 0.3 * part(container_of(place), most_container)]
    };
    let all = best(&|place| three(place).iter().sum());
    let mut named: Vec<&String> = records.iter().filter_map(|record| record.speaker.as_ref()).collect();
    named.retain(|name| terms.contains(name));
    named.sort();
    named.dedup();
    let mut hits: Vec<(f64, (i64, Vec<u8>))> = scored
        .iter()
        .filter(|place| records[**place].is_wanted)
        .map(|place| {
            let [own, window, container] = three(*place).map(|number| part(number, all));
            let asks = if records[*place].text.contains('?') { -0.1 } else { 0.0 };
            let plain = own + window + container + asks;
            let is_named = named.len() == 1 && records[*place].speaker.as_ref() == Some(named[0]);
            (plain + if is_named { 0.15 * plain.max(0.0) } else { 0.0 }, newest(*place))
        })
        .collect();
    hits.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| right.1.cmp(&left.1)));
    hits.into_iter().map(|(score, (_, id))| (id, score)).collect()
}

/// The indexes of a record and of the two on each side of it in its container.
fn near(records: &[Told], place: usize) -> Vec<usize> {
    let mut beside: Vec<usize> =
        (0..records.len()).filter(|other| records[*other].container == records[place].container).collect();
    beside.sort_by_key(|other| (records[*other].millis, records[*other].id.clone()));
    let at = beside.iter().position(|other| *other == place).expect("it is in its own container");
    beside[at.saturating_sub(2)..beside.len().min(at + 3)].to_vec()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace()
        .map(|word| word.trim_end_matches('?').to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}
