//! The probes of an orchestrator: whether the process answers, and whether its engine does.
//!
//! These paths need no token and hold no data. They bypass the guard, so that a server at its concurrency limit still answers them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use memory_core::MemoryProvider;
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Problem;

/// Checks whether the engine answers. Concurrent requests share one check.
#[derive(Debug)]
struct Readiness {
    provider: Arc<dyn MemoryProvider>,
    last: Mutex<Option<Check>>,
}

#[derive(Debug, Clone, Copy)]
struct Check {
    ended: Instant,
    is_ready: bool,
}

/// The deadline of a health check.
const TIME: Duration = Duration::from_secs(5);
/// How long the result of a check is reused. Anybody may call the probes, but the engine is not asked more often than this.
const FRESH: Duration = Duration::from_secs(1);

/// The two routes and their OpenAPI description.
pub(crate) fn routes(provider: &Arc<dyn MemoryProvider>) -> (Router, utoipa::openapi::OpenApi) {
    let readiness = Arc::new(Readiness { provider: Arc::clone(provider), last: Mutex::default() });
    let (router, api) = OpenApiRouter::new().routes(routes!(live)).routes(routes!(ready)).split_for_parts();
    (router.with_state(readiness), api)
}

impl Readiness {
    /// Waits for a check in a task of its own: one that has begun goes on when its client is gone, and the next client waits for it.
    async fn is_ready(self: &Arc<Self>) -> bool {
        let readiness = Arc::clone(self);
        tokio::spawn(async move { readiness.check().await }).await.unwrap_or(false)
    }

    async fn check(&self) -> bool {
        let mut last = self.last.lock().await;
        if let Some(check) = last.filter(|check| check.ended.elapsed() < FRESH) {
            return check.is_ready;
        }
        let is_ready = match tokio::time::timeout(TIME, self.provider.check_health()).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::warn!(?error, "the engine is not ready");
                false
            }
            Err(_) => {
                tracing::warn!("the engine is not ready: it did not report its health in time");
                false
            }
        };
        *last = Some(Check { ended: Instant::now(), is_ready });
        is_ready
    }
}

/// Reports that the server answers, whatever the state of its engine.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "server",
    security(()),
    responses((status = 200, body = String, content_type = "text/plain"))
)]
async fn live() -> &'static str {
    "ok\n"
}

/// Reports whether the engine answered within the last second.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "server",
    security(()),
    responses((status = 200, body = String, content_type = "text/plain"), Problem)
)]
async fn ready(State(readiness): State<Arc<Readiness>>) -> Result<&'static str, Problem> {
    if readiness.is_ready().await {
        return Ok("ready\n");
    }
    Err(Problem::busy("the engine does not answer: see /v1/health and the log"))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use memory_core::InMemory;

    use super::*;

    #[tokio::test]
    async fn a_check_goes_on_when_its_client_is_gone() -> memory_core::Result<()> {
        let provider = InMemory::new();
        provider.init().await?;
        let readiness = Arc::new(Readiness { provider: Arc::new(provider), last: Mutex::default() });
        let other_check = readiness.last.lock().await;
        assert_eq!(readiness.is_ready().now_or_never(), None);
        drop(other_check);
        let is_checked = async {
            while readiness.last.lock().await.is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIME, is_checked).await.expect("the check goes on");
        Ok(())
    }
}
