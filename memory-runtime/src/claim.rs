//! The claim on a task, which is stored in the metadata of its memory.

use std::sync::Arc;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "mongo"))]
use memory_core::TransientKeys;
use memory_core::{Error, Memory, Metadata, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The member of a memory's metadata that holds the claim on it: on a task of a runtime, or on a message of an agent.
///
/// A recovery trusts this member, so whoever can write it decides what is done. A host that lets untrusted callers write to the ledger
/// must not let them write this member.
pub const TASK: &str = "task";
/// The member of [`TASK`] with the end of the lease.
const UNTIL: &str = "leaseUntil";

/// Says which program holds a task, until when, and how often work on the task was started. Made by
/// [`Leases::claim`](crate::Leases::claim).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The instance name of the program, which stays the same after a restart.
    pub(crate) instance: Arc<str>,
    /// The id of the run of the program that holds the task; new after each restart.
    pub(crate) holder: Arc<str>,
    /// The end of the lease. The earliest timestamp if the task has ended or was given back.
    #[serde(rename = "leaseUntil", default = "free")]
    pub(crate) until: Timestamp,
    pub(crate) runs: u32,
}

/// The member [`TASK`] of the metadata.
#[derive(Deserialize)]
struct Claimed {
    task: Claim,
}

impl Claim {
    /// Reads the claim of a memory. Fails with `Corrupt` if it has none.
    pub fn read(memory: &Memory) -> Result<Self> {
        let claimed: Claimed = serde_json::from_str(memory.metadata.as_str())
            .map_err(|error| Error::corrupt("the metadata of a task can't be read").with_source(error))?;
        Ok(claimed.task)
    }

    /// Returns the claim as metadata: of a new memory, or to be merged into the metadata of a memory that is taken.
    pub fn to_metadata(&self) -> Result<Metadata> {
        metadata(&json!({ TASK: {
            "instance": self.instance,
            "holder": self.holder,
            UNTIL: self.until,
            "runs": self.runs,
        }}))
    }

    /// The instance name of the program that holds the task, or that held it last.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The end of the lease; the earliest timestamp if the task was given back.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// How often work on the task had been started when this claim was made.
    pub fn runs(&self) -> u32 {
        self.runs
    }
}

/// The metadata members that change with each renewal and need no version in the history (H8).
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "mongo"))]
pub(crate) fn transient() -> Result<TransientKeys> {
    TransientKeys::new([[TASK, UNTIL]])
}

fn free() -> Timestamp {
    Timestamp::MIN
}

/// Converts a value to metadata.
pub(crate) fn metadata(value: &impl Serialize) -> Result<Metadata> {
    let text = serde_json::to_string(value).map_err(|error| Error::invalid("no metadata").with_source(error))?;
    Metadata::parse(&text)
}

#[cfg(test)]
mod tests {
    use memory_core::{ErrorKind, MemoryId, NewMemory, SpaceId, Trigger};

    use super::*;

    #[test]
    fn a_memory_tells_its_claim() {
        let until = Timestamp::from_millis(7).expect("valid");
        let claim = Claim { instance: "web-1".into(), holder: "h".into(), until, runs: 2 };
        let (space, trigger) = (SpaceId::parse("a").expect("valid"), Trigger::parse("1").expect("JSON"));
        let memory = NewMemory::new(space, trigger, until).with_metadata(claim.to_metadata().expect("metadata"));
        let memory = memory.into_memory(MemoryId::generate());
        assert_eq!(Claim::read(&memory).expect("a claim"), claim);
        let given_back = metadata(&json!({ TASK: { UNTIL: null } })).expect("metadata");
        let metadata = memory.metadata.merge(&given_back).expect("merged");
        let free = Memory { metadata, ..memory.clone() };
        assert_eq!(Claim::read(&free).expect("a claim").until, Timestamp::MIN);
        let bare = Memory { metadata: Metadata::default(), ..memory };
        assert_eq!(Claim::read(&bare).expect_err("no task").kind(), ErrorKind::Corrupt);
    }
}
