//! The settings of worlds, and their secrets.

use std::collections::BTreeMap;
use std::fmt;

use memory_core::{DocumentId, Error, ErrorKind, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{agent_space, document_id};
use super::table::{Record, absent};
use super::{AgentId, Audience, Records, WorldId};

/// A value that can't be shown by accident: it has neither `Display` nor a JSON form, and `Debug` hides it.
///
/// ```compile_fail
/// serde_json::to_string(&memory_context::records::Secret::new("xyzzy"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The definition of a setting. Its JSON has camelCase names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingDefinition {
    /// The key, unique within its world.
    pub key: String,
    /// The name to show.
    pub name: String,
    /// The purpose of the setting; empty by default.
    #[serde(default)]
    pub description: String,
    /// Whether the world needs a value for its set-up.
    #[serde(default)]
    pub is_required: bool,
    /// Whether the value is secret, so that it is never shown.
    #[serde(default)]
    pub is_secret: bool,
}

/// A setting with its value, without the values of secrets. Its JSON has camelCase names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Setting {
    /// The definition.
    pub definition: SettingDefinition,
    /// The value.
    pub value: SettingValue,
}

/// The value of a setting.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SettingValue {
    /// No value is set.
    Unset,
    /// This value is set.
    Plain(String),
    /// A secret is set; only [`Settings::secret`] returns it.
    Secret,
}

impl fmt::Debug for SettingValue {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("Unset"),
            Self::Plain(value) => write!(f, "Plain({} bytes)", value.len()),
            Self::Secret => f.write_str("Secret"),
        }
    }
}

/// A setting as it is stored. The type is private, since it alone holds a secret and has a JSON form.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Stored {
    definition: SettingDefinition,
    value: Option<String>,
}

/// All settings of a world, in one document.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct WorldSettings {
    world: WorldId,
    /// The settings, in the order in which they were first defined.
    settings: Vec<Stored>,
}

impl Record for WorldSettings {
    const COLLECTION: &'static str = "_settings";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        document_id(agent, [self.world.as_str()])
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        agent_space(agent)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([("world", self.world.as_str())])
    }
}

impl From<Stored> for Setting {
    fn from(stored: Stored) -> Self {
        let value = match stored.value {
            None => SettingValue::Unset,
            Some(_) if stored.definition.is_secret => SettingValue::Secret,
            Some(value) => SettingValue::Plain(value),
        };
        Self { definition: stored.definition, value }
    }
}

/// The settings of an agent's worlds; see [`Records::settings`].
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    records: &'a Records,
}

impl Records {
    /// The settings of the agent's worlds.
    pub fn settings(&self) -> Settings<'_> {
        Settings { records: self }
    }
}

impl Settings<'_> {
    /// Defines a setting of a world, or replaces its definition. The value stays, except that a secret whose new definition is public is
    /// unset.
    pub async fn define(&self, world: &WorldId, definition: SettingDefinition) -> Result<()> {
        self.change(world, |settings| {
            let known = settings.iter_mut().find(|stored| stored.definition.key == definition.key);
            match known {
                Some(stored) => {
                    if stored.definition.is_secret && !definition.is_secret {
                        stored.value = None;
                    }
                    stored.definition = definition.clone();
                }
                None => settings.push(Stored { definition: definition.clone(), value: None }),
            }
            Ok(())
        })
        .await
    }

    /// Sets a value, or unsets it with `None`. Fails with `NotFound` if the setting is not defined.
    pub async fn set(&self, world: &WorldId, key: &str, value: Option<Secret>) -> Result<()> {
        self.change(world, |settings| {
            let stored = settings.iter_mut().find(|stored| stored.definition.key == key);
            stored.ok_or_else(|| absent("setting"))?.value = value.as_ref().map(|value| value.expose().to_owned());
            Ok(())
        })
        .await
    }

    /// Returns the settings of a world, in the order in which they were first defined. The world must be that of the audience's room, or
    /// one that the audience's entity owns; otherwise the call fails with `Unauthorized`.
    pub async fn of(&self, audience: &Audience, world: &WorldId) -> Result<Vec<Setting>> {
        Ok(self.read(audience, world).await?.into_iter().map(Setting::from).collect())
    }

    /// Returns the value of a secret, for the call that needs it; `None` if it is not set or not secret. Fails with `Unauthorized` as
    /// [`of`](Self::of) does.
    pub async fn secret(&self, audience: &Audience, world: &WorldId, key: &str) -> Result<Option<Secret>> {
        let mut settings = self.read(audience, world).await?.into_iter();
        let stored = settings.find(|stored| stored.definition.key == key && stored.definition.is_secret);
        Ok(stored.and_then(|stored| stored.value).map(Secret::new))
    }

    async fn read(&self, audience: &Audience, world: &WorldId) -> Result<Vec<Stored>> {
        if !self.records.worlds().is_visible(audience, world).await? {
            return Err(Error::new(ErrorKind::Unauthorized, "the settings of this world are not shown here"));
        }
        let document = document_id(self.records.agent(), [world.as_str()])?;
        let found: Option<WorldSettings> = self.records.table().get(&document).await?;
        Ok(found.map(|found| found.settings).unwrap_or_default())
    }

    async fn change(&self, world: &WorldId, change: impl Fn(&mut Vec<Stored>) -> Result<()>) -> Result<()> {
        let document = document_id(self.records.agent(), [world.as_str()])?;
        let change = |found: Option<WorldSettings>| {
            let mut found = found.unwrap_or_else(|| WorldSettings { world: world.clone(), settings: Vec::new() });
            change(&mut found.settings)?;
            Ok(found)
        };
        self.records.table().change(&document, self.records.now(), change).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_in_what_is_shown() {
        let definition = |is_secret| SettingDefinition {
            key: "token".into(),
            name: "Token".into(),
            description: String::new(),
            is_required: true,
            is_secret,
        };
        let stored = |is_secret| Stored { definition: definition(is_secret), value: Some("xyzzy".into()) };
        let secret = Setting::from(stored(true));
        let shown = [format!("{secret:?}"), serde_json::to_string(&secret).expect("JSON")];
        assert!(shown.iter().all(|text| !text.contains("xyzzy")), "{shown:?}");
        assert_eq!(format!("{:?}", Secret::new("xyzzy")), "Secret(..)");
        let plain = Setting::from(stored(false));
        assert!(serde_json::to_string(&plain).expect("JSON").contains("xyzzy"));
        assert!(!format!("{plain:?}").contains("xyzzy"));
    }
}
