//! One memory with its versions.

use maud::{Markup, html};
use memory_core::{History, Memory, MemoryId};

use super::entry::space_link;
use super::page::{Page, Section};
use super::text::{Shown, time};
use super::versions::{VersionFields, Versions};
use super::visitor::Visitor;
use super::write::{self, PutBack};
use super::{json, links};
use crate::serve::extract::{InPath, Parameters};
use crate::serve::problem::Problem;
use crate::serve::rest::readable;

pub(super) async fn show(
    visitor: Visitor,
    InPath(id): InPath<MemoryId>,
    Parameters((fields,)): Parameters<(VersionFields,)>,
) -> Result<Page, Problem> {
    let memory = readable(&visitor.server, &visitor.access, id).await?;
    let versions = Versions::read(&visitor, &fields, || History::of(id)).await;
    let put_back = PutBack::of_memory(&visitor, &memory);
    let main = html! {
        h1 { "Memory" }
        (facts(&memory))
        (write::of_memory(&visitor, &memory))
        h2 { "Trigger" }
        (json::indented(memory.trigger.as_str()).block())
        @if let Some(context) = &memory.context {
            h2 { "Context" }
            (json::indented(context.as_str()).block())
        }
        h2 { "Metadata" }
        (json::indented(memory.metadata.as_str()).block())
        (Versions::section(&versions, &fields, put_back.as_ref(), |cursor| links::link(&links::memory(id), &[("cursor", cursor)])))
    };
    Ok(visitor.page(Section::Memories, main).with_outcome(&versions))
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
