//! Shows the health of the engine and the metrics of the server.

use std::time::Duration;

use maud::{Markup, html};
use memory_core::{Health, Result as CoreResult, VectorModel};

use super::chart::Chart;
use super::page::{Page, Section, alert};
use super::paths::DOCTOR;
use super::table::{Head, table};
use super::text::preview;
use super::visitor::Visitor;
use crate::serve::problem::Problem;
use crate::serve::samples::{MAX_SAMPLES, Sample};

pub(super) async fn show(visitor: Visitor) -> Page {
    let health = visitor.server.provider.check_health().await.map_err(Problem::from);
    let main = html! {
        h1 { "Engine" }
        @match &health {
            Ok(health) => {
                (facts(health))
                @if visitor.sees_engine() { (state(&visitor).await) }
            }
            Err(problem) => (alert(&problem.detail)),
        }
        @if visitor.sees_engine() {
            @if visitor.access.check_retention().is_ok() {
                p { a href=(DOCTOR) { "Ask the doctor" } ", who looks at the database, its schema and its clock" }
            }
            (charts(&visitor.server.samples.all()))
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

/// Further calls to the engine. A call that fails shows its error in its place.
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

/// The charts of the last minutes.
fn charts(samples: &[Sample]) -> Markup {
    let chart = |id, title, unit, value: &dyn Fn(&Sample) -> Option<f64>| {
        Chart { id, title, unit, values: samples.iter().map(value).collect(), room: MAX_SAMPLES }.figure()
    };
    let milliseconds = |latency: Duration| latency.as_secs_f64() * 1_000.0;
    html! {
        h2 { "The last minutes" }
        p class="note" { "Measured every few seconds, on the right the newest. A batch counts as one that stores." }
        (chart("latency", "Latency of the engine", "ms", &|sample| sample.latency.map(milliseconds)))
        (chart("stores", "Requests that store", "a second", &|sample| Some(sample.stores)))
        (chart("requests", "Requests", "a second", &|sample| Some(sample.requests)))
    }
}

/// The metrics of `/metrics`, without the buckets of histograms.
fn counters(visitor: &Visitor) -> Markup {
    let text = visitor.server.metrics.text().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let counters: Vec<_> = lines.filter_map(Line::parse).filter(|line| !line.name.ends_with("_bucket")).collect();
    let rows = html! {
        @for Line { name, labels, value } in counters {
            tr {
                th scope="row" { (name) }
                td { (labels) }
                td class="number" { (value) }
            }
        }
    };
    html! {
        h2 { "Counters" }
        p class="note" { "Of this server alone, since it began, whoever called." }
        (table("Counters", &[Head::Text("Name"), Head::Text("Of"), Head::Number("Value")], &rows))
    }
}

/// Parses a line of the text format of Prometheus.
#[derive(Debug, PartialEq, Eq)]
struct Line<'t> {
    name: &'t str,
    labels: &'t str,
    value: &'t str,
}

impl<'t> Line<'t> {
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
        let parsed = |line| Line::parse(line).map(|Line { name, labels, value }| (name, labels, value));
        assert_eq!(parsed("a 1"), Some(("a", "", "1")));
        assert_eq!(
            parsed(r#"a_total{route="/v1/memories/{id}",m="GET"} 2.5"#),
            Some(("a_total", r#"route="/v1/memories/{id}",m="GET""#, "2.5"))
        );
        assert_eq!(parsed("nothing"), None);
    }
}
