//! `RELATIONSHIPS`: the relationships of the author.

use async_trait::async_trait;
use memory_core::Result;

use super::entities::{known, names};
use crate::providers::format::{json, one_line, section};
use crate::records::{Entity, Relationship};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the author's relationships with the most interactions.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Relationships;

static INFO: ProviderInfo = ProviderInfo::new("RELATIONSHIPS", "The relationships of whoever wrote the message")
    .dynamic()
    .stability(Stability::Stable);

/// The most relationships.
const COUNT: usize = 30;

#[async_trait]
impl ContextProvider for Relationships {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (records, audience) = (cx.services().records(), cx.audience());
        let mut relationships = records.relationships().of(&audience).await?;
        relationships.retain(|relationship| relationship.interactions > 0);
        relationships.truncate(COUNT);
        if relationships.is_empty() {
            return Ok(ProviderResult::default());
        }
        let other = |relationship: &Relationship| match relationship.source == audience.entity {
            true => relationship.target.clone(),
            false => relationship.source.clone(),
        };
        let others: Vec<_> = relationships.iter().map(other).collect();
        let entities = records.entities().named(&audience, others).await?;
        let lines = relationships.iter().map(|relationship| {
            let id = other(relationship);
            describe(relationship, &entities.get(&id).map_or_else(|| one_line(id.as_str()), names), entities.get(&id))
        });
        let text = section("Relationships of the Sender", &lines.collect::<Vec<_>>().join("\n"));
        Ok(ProviderResult::text(text.clone())
            .with_value("relationships", text)
            .with_data("relationships", json(&relationships)?))
    }
}

fn describe(relationship: &Relationship, name: &str, entity: Option<&Entity>) -> String {
    let tags: Vec<_> = relationship.tags.iter().map(|tag| one_line(tag)).collect();
    let tags = if tags.is_empty() { String::new() } else { format!(" [{}]", tags.join(", ")) };
    let known = entity.map(known).unwrap_or_default();
    format!("- {name}{tags}, interactions: {}{known}", relationship.interactions)
}
