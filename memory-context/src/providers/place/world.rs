//! `WORLD`: the world of the conversation.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use futures::future::try_join3;
use memory_core::Result;
use serde_json::json;

use crate::providers::format::{one_line, section};
use crate::records::{ChannelType, Room};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the world of the room, with the rooms and participants that the author can see.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct World;

static INFO: ProviderInfo = ProviderInfo::new("WORLD", "The server or group that the conversation belongs to")
    .dynamic()
    .stability(Stability::Stable);

#[async_trait]
impl ContextProvider for World {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (records, audience) = (cx.services().records(), cx.audience());
        let (worlds, rooms, participants) = (records.worlds(), records.rooms(), records.participants());
        let (world, rooms, participants) =
            try_join3(worlds.get(&audience), rooms.of_world(&audience), participants.of_room(&audience)).await?;
        let Some(world) = world else { return Ok(ProviderResult::default()) };
        let name = one_line(world.name.as_deref().unwrap_or(world.id.as_str()));
        let current = rooms.iter().find(|room| room.id == audience.room);
        let channel = current.map_or_else(|| one_line(audience.room.as_str()), room_name);
        let mut channels: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for room in &rooms {
            channels.entry(kind(room.channel_type)).or_default().push(room_name(room));
        }
        let counts: Vec<_> = channels.iter().map(|(kind, rooms)| format!("- {kind}: {}", rooms.len())).collect();
        let people: BTreeSet<_> = participants.iter().map(|participant| &participant.entity).collect();
        let mut lines = vec![
            format!("World: {name}"),
            format!("Current channel: {channel}"),
            format!("Participants here: {}", people.len()),
            format!("Channels that the sender can see: {}", rooms.len()),
        ];
        lines.extend(counts);
        let text = section("World Information", &lines.join("\n"));
        let stats: BTreeMap<_, _> = channels.iter().map(|(kind, rooms)| (kind, rooms.len())).collect();
        let current = current.map(|room| json!({ "id": room.id, "name": room.name, "type": room.channel_type }));
        let data = json!({
            "id": world.id,
            "name": world.name,
            "metadata": world.metadata,
            "currentRoom": current,
            "channels": channels,
            "channelStats": stats,
        });
        Ok(ProviderResult::text(text.clone())
            .with_value("worldName", name)
            .with_value("currentChannelName", channel)
            .with_value("worldInfo", text)
            .with_data("world", data))
    }
}

fn room_name(room: &Room) -> String {
    one_line(room.name.as_deref().unwrap_or(room.id.as_str()))
}

fn kind(channel_type: ChannelType) -> &'static str {
    match channel_type {
        ChannelType::Group => "text",
        ChannelType::VoiceGroup | ChannelType::VoiceDm => "voice",
        ChannelType::Dm | ChannelType::Own | ChannelType::Api => "direct",
        ChannelType::Feed => "feed",
        ChannelType::Thread => "thread",
        ChannelType::Forum | ChannelType::World => "other",
    }
}
