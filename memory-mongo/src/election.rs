//! Elections: a new primary learns with a short delay what is majority-committed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mongodb::bson::Document;
use mongodb::bson::oid::ObjectId;

/// The last known election, and whether its primary knows what is majority-committed.
///
/// A new primary knows it once a majority has the first write of its own term. Until then it reports as majority-
/// committed only what it knew of at its election, which may lack the last writes that its predecessor acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Elections(Mutex<Option<Election>>);

#[derive(Debug, Clone, Copy)]
struct Election {
    /// Later elections have greater ids.
    id: ObjectId,
    is_over: bool,
}

impl Elections {
    /// Learns from a server's `hello` answer.
    pub(crate) fn see(&self, hello: &Document) {
        let is_primary = hello.get_bool("isWritablePrimary").or(hello.get_bool("ismaster")).unwrap_or(false);
        if !is_primary {
            return;
        }
        // A server that reports no election, such as a router, is treated as one that has none.
        let id = hello.get_object_id("electionId").unwrap_or(ObjectId::from_bytes([0; 12]));
        let term = |of: &str| hello.get_document("lastWrite").ok()?.get_document(of).ok()?.get_i64("t").ok();
        // A server that reports no terms isn't asked again and again.
        let is_over = term("opTime").zip(term("majorityOpTime")).is_none_or(|(last, known)| known >= last);
        let mut seen = self.seen();
        match &mut *seen {
            Some(known) if known.id > id => {}
            Some(known) if known.id == id => known.is_over |= is_over,
            _ => *seen = Some(Election { id, is_over }),
        }
    }

    /// The last election, if it is over.
    pub(crate) fn over(&self) -> Option<ObjectId> {
        self.seen().filter(|election| election.is_over).map(|election| election.id)
    }

    /// The last known election, whether or not it is over.
    pub(crate) fn last(&self) -> Option<ObjectId> {
        self.seen().map(|election| election.id)
    }

    fn seen(&self) -> MutexGuard<'_, Option<Election>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn primary(election: u8, last: i64, known: i64) -> Document {
        let last_write = doc! { "opTime": { "t": last }, "majorityOpTime": { "t": known } };
        doc! { "isWritablePrimary": true, "electionId": ObjectId::from_bytes([election; 12]), "lastWrite": last_write }
    }

    #[test]
    fn an_election_is_over_when_a_majority_has_a_write_of_its_term() {
        let elections = Elections::default();
        elections.see(&doc! { "secondary": true, "electionId": ObjectId::from_bytes([1; 12]) });
        assert_eq!(elections.over(), None, "no primary");
        elections.see(&primary(2, 2, 1));
        assert_eq!(elections.over(), None);
        elections.see(&primary(2, 2, 2));
        assert_eq!(elections.over(), Some(ObjectId::from_bytes([2; 12])));
        elections.see(&primary(3, 3, 2));
        assert_eq!(elections.over(), None);
        elections.see(&primary(2, 2, 2));
        assert_eq!(elections.over(), None, "of the past");
    }

    #[test]
    fn who_tells_no_election_is_waited_for_by_nobody() {
        let elections = Elections::default();
        elections.see(&doc! { "isWritablePrimary": true, "msg": "isdbgrid" });
        assert!(elections.over().is_some());
        elections.see(&primary(1, 2, 1));
        assert_eq!(elections.over(), None, "but for one that does");
    }
}
