//! `EVALUATORS`: the evaluators that run after the turn.

use async_trait::async_trait;
use futures::future::join_all;
use memory_core::Result;

use crate::providers::format::{conversations, indented, json, paragraphs, section};
use crate::state::{ContextProvider, Cx, Evaluator, EvaluatorExample, ProviderInfo, ProviderResult, Stability};

/// Contributes the evaluators that want to run for this turn.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Evaluators;

static INFO: ProviderInfo = ProviderInfo::new("EVALUATORS", "The evaluators that run after the answer")
    .private()
    .priority(40)
    .stability(Stability::Stable);

/// The most examples.
const EXAMPLES: usize = 10;

#[async_trait]
impl ContextProvider for Evaluators {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let evaluators = cx.services().evaluators();
        let valid = join_all(evaluators.iter().map(|evaluator| is_valid(evaluator.as_ref(), cx))).await;
        let busy = evaluators.iter().zip(valid).filter(|(_, is_valid)| *is_valid);
        let infos: Vec<_> = busy.map(|(evaluator, _)| evaluator.info()).collect();
        if infos.is_empty() {
            return Ok(ProviderResult::default());
        }
        let names: Vec<_> = infos.iter().map(|info| format!("'{}'", info.name)).collect();
        let described: Vec<_> = infos.iter().map(|info| format!("- **{}**: {}", info.name, info.description)).collect();
        let described = section("Available Evaluators", &described.join("\n"));
        let examples: Vec<_> = infos.iter().flat_map(|info| &info.examples).take(EXAMPLES).map(example).collect();
        let examples = section("Evaluator Examples", &examples.join("\n\n"));
        Ok(ProviderResult::text(paragraphs([described.as_str(), &examples]))
            .with_value("evaluatorsData", json(&infos)?)
            .with_value("evaluators", described)
            .with_value("evaluatorNames", names.join(", "))
            .with_value("evaluatorExamples", examples))
    }
}

async fn is_valid(evaluator: &dyn Evaluator, cx: &Cx<'_>) -> bool {
    evaluator.validate(cx).await.unwrap_or_else(|error| {
        tracing::warn!(evaluator = %evaluator.info().name, %error, "an evaluator can't be checked, and is not listed");
        false
    })
}

fn example(example: &EvaluatorExample) -> String {
    let outcome = format!("Outcome: {}", indented(&example.outcome));
    paragraphs([indented(&example.prompt).as_str(), &conversations([&example.messages]), &outcome])
}
