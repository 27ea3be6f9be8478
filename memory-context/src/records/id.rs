//! The ids of agents, entities, rooms and worlds.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The longest id, in bytes. Two ids of this length, encoded, fit into a space id.
pub const MAX_ID_BYTES: usize = 80;

macro_rules! record_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// 1 to 80 bytes of UTF-8 without control characters, compared byte for byte, such as a UUID or a platform's own id.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses an id. Fails with `InvalidInput` if it is empty or holds control characters, and with `TooLarge` over 80 bytes.
            pub fn parse(text: impl AsRef<str>) -> Result<Self> {
                check($what, text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }
    };
}

record_id! {
    /// The id of an agent, to which records belong.
    AgentId, "the id of an agent"
}

record_id! {
    /// The id of an entity, a participant of conversations: a person, another program, or the agent itself.
    EntityId, "the id of an entity"
}

record_id! {
    /// The id of a room: a channel, a chat, a thread.
    RoomId, "the id of a room"
}

record_id! {
    /// The id of a world, to which rooms belong: a server, a group, a namespace.
    WorldId, "the id of a world"
}

impl AgentId {
    /// The entity as which the agent takes part in conversations.
    pub fn entity(&self) -> EntityId {
        EntityId(Arc::clone(&self.0))
    }
}

fn check(what: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} must not be empty")));
    }
    if text.len() > MAX_ID_BYTES {
        let size = text.len();
        return Err(Error::too_large(format!("{what} of {size} bytes; at most {MAX_ID_BYTES} are allowed")));
    }
    if text.contains(char::is_control) {
        return Err(Error::invalid(format!("{what} must not hold control characters")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use memory_core::ErrorKind;

    use super::*;

    #[test]
    fn ids_are_checked_at_their_limits() {
        assert!(RoomId::parse("x".repeat(MAX_ID_BYTES)).is_ok());
        for (text, kind) in [
            (String::new(), ErrorKind::InvalidInput),
            ("a\nb".into(), ErrorKind::InvalidInput),
            ("x".repeat(MAX_ID_BYTES + 1), ErrorKind::TooLarge),
        ] {
            assert_eq!(RoomId::parse(&text).expect_err("not valid").kind(), kind, "{text:?}");
            let json = serde_json::to_string(&text).expect("JSON");
            assert!(serde_json::from_str::<EntityId>(&json).is_err(), "{json}");
        }
        assert_eq!(serde_json::to_string(&WorldId::parse("w:1").expect("valid")).expect("JSON"), r#""w:1""#);
    }
}
