//! How the engine is, and what the server counts.

use maud::{Markup, html};
use memory_core::{Health, Result as CoreResult, Spaces, VectorModel};

use super::page::{Page, Section, alert};
use super::text::preview;
use super::visitor::Visitor;
use crate::serve::problem::Problem;

pub(super) async fn show(visitor: Visitor) -> Page {
    let health = visitor.server.provider.check_health().await.map_err(Problem::from);
    let main = html! {
        h1 { "Engine" }
        @match &health {
            Ok(health) => {
                (facts(health))
                // The engine is that of all tenants.
                @if visitor.access.readable == Spaces::All { (state(&visitor).await) }
            }
            Err(problem) => (alert(&problem.detail)),
        }
        (counters(&visitor))
    };
    visitor.page(Section::Engine, main).with_outcome(&health)
}

fn facts(health: &Health) -> Markup {
    html! {
        dl {
            dt { "Engine" } dd { (health.engine) }
            dt { "Version" } dd { (preview(&health.server_version)) }
            dt { "Schema" } dd { (health.schema_version) }
            dt { "Durability" } dd { (preview(&health.durability.to_string())) }
            dt { "Latency" } dd { (format!("{:.2} ms", health.latency.as_secs_f64() * 1_000.0)) }
            dt { "This program" } dd { (env!("CARGO_PKG_VERSION")) }
        }
    }
}

/// What else the engine is asked. A question that fails says why in its place.
async fn state(visitor: &Visitor) -> Markup {
    let provider = &visitor.server.provider;
    let (is_read_only, model) = (provider.is_read_only().await, provider.vector_model().await);
    html! {
        dl {
            dt { "Writes" }
            dd { (or_why(&is_read_only, |is_read_only| html! { @if *is_read_only { "Refused: read-only" } @else { "Taken" } })) }
            dt { "Embedding model" }
            dd { (or_why(&model, model_name)) }
        }
    }
}

fn model_name(model: &Option<VectorModel>) -> Markup {
    html! {
        @match model {
            Some(model) => { (preview(model.name())) ", " (model.width()) " numbers" }
            None => "None",
        }
    }
}

fn or_why<T>(answer: &CoreResult<T>, shown: impl Fn(&T) -> Markup) -> Markup {
    match answer {
        Ok(answer) => shown(answer),
        Err(error) => html! { em { (error.message()) } },
    }
}

/// The counters of `/metrics`, without the buckets of histograms.
fn counters(visitor: &Visitor) -> Markup {
    let text = visitor.server.metrics.text().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples: Vec<_> = lines.filter_map(Sample::parse).filter(|sample| !sample.name.ends_with("_bucket")).collect();
    html! {
        h2 { "Counters" }
        p class="note" { "Of this server alone, since it began, whoever called." }
        div class="wide" role="region" aria-label="Counters" tabindex="0" {
            table {
                caption class="hidden" { "Counters" }
                thead { tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Of" }
                    th scope="col" class="number" { "Value" }
                } }
                tbody {
                    @for Sample { name, labels, value } in samples {
                        tr {
                            th scope="row" { (name) }
                            td { (labels) }
                            td class="number" { (value) }
                        }
                    }
                }
            }
        }
    }
}

/// A line of the text format of Prometheus.
#[derive(Debug, PartialEq, Eq)]
struct Sample<'t> {
    name: &'t str,
    labels: &'t str,
    value: &'t str,
}

impl<'t> Sample<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (head, value) = line.rsplit_once(' ')?;
        let (name, labels) = head.split_once('{').unwrap_or((head, ""));
        Some(Self { name, labels: labels.trim_end_matches('}'), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_labels_and_a_value() {
        let sample = |line| Sample::parse(line).map(|Sample { name, labels, value }| (name, labels, value));
        assert_eq!(sample("a 1"), Some(("a", "", "1")));
        assert_eq!(
            sample(r#"a_total{route="/v1/memories/{id}",m="GET"} 2.5"#),
            Some(("a_total", r#"route="/v1/memories/{id}",m="GET""#, "2.5"))
        );
        assert_eq!(sample("nothing"), None);
    }
}
