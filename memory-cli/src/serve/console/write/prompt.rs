//! Undoes the last change of prompt memory.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use memory_core::ErrorKind;
use serde::Deserialize;

use super::seen::{revision, stale};
use crate::serve::console::page::Section;
use crate::serve::console::prompt::{Kept, TextFields, address};
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, Parameters};
use crate::serve::problem::Problem;

/// The form that undoes the last change.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UndoFields {
    /// The revision that the sender has seen.
    revision: String,
}

pub(super) async fn undo(
    visitor: Visitor,
    Parameters((name,)): Parameters<(TextFields,)>,
    Form(fields): Form<UndoFields>,
) -> Result<Response, Problem> {
    let seen = revision(&fields.revision)?;
    let Kept { document, context, store, memory } = Kept::find(&visitor, &name).await?;
    visitor.access.check_write(&document.space_id)?;
    let page = address(&document);
    match memory.undo_seen(&context, store, seen).await {
        Ok(Some(_)) => Ok(Redirect::to(&page).into_response()),
        Ok(None) => Err(Problem::new(StatusCode::CONFLICT, "nothing was undone, as no earlier text is kept")),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Ok(stale(&visitor, Section::Documents, &page, &[]).into_response())
        }
        Err(error) => Err(error.into()),
    }
}
