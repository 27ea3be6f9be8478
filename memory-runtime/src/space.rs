//! The address of a task, its container, and its related spaces.

use memory_core::{Error, Memory, Result, SpaceId, SpaceSelector};
use serde::{Deserialize, Serialize};

/// The address of a task, the container within which tasks run in order, and the spaces from which related memories are recalled.
///
/// The address is unique to its event, so it does not say which events belong together. The container does: it is, for example, the
/// channel of a message.
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
    /// Makes a space without related spaces. Its container is its closest ancestor, or itself if it has none.
    pub fn new(id: SpaceId) -> Self {
        let parent = id.ancestors().filter(|ancestor| !ancestor.is_empty()).last();
        let container = parent.and_then(|parent| SpaceId::parse(parent).ok()).unwrap_or_else(|| id.clone());
        Self { id, container, related: Vec::new() }
    }

    /// Makes a space in a container; everything under the container is related to it. Fails with `InvalidInput` if the space is not under
    /// the container.
    pub fn within(container: SpaceId, id: SpaceId) -> Result<Self> {
        let under = SpaceSelector::under(&container)?;
        if !under.matches(id.as_str()) {
            return Err(Error::invalid(format!("the space {id} does not lie under its container {container}")));
        }
        Ok(Self { id, container, related: vec![under] })
    }

    /// Replaces the related spaces. If there are none, nothing is recalled.
    #[must_use]
    pub fn with_related(mut self, related: impl IntoIterator<Item = SpaceSelector>) -> Self {
        self.related = related.into_iter().collect();
        self
    }

    /// The address.
    pub fn id(&self) -> &SpaceId {
        &self.id
    }

    /// The container; its tasks run one after the other.
    pub fn container(&self) -> &SpaceId {
        &self.container
    }

    /// The spaces from which related memories are recalled.
    pub fn related(&self) -> &[SpaceSelector] {
        &self.related
    }

    /// Whether a memory lies in a related space.
    pub(crate) fn is_related(&self, memory: &Memory) -> bool {
        self.related.iter().any(|selector| selector.matches(memory.space_id.as_str()))
    }
}

/// The JSON form of a space. If the container or the related spaces are left out, the defaults are those of [`Space::new`] and
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
