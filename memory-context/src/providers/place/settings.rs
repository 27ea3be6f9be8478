//! `SETTINGS`: the settings of the world.

use async_trait::async_trait;
use memory_core::Result;

use crate::providers::format::{indented, json, one_line, paragraphs, section};
use crate::records::{ChannelType, Setting, SettingValue, World};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the settings of the room's world. In a direct conversation by text or voice it contributes those of the worlds that the
/// author owns, so that they can be set up there. It never shows the values of secrets.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Settings;

static INFO: ProviderInfo =
    ProviderInfo::new("SETTINGS", "How the server is set up").priority(30).stability(Stability::Stable);

#[async_trait]
impl ContextProvider for Settings {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (records, audience) = (cx.services().records(), cx.audience());
        let worlds = match cx.message().content.channel_type {
            ChannelType::Dm | ChannelType::VoiceDm => records.worlds().owned(&audience).await?,
            _ => records.worlds().get(&audience).await?.into_iter().collect(),
        };
        let mut settings = Vec::new();
        for world in &worlds {
            settings.push((world, records.settings().of(&audience, &world.id).await?));
        }
        settings.retain(|(_, settings)| !settings.is_empty());
        if settings.is_empty() {
            return Ok(ProviderResult::default());
        }
        let sections: Vec<_> = settings.iter().map(|(world, settings)| describe(world, settings)).collect();
        let text = paragraphs(sections.iter().map(String::as_str));
        let data: serde_json::Map<_, _> = settings
            .iter()
            .map(|(world, settings)| Ok((world.id.to_string(), json(settings)?)))
            .collect::<Result<_>>()?;
        Ok(ProviderResult::text(text.clone()).with_value("settings", text).with_data("settings", data))
    }
}

fn describe(world: &World, settings: &[Setting]) -> String {
    let name = world.name.as_deref().unwrap_or(world.id.as_str());
    let lines: Vec<_> = settings.iter().map(line).collect();
    section(&format!("Settings of {}", one_line(name)), &lines.join("\n"))
}

fn line(setting: &Setting) -> String {
    let definition = &setting.definition;
    let value = match &setting.value {
        SettingValue::Unset if definition.is_required => "not set, required".to_owned(),
        SettingValue::Unset => "not set".to_owned(),
        SettingValue::Secret => "set, secret".to_owned(),
        SettingValue::Plain(value) => indented(value),
    };
    let description = one_line(&definition.description);
    let description = if description.is_empty() { String::new() } else { format!(" ({description})") };
    format!("- {}{description}: {value}", one_line(&definition.name))
}
