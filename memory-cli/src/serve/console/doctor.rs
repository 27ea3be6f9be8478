//! What a doctor finds who looks at the engine when this page is asked for.

use maud::{Markup, html};

use super::ENGINE;
use super::page::{Page, Section, alert};
use super::visitor::Visitor;
use crate::diagnosis::Finding;
use crate::serve::problem::Problem;

pub(super) async fn show(visitor: Visitor) -> Result<Page, Problem> {
    visitor.check_sees_engine()?;
    let found = visitor.server.doctor.examine(&*visitor.server.provider).await;
    let main = html! {
        h1 { "Doctor" }
        p class="note" { "What " code { "agent-memory doctor --read-only" } " finds now. It writes nothing. " a href=(ENGINE) { "Back to the engine" } }
        @match &found {
            Ok(findings) => (table(findings)),
            Err(problem) => (alert(&problem.detail)),
        }
    };
    Ok(visitor.page(Section::Engine, main).with_outcome(&found))
}

fn table(findings: &[Finding]) -> Markup {
    html! {
        div class="wide" role="region" aria-label="Findings" tabindex="0" {
            table {
                caption class="hidden" { "Findings" }
                thead { tr {
                    th scope="col" { "Of" }
                    th scope="col" { "Finding" }
                    th scope="col" { "Detail" }
                } }
                tbody {
                    @for Finding { check, verdict, detail } in findings {
                        tr {
                            th scope="row" { (check) }
                            td class="word" { (verdict.as_str()) }
                            td { bdi { (detail) } }
                        }
                    }
                }
            }
        }
    }
}
