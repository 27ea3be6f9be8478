//! Answers a question, and shows why each hit matches.

use std::sync::Arc;

use maud::{Markup, html};
use memory_core::{
    Collection, DocumentQuery, Kind, MAX_NEIGHBOURS, MemoryQuery, QueryBuilder, Recall, RecallOptions, Recalled,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::entry::{Entry, line};
use super::fields::{ScopeFields, choice, filled, input, number_input, whole};
use super::page::{Page, Section, alert};
use super::paths::RECALL;
use super::scores::{bars, divisors, greatest, terms};
use super::text::{counted, number};
use super::visitor::Visitor;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;

/// The default number of hits.
const DEFAULT_HITS: usize = 10;
/// The most hits of a page.
const MAX_HITS: usize = 50;
/// How many of the records just after the hits are shown.
const BELOW: usize = 3;

/// The fields of the form.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct QuestionFields {
    /// The question in words.
    text: String,
    /// The collection to search; without it the ledger.
    collection: String,
    /// A condition on the hits.
    filter: String,
    /// The most hits.
    limit: String,
    /// The number of records to show on each side of a hit.
    neighbours: String,
    /// `words` to search by words alone, if the server has a model.
    by: String,
}

pub(super) async fn show(
    visitor: Visitor,
    Parameters((scope, fields)): Parameters<(ScopeFields, QuestionFields)>,
) -> Page {
    let answer = answer(&visitor, &scope, &fields).await;
    let main = html! {
        h1 { "Recall" }
        (form(&visitor, &scope, &fields))
        @match &answer {
            Ok(answer) => (answer),
            Err(problem) => (alert(&problem.detail)),
        }
    };
    visitor.page(Section::Recall, main).with_outcome(&answer)
}

async fn answer(visitor: &Visitor, scope: &ScopeFields, fields: &QuestionFields) -> Result<Markup, Problem> {
    let limit = whole("hits", &fields.limit, DEFAULT_HITS, MAX_HITS)?;
    if filled(&fields.text).is_none() {
        return Ok(html! {});
    }
    let Visitor { server, access } = visitor;
    let Some(collection) = filled(&fields.collection) else {
        let (query, _patterns) = scope.apply(MemoryQuery::builder(), &server.limits).await?;
        let recall = ask(visitor, fields, limit, access.confine(query))?;
        let recalled = server.provider.recall(&recall).await.map_err(Problem::of_vectors)?;
        return Ok(hits(&recalled, limit));
    };
    let collection = Collection::parse(collection)?;
    access.check_collection(&collection)?;
    let (query, _patterns) = scope.apply(DocumentQuery::builder(collection), &server.limits).await?;
    let recall = ask(visitor, fields, limit, access.confine(query))?;
    let recalled = server.documents.recall(&recall).await.map_err(Problem::of_vectors)?;
    Ok(hits(&recalled, limit))
}

/// The recall, as that of `GET /v1/recall`, with some more records than hits.
fn ask<K: Kind>(
    visitor: &Visitor,
    fields: &QuestionFields,
    limit: usize,
    mut query: QueryBuilder<K>,
) -> Result<Recall<K>, Problem> {
    if let Some(filter) = filled(&fields.filter) {
        query = query.filter_text(filter);
    }
    let neighbours = whole("neighbours", &fields.neighbours, 1, MAX_NEIGHBOURS)?;
    let options = RecallOptions { neighbours, explain: true, ..RecallOptions::default() };
    let recall = Recall::with(&fields.text, query.limit(limit + BELOW).build()?, options)?;
    Ok(match &visitor.server.embedder {
        Some(embedder) if fields.by != "words" => recall.by_meaning_or_words(Arc::clone(embedder)),
        Some(_) | None => recall,
    })
}

fn form(visitor: &Visitor, scope: &ScopeFields, fields: &QuestionFields) -> Markup {
    let neighbours = filled(&fields.neighbours).unwrap_or("1");
    let limit = filled(&fields.limit).map_or_else(|| DEFAULT_HITS.to_string(), str::to_owned);
    html! {
        form method="get" action=(RECALL) class="fields" role="search" aria-label="Recall" {
            (input("text", "Question", &fields.text))
            (scope.inputs())
            (input("collection", "Collection of documents, instead of the ledger", &fields.collection))
            (input("filter", "Condition, as in metadata.topic = 'rust'", &fields.filter))
            (number_input("limit", "Hits", &limit, MAX_HITS))
            (number_input("neighbours", "Neighbours on each side", neighbours, MAX_NEIGHBOURS))
            @if visitor.server.embedder.is_some() {
                (choice("by", "Asked by", &[("", "Words and meaning"), ("words", "Words alone")], &fields.by))
            }
            p { button type="submit" { "Ask" } }
        }
    }
}

fn hits<T: Entry>(recalled: &Recalled<T>, limit: usize) -> Markup {
    let greatest = greatest(recalled.hits.iter().map(|hit| &hit.parts));
    let (hits, below) = recalled.hits.split_at(limit.min(recalled.hits.len()));
    html! {
        h2 { "Hits" }
        (told(recalled))
        @if hits.is_empty() { p { "Nothing answers." } }
        ol class="hits" {
            @for hit in hits {
                li {
                    p { strong { (format!("{:.4}", hit.score)) } " " (line(&hit.record)) }
                    (bars(&hit.parts, greatest))
                    @if let Some(found) = &hit.terms { (terms(found)) }
                    (neighbours("Before it", &hit.before))
                    (neighbours("Behind it", &hit.after))
                }
            }
        }
        @if !below.is_empty() {
            h2 { "Just below" }
            ol class="hits" start=(hits.len() + 1) {
                @for hit in below {
                    li {
                        p { strong { (format!("{:.4}", hit.score)) } " " (line(&hit.record)) }
                        (bars(&hit.parts, greatest))
                    }
                }
            }
        }
        @if let Some(explained) = &recalled.explained { (divisors(explained)) }
    }
}

/// Says whether the answer is complete.
fn told<T>(recalled: &Recalled<T>) -> Markup {
    html! {
        p {
            (counted(recalled.examined, "record", "records")) " examined. "
            @if recalled.complete {
                "All of the scope was looked at."
            } @else {
                strong { "Not complete: a budget has ended it, and these are the best of what was examined." }
            }
            @if let Some(unembedded) = recalled.unembedded {
                " " (number(unembedded)) " of them have no vector yet."
            } @else {
                " Asked by words alone."
            }
        }
    }
}

fn neighbours<T: Entry>(title: &str, records: &[T]) -> Markup {
    html! {
        @if !records.is_empty() {
            h3 { (title) }
            ul class="neighbours" { @for record in records { li { (line(record)) } } }
        }
    }
}
