//! What Prometheus gets to see.

use std::time::Duration;

use prometheus::{Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};

/// Counts requests and tool calls. No label comes from a caller's payload.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    tool_calls: IntCounterVec,
    in_flight: IntGauge,
}

/// A request that is being answered, until it is dropped: with its answer, or because the client is gone.
#[derive(Debug)]
pub(crate) struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let requests = Opts::new("agent_memory_http_requests_total", "Requests by route, method and status.");
        let seconds = HistogramOpts::new("agent_memory_http_request_seconds", "Time to answer, by route and method.");
        let tool_calls = Opts::new("agent_memory_tool_calls_total", "MCP tool calls by tool and outcome.");
        let metrics = Self {
            registry: Registry::new(),
            requests: IntCounterVec::new(requests, &["route", "method", "status"])?,
            seconds: HistogramVec::new(seconds, &["route", "method"])?,
            tool_calls: IntCounterVec::new(tool_calls, &["tool", "outcome"])?,
            in_flight: IntGauge::new("agent_memory_http_requests_in_flight", "Requests that are being answered.")?,
        };
        metrics.registry.register(Box::new(metrics.requests.clone()))?;
        metrics.registry.register(Box::new(metrics.seconds.clone()))?;
        metrics.registry.register(Box::new(metrics.tool_calls.clone()))?;
        metrics.registry.register(Box::new(metrics.in_flight.clone()))?;
        Ok(metrics)
    }

    /// One more request is being answered.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        self.requests.with_label_values(&[route, method, &status.to_string()]).inc();
        self.seconds.with_label_values(&[route, method]).observe(took.as_secs_f64());
    }

    pub(crate) fn tool_call(&self, tool: &str, outcome: &str) {
        self.tool_calls.with_label_values(&[tool, outcome]).inc();
    }

    /// The text format of Prometheus.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8(text)?)
    }
}
