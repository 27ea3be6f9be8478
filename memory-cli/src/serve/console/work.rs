//! Shows the open work of runtimes and agents, with its holders.

use std::time::Instant;

use maud::{Markup, html};
use memory_core::filter::Field;
use memory_core::{Clock as _, Cursor, Memory, MemoryPage, MemoryQuery, Order, Status, SystemClock, Timestamp};
use memory_runtime::{Claim, TASK};
use serde::Deserialize;
use utoipa::IntoParams;

use super::entry::{Entry as _, space_link, turn, unreadable};
use super::fields::{ScopeFields, filled};
use super::links::link;
use super::page::{Page, Section, alert};
use super::paths::WORK;
use super::table::{Head, table};
use super::text::{number, preview, time};
use super::visitor::Visitor;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;

/// The most pages that are read until one shows something. A page of memories that are pending without a claim shows nothing.
const LOOKED_AT: usize = 10;

/// The parameters that select a page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct WorkFields {
    /// The cursor of the page.
    cursor: String,
}

pub(super) async fn show(visitor: Visitor, Parameters((scope, fields)): Parameters<(ScopeFields, WorkFields)>) -> Page {
    let found = find(&visitor, &scope, &fields).await;
    let main = html! {
        h1 { "Open work" }
        p class="note" {
            "Tasks of runtimes and messages of agents that somebody has begun and not ended, oldest first. Who works on one holds a lease of "
            "it; when the lease has run out, another program goes on."
        }
        form method="get" action=(WORK) class="fields" role="search" aria-label="Open work" {
            (scope.inputs())
            p { button type="submit" { "Show" } }
        }
        @match &found {
            Ok(page) => {
                (list(page, SystemClock.now()))
                (unreadable(&page.unreadable, &visitor.access))
                (turn(&fields.cursor, page.next.as_ref().map(Cursor::as_str), |cursor| at(&scope, cursor)))
            }
            Err(problem) => (alert(&problem.detail)),
        }
    };
    visitor.page(Section::Work, main).with_outcome(&found)
}

async fn find(visitor: &Visitor, scope: &ScopeFields, fields: &WorkFields) -> Result<MemoryPage, Problem> {
    // A memory is pending by default, even if nobody is to work on it. Only a claim makes it open work.
    let is_claimed = Field::metadata([TASK, "holder"]).is_not_null();
    let (query, _patterns) = scope.apply(MemoryQuery::builder(), &visitor.server.limits).await?;
    let query = query.status(Status::Pending).status(Status::Running).filter(is_claimed);
    let query = filled(&fields.cursor).into_iter().fold(query, |query, cursor| query.cursor(cursor));
    let mut query = visitor.access.confine(query.order(Order::OldestFirst));
    let (begun, patience) = (Instant::now(), visitor.server.limits.time / 2);
    let mut looked_at = 1;
    loop {
        let page = visitor.server.provider.query(&query.clone().build()?).await?;
        let shows = !page.memories.is_empty() || !page.unreadable.is_empty() || looked_at == LOOKED_AT;
        match &page.next {
            Some(next) if !shows && begun.elapsed() < patience => query = query.cursor(next.as_str()),
            _ => return Ok(page),
        }
        looked_at += 1;
    }
}

fn list(page: &MemoryPage, now: Timestamp) -> Markup {
    let memories = &page.memories;
    html! {
        @if memories.is_empty() && page.next.is_some() {
            p { "No open work among the oldest memories that are pending or running. There are more of them behind these." }
        } @else if memories.is_empty() {
            p { "No open work on this page." }
        } @else {
            @let heads = ["Created", "Space", "Status", "Lease", "Begun", "Trigger"].map(Head::Text);
            (table("Open work", &heads, &html! { @for memory in memories { (row(memory, now)) } }))
        }
    }
}

fn row(memory: &Memory, now: Timestamp) -> Markup {
    // The claim is not verified: whoever may write the memory may have written it.
    let claim = Claim::read(memory).ok();
    html! {
        tr {
            td { (time(memory.created_at())) }
            td { (space_link(memory.space())) }
            td class="word" { (memory.status.as_str()) }
            @match &claim {
                Some(claim) => {
                    td { (lease(claim, now)) }
                    td { (counted_runs(claim.runs())) }
                }
                None => { td { "Can't be read" } td {} }
            }
            td { a href=(memory.href()) { (memory.preview()) } }
        }
    }
}

/// Renders who holds the work, or held it last.
fn lease(claim: &Claim, now: Timestamp) -> Markup {
    let by = preview(claim.instance());
    html! {
        @match claim.until() {
            Timestamp::MIN => { "Given back by " (by) }
            until if until <= now => { "Ran out " (time(until)) ", of " (by) }
            until => { "Until " (time(until)) ", of " (by) }
        }
    }
}

fn counted_runs(runs: u32) -> String {
    match runs {
        1 => "once".to_owned(),
        runs => format!("{} times", number(runs as usize)),
    }
}

/// The address of the page at a cursor.
fn at(scope: &ScopeFields, cursor: &str) -> String {
    let mut parameters = scope.parameters().to_vec();
    parameters.push(("cursor", cursor));
    link(WORK, &parameters)
}
