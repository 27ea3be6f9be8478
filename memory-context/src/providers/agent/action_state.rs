//! `ACTION_STATE`: the actions of this turn and of earlier ones.

use async_trait::async_trait;
use memory_core::Result;

use crate::providers::format::{indented, json, one_line, paragraphs, runs, section};
use crate::state::{
    ActionPlan, ActionState, ContextProvider, Cx, ProviderInfo, ProviderResult, StepStatus, ToolResult,
};

/// Contributes the plan, the results and the notes of the turn, and the actions of earlier turns. The values of the results become values
/// of the state; later actions win.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct ActionHistory;

static INFO: ProviderInfo = ProviderInfo::new("ACTION_STATE", "The plan, the results and the notes of the actions")
    .position(150)
    .priority(85)
    .uncached();

/// How many messages are searched for actions of earlier turns.
const MESSAGES: usize = 20;
/// The most earlier runs that are shown.
const RUNS: usize = 3;
/// How many of the newest notes are shown.
const NOTES: usize = 10;

#[async_trait]
impl ContextProvider for ActionHistory {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let ActionState { results, plan, working_memory } = cx.actions();
        let mut before = cx.services().records().messages().until(cx.message(), MESSAGES).await?;
        before.retain(|message| message.content.action_result.is_some());
        before.reverse();
        let done = results.iter().filter(|result| result.success).count();
        let (step, steps) = plan.as_ref().map_or((0, 0), |plan| (current(plan), plan.steps.len()));
        let results_text = section("Results of Actions", &numbered(results.iter().map(describe)));
        let notes = working_memory.iter().skip(working_memory.len().saturating_sub(NOTES));
        let notes: Vec<_> = notes.map(|note| format!("- {}: {}", one_line(&note.key), indented(&note.text))).collect();
        let text = paragraphs([
            plan.as_ref().filter(|plan| plan.steps.len() > 1).map(describe_plan).unwrap_or_default().as_str(),
            &results_text,
            &section("Working Memory", &notes.join("\n")),
            &section("Actions Before", &runs(&before, RUNS)),
        ]);
        // The values of this provider come last, so that no action can replace them.
        let values = results.iter().flat_map(|result| result.values.clone()).collect();
        let result = ProviderResult { values, ..ProviderResult::text(text) }
            .with_value("hasActionResults", !results.is_empty())
            .with_value("hasActionPlan", plan.is_some())
            .with_value("currentActionStep", step)
            .with_value("totalActionSteps", steps)
            .with_value("actionResults", results_text)
            .with_value("completedActions", done)
            .with_value("failedActions", results.len() - done)
            .with_data("actionResults", json(results)?)
            .with_data("workingMemory", json(working_memory)?)
            .with_data("recentActionMemories", json(&before)?);
        Ok(result.with_data("actionPlan", json(plan)?))
    }
}

/// The number of the next step, from 1; that of the last step if all are over.
fn current(plan: &ActionPlan) -> usize {
    (plan.steps_over() + 1).min(plan.steps.len())
}

fn describe_plan(plan: &ActionPlan) -> String {
    let steps = plan.steps.iter().map(|step| {
        let status = match step.status {
            StepStatus::Pending => "pending",
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
        };
        format!("{} ({status})", one_line(&step.action))
    });
    let heading = format!("Plan of Actions, step {} of {}", current(plan), plan.steps.len());
    let thought = if plan.thought.is_empty() { String::new() } else { format!("{}\n", indented(&plan.thought)) };
    section(&heading, &format!("{thought}{}", numbered(steps)))
}

fn describe(result: &ToolResult) -> String {
    let status = if result.success { "completed" } else { "failed" };
    let said = if result.is_said { ", said to the user" } else { "" };
    let told = result.told();
    let told = if told.is_empty() { String::new() } else { format!(": {}", indented(&told)) };
    format!("{} ({status}{said}){told}", one_line(&result.tool))
}

fn numbered(lines: impl Iterator<Item = String>) -> String {
    lines.zip(1..).map(|(line, number)| format!("{number}. {line}")).collect::<Vec<_>>().join("\n")
}
