//! The effects of calls on one record: the model with which a history is compared.

use std::collections::BTreeSet;

use crate::log::{Answer, Version, Wanted, What, is_document};

/// The state of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Absent,
    There(Version),
    /// Permanently. Only memories can be. A store of its key is refused, and so are calls with its id: another id never existed, or a
    /// failover has taken its memory back.
    Erased {
        id: Option<String>,
    },
}

/// The state after a call, or `None` if the call can't give this answer. A call without an answer may give any.
pub(crate) fn step(state: &State, record: &str, number: u32, what: &What, answer: Option<&Answer>) -> Option<State> {
    let (next, expected) = effect(state, record, number, what, named(what, answer));
    match answer {
        None => Some(next),
        // A removed document may have a history to erase.
        Some(Answer::Gone(_))
            if is_document(record) && *state == State::Absent && matches!(what, What::Erase { .. }) =>
        {
            Some(next)
        }
        Some(answer) => (*answer == expected).then_some(next),
    }
}

/// Whether a space lies below a path, by the words of the contract (S3).
pub(crate) fn is_under(space: &str, path: &str) -> bool {
    space.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/', ':']))
}

/// The id of the memory in a call.
fn named(what: &What, answer: Option<&Answer>) -> Option<String> {
    match (what, answer) {
        (What::Update { id, .. }, _) => Some(id.clone()),
        (What::Get { id } | What::Erase { id }, _) if id.is_some() => id.clone(),
        (_, Some(Answer::Stored(id))) => Some(id.clone()),
        (_, Some(Answer::Found(Some(version)))) => version.id.clone(),
        _ => None,
    }
}

/// The state after a call, and its answer.
fn effect(state: &State, record: &str, number: u32, what: &What, id: Option<String>) -> (State, Answer) {
    let stay = |answer| (state.clone(), answer);
    // The record of the call, as far as the call knows its id.
    let there = match state {
        State::There(version) if version.id.is_none() || id.is_none() || version.id == id => {
            Some(Version { id: version.id.clone().or(id.clone()), ..version.clone() })
        }
        _ => None,
    };
    let is_erased = matches!(state, State::Erased { id: erased } if *erased == id);
    match (what, there) {
        (What::Store { .. }, None) if matches!(state, State::Erased { .. }) => stay(Answer::Erased),
        (What::Store { space, variant }, None) if *state == State::Absent => {
            let answer = Answer::Stored(id.clone().unwrap_or_default());
            let writes = BTreeSet::new();
            (State::There(Version { id, variant: *variant, space: space.clone(), revision: 1, writes }), answer)
        }
        (What::Store { variant, .. }, Some(version)) if *variant == version.variant => {
            let answer = Answer::Stored(version.id.clone().unwrap_or_default());
            (State::There(version), answer)
        }
        (What::Store { .. }, _) => stay(Answer::Conflict),

        (What::Update { if_revision, .. }, Some(version)) => {
            if if_revision.is_some_and(|wanted| wanted != version.revision) {
                return (State::There(version), Answer::Conflict);
            }
            let (mut writes, revision) = (version.writes, version.revision + 1);
            writes.insert(number);
            (State::There(Version { revision, writes, ..version }), Answer::Revision(revision))
        }
        (What::Update { .. } | What::Get { .. }, None) if is_erased => stay(Answer::Erased),
        (What::Update { .. }, None) => stay(Answer::NotFound),

        (What::Get { .. }, Some(version)) => (State::There(version.clone()), Answer::Found(Some(version))),
        (What::Read { under }, Some(version)) if is_under(&version.space, under) => {
            (State::There(version.clone()), Answer::Found(Some(version)))
        }
        (What::Get { .. } | What::Read { .. }, _) => stay(Answer::Found(None)),

        (What::Put { space, expect }, version) => {
            let before = version.map_or(0, |version| version.revision);
            let is_expected = match expect {
                Wanted::Any => true,
                Wanted::Absent => before == 0,
                Wanted::Revision(wanted) => before == *wanted,
            };
            if !is_expected {
                return stay(Answer::Conflict);
            }
            let (revision, writes) = (before + 1, BTreeSet::from([number]));
            let version = Version { id: None, variant: 0, space: space.clone(), revision, writes };
            (State::There(version), Answer::Revision(revision))
        }
        (What::Remove, Some(_)) => (State::Absent, Answer::Gone(true)),
        (What::Erase { .. }, Some(_)) if is_document(record) => (State::Absent, Answer::Gone(true)),
        (What::Erase { .. }, Some(version)) => (State::Erased { id: version.id }, Answer::Gone(true)),
        (What::Remove | What::Erase { .. }, None) => stay(Answer::Gone(false)),
    }
}
