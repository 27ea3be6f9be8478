//! For engines that look at every record and have them all at hand.

use super::walk::{Mark, Row, Visit, Walk};
use crate::page::{Head, Selects, Verdict};
use crate::{Order, Result};

/// A record that was read as a whole, or why it can't be.
#[derive(Debug, Clone)]
pub struct Scanned<K: Selects> {
    /// Where it stands in the order (createdAt, id).
    pub mark: Mark,
    /// The record; a `Corrupt` error where it is damaged.
    pub record: Result<K::Record>,
    /// The vector of the record, if it has one.
    pub vector: Option<Vec<u8>>,
}

impl<K: Selects> Scanned<K> {
    /// A record that could be read.
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
