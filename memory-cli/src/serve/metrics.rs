//! The metrics for Prometheus.

use std::time::Duration;

use memory_core::engine::{Load, heavy_calls, load};
use prometheus::core::Collector;
use prometheus::proto::{LabelPair, Metric, MetricFamily};
use prometheus::{Counter, Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};

use crate::keeper::MadeVectors;

/// Counts requests and tool calls. No label comes from a caller's payload.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    tool_calls: IntCounterVec,
    in_flight: IntGauge,
    watches: IntGauge,
}

/// The numbers of answered requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) requests: f64,
    /// The requests that have stored something: over REST, where a batch counts as one, or by tools.
    pub(crate) stores: f64,
}

/// The routes below which a `POST` or a `PUT` stores.
const STORING_ROUTES: [&str; 2] = ["/v1/memories", "/v1/documents"];
/// The tools that store.
const STORING_TOOLS: [&str; 2] = ["memory_store", "memory_add_document"];

/// Counts an activity in a gauge until dropped, when it has ended or its client is gone.
#[derive(Debug)]
pub(crate) struct Counted(IntGauge);

impl Counted {
    fn one(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new(vectors: Option<&MadeVectors>) -> anyhow::Result<Self> {
        let requests = Opts::new("agent_memory_http_requests_total", "Requests by route, method and status.");
        let seconds = HistogramOpts::new("agent_memory_http_request_seconds", "Time to answer, by route and method.");
        let tool_calls = Opts::new("agent_memory_tool_calls_total", "MCP tool calls by tool and outcome.");
        let metrics = Self {
            registry: Registry::new(),
            requests: IntCounterVec::new(requests, &["route", "method", "status"])?,
            seconds: HistogramVec::new(seconds, &["route", "method"])?,
            tool_calls: IntCounterVec::new(tool_calls, &["tool", "outcome"])?,
            in_flight: IntGauge::new("agent_memory_http_requests_in_flight", "Requests that are being answered.")?,
            watches: IntGauge::new("agent_memory_watches_open", "Watches of clients and of their subscriptions.")?,
        };
        metrics.registry.register(Box::new(metrics.requests.clone()))?;
        metrics.registry.register(Box::new(metrics.seconds.clone()))?;
        metrics.registry.register(Box::new(metrics.tool_calls.clone()))?;
        metrics.registry.register(Box::new(metrics.in_flight.clone()))?;
        metrics.registry.register(Box::new(metrics.watches.clone()))?;
        if let Some(MadeVectors { made, failed }) = vectors {
            metrics.registry.register(Box::new(made.clone()))?;
            metrics.registry.register(Box::new(failed.clone()))?;
        }
        Ok(metrics)
    }

    /// Counts a request in progress.
    pub(crate) fn in_flight(&self) -> Counted {
        Counted::one(&self.in_flight)
    }

    /// Counts an open watch.
    pub(crate) fn watch(&self) -> Counted {
        Counted::one(&self.watches)
    }

    pub(crate) fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        self.requests.with_label_values(&[route, method, &status.to_string()]).inc();
        self.seconds.with_label_values(&[route, method]).observe(took.as_secs_f64());
    }

    pub(crate) fn tool_call(&self, tool: &str, outcome: &str) {
        self.tool_calls.with_label_values(&[tool, outcome]).inc();
    }

    /// Returns the numbers of answered requests.
    pub(crate) fn totals(&self) -> Totals {
        let stores = |metric: &Metric| {
            matches!(label(metric, "method"), "POST" | "PUT")
                && STORING_ROUTES.iter().any(|route| label(metric, "route").starts_with(route))
                && label(metric, "status").starts_with('2')
        };
        let by_tool =
            |metric: &Metric| STORING_TOOLS.contains(&label(metric, "tool")) && label(metric, "outcome") == "ok";
        Totals {
            requests: sum(&self.requests, |_| true),
            stores: sum(&self.requests, stores) + sum(&self.tool_calls, by_tool),
        }
    }

    /// Returns the metrics in the text format of Prometheus.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        let (mut text, mut families) = (Vec::new(), self.registry.gather());
        families.extend(of_load(&load())?);
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(String::from_utf8(text)?)
    }
}

/// Sums up the wanted counters.
fn sum(counters: &IntCounterVec, is_wanted: impl Fn(&Metric) -> bool) -> f64 {
    let families = counters.collect();
    let metrics = families.iter().flat_map(MetricFamily::get_metric);
    metrics.filter(|metric| is_wanted(metric)).map(|metric| metric.get_counter().get_value()).sum()
}

fn label<'m>(metric: &'m Metric, name: &str) -> &'m str {
    metric.get_label().iter().find(|label| label.name() == name).map_or("", LabelPair::value)
}

/// The metrics of the engine's load.
fn of_load(load: &Load) -> prometheus::Result<Vec<MetricFamily>> {
    let mut families = Vec::new();
    for (name, help, value) in [
        ("agent_memory_calls_in_flight", "Calls of the engine that have not ended.", load.calls),
        ("agent_memory_sessions_in_use", "Connections or threads of the engine that are at work.", load.sessions),
        ("agent_memory_heavy_calls_limit", "How many heavy calls go at once.", heavy_calls() as u64),
        ("agent_memory_heavy_calls_running", "Heavy calls that are at work.", load.heavy),
        ("agent_memory_heavy_calls_waiting", "Heavy calls that wait for others to end.", load.heavy_waiting),
    ] {
        let gauge = IntGauge::new(name, help)?;
        gauge.set(value as i64);
        families.extend(gauge.collect());
    }
    for (name, help, value) in [
        ("agent_memory_heavy_calls_total", "Heavy calls that got their turn.", load.heavy_admitted as f64),
        ("agent_memory_heavy_calls_refused_total", "Heavy calls that got none in time.", load.heavy_refused as f64),
        (
            "agent_memory_heavy_wait_seconds_total",
            "How long heavy calls have waited together.",
            load.heavy_waited.as_secs_f64(),
        ),
        ("agent_memory_calls_late_total", "Calls that ended by their deadline.", load.late as f64),
        ("agent_memory_records_examined_total", "Records that queries and removals examined.", load.examined as f64),
        ("agent_memory_pages_cut_total", "Pages that examined as many records as a page may.", load.cut as f64),
    ] {
        let counter = Counter::new(name, help)?;
        counter.inc_by(value);
        families.extend(counter.collect());
    }
    Ok(families)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_stored_is_told_from_other_requests() {
        let metrics = Metrics::new(None).expect("metrics");
        let request = |method, route, status| metrics.request(route, method, status, Duration::ZERO);
        request("POST", "/v1/memories", 201);
        request("POST", "/v1/memories/batch", 201);
        request("PUT", "/v1/documents/{collection}/{id}", 200);
        request("GET", "/v1/memories", 200);
        request("POST", "/v1/memories", 422);
        request("POST", "/v1/recall", 200);
        metrics.tool_call("memory_store", "ok");
        metrics.tool_call("memory_store", "Conflict");
        metrics.tool_call("memory_recall", "ok");
        assert_eq!(metrics.totals(), Totals { requests: 6.0, stores: 4.0 });
    }
}
