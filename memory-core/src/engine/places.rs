//! Maps the spaces of a query to the places where its records can lie.

use std::collections::BTreeSet;

use super::session::Reader;
use super::walk::{Place, Source};
use crate::query::Query;
use crate::{BOUNDARIES, Collection, Result, SpaceId, SpaceRange, Spaces, Status};

/// Up to this many paths that share a prefix are walked separately; above it, their parent is walked.
const MAX_SIBLINGS: usize = 100;
/// Maximum number of paths that all prefixes of a query expand to, in equal shares (at least one path each).
const MAX_OF_PREFIXES: usize = 4_000;

/// The places where the records of a query can lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Places {
    /// Anywhere.
    Everywhere,
    /// These places; none lies inside another. Empty means nowhere.
    Only(BTreeSet<Place>),
}

/// The part of the records that one walk covers.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Everything,
    Open(Vec<Status>),
    Places(Vec<Place>),
}

impl Part {
    pub(super) fn source(&self) -> Source<'_> {
        match self {
            Self::Everything => Source::Everything,
            Self::Open(statuses) => Source::Open(statuses),
            Self::Places(places) => Source::Places(places),
        }
    }
}

impl Places {
    /// Returns the places of a query of the ledger or of a collection, confined by `within`.
    pub(super) async fn of<K: Sync>(
        reader: &mut impl Reader,
        of: Option<&Collection>,
        query: &Query<K>,
    ) -> Result<Self> {
        let places = Self::of_spaces(reader, of, query.spaces()).await?;
        match query.within() {
            Some(within) if places != Self::Only(BTreeSet::new()) => {
                Ok(places.and(Self::of_spaces(reader, of, within).await?))
            }
            _ => Ok(places),
        }
    }

    /// Splits the places into walks that together cover them.
    pub(super) fn parts<R: Reader>(self, _: &R) -> Vec<Part> {
        match self {
            Self::Everywhere => vec![Part::Everything],
            Self::Only(places) => {
                let places: Vec<_> = places.into_iter().collect();
                places.chunks(R::PLACES).map(|places| Part::Places(places.to_vec())).collect()
            }
        }
    }

    /// Returns the places where a selection of spaces can lie.
    pub(super) async fn of_spaces(reader: &mut impl Reader, of: Option<&Collection>, spaces: &Spaces) -> Result<Self> {
        let Spaces::Any(selectors) = spaces else { return Ok(Self::Everywhere) };
        let mut places = BTreeSet::new();
        let prefixes = selectors.iter().filter(|selector| matches!(selector.range(), SpaceRange::Prefix(_))).count();
        let share = siblings_of_each(prefixes);
        for selector in selectors {
            match selector.range() {
                SpaceRange::Nowhere => {}
                SpaceRange::Everywhere => return Ok(Self::Everywhere),
                SpaceRange::Exact(path) => drop(places.insert(Place::Space(path.to_owned()))),
                SpaceRange::Below(path) => drop(places.insert(Place::Below(path.to_owned()))),
                SpaceRange::Under(path) => {
                    places.extend([Place::Space(path.to_owned()), Place::Below(path.to_owned())]);
                }
                // A space id holds no control character.
                SpaceRange::Prefix(prefix) if prefix.contains(char::is_control) => {}
                SpaceRange::Prefix(prefix) => {
                    let siblings = reader.siblings(of, prefix, None, share + 1).await?;
                    match (siblings.filter(|siblings| count_paths(siblings) <= share), prefix.rfind(BOUNDARIES)) {
                        (Some(siblings), _) => places.extend(siblings),
                        (None, Some(parent)) => drop(places.insert(Place::Below(prefix[..parent].to_owned()))),
                        (None, None) => return Ok(Self::Everywhere),
                    }
                }
            }
        }
        places.retain(can_hold_spaces);
        Ok(Self::Only(outermost(places)))
    }

    /// Intersects two sets of places.
    pub(super) fn and(self, other: Self) -> Self {
        let (left, right) = match (self, other) {
            (Self::Only(left), Self::Only(right)) => (left, right),
            (Self::Everywhere, places) | (places, Self::Everywhere) => return places,
        };
        // Two places are disjoint, or one lies inside the other.
        let in_right = left.iter().filter(|place| right.contains(place) || is_inside(place, &right));
        let in_left = right.iter().filter(|place| is_inside(place, &left));
        Self::Only(in_right.chain(in_left).cloned().collect())
    }
}

fn count_paths(places: &[Place]) -> usize {
    places.iter().map(Place::path).collect::<BTreeSet<_>>().len()
}

/// Returns the maximum number of paths that each of a query's prefixes expands to.
fn siblings_of_each(prefixes: usize) -> usize {
    (MAX_OF_PREFIXES / prefixes.max(1)).clamp(1, MAX_SIBLINGS)
}

/// Returns whether a valid space id can lie there.
pub(super) fn can_hold_spaces(place: &Place) -> bool {
    let boundaries = place.path().matches(BOUNDARIES).count();
    let is_deep = match place {
        Place::Space(_) => boundaries > SpaceId::MAX_BOUNDARIES,
        // Ids below it have one more boundary.
        Place::Below(_) => boundaries >= SpaceId::MAX_BOUNDARIES,
    };
    !is_deep && !place.path().contains(char::is_control)
}

/// Removes the places that lie inside another one.
fn outermost(places: BTreeSet<Place>) -> BTreeSet<Place> {
    places.iter().filter(|place| !is_inside(place, &places)).cloned().collect()
}

/// Returns whether a place lies strictly below one of these.
fn is_inside(place: &Place, places: &BTreeSet<Place>) -> bool {
    let path = place.path();
    path.match_indices(BOUNDARIES).any(|(at, _)| places.contains(&Place::Below(path[..at].to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(places: &[&str]) -> Places {
        let place = |text: &&str| match text.strip_suffix('*') {
            Some(path) => Place::Below(path.to_owned()),
            None => Place::Space((*text).to_owned()),
        };
        Places::Only(outermost(places.iter().map(place).collect()))
    }

    #[test]
    fn prefixes_find_so_many_paths_together() {
        assert_eq!([0, 1, 40, 80, 1_000, 10_000].map(siblings_of_each), [100, 100, 100, 50, 4, 1]);
    }

    #[test]
    fn a_place_in_another_one_is_left_out() {
        assert_eq!(only(&["a", "a*", "a-b", "a-b*", "a-b/c*", "ab"]), only(&["a", "a*", "ab"]));
        assert_eq!(
            only(&["*", "-a", "a-b"]),
            only(&["*", "a-b"]),
            "only what begins with a boundary is below the empty path"
        );
    }

    #[test]
    fn the_intersection_has_the_inner_ones() {
        let check = |left: &[&str], right: &[&str], both: &[&str]| {
            assert_eq!(only(left).and(only(right)), only(both));
            assert_eq!(only(right).and(only(left)), only(both));
        };
        check(&["a", "a*"], &["a-b", "a-b*"], &["a-b", "a-b*"]);
        check(&["a", "a*"], &["a", "b*"], &["a"]);
        check(&["a*"], &["a"], &[]);
        check(&["a-x", "b*"], &["a*", "b-c-d", "c"], &["a-x", "b-c-d"]);
        assert_eq!(Places::Everywhere.and(only(&["a"])), only(&["a"]));
    }
}
