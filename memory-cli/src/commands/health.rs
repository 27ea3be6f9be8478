//! `health`: shows the state of the engine.

use std::process::ExitCode;

use memory_core::{Durability, MemoryProvider};

use crate::output::Output;

pub(crate) async fn run(provider: &dyn MemoryProvider, output: &mut Output) -> anyhow::Result<ExitCode> {
    let health = provider.check_health().await?;
    if output.is_json() {
        let durability = match &health.durability {
            Durability::Durable => "durable",
            Durability::AtRisk { .. } => "at risk",
            Durability::Unknown { .. } => "unknown",
        };
        output.json(&serde_json::json!({
            "engine": health.engine,
            "serverVersion": health.server_version,
            "schemaVersion": health.schema_version,
            "latencyMs": health.latency.as_secs_f64() * 1000.0,
            "durability": durability,
            "detail": health.durability.to_string(),
        }))?;
    } else {
        output.details(vec![
            ("engine", health.engine.to_owned()),
            ("server version", health.server_version.clone()),
            ("schema version", health.schema_version.to_string()),
            ("latency", format!("{:.3} ms", health.latency.as_secs_f64() * 1000.0)),
            ("durability", health.durability.to_string()),
        ])?;
    }
    Ok(ExitCode::SUCCESS)
}
