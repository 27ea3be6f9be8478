//! Helpers for engines that scan records held in memory.

use super::walk::{Mark, Row, Visit, Walk};
use crate::page::{Head, Selects, Verdict};
use crate::{Order, Result};

/// A record that was read as a whole, or the error of reading it.
#[derive(Debug, Clone)]
pub struct Scanned<K: Selects> {
    /// The position of the record in the order (createdAt, id).
    pub mark: Mark,
    /// The record, or a `Corrupt` error if it is damaged.
    pub record: Result<K::Record>,
    /// The record's stored vector, if it has one.
    pub vector: Option<Vec<u8>>,
}

impl<K: Selects> Scanned<K> {
    /// Wraps a readable record, without a vector.
    pub fn new(record: K::Record) -> Self {
        let mark = Mark { millis: K::created_at(&record).as_millis(), id: K::id_bytes(&record).to_vec() };
        Self { mark, record: Ok(record), vector: None }
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

    fn vector(&self) -> Result<Option<&[u8]>> {
        Ok(self.vector.as_deref())
    }
}

/// Sorts records that come in any order, and offers those after the walk's mark and within its times. The caller
/// decides which records belong to the walk's source.
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
            && walk.behind.is_none_or(|behind| walk.order.choose(scanned.mark < *behind, scanned.mark > *behind))
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
