//! `CHOICE`: the open choices of the room.

use async_trait::async_trait;
use memory_core::Result;

use crate::providers::format::{indented, json, one_line, section};
use crate::records;
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};

/// Contributes the open tasks of the room that wait for a choice, with their options.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Choice;

static INFO: ProviderInfo =
    ProviderInfo::new("CHOICE", "The choices that wait for a decision of the user").priority(70);

#[async_trait]
impl ContextProvider for Choice {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let choices = cx.services().records().choices().open(&cx.audience()).await?;
        if choices.is_empty() {
            return Ok(ProviderResult::default());
        }
        let described: Vec<_> = choices.iter().zip(1..).map(|(choice, number)| describe(choice, number)).collect();
        let text = section("Pending Choices", &described.join("\n"));
        Ok(ProviderResult::text(text.clone()).with_value("tasks", text).with_data("tasks", json(&choices)?))
    }
}

fn describe(choice: &records::Choice, number: usize) -> String {
    let options = choice.options.iter().map(|option| {
        let means =
            if option.description.is_empty() { String::new() } else { format!(": {}", indented(&option.description)) };
        format!("\n  - {}{means}", one_line(&option.name))
    });
    format!("{number}. {}{}", indented(&choice.prompt), options.collect::<String>())
}
