//! Shows the versions of a record, each beside the previous one.

use std::borrow::Cow;

use maud::{Markup, html};
use memory_core::{Document, ErrorKind, History, Memory, Record, Revision, Version};
use serde::Deserialize;
use utoipa::IntoParams;

use super::difference::Difference;
use super::entry::turn;
use super::fields::filled;
use super::json;
use super::page::alert;
use super::text::{Shown, cut_note, time};
use super::visitor::Visitor;
use super::write::actions::PutBack;
use crate::output::date;
use crate::serve::access::{Access, Wanted};
use crate::serve::problem::Problem;

/// The number of versions on a page.
const PAGE: usize = 10;

/// The parameters that select a page of versions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionFields {
    /// The cursor of the page.
    pub(super) cursor: String,
}

/// A page of versions.
#[derive(Debug)]
pub(super) struct Versions {
    /// The versions that the visitor may read, the newest first.
    versions: Vec<Version>,
    /// How many of them are shown. There may be one more, to compare the last one with.
    shown: usize,
    next: Option<String>,
}

impl Versions {
    /// Reads a page of a history; `None` if the engine keeps no history.
    pub(super) async fn read(
        visitor: &Visitor,
        fields: &VersionFields,
        history: impl Fn() -> History,
    ) -> Result<Option<Self>, Problem> {
        let Visitor { server, access } = visitor;
        let told = |error| Problem::from(access.told(error, Wanted::Itself));
        let first = filled(&fields.cursor).into_iter().fold(history(), History::cursor).limit(PAGE)?;
        let mut page = match server.provider.history(&first).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
            page => page.map_err(told)?,
        };
        page.versions.retain(|version| may_read(access, version));
        let shown = page.versions.len();
        if let Some(next) = &page.next {
            let before = server.provider.history(&history().cursor(next).limit(1)?).await.map_err(told)?;
            page.versions.extend(before.versions.into_iter().filter(|version| may_read(access, version)));
        }
        Ok(Some(Self { versions: page.versions, shown, next: page.next.map(|cursor| cursor.to_string()) }))
    }

    /// Finds one version on such a page.
    pub(super) async fn one(
        visitor: &Visitor,
        fields: &VersionFields,
        history: History,
        revision: Revision,
    ) -> Result<Record, Problem> {
        let Visitor { server, access } = visitor;
        let page = filled(&fields.cursor).into_iter().fold(history, History::cursor).limit(PAGE)?;
        let page = server.provider.history(&page).await.map_err(|error| access.told(error, Wanted::Itself))?;
        let mut versions = page.versions.into_iter().filter(|version| may_read(access, version));
        let version = versions.find(|version| version.revision == revision);
        version.and_then(|version| version.record).ok_or_else(|| Problem::not_found("version"))
    }

    /// Renders the versions. `to` makes the address of the page at a cursor.
    pub(super) fn section(
        versions: &Result<Option<Self>, Problem>,
        fields: &VersionFields,
        put_back: Option<&PutBack>,
        to: impl Fn(&str) -> String,
    ) -> Markup {
        html! {
            h2 id="versions" { "Versions" }
            @match versions {
                Ok(Some(versions)) => {
                    (versions.list(fields, put_back))
                    (turn(&fields.cursor, versions.next.as_deref(), to))
                }
                Ok(None) => p { "This engine keeps no history." },
                Err(problem) => (alert(&problem.detail)),
            }
        }
    }

    fn list(&self, fields: &VersionFields, put_back: Option<&PutBack>) -> Markup {
        html! {
            @if self.shown == 0 { p { "No version is recorded here." } }
            @for (place, version) in self.versions.iter().take(self.shown).enumerate() {
                section class="version" {
                    h3 { "Revision " (version.revision) }
                    p class="note" {
                        @match version.committed_at {
                            Some(committed) => (time(committed)),
                            None => "Its time was not recorded",
                        }
                        @if let Some(actor) = &version.actor { ", by " bdi { (actor.as_str()) } }
                    }
                    @match self.versions.get(place + 1) {
                        Some(before) => (compared(before, version)),
                        None => p { "The first version that is shown." },
                    }
                    @if let Some(put_back) = put_back { (put_back.form(version.revision, &fields.cursor)) }
                }
            }
        }
    }
}

/// Whether the visitor may read a version; a document may have been in another space before.
pub(super) fn may_read(access: &Access, version: &Version) -> bool {
    match &version.record {
        Some(Record::Document(document)) => access.may_read_document(document),
        Some(Record::Memory(memory)) => access.may_read(memory),
        None => false,
    }
}

/// A member of a record that a change may touch.
#[derive(Debug)]
struct Member<'v> {
    name: &'static str,
    /// The whole member, to be compared; `None` if the record has none.
    whole: Option<Cow<'v, str>>,
    shown: Shown,
}

impl<'v> Member<'v> {
    fn text(name: &'static str, text: Option<impl Into<Cow<'v, str>>>) -> Self {
        let whole = text.map(Into::into);
        Self { name, shown: Shown::of(whole.as_deref().unwrap_or_default()), whole }
    }

    fn json(name: &'static str, json: Option<&'v str>) -> Self {
        Self { name, shown: json::indented(json.unwrap_or_default()), whole: json.map(Cow::Borrowed) }
    }
}

fn members(version: &Version) -> Vec<Member<'_>> {
    match &version.record {
        Some(Record::Memory(memory)) => of_memory(memory),
        Some(Record::Document(document)) => of_document(document),
        None => Vec::new(),
    }
}

fn of_memory(memory: &Memory) -> Vec<Member<'_>> {
    vec![
        Member::text("Status", Some(memory.status.as_str())),
        Member::json("Context", memory.context.as_ref().map(|context| context.as_str())),
        Member::json("Metadata", Some(memory.metadata.as_str())),
        Member::text("Expires", memory.expires_at.map(date)),
    ]
}

fn of_document(document: &Document) -> Vec<Member<'_>> {
    vec![
        Member::text("Space", Some(document.space_id.as_str())),
        Member::text("Content", Some(document.content.as_str())),
        Member::json("Metadata", Some(document.metadata.as_str())),
        Member::text("Expires", document.expires_at.map(date)),
    ]
}

/// Renders what a version has changed.
fn compared(before: &Version, after: &Version) -> Markup {
    let (old, new) = (members(before), members(after));
    let changed: Vec<_> = old.iter().zip(&new).filter(|(old, new)| old.whole != new.whole).collect();
    html! {
        @if changed.is_empty() {
            p { "Nothing differs from revision " (before.revision) " but its number and its time." }
        } @else {
            table class="versions" {
                caption class="hidden" { "Revision " (after.revision) " beside revision " (before.revision) }
                thead { tr {
                    th scope="col" { "What changed" }
                    th scope="col" { "Revision " (before.revision) }
                    th scope="col" { "Revision " (after.revision) }
                } }
                tbody {
                    @for (old, new) in changed { (row(old, new)) }
                }
            }
        }
    }
}

fn row(old: &Member<'_>, new: &Member<'_>) -> Markup {
    let Difference { before, after } = Difference::of(&old.shown.text, &new.shown.text);
    let side = |member: &Member<'_>, text: Markup| {
        html! {
            @if member.whole.is_some() { (text) } @else { p class="note" { "None" } }
            @if member.shown.is_cut { (cut_note()) }
        }
    };
    html! {
        tr {
            th scope="row" { (new.name) }
            td { (side(old, before)) }
            td { (side(new, after)) }
        }
    }
}
