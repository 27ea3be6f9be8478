//! Exports spans to an OpenTelemetry collector, by OTLP over HTTP.

use std::env;

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{Layer, Registry};

/// Sends spans in batches, from its own thread.
#[derive(Debug)]
pub(super) struct Exporter(SdkTracerProvider);

const NAME: &str = "agent-memory";

impl Exporter {
    /// Makes the exporter from the standard environment variables; `None` if they name no collector.
    pub(super) fn from_environment() -> anyhow::Result<Option<Self>> {
        let endpoints = [OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT];
        if endpoints.iter().all(|name| env::var_os(name).is_none_or(|value| value.is_empty())) {
            return Ok(None);
        }
        // The exporter's client uses the default TLS provider of the process. This fails only if there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter =
            SpanExporter::builder().with_http().build().context("the collector of OTEL_EXPORTER_OTLP_ENDPOINT")?;
        let mut resource = Resource::builder();
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(NAME);
        }
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build());
        Ok(Some(Self(provider.build())))
    }

    /// The layer that passes the spans of a filter to the exporter.
    pub(super) fn layer(&self, filter: Targets) -> Box<dyn Layer<Registry> + Send + Sync> {
        let layer = tracing_opentelemetry::layer().with_tracer(self.0.tracer(NAME));
        layer.with_filter(filter).boxed()
    }

    /// Sends the remaining spans.
    pub(super) async fn end(self) {
        // The shutdown blocks until the collector has answered.
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown()).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("the last spans did not reach the collector");
        }
    }
}
