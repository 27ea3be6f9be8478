//! The origin of a memory, as runtimes and agents record it.

use maud::{Markup, html};
use memory_core::filter::Field;
use memory_core::{Memory, MemoryId, SpaceId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::entry::line;
use super::links::link;
use super::paths::MEMORIES;
use super::text::preview;
use super::visitor::Visitor;
use crate::serve::records::readable_memory;

/// The longest name of a run that becomes a link, in bytes: as long as an id may be.
const MAX_RUN: usize = SpaceId::MAX_BYTES;

/// The origin of a memory by its trigger and metadata. The writer of the memory has stated it, and nothing has verified it.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The plugin that fired the trigger.
    plugin: Option<String>,
    /// The platform of the trigger, such as `discord`.
    source: Option<String>,
    author: Option<String>,
    /// The memory that it replies to.
    in_reply_to: Option<MemoryId>,
    /// The action whose result it is.
    action: Option<String>,
    /// The reason why the agent answered it.
    why: Option<String>,
    /// The run that it belongs to, by which the other memories of the run are found.
    run: Option<String>,
}

/// The relevant members of a trigger, its action and metadata, of any type.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Told<'t> {
    #[serde(borrow)]
    plugin_id: Option<&'t RawValue>,
    #[serde(borrow)]
    source: Option<&'t RawValue>,
    #[serde(borrow)]
    author: Option<&'t RawValue>,
    #[serde(borrow)]
    in_reply_to: Option<&'t RawValue>,
    #[serde(borrow)]
    action_result: Option<&'t RawValue>,
    #[serde(borrow)]
    action: Option<&'t RawValue>,
    #[serde(borrow)]
    run: Option<&'t RawValue>,
    #[serde(borrow)]
    why: Option<&'t RawValue>,
}

impl Origin {
    pub(super) fn of(memory: &Memory) -> Self {
        let (trigger, labels) = (told(memory.trigger.as_str()), told(memory.metadata.as_str()));
        let result = trigger.action_result.map(|result| told(result.get())).unwrap_or_default();
        Self {
            plugin: text(trigger.plugin_id),
            source: text(trigger.source).filter(|source| !source.is_empty()),
            author: text(trigger.author).or_else(|| text(labels.author)),
            in_reply_to: text(trigger.in_reply_to).and_then(|id| MemoryId::parse(&id).ok()),
            action: text(result.action),
            why: text(labels.why),
            run: text(labels.run),
        }
    }

    /// Renders the origin, with links to what the visitor may read.
    pub(super) async fn section(&self, visitor: &Visitor, memory: &Memory) -> Markup {
        let named = [
            ("Plugin", &self.plugin),
            ("Platform", &self.source),
            ("Author", &self.author),
            ("Result of the action", &self.action),
            ("Answered because", &self.why),
        ];
        let named: Vec<_> = named.iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
        if named.is_empty() && self.in_reply_to.is_none() && self.run.is_none() {
            return html! {};
        }
        let answered = match self.in_reply_to {
            Some(id) => Some(answered(visitor, id).await),
            None => None,
        };
        html! {
            h2 { "Where it came from" }
            dl {
                @for (name, value) in named { dt { (name) } dd { (preview(value)) } }
                @if let Some(answered) = answered { dt { "Answers" } dd { (answered) } }
                @if let Some(run) = &self.run {
                    dt { "Run" }
                    dd {
                        (preview(run))
                        @if run.len() <= MAX_RUN { " " a href=(of_run(memory, run)) { "Memories of this run in this space" } }
                    }
                }
            }
        }
    }
}

/// Renders a link to a memory that another one names.
async fn answered(visitor: &Visitor, id: MemoryId) -> Markup {
    match readable_memory(&visitor.server, &visitor.access, id).await {
        Ok(memory) => line(&memory),
        Err(_) => html! { code { (id) } },
    }
}

/// The address of the timeline of a run. An agent keeps the messages of a run in one space.
fn of_run(memory: &Memory, run: &str) -> String {
    let of_run = Field::metadata(["run"]).eq(run).to_string();
    link(MEMORIES, &[("space", memory.space_id.as_str()), ("filter", &of_run), ("order", "oldest")])
}

fn told(json: &str) -> Told<'_> {
    // Serde would accept an array of the members in their order.
    let object = Some(json).filter(|json| json.trim_start().starts_with('{'));
    object.and_then(|object| serde_json::from_str(object).ok()).unwrap_or_default()
}

fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}
