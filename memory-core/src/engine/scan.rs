//! For engines that look at every record and have them all at hand.

use std::collections::BTreeSet;

use super::walk::{Mark, Row, Visit, Walk};
use crate::page::{Head, Selects, Verdict};
use crate::{ErrorKind, Order, Result};

/// A record that was read as a whole, or why it can't be.
#[derive(Debug, Clone)]
pub struct Scanned<K: Selects> {
    /// Where it stands in the order (createdAt, id).
    pub mark: Mark,
    /// The record; a `Corrupt` error where it is damaged.
    pub record: Result<K::Record>,
}

impl<K: Selects> Scanned<K> {
    /// A record that could be read.
    pub fn new(record: K::Record) -> Self {
        let mark = Mark { millis: K::created_at(&record).as_millis(), id: K::id_bytes(&record).to_vec() };
        Self { mark, record: Ok(record) }
    }
}

impl<K: Selects> Row<K> for Scanned<K>
where
    K::Record: Clone,
{
    fn head(&self) -> Result<Head<'_>> {
        self.record.as_ref().map(K::head).map_err(Clone::clone)
    }

    fn read(&self, _: &Head<'_>) -> Result<K::Record> {
        self.record.clone()
    }

    fn id(&self) -> String {
        K::shown_id(&self.mark.id)
    }
}

/// Offers what a walk wants of records that come in any order: the next ones behind its mark. Which records the walk's source has is
/// up to the caller.
pub fn offer_in_order<K: Selects>(
    records: impl IntoIterator<Item = Scanned<K>>,
    walk: &Walk<'_>,
    visit: &mut Visit<'_, K>,
) -> Result<Option<Mark>>
where
    K::Record: Clone,
{
    let is_wanted = |scanned: &Scanned<K>| {
        let Mark { millis, .. } = scanned.mark;
        walk.created_after.is_none_or(|after| millis > after.as_millis())
            && walk.created_before.is_none_or(|before| millis < before.as_millis())
            && walk.behind.is_none_or(|behind| match walk.order {
                Order::NewestFirst => scanned.mark < *behind,
                Order::OldestFirst => scanned.mark > *behind,
            })
    };
    let mut wanted: Vec<_> = records.into_iter().filter(is_wanted).collect();
    wanted.sort_by(|left, right| left.mark.cmp(&right.mark));
    if walk.order == Order::NewestFirst {
        wanted.reverse();
    }
    let count = if walk.is_shared { walk.count } else { usize::MAX };
    let mut last = None;
    for (number, scanned) in wanted.into_iter().enumerate() {
        if number == count {
            return Ok(last);
        }
        if visit(&scanned)? == Verdict::Stop {
            break;
        }
        last = Some(scanned.mark);
    }
    Ok(None)
}

/// The records that hold a wanted word, found by looking at all of them.
pub(super) struct Ranked<'w, K: Selects> {
    wanted: &'w BTreeSet<String>,
    words_of: fn(&K::Record) -> BTreeSet<String>,
    /// How many of the distinct words each record holds.
    found: Vec<(usize, Scanned<K>)>,
}

impl<'w, K: Selects> Ranked<'w, K>
where
    K::Record: Clone,
{
    pub(super) fn new(wanted: &'w BTreeSet<String>, words_of: fn(&K::Record) -> BTreeSet<String>) -> Self {
        Self { wanted, words_of, found: Vec::new() }
    }

    /// Looks at a row. One that can't be read has no words.
    pub(super) fn add(&mut self, row: &dyn Row<K>) -> Result<Verdict> {
        match row.head().and_then(|head| row.read(&head)) {
            Ok(record) => {
                let rank = (self.words_of)(&record).intersection(self.wanted).count();
                if rank > 0 {
                    self.found.push((rank, Scanned::new(record)));
                }
                Ok(Verdict::Skip)
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Verdict::Skip),
            Err(error) => Err(error),
        }
    }

    /// Offers what was found: first what holds the most words, then the newest.
    pub(super) fn offer(mut self, visit: &mut Visit<'_, K>) -> Result<()> {
        self.found.sort_by(|(left, at), (right, other)| (right, &other.mark).cmp(&(left, &at.mark)));
        for (_, scanned) in self.found {
            if visit(&scanned)? == Verdict::Stop {
                break;
            }
        }
        Ok(())
    }
}
