//! Who works on a task, as the metadata of its memory say it.

use std::sync::Arc;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "mongo"))]
use memory_core::TransientKeys;
use memory_core::{Error, Memory, Metadata, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The member of the metadata of a memory that says who works on it: a task of a runtime, or a message of an agent.
///
/// Whoever recovers open work believes what stands there, so who can write it decides what is done. A host that lets others write the
/// ledger keeps it from them.
pub const TASK: &str = "task";
/// The member of it that says until when.
const UNTIL: &str = "leaseUntil";

/// Who holds a task, until when, and how often somebody has begun to work on it; [`Leases::claim`](crate::Leases::claim) makes one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The name of the program, which a restart may have again.
    pub(crate) instance: Arc<str>,
    /// The one run of a program that holds it.
    pub(crate) holder: Arc<str>,
    /// The first time of all when the task is over or given back.
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
    /// The claim in a memory; `Corrupt` when there is none.
    pub fn read(memory: &Memory) -> Result<Self> {
        let claimed: Claimed = serde_json::from_str(memory.metadata.as_str())
            .map_err(|error| Error::corrupt("the metadata of a task can't be read").with_source(error))?;
        Ok(claimed.task)
    }

    /// What the metadata of the memory say of it: those of a new one, or what is merged into those of one that is taken.
    pub fn to_metadata(&self) -> Result<Metadata> {
        metadata(&json!({ TASK: {
            "instance": self.instance,
            "holder": self.holder,
            UNTIL: self.until,
            "runs": self.runs,
        }}))
    }

    /// The program that holds the task, or that held it last.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// When the task becomes free; before all other times where it was given back.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// How often somebody had begun to work on the task when it was claimed.
    pub fn runs(&self) -> u32 {
        self.runs
    }
}

/// What changes with each renewal and is no history of the task, as a provider is told that.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "mongo"))]
pub(crate) fn transient() -> Result<TransientKeys> {
    TransientKeys::new([[TASK, UNTIL]])
}

fn free() -> Timestamp {
    Timestamp::MIN
}

/// Metadata, or what is merged into them.
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
