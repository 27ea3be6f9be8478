//! Runs the doctor's checks and shows the results.

use maud::{Markup, html};

use super::page::{Page, Section, alert};
use super::paths::ENGINE;
use super::table::{Head, table};
use super::visitor::Visitor;
use crate::diagnosis::Finding;
use crate::serve::problem::Problem;

pub(super) async fn show(visitor: Visitor) -> Result<Page, Problem> {
    // The results reveal where the engine is, and who else uses it.
    visitor.access.check_retention()?;
    let found = visitor.server.doctor.examine(&*visitor.server.provider).await;
    let main = html! {
        h1 { "Doctor" }
        p class="note" { "What " code { "agent-memory doctor --read-only" } " finds now. It writes nothing. " a href=(ENGINE) { "Back to the engine" } }
        @match &found {
            Ok(findings) => (list(findings)),
            Err(problem) => (alert(&problem.detail)),
        }
    };
    Ok(visitor.page(Section::Engine, main).with_outcome(&found))
}

fn list(findings: &[Finding]) -> Markup {
    let rows = html! {
        @for Finding { check, verdict, detail } in findings {
            tr {
                th scope="row" { (check) }
                td class="word" { (verdict.as_str()) }
                td { bdi { (detail) } }
            }
        }
    };
    table("Findings", &["Of", "Finding", "Detail"].map(Head::Text), &rows)
}
