//! REST at `/v1`: the ledger, the documents, and how the engine is. The OpenAPI document is made of the same code.

pub(crate) mod changes;
mod documents;
mod erase;
pub(crate) mod history;
pub(crate) mod hits;
mod memories;
mod params;
mod recall;
mod retention;
pub(crate) mod spaces;
mod vectors;
mod watch;
mod wire;

use axum::body::to_bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde::Serialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Problem;
use super::state::Server;
use crate::telemetry::PAYLOADS;
use wire::memories::StatusName;
use wire::vector::VectorBody;

pub(crate) use wire::documents::PutBody;

#[derive(OpenApi)]
#[openapi(
    info(title = "agent-memory", description = "Persistent memory for AI agents."),
    components(schemas(VectorBody, StatusName, Problem))
)]
struct Api;

/// The state of the engine.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct HealthBody {
    engine: &'static str,
    server_version: String,
    schema_version: u32,
    latency_ms: f64,
    /// `durable`, or why an acknowledged write is at risk, or that this is unknown.
    durability: String,
}

/// The routes and their description. The latter asks for a token where one is needed.
pub(crate) fn routes(needs_token: bool) -> (Router<Server>, utoipa::openapi::OpenApi) {
    let (router, mut api) = OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(memories::store, memories::query))
        .routes(routes!(memories::store_many))
        .routes(routes!(memories::get, memories::update))
        .routes(routes!(history::of_memory))
        .routes(routes!(recall::recall, recall::recall_by))
        .routes(routes!(spaces::list))
        .routes(routes!(watch::watch))
        .routes(routes!(documents::put_many))
        .routes(routes!(documents::add, documents::query, documents::remove))
        .routes(routes!(documents::put, documents::get, documents::remove_one))
        .routes(routes!(history::of_document))
        .routes(routes!(documents::collections))
        .routes(routes!(erase::erase))
        .routes(routes!(retention::show, retention::put))
        .routes(routes!(vectors::model, vectors::put_model))
        .routes(routes!(vectors::embed))
        .routes(routes!(health))
        .routes(routes!(metrics))
        .split_for_parts();
    if needs_token {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        api.components.get_or_insert_default().add_security_scheme("token", scheme);
        api.security = Some(vec![SecurityRequirement::new("token", [""; 0])]);
    }
    (router, api)
}

/// Logs what is answered, if that is asked for.
pub(crate) async fn log_answer(response: Response) -> Response {
    // A stream of events logs each as it comes.
    let is_stream = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if is_stream || !tracing::enabled!(target: PAYLOADS, tracing::Level::INFO) {
        return response;
    }
    let (parts, body) = response.into_parts();
    // These bodies are complete from the beginning, and can't fail to arrive.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    tracing::info!(target: PAYLOADS, body = %String::from_utf8_lossy(&bytes), "answered");
    Response::from_parts(parts, bytes.into())
}

/// Shows the state of the engine.
#[utoipa::path(get, path = "/v1/health", tag = "server", responses((status = 200, body = HealthBody), Problem))]
async fn health(State(server): State<Server>) -> Result<Json<HealthBody>, Problem> {
    let health = server.provider.check_health().await?;
    Ok(Json(HealthBody {
        engine: health.engine,
        server_version: health.server_version,
        schema_version: health.schema_version,
        latency_ms: health.latency.as_secs_f64() * 1_000.0,
        durability: health.durability.to_string(),
    }))
}

/// Metrics for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "server",
    responses((status = 200, body = String, content_type = "text/plain"), Problem)
)]
async fn metrics(State(server): State<Server>) -> Result<impl IntoResponse, Problem> {
    let text = server.metrics.text().map_err(|error| {
        tracing::error!(%error, "the metrics can't be written");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics can't be written")
    })?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_description_is_there() {
        let (_, api) = routes(true);
        let text = serde_json::to_value(&api).expect("serializable");
        let schemas = text["components"]["schemas"].as_object().expect("schemas");
        for name in [
            "Memory",
            "Document",
            "EraseBody",
            "RetentionBody",
            "Change",
            "SpaceBody",
            "MemoryPatch",
            "NewMemoryBody",
            "Problem",
            "Vector",
            "VectorModel",
            "StatusName",
            "Version",
        ] {
            assert!(schemas.contains_key(name), "{name} is missing in {:?}", schemas.keys());
        }
        assert_eq!(schemas["MemoryPatch"]["additionalProperties"], false);
        let references = text.to_string();
        for reference in references.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap_or_default();
            assert!(schemas.contains_key(name), "{name} is referred to, and missing");
        }
        assert_eq!(text["security"][0]["token"], serde_json::json!([]));
        let paths = text["paths"].as_object().expect("paths").values();
        let operations = paths.flat_map(|path| path.as_object().expect("a path").values());
        let mut names: Vec<_> =
            operations.map(|operation| operation["operationId"].as_str().expect("a name")).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "two operations have one name: {names:?}");
        let (_, open) = routes(false);
        assert!(open.security.is_none());
    }
}
