//! `ENTITIES`: the participants of the room.

use async_trait::async_trait;
use memory_core::Result;

use crate::providers::format::{json, one_line, section};
use crate::records::Entity;
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the participants of the conversation, with their names and metadata.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Entities;

static INFO: ProviderInfo =
    ProviderInfo::new("ENTITIES", "The people in the conversation").dynamic().priority(60).stability(Stability::Stable);

#[async_trait]
impl ContextProvider for Entities {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let entities = cx.services().records().entities().in_room(&cx.audience()).await?;
        if entities.is_empty() {
            return Ok(ProviderResult::default());
        }
        let author = &cx.message().content.author;
        let sender = entities.iter().find(|entity| entity.id == *author).map(names);
        let described: Vec<_> = entities.iter().map(describe).collect();
        let text = section("People in the Room", &described.join("\n"));
        Ok(ProviderResult::text(text.clone())
            .with_value("entities", text)
            .with_data("entitiesData", json(&entities)?)
            .with_data("senderName", sender))
    }
}

/// Joins all names of an entity, the usual one first; the id if it has none.
pub(super) fn names(entity: &Entity) -> String {
    let names: Vec<_> = entity.names.iter().map(|name| format!("\"{}\"", one_line(name))).collect();
    if names.is_empty() { one_line(entity.id.as_str()) } else { names.join(" aka ") }
}

fn describe(entity: &Entity) -> String {
    format!("{} (id {}){}", names(entity), one_line(entity.id.as_str()), known(entity))
}

/// Formats the metadata on one line, since JSON does not escape all characters that some readers take for a line break.
pub(super) fn known(entity: &Entity) -> String {
    let metadata = one_line(entity.metadata.as_str());
    if metadata == "{}" { String::new() } else { format!("\n  {metadata}") }
}
