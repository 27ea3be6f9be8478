//! The confirmation before records are removed or erased.

use axum::http::StatusCode;
use maud::{Markup, html};
use memory_core::{Error, ErrorKind, History, MAX_LIMIT, Reason};

use crate::serve::access::Wanted;
use crate::serve::console::fields::input;
use crate::serve::console::page::{Page, Section, alert};
use crate::serve::console::text::counted;
use crate::serve::console::versions::may_read;
use crate::serve::console::visitor::Visitor;
use crate::serve::problem::Problem;

/// A form that asks its visitor to confirm a change.
#[derive(Debug)]
pub(super) struct Confirmation<'a> {
    /// The action, as in "Erase a memory".
    pub(super) title: &'a str,
    /// Says which records are affected and how.
    pub(super) what: Markup,
    /// The address to which the form is sent.
    pub(super) action: String,
    /// The hidden fields of the form, by name, such as what the visitor has seen.
    pub(super) fields: Vec<(&'a str, String)>,
    /// The reason as entered so far, if one is required.
    pub(super) reason: Option<&'a str>,
    /// The text of the button; none if nothing can be done.
    pub(super) button: Option<String>,
    /// The address of the cancel link.
    pub(super) away: String,
}

impl Confirmation<'_> {
    pub(super) fn page(&self, visitor: &Visitor, section: Section, mistake: Option<Mistake>) -> Page {
        let main = html! {
            h1 { (self.title) }
            @if let Some(mistake) = &mistake { (alert(&mistake.message)) }
            (self.what)
            @if let Some(button) = &self.button {
                form method="post" action=(self.action) class="fields" {
                    @for (name, value) in &self.fields { input type="hidden" name=(name) value=(value); }
                    @if let Some(reason) = self.reason {
                        (input("reason", "Why (this stays, so name nobody who is to be forgotten)", reason))
                    }
                    p { button type="submit" class="danger" { (button) } }
                }
            }
            p { a href=(self.away) { "Back, without a change" } }
        };
        let status = mistake.map_or(StatusCode::OK, |mistake| mistake.status);
        visitor.page(section, main).with_status(status)
    }
}

/// Why the form is shown again.
#[derive(Debug)]
pub(super) struct Mistake {
    status: StatusCode,
    message: String,
}

impl Mistake {
    /// The records have changed since they were shown.
    pub(super) fn changed() -> Self {
        let message = "This form has done nothing, since something else is there than it showed; it may have been sent twice. Look again.";
        Self { status: StatusCode::CONFLICT, message: message.to_owned() }
    }

    /// The reason is invalid.
    pub(super) fn in_reason(reason: &str) -> Option<Self> {
        let error = Reason::parse(reason).err()?;
        Some(Self { status: StatusCode::UNPROCESSABLE_ENTITY, message: error.message().to_owned() })
    }
}

/// Counts the versions of a record that the visitor may read.
pub(super) async fn versions(visitor: &Visitor, history: History) -> Result<Markup, Problem> {
    let page = match visitor.server.provider.history(&history.limit(MAX_LIMIT)?).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return Ok(html! { p { "This engine keeps no other version of it." } });
        }
        page => page.map_err(|error: Error| visitor.access.told(error, Wanted::Itself))?,
    };
    let count = page.versions.iter().filter(|version| may_read(&visitor.access, version)).count();
    let count = counted(count, "version", "versions");
    Ok(html! { p { "Its history has " strong { @if page.next.is_some() { "at least " } (count) } "." } })
}
