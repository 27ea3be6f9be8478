//! Shows one memory with its versions.

use maud::{Markup, html};
use memory_core::{Context, History, Memory, MemoryId};

use super::chain::{Chain, ChainFields};
use super::entry::space_link;
use super::origin::Origin;
use super::page::{Page, Section, alert};
use super::text::{Shown, time};
use super::versions::{VersionFields, Versions};
use super::visitor::Visitor;
use super::write::actions::{self, PutBack};
use super::{json, links};
use crate::serve::extract::{InPath, Parameters};
use crate::serve::problem::Problem;
use crate::serve::records::readable_memory;

pub(super) async fn show(
    visitor: Visitor,
    InPath(id): InPath<MemoryId>,
    Parameters((fields, at)): Parameters<(VersionFields, ChainFields)>,
) -> Result<Page, Problem> {
    let memory = readable_memory(&visitor.server, &visitor.access, id).await?;
    let versions = Versions::read(&visitor, &fields, || History::of(id)).await;
    let chain = memory.context.as_ref().map(|context| Chain::read(context, &at)).transpose();
    let chain = chain.map(Option::flatten).map_err(Problem::from);
    let origin = Origin::of(&memory).section(&visitor, &memory).await;
    let put_back = PutBack::of_memory(&visitor, &memory);
    let main = html! {
        h1 { "Memory" }
        (facts(&memory))
        (actions::of_memory(&visitor, &memory))
        (origin)
        h2 { "Trigger" }
        (json::indented(memory.trigger.as_str()).block())
        @if let Some(context) = &memory.context { (of_context(id, context, &chain)) }
        h2 { "Metadata" }
        (json::indented(memory.metadata.as_str()).block())
        (Versions::section(&versions, &fields, put_back.as_ref(), |cursor| links::link(&links::memory(id), &[("cursor", cursor)])))
    };
    Ok(visitor.page(Section::Memories, main).with_outcome(&versions).with_outcome(&chain))
}

/// Renders the context: as a list if it is a chain, and as JSON.
fn of_context(id: MemoryId, context: &Context, chain: &Result<Option<Chain>, Problem>) -> Markup {
    let json = || json::indented(context.as_str()).block();
    let to = |past: &str| links::link(&links::memory(id), &[("past", past)]) + "#context";
    html! {
        h2 id="context" { "Context" }
        @match chain {
            Ok(Some(chain)) => {
                (chain.list(to))
                details { summary { "As JSON" } (json()) }
            }
            Ok(None) => (json()),
            Err(problem) => { (alert(&problem.detail)) (json()) }
        }
    }
}

fn facts(memory: &Memory) -> Markup {
    html! {
        dl {
            dt { "Id" } dd { code { (memory.id) } }
            dt { "Space" } dd { (space_link(memory.space_id.as_str())) }
            dt { "Status" } dd { (memory.status.as_str()) }
            dt { "Created" } dd { (time(memory.created_at)) }
            @if let Some(updated) = memory.updated_at { dt { "Updated" } dd { (time(updated)) } }
            @if let Some(expires) = memory.expires_at { dt { "Expires" } dd { (time(expires)) } }
            dt { "Revision" } dd { (memory.revision) }
            @if let Some(key) = &memory.idempotency_key {
                dt { "Idempotency key" } dd { bdi { (Shown::of(key.as_str()).text) } }
            }
        }
    }
}
