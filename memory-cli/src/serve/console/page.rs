//! The frame of all pages.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::paths::{COMPOSE, DOCUMENTS, ENGINE, HOME, LIVE, LOGOUT, MEMORIES, RECALL, WORK};
use super::{script, style};
use crate::serve::problem::Problem;

pub(super) const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// A page with its header and navigation, and the status of the answer.
#[derive(Debug)]
pub(super) struct Page {
    status: StatusCode,
    html: Markup,
}

/// The sections of the console in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Spaces,
    Memories,
    Documents,
    Recall,
    Compose,
    Work,
    Live,
    Engine,
}

/// The reader of a page.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who<'a> {
    /// A visitor with a token or a pass, with its name.
    Named(&'a str),
    /// A visitor on the same machine.
    Local,
    /// Unknown, since the request is invalid.
    Unknown,
    /// A visitor who must sign in first.
    Outside,
}

impl Section {
    const ALL: [Self; 8] = [
        Self::Spaces,
        Self::Memories,
        Self::Documents,
        Self::Recall,
        Self::Compose,
        Self::Work,
        Self::Live,
        Self::Engine,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Spaces => "Spaces",
            Self::Memories => "Memories",
            Self::Documents => "Documents",
            Self::Recall => "Recall",
            Self::Compose => "Compose",
            Self::Work => "Work",
            Self::Live => "Live",
            Self::Engine => "Engine",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Spaces => HOME,
            Self::Memories => MEMORIES,
            Self::Documents => DOCUMENTS,
            Self::Recall => RECALL,
            Self::Compose => COMPOSE,
            Self::Work => WORK,
            Self::Live => LIVE,
            Self::Engine => ENGINE,
        }
    }

    /// Whether the pages of the section use the script.
    fn has_script(self) -> bool {
        matches!(self, Self::Spaces | Self::Live)
    }
}

impl Page {
    /// Makes a page of a section.
    pub(super) fn of(who: Who<'_>, section: Section, main: &Markup) -> Self {
        Self::framed(who, Some(section), section.name(), main)
    }

    /// Makes a page for a visitor who is not signed in.
    pub(super) fn outside(title: &str, main: Markup) -> Self {
        Self::framed(Who::Outside, None, title, &main)
    }

    /// Makes a page with an error.
    pub(super) fn of_failure(title: &str, main: Markup) -> Self {
        Self::framed(Who::Unknown, None, title, &main)
    }

    /// Sets another status than 200.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Sets the status of an error on the page, if there is one.
    pub(super) fn with_outcome<T>(self, outcome: &Result<T, Problem>) -> Self {
        match outcome {
            Ok(_) => self,
            Err(problem) => self.with_status(problem.status_code()),
        }
    }

    // The title names no record, since a title can't isolate text that changes its direction.
    fn framed(who: Who<'_>, section: Option<Section>, title: &str, main: &Markup) -> Self {
        let html = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " – agent-memory" }
                    link rel="icon" href=(ICON);
                    link rel="stylesheet" href=(style::href());
                    @if section.is_some_and(Section::has_script) { (script::head()) }
                }
                body {
                    a class="skip" href="#main" { "Skip to the content" }
                    header {
                        a class="brand" href=(HOME) { "agent-memory" }
                        @if !matches!(who, Who::Outside) { (navigation(section)) }
                        @if let Who::Named(name) = who { (sign_out(name)) }
                    }
                    main id="main" tabindex="-1" { (main) }
                }
            }
        };
        Self { status: StatusCode::OK, html }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, MEDIA_TYPE)], self.html.into_string()).into_response()
    }
}

/// Renders an error in place.
pub(super) fn alert(message: &str) -> Markup {
    html! { p class="error" role="alert" { (message) } }
}

/// Renders the error of a change, and says if the outcome is unknown.
pub(super) fn failed(problem: &Problem) -> Markup {
    html! {
        (alert(&problem.detail))
        @if problem.outcome.is_some() { p { "This may have been done all the same: look before you try again." } }
    }
}

/// An inline icon, so that browsers request no file.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' \
                    height='16' rx='3' fill='%23275d8c'/%3E%3Cpath d='M4 5h8M4 8h8M4 11h5' stroke='white' \
                    stroke-width='1.5'/%3E%3C/svg%3E";

fn navigation(here: Option<Section>) -> Markup {
    html! {
        nav aria-label="Console" {
            ul {
                @for section in Section::ALL {
                    li {
                        a href=(section.path()) aria-current=[(here == Some(section)).then_some("page")] { (section.name()) }
                    }
                }
            }
        }
    }
}

fn sign_out(name: &str) -> Markup {
    html! {
        form method="post" action=(LOGOUT) class="who" {
            span { "Signed in as " bdi { (name) } }
            button type="submit" { "Sign out" }
        }
    }
}
