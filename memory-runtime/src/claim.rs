//! Who works on a task, as the metadata of its memory say it.

use std::sync::Arc;

use memory_core::{Error, Memory, Metadata, Result, SpaceId, SpaceSelector, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{NewTask, Space};

/// The member of the metadata of a memory that belongs to the runtime.
///
/// [`Runtime::recover`](crate::Runtime::recover) believes what stands there, so who can write it decides what a runtime does. A host
/// that lets others write the ledger keeps it from them.
pub const TASK: &str = "task";

/// Who holds a task, until when, and how often somebody has begun to work on it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    /// The name of the runtime, which a restart may have again.
    pub(crate) instance: Arc<str>,
    /// The one run of a runtime that holds it.
    pub(crate) holder: Arc<str>,
    pub(crate) until: Timestamp,
    pub(crate) runs: u32,
}

/// The longest name of a runtime, in bytes.
pub(crate) const MAX_INSTANCE: usize = 128;
/// What the metadata of a new task keep free for later claims, in bytes.
const RESERVE: usize = 1 << 10;

/// The member [`TASK`] of the metadata.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    container: SpaceId,
    related: Vec<SpaceSelector>,
    instance: Arc<str>,
    holder: Arc<str>,
    /// Null when the task is over.
    lease_until: Option<Timestamp>,
    runs: u32,
}

#[derive(Serialize, Deserialize)]
struct WrittenTask {
    task: Written,
}

impl Claim {
    /// The metadata of a new task with all that a recovery has to know; `TooLarge` when later claims might not fit.
    pub(crate) fn add_to(&self, metadata: &Metadata, space: &Space) -> Result<Metadata> {
        let metadata = metadata.merge(&self.to_metadata(space)?)?;
        let (size, limit) = (metadata.as_str().len(), Metadata::MAX_BYTES - RESERVE);
        if size > limit {
            return Err(Error::too_large(format!("metadata and space take {size} bytes; at most {limit} are allowed")));
        }
        Ok(metadata)
    }

    fn to_metadata(&self, space: &Space) -> Result<Metadata> {
        let task = Written {
            container: space.container().clone(),
            related: space.related().to_vec(),
            instance: Arc::clone(&self.instance),
            holder: Arc::clone(&self.holder),
            lease_until: Some(self.until),
            runs: self.runs,
        };
        metadata(&WrittenTask { task })
    }

    /// What takes a task over.
    pub(crate) fn to_patch(&self) -> Result<Metadata> {
        metadata(&json!({ TASK: {
            "instance": self.instance,
            "holder": self.holder,
            "leaseUntil": self.until,
            "runs": self.runs,
        }}))
    }

    /// The claim in a memory and the space of its task; `Corrupt` when there is none.
    pub(crate) fn read(memory: &Memory) -> Result<(Self, Space)> {
        let written: WrittenTask = serde_json::from_str(memory.metadata.as_str())
            .map_err(|error| Error::corrupt("the metadata of a task can't be read").with_source(error))?;
        let task = written.task;
        let space = Space::within(task.container, memory.space_id.clone())?.with_related(task.related);
        let until = task.lease_until.unwrap_or(Timestamp::MIN);
        Ok((Self { instance: task.instance, holder: task.holder, until, runs: task.runs }, space))
    }
}

/// Refuses metadata in which the member of the runtime is taken.
pub(crate) fn check_metadata(task: &NewTask) -> Result<()> {
    if task.metadata.to_object().contains_key(TASK) {
        return Err(Error::invalid(format!("the member {TASK} of the metadata of a task belongs to the runtime")));
    }
    Ok(())
}

/// Metadata, or what is merged into them.
pub(crate) fn metadata(value: &impl Serialize) -> Result<Metadata> {
    let text = serde_json::to_string(value).map_err(|error| Error::invalid("no metadata").with_source(error))?;
    Metadata::parse(&text)
}

#[cfg(test)]
mod tests {
    use memory_core::{ErrorKind, MemoryId, Trigger};

    use super::*;

    #[test]
    fn a_memory_tells_all_that_a_recovery_needs() {
        let id = |text| SpaceId::parse(text).expect("valid");
        let space = Space::within(id("a-b"), id("a-b-c")).expect("valid");
        let until = Timestamp::from_millis(7).expect("valid");
        let claim = Claim { instance: "web-1".into(), holder: "h".into(), until, runs: 2 };
        let metadata = claim.to_metadata(&space).expect("metadata");
        let trigger = Trigger::parse("1").expect("JSON");
        let memory = memory_core::NewMemory::new(space.id().clone(), trigger, until).with_metadata(metadata);
        let memory = memory.into_memory(MemoryId::generate());
        assert_eq!(Claim::read(&memory).expect("a claim"), (claim, space));
        let bare = Memory { metadata: Metadata::default(), ..memory };
        assert_eq!(Claim::read(&bare).expect_err("no task").kind(), ErrorKind::Corrupt);
    }
}
