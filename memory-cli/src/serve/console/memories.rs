//! Shows the ledger as a timeline.

use maud::{Markup, html};
use memory_core::engine::Permit;
use memory_core::{Cursor, Filter, Ledger, Memory, MemoryPage, MemoryQuery, QueryBuilder, Status, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;

use super::entry::{Entry as _, space_link, turn, unreadable};
use super::fields::{ORDERS, ScopeFields, choice, filled, input, moment, paged, status_choice, time_input};
use super::links::link;
use super::page::{Page, Section, alert};
use super::paths::MEMORIES;
use super::table::{Head, table};
use super::text::time;
use super::visitor::Visitor;
use super::write::actions;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;

/// The parameters that select memories and their order.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct TimelineFields {
    /// The status of the memories.
    status: String,
    /// A condition on the memories.
    filter: String,
    /// Words of which a memory holds at least one.
    text: String,
    /// Created at this time or later.
    since: String,
    /// Created before this time, exclusively.
    until: String,
    /// `oldest` for the oldest first.
    order: String,
    /// The cursor of the page.
    cursor: String,
}

pub(super) async fn show(
    visitor: Visitor,
    Parameters((scope, fields)): Parameters<(ScopeFields, TimelineFields)>,
) -> Page {
    let found = find(&visitor, &scope, &fields).await;
    let main = html! {
        h1 { "Memories" }
        (form(&scope, &fields))
        @match &found {
            Ok(page) => {
                (list(&page.memories))
                (unreadable(&page.unreadable, &visitor.access))
                (actions::of_memories(&visitor, &fields.parameters(&scope)))
                (turn(&fields.cursor, page.next.as_ref().map(Cursor::as_str), |cursor| at(&scope, &fields, cursor)))
            }
            Err(problem) => (alert(&problem.detail)),
        }
    };
    visitor.page(Section::Memories, main).with_outcome(&found)
}

async fn find(visitor: &Visitor, scope: &ScopeFields, fields: &TimelineFields) -> Result<MemoryPage, Problem> {
    let (query, _patterns) = fields.select(visitor, scope).await?;
    let query = paged(query, &fields.order, fields.condition()?, &fields.cursor);
    Ok(visitor.server.provider.query(&visitor.access.confine(query).build()?).await?)
}

impl TimelineFields {
    /// The query without the condition and the order.
    pub(super) async fn select(
        &self,
        visitor: &Visitor,
        scope: &ScopeFields,
    ) -> Result<(QueryBuilder<Ledger>, Option<Permit>), Problem> {
        let (mut query, patterns) = scope.apply(MemoryQuery::builder(), &visitor.server.limits).await?;
        if let Some(status) = filled(&self.status) {
            query = query.status(Status::parse(status)?);
        }
        if let Some(text) = filled(&self.text) {
            query = query.text(text);
        }
        if let Some(since) = moment("from", &self.since)? {
            // The limit of the query is exclusive.
            query = query.created_after(Timestamp::from_millis(since.as_millis() - 1).unwrap_or(since));
        }
        if let Some(until) = moment("before", &self.until)? {
            query = query.created_before(until);
        }
        Ok((query, patterns))
    }

    /// The condition on the memories, parsed.
    pub(super) fn condition(&self) -> memory_core::Result<Option<Filter>> {
        filled(&self.filter).map(Filter::parse).transpose()
    }

    /// The parameters of links to the same selection.
    pub(super) fn parameters<'a>(&'a self, scope: &'a ScopeFields) -> Vec<(&'static str, &'a str)> {
        let Self { status, filter, text, since, until, .. } = self;
        let own = [("status", status), ("filter", filter), ("text", text), ("since", since), ("until", until)];
        let own = own.map(|(name, value)| (name, filled(value).unwrap_or_default()));
        scope.parameters().into_iter().chain(own).collect()
    }
}

fn form(scope: &ScopeFields, fields: &TimelineFields) -> Markup {
    html! {
        form method="get" action=(MEMORIES) class="fields" role="search" aria-label="Memories" {
            (scope.inputs())
            (input("text", "One of these words", &fields.text))
            (input("filter", "Condition, as in metadata.topic = 'rust'", &fields.filter))
            (status_choice(&fields.status))
            (time_input("since", "From (UTC)", &fields.since))
            (time_input("until", "Before (UTC)", &fields.until))
            (choice("order", "Order", &ORDERS, &fields.order))
            p { button type="submit" { "Show" } }
        }
    }
}

fn list(memories: &[Memory]) -> Markup {
    if memories.is_empty() {
        return html! { p { "No memories on this page." } };
    }
    let rows = html! {
        @for memory in memories {
            tr {
                td { (time(memory.created_at())) }
                td { (space_link(memory.space())) }
                td class="word" { (memory.status.as_str()) }
                td { a href=(memory.href()) { (memory.preview()) } }
            }
        }
    };
    table("Memories", &["Created", "Space", "Status", "Trigger"].map(Head::Text), &rows)
}

/// The address of the page at a cursor.
fn at(scope: &ScopeFields, fields: &TimelineFields, cursor: &str) -> String {
    let mut parameters = fields.parameters(scope);
    parameters.extend([("order", fields.order.as_str()), ("cursor", cursor)]);
    link(MEMORIES, &parameters)
}
