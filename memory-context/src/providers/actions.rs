//! `ACTIONS`: what the agent can do.

use async_trait::async_trait;
use futures::future::join_all;
use memory_core::Result;

use super::format::{conversations, json, paragraphs, section};
use crate::state::{Action, ActionInfo, ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// The actions that can be done in this turn. One whose check fails is left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Actions;

static INFO: ProviderInfo = ProviderInfo::new("ACTIONS", "The actions that the agent can do in answer to the message")
    .position(-1)
    .priority(80)
    .stability(Stability::Stable);

/// The most examples.
const EXAMPLES: usize = 10;

#[async_trait]
impl ContextProvider for Actions {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let actions = cx.services().actions();
        let valid = join_all(actions.iter().map(|action| is_valid(action.as_ref(), cx))).await;
        let offered = actions.iter().zip(valid).filter(|(_, is_valid)| *is_valid);
        let infos: Vec<_> = offered.map(|(action, _)| action.info()).collect();
        if infos.is_empty() {
            return Ok(ProviderResult::default());
        }
        let quoted: Vec<_> = infos.iter().map(|info| format!("'{}'", info.name)).collect();
        let names = format!("Possible response actions: {}", quoted.join(", "));
        let described: Vec<_> = infos.iter().map(|info| format!("- **{}**: {}", info.name, info.description)).collect();
        let described = section("Available Actions", &described.join("\n"));
        let told = section("Available Actions", &with_parameters(&infos));
        let examples = conversations(infos.iter().flat_map(|info| &info.examples).take(EXAMPLES));
        let examples = section("Action Examples", &examples);
        Ok(ProviderResult::text(paragraphs([told.as_str(), &names, &examples]))
            .with_value("actionNames", names)
            .with_value("actionsWithDescriptions", described)
            .with_value("actionsWithParams", told)
            .with_value("actionExamples", examples)
            .with_data("actionsData", json(&infos)?))
    }
}

async fn is_valid(action: &dyn Action, cx: &Cx<'_>) -> bool {
    action.validate(cx).await.unwrap_or_else(|error| {
        tracing::warn!(action = %action.info().name, %error, "an action can't be checked, and is not offered");
        false
    })
}

fn with_parameters(infos: &[&ActionInfo]) -> String {
    let described = infos.iter().map(|info| {
        let parameter = |(name, meaning): &(String, String)| format!("\n  - {name}: {meaning}");
        let parameters: String = info.parameters.iter().map(parameter).collect();
        format!("- **{}**: {}{parameters}", info.name, info.description)
    });
    described.collect::<Vec<_>>().join("\n")
}
