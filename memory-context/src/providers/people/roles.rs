//! `ROLES`: the roles in the world.

use std::collections::BTreeMap;

use async_trait::async_trait;
use memory_core::Result;

use super::entities::names;
use crate::providers::format::{one_line, section};
use crate::records::{ChannelType, EntityId, WorldRole};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the roles in the world of the room, in groups by text or voice only.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Roles;

static INFO: ProviderInfo =
    ProviderInfo::new("ROLES", "The roles of the people in the server").priority(30).stability(Stability::Stable);

#[async_trait]
impl ContextProvider for Roles {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (records, audience) = (cx.services().records(), cx.audience());
        if !matches!(cx.message().content.channel_type, ChannelType::Group | ChannelType::VoiceGroup) {
            return Ok(ProviderResult::default());
        }
        let Some(world) = records.worlds().get(&audience).await? else { return Ok(ProviderResult::default()) };
        let mut roles = world.roles;
        roles.extend(world.owner.map(|owner| (owner, WorldRole::Owner)));
        let ids: Vec<_> = roles.keys().cloned().collect();
        let entities = records.entities().named(&audience, ids).await?;
        let mut by_role: BTreeMap<WorldRole, Vec<String>> = BTreeMap::new();
        for (id, role) in &roles {
            let name = |id: &EntityId| entities.get(id).map_or_else(|| one_line(id.as_str()), names);
            by_role.entry(*role).or_default().push(name(id));
        }
        let parts = by_role.iter().map(|(role, names)| format!("## {}\n{}", heading(*role), names.join("\n")));
        let text = section("Server Roles", &parts.collect::<Vec<_>>().join("\n"));
        let data: Vec<_> = roles.iter().map(|(id, role)| serde_json::json!({ "entity": id, "role": role })).collect();
        Ok(ProviderResult::text(text.clone()).with_value("roles", text).with_data("roles", data))
    }
}

fn heading(role: WorldRole) -> &'static str {
    match role {
        WorldRole::Owner => "Owners",
        WorldRole::Admin => "Administrators",
        WorldRole::Member => "Members",
    }
}
