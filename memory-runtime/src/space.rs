//! Where a task happens, and what belongs to it.

use memory_core::{Error, Memory, Result, SpaceId, SpaceSelector};
use serde::{Deserialize, Serialize};

/// The address of a task, the container in which tasks keep their order, and the spaces that its past is recalled from.
///
/// An address is unique to its event, so it says nothing of what belongs together: that is what the container is for,
/// such as the channel of a message.
///
/// ```
/// use memory_runtime::Space;
///
/// let space = Space::within("discord-guild1-general".parse()?, "discord-guild1-general-ana-m1".parse()?)?;
/// assert_eq!(space.related()[0].to_string(), r#"under("discord-guild1-general")"#);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Written")]
pub struct Space {
    id: SpaceId,
    container: SpaceId,
    related: Vec<SpaceSelector>,
}

impl Space {
    /// A space whose container is its closest ancestor, or itself if it has none, and which nothing is related to.
    pub fn new(id: SpaceId) -> Self {
        let parent = id.ancestors().filter(|ancestor| !ancestor.is_empty()).last();
        let container = parent.and_then(|parent| SpaceId::parse(parent).ok()).unwrap_or_else(|| id.clone());
        Self { id, container, related: Vec::new() }
    }

    /// A space in a container, to which all that lies under the container is related. `InvalidInput` when it does not
    /// lie there.
    pub fn within(container: SpaceId, id: SpaceId) -> Result<Self> {
        let under = SpaceSelector::under(&container)?;
        if !under.matches(id.as_str()) {
            return Err(Error::invalid(format!("the space {id} does not lie under its container {container}")));
        }
        Ok(Self { id, container, related: vec![under] })
    }

    /// With other spaces to recall from; none means that nothing is recalled.
    #[must_use]
    pub fn with_related(mut self, related: impl IntoIterator<Item = SpaceSelector>) -> Self {
        self.related = related.into_iter().collect();
        self
    }

    /// The address.
    pub fn id(&self) -> &SpaceId {
        &self.id
    }

    /// Where tasks keep their order.
    pub fn container(&self) -> &SpaceId {
        &self.container
    }

    /// What the past of a task is recalled from.
    pub fn related(&self) -> &[SpaceSelector] {
        &self.related
    }

    /// Whether a memory may be recalled.
    pub(crate) fn is_related(&self, memory: &Memory) -> bool {
        self.related.iter().any(|selector| selector.matches(memory.space_id.as_str()))
    }
}

/// A space as JSON has it. Container and relations may be left out, with the meaning of [`Space::new`] and
/// [`Space::within`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    id: SpaceId,
    container: Option<SpaceId>,
    related: Option<Vec<SpaceSelector>>,
}

impl TryFrom<Written> for Space {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        let space = match written.container {
            Some(container) => Self::within(container, written.id)?,
            None => Self::new(written.id),
        };
        Ok(match written.related {
            Some(related) => space.with_related(related),
            None => space,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SpaceId {
        SpaceId::parse(text).expect("valid")
    }

    #[test]
    fn a_container_holds_its_spaces() {
        for (space, container) in [("a-b-c", "a-b"), ("a/b:c", "a/b"), ("a", "a"), ("-a", "-a"), ("a-", "a")] {
            assert_eq!(Space::new(id(space)).container().as_str(), container, "{space}");
            assert_eq!(Space::new(id(space)).related(), []);
        }
        assert!(Space::within(id("a-b"), id("a-b-c")).is_ok());
        assert!(Space::within(id("a-b"), id("a-bc")).is_err(), "a sibling that starts alike");
    }

    #[test]
    fn json_is_checked_and_may_be_short() {
        let short: Space = serde_json::from_str(r#"{"id":"a-b-c"}"#).expect("valid");
        assert_eq!(short, Space::new(id("a-b-c")));
        let space = Space::within(id("a"), id("a-b-c")).expect("valid");
        let json = serde_json::to_string(&space).expect("JSON");
        assert_eq!(json, r#"{"id":"a-b-c","container":"a","related":[{"under":"a"}]}"#);
        assert_eq!(serde_json::from_str::<Space>(&json).expect("valid"), space);
        for json in [r#"{"id":"a","container":"b"}"#, r#"{"id":""}"#, r#"{"id":"a","relatedSpaces":[]}"#, "{}"] {
            assert!(serde_json::from_str::<Space>(json).is_err(), "{json}");
        }
    }
}
