//! Changes of a memory that is the work of a program.

use axum::http::StatusCode;
use maud::html;
use memory_core::{Clock as _, Memory, Status, SystemClock};
use memory_runtime::Claim;

use super::confirm::Confirmation;
use crate::output::date;
use crate::serve::console::entry::line;
use crate::serve::console::links;
use crate::serve::console::page::{Page, Section};
use crate::serve::console::visitor::Visitor;
use crate::serve::problem::Problem;

/// Refuses to change what a program works on: the context is the journal by which it goes on after a failure.
pub(super) fn check_free(memory: &Memory) -> Result<(), Problem> {
    let claim = Claim::read(memory).ok().filter(|_| memory.status.is_open());
    match claim.map(|claim| claim.until()).filter(|until| *until > SystemClock.now()) {
        Some(until) => {
            let detail = format!("a program works on this memory and holds it until {}: try again then", date(until));
            Err(Problem::new(StatusCode::CONFLICT, detail))
        }
        None => Ok(()),
    }
}

/// Whether this status makes open work of what a program has ended.
pub(super) fn begins_again(memory: &Memory, status: Option<Status>) -> bool {
    let is_over = !memory.status.is_open() && Claim::read(memory).is_ok();
    is_over && status.is_some_and(Status::is_open)
}

/// Asks whether the work is to be done again. The form that answers has these fields and `again`.
pub(super) fn ask_again(visitor: &Visitor, memory: &Memory, action: String, mut fields: Vec<(&str, String)>) -> Page {
    fields.push(("again", "yes".to_owned()));
    let confirmation = Confirmation {
        title: "Do work again",
        what: html! {
            p {
                "A program has ended its work on this memory with the status " strong { (memory.status.as_str()) } ". This change makes it open "
                "work: a program does it again, with all its effects."
            }
            p { (line(memory)) }
        },
        action,
        fields,
        reason: None,
        button: Some("Do it again".to_owned()),
        away: links::memory(memory.id),
    };
    confirmation.page(visitor, Section::Memories, None)
}
