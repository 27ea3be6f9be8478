//! Telemetry of the server: log events on standard error and, with the feature `otel`, spans to a collector.

#[cfg(feature = "otel")]
mod otlp;

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

/// The log target of events with payloads, which are logged only on request.
pub(crate) const PAYLOADS: &str = "payloads";

/// The subscribers of log events and spans.
#[derive(Debug)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    exporter: Option<otlp::Exporter>,
}

impl Telemetry {
    /// Starts to log on standard error, and to export spans if the environment names a collector.
    pub(crate) fn start(level: LevelFilter, with_payloads: bool) -> anyhow::Result<Self> {
        let log = fmt::layer().with_writer(io::stderr).with_filter(logged(level, with_payloads));
        #[cfg_attr(not(feature = "otel"), expect(unused_mut, reason = "the log is the only layer then"))]
        let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = vec![log.boxed()];
        #[cfg(feature = "otel")]
        let exporter = otlp::Exporter::from_environment()?;
        #[cfg(feature = "otel")]
        layers.extend(exporter.as_ref().map(|exporter| exporter.layer(of_workspace(LevelFilter::INFO))));
        tracing_subscriber::registry().with(layers).init();
        Ok(Self {
            #[cfg(feature = "otel")]
            exporter,
        })
    }

    /// Exports the remaining spans.
    pub(crate) async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.end().await;
        }
    }
}

/// The log filter. Libraries log whole messages from `info` on, so they are logged only if payloads may be.
fn logged(level: LevelFilter, with_payloads: bool) -> Targets {
    let libraries = if with_payloads { level } else { level.min(LevelFilter::WARN) };
    let payloads = if with_payloads { LevelFilter::INFO } else { LevelFilter::OFF };
    of_workspace(level).with_default(libraries).with_target(PAYLOADS, payloads)
}

/// The filter for the crates of this workspace, up to a level. None of their events and spans holds a payload.
fn of_workspace(level: LevelFilter) -> Targets {
    // A target matches by prefix: this one covers this crate, memory_core and all engines.
    Targets::new().with_target("memory_", level)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn payloads_are_logged_only_on_request() {
        let quiet = logged(LevelFilter::TRACE, false);
        assert!(quiet.would_enable("memory_cli::serve", &Level::TRACE));
        assert!(quiet.would_enable("memory_core::gate", &Level::TRACE));
        assert!(quiet.would_enable("sqlx::query", &Level::WARN));
        for (target, level) in [(PAYLOADS, Level::ERROR), ("rmcp::service", Level::INFO), ("sqlx::query", Level::DEBUG)]
        {
            assert!(!quiet.would_enable(target, &level), "{target}");
        }
        let asked = logged(LevelFilter::WARN, true);
        assert!(asked.would_enable(PAYLOADS, &Level::INFO) && !asked.would_enable("rmcp::service", &Level::INFO));
        assert!(!logged(LevelFilter::OFF, false).would_enable("rmcp::service", &Level::ERROR));
    }
}
