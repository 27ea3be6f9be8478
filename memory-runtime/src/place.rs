//! The container and the related spaces of a task, which the metadata of its memory hold beside its claim.

use memory_core::{Error, Memory, Metadata, Result, SpaceId, SpaceSelector};
use serde::{Deserialize, Serialize};

use crate::claim::{Claim, TASK, metadata};
use crate::{NewTask, Space};

/// The bytes that the metadata of a new task leave free for later claims.
const RESERVE: usize = 1 << 10;

/// The part of the member [`TASK`] that is not the claim.
#[derive(Serialize, Deserialize)]
struct Place {
    container: SpaceId,
    related: Vec<SpaceSelector>,
}

#[derive(Serialize, Deserialize)]
struct Placed {
    task: Place,
}

/// Returns the metadata of a new task with everything that a recovery needs. Fails with `TooLarge` if later claims might not fit.
pub(crate) fn describe(task: &NewTask, claim: &Claim) -> Result<Metadata> {
    let place = Place { container: task.space.container().clone(), related: task.space.related().to_vec() };
    let metadata = task.metadata.merge(&metadata(&Placed { task: place })?)?.merge(&claim.to_metadata()?)?;
    let (size, limit) = (metadata.as_str().len(), Metadata::MAX_BYTES - RESERVE);
    if size > limit {
        return Err(Error::too_large(format!("metadata and space take {size} bytes; at most {limit} are allowed")));
    }
    Ok(metadata)
}

/// Reads the space of the task in a memory. Fails with `Corrupt` if the memory is not a task of a runtime.
pub(crate) fn read(memory: &Memory) -> Result<Space> {
    let Placed { task } = serde_json::from_str(memory.metadata.as_str())
        .map_err(|error| Error::corrupt("the metadata of a task can't be read").with_source(error))?;
    Ok(Space::within(task.container, memory.space_id.clone())?.with_related(task.related))
}

/// Fails with `InvalidInput` if the metadata of a new task have the member [`TASK`], which belongs to the runtime.
pub(crate) fn check_metadata(task: &NewTask) -> Result<()> {
    if task.metadata.to_object().contains_key(TASK) {
        return Err(Error::invalid(format!("the member {TASK} of the metadata of a task belongs to the runtime")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use memory_core::{ErrorKind, JsonText, MemoryId, NewMemory, Timestamp, Trigger};

    use super::*;
    use crate::ContextItem;

    #[test]
    fn a_memory_tells_all_that_a_recovery_needs() {
        let id = |text| SpaceId::parse(text).expect("valid");
        let space = Space::within(id("a-b"), id("a-b-c")).expect("valid");
        let until = Timestamp::from_millis(7).expect("valid");
        let claim = Claim { instance: "web-1".into(), holder: "h".into(), until, runs: 2 };
        let trigger = ContextItem::trigger("test", JsonText::parse("1").expect("JSON"), until);
        let metadata = describe(&NewTask::new(space.clone(), trigger), &claim).expect("metadata");
        let memory = NewMemory::new(space.id().clone(), Trigger::parse("1").expect("JSON"), until);
        let memory = memory.with_metadata(metadata).into_memory(MemoryId::generate());
        assert_eq!(read(&memory).expect("a place"), space);
        assert_eq!(Claim::read(&memory).expect("a claim"), claim);
        let of_nobody = Memory { metadata: claim.to_metadata().expect("metadata"), ..memory };
        assert_eq!(read(&of_nobody).expect_err("no place").kind(), ErrorKind::Corrupt);
    }
}
