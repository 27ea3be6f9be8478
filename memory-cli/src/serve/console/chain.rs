//! Shows the context of a memory as a chain of steps.

use std::fmt;

use maud::{Markup, html};
use memory_core::{Context, Timestamp};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;
use utoipa::IntoParams;

use super::entry::pages_of;
use super::fields::whole;
use super::json;
use super::text::{Shown, preview, time};

/// The number of items on a page.
const PAGE: usize = 20;
/// The most bytes of an item's content.
const MAX_CONTENT: usize = 2_000;
/// The most items that a context can have, since each takes at least a byte.
const MAX_PAST: usize = Context::MAX_BYTES;

/// The parameters that select the items of a chain.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ChainFields {
    /// How many items to skip at the beginning.
    past: String,
}

/// A page of a chain.
#[derive(Debug)]
pub(super) struct Chain {
    items: Vec<Item>,
    past: usize,
    count: usize,
}

/// A step that a runtime or an agent has recorded. The JSON below the list shows it completely.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    kind: Option<String>,
    /// The plugin that made the item.
    plugin_id: Option<String>,
    action: Option<String>,
    /// The step of an agent's run.
    step: Option<String>,
    timestamp: Option<Timestamp>,
    #[serde(alias = "state")]
    content: Option<Box<RawValue>>,
}

/// The context of a message that an agent works on.
#[derive(Deserialize)]
struct Journal<'c> {
    #[serde(borrow)]
    journal: &'c RawValue,
}

/// Keeps the items of a page and only counts the others, since a hostile context may have millions.
struct Window {
    past: usize,
}

impl ChainFields {
    fn past(&self) -> memory_core::Result<usize> {
        whole("past", &self.past, 0, MAX_PAST)
    }
}

impl Chain {
    /// Parses the items of a context, if it is a chain.
    pub(super) fn read(context: &Context, fields: &ChainFields) -> memory_core::Result<Option<Self>> {
        Ok(Self::parse(context.as_str(), fields.past()?))
    }

    /// Renders the items in their order. `to` makes the address of the page that skips a number of items.
    pub(super) fn list(&self, to: impl Fn(&str) -> String) -> Markup {
        let shown = self.past + self.items.len();
        let first = (self.past > 0).then(|| to(""));
        let next = (shown < self.count).then(|| to(&shown.to_string()));
        html! {
            ol class="chain" start=(self.past + 1) { @for item in &self.items { li { (item.show()) } } }
            (pages_of("Pages of the context", first.as_deref(), next.as_deref()))
        }
    }

    fn parse(json: &str, past: usize) -> Option<Self> {
        let list = match serde_json::from_str::<Journal<'_>>(json) {
            Ok(Journal { journal }) if json.trim_start().starts_with('{') => journal.get(),
            _ => json,
        };
        let (items, count) = serde_json::Deserializer::from_str(list).deserialize_seq(Window { past }).ok()?;
        let items: Vec<Item> =
            items.into_iter().map(|item| serde_json::from_str(item.get()).ok()).collect::<Option<_>>()?;
        let is_chain = !items.is_empty() && items.iter().all(Item::is_named);
        is_chain.then_some(Self { items, past, count })
    }
}

impl Item {
    /// Whether the item names its plugin or step. Other lists of objects are not chains.
    fn is_named(&self) -> bool {
        self.plugin_id.is_some() || self.step.is_some()
    }

    fn show(&self) -> Markup {
        let name = self.action.as_deref().or(self.step.as_deref());
        html! {
            p {
                @if let Some(kind) = &self.kind { strong { (preview(kind)) } " " }
                @if let Some(name) = name { (preview(name)) " " }
                @if let Some(plugin) = &self.plugin_id { "by " (preview(plugin)) " " }
                @if let Some(at) = self.timestamp { (time(at)) }
            }
            @if let Some(content) = &self.content { (say(content)) }
        }
    }
}

/// Shows a text as it is, and anything else as JSON.
fn say(content: &RawValue) -> Markup {
    let Shown { text, is_cut } = match serde_json::from_str::<String>(content.get()) {
        Ok(text) => Shown::first(&text, MAX_CONTENT),
        Err(_) => json::beginning(content.get(), MAX_CONTENT),
    };
    html! { pre dir="auto" { (text) @if is_cut { "…" } } }
}

impl<'de> Visitor<'de> for Window {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut items, mut count) = (Vec::new(), 0);
        loop {
            let is_there = if (self.past..self.past + PAGE).contains(&count) {
                list.next_element()?.map(|item| items.push(item)).is_some()
            } else {
                list.next_element::<IgnoredAny>()?.is_some()
            };
            if !is_there {
                return Ok((items, count));
            }
            count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_what_plugins_and_steps_did_are_chains() {
        let item = r#"{"id":"1","kind":"result","pluginId":"chat","action":"reply","content":"hi","timestamp":7}"#;
        for (json, found) in [
            (format!("[{item},{item}]"), Some(2)),
            (
                r#"[{"id":"1","pluginId":"chat","content":"[1]","timestamp":7,"helpfulInstruction":"x"}]"#.to_owned(),
                Some(1),
            ),
            (r#"{"attachments":[],"journal":[{"step":"answer","state":"begun"}]}"#.to_owned(), Some(1)),
            ("[]".to_owned(), None),
            (r#"{"journal":[]}"#.to_owned(), None),
            (r#"[{"action":"reply"}]"#.to_owned(), None),
            (format!("[{item},1]"), None),
            (r#"[{"pluginId":5}]"#.to_owned(), None),
            (r#"["journal"]"#.to_owned(), None),
            (r#"[[{"pluginId":"chat"}]]"#.to_owned(), None),
            (item.to_owned(), None),
            (r#""pluginId""#.to_owned(), None),
        ] {
            assert_eq!(Chain::parse(&json, 0).map(|chain| chain.items.len()), found, "{json}");
        }
    }

    #[test]
    fn a_page_of_a_long_chain_is_kept() {
        let json = format!("[{}{{\"pluginId\":\"last\"}}]", r#"{"pluginId":"chat"},"#.repeat(50));
        for (past, kept) in [(0, 20), (40, 11), (50, 1)] {
            let chain = Chain::parse(&json, past).expect("a chain");
            assert_eq!((chain.items.len(), chain.count), (kept, 51));
        }
        assert!(Chain::parse(&json, 51).is_none() && Chain::parse(&json, MAX_PAST).is_none());
    }
}
