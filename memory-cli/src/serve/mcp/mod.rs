//! MCP: the verbs of the memory plugin as tools, and the newest memories of spaces as resources.

mod resources;
mod subscriptions;
mod updates;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;
use futures::future::try_join_all;
use memory_core::plugin::{AnswerJson, Arguments};
use memory_core::{Error, ErrorKind};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeRequestParams,
    InitializeResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::time::sleep;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use self::subscriptions::{MAX_SUBSCRIPTIONS, REST, Subscriptions};
use self::updates::Updates;
use super::access::Access;
use super::limits::Place;
use super::request::RequestSpan;
use super::state::Server;
use super::tools::{self, Tool};
use crate::telemetry::PAYLOADS;

/// Answers the requests of one client.
#[derive(Debug, Clone)]
pub(crate) struct Mcp {
    server: Server,
    /// The rights of the client; `None` if each request has its own.
    access: Option<Access>,
    /// Its session permit, held from its initialization until it is gone.
    place: Arc<OnceLock<Place>>,
    /// The resources to which it has subscribed.
    subscriptions: Arc<Subscriptions>,
}

const INSTRUCTIONS: &str = "Long-term memory. Look with memory_query before you answer what may have come up earlier; save with \
    memory_add_document what is worth keeping. memory_recall answers a question from the ledger of what happened, or reads it, newest first.";

impl Mcp {
    /// Makes the handler of a client over HTTP, whose requests have passed the guard.
    pub(crate) fn over_http(server: Server) -> Self {
        Self { server, access: None, place: Arc::default(), subscriptions: Arc::default() }
    }

    /// Makes the handler of the client on standard input and output.
    pub(crate) fn over_stdio(server: Server) -> Self {
        let access = Some(server.callers.mcp.clone());
        Self { server, access, place: Arc::default(), subscriptions: Arc::default() }
    }

    fn access(&self, context: &RequestContext<RoleServer>) -> Result<Access, ErrorData> {
        let access = self.access.clone().or_else(|| of_request(context));
        access.ok_or_else(|| ErrorData::internal_error("the request did not pass the guard", None))
    }

    /// The tools that this caller may see and call.
    fn tools<'a>(&'a self, access: &'a Access) -> impl Iterator<Item = &'a Tool> {
        self.server.tools.iter().filter(|tool| tool.is_for(access))
    }

    /// Calls a tool, with a limit, metrics and a span.
    async fn run(
        &self,
        tool: &Tool,
        access: &Access,
        context: &RequestContext<RoleServer>,
        arguments: &str,
    ) -> memory_core::Result<AnswerJson> {
        // The call runs in another task than its request; over standard input there is no request.
        let request = of_request(context).map(|RequestSpan(span)| span);
        let span = tracing::info_span!(
            parent: request.as_ref().and_then(Span::id),
            "tool",
            otel.name = tool.name,
            otel.status_code = Empty,
            caller = access.name,
            outcome = Empty
        );
        let call = async {
            let answer = self.bounded(tool, access, arguments).await;
            self.tell(tool, arguments, &answer);
            answer
        };
        call.instrument(span).await
    }

    async fn bounded(&self, tool: &Tool, access: &Access, arguments: &str) -> memory_core::Result<AnswerJson> {
        // The permit is held until the answer is complete, so that a shutdown waits for it.
        let Some(_place) = self.server.limits.tool_calls.take(&access.name) else {
            let sentence = "the server or this token has reached its limit of concurrent calls: try again later";
            return Err(Error::new(ErrorKind::Unavailable, sentence).retryable());
        };
        let arguments = Arguments::parse(arguments)?;
        let scope = access.scope();
        let answer = tokio::time::timeout(self.server.limits.time, tool.executor.call(&scope, &arguments)).await;
        answer.unwrap_or_else(|_| {
            let sentence = "the call took longer than the server allows; it may have had its effect";
            Err(Error::new(ErrorKind::Timeout, sentence))
        })
    }

    /// Notifies a listener of each change of a resource.
    async fn tell_updates(&self, uri: &str, access: &Access, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let mut updates = Updates::begin(&self.server, access, uri).await?;
        // Notified once at the beginning, since the listener may have read the resource before the watch began.
        while context.sink().notify_resource_updated(uri).await.is_ok() {
            sleep(REST).await;
            if updates.changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Counts a call and records its outcome in its span.
    fn tell(&self, tool: &Tool, arguments: &str, answer: &memory_core::Result<AnswerJson>) {
        let (outcome, said) = match answer {
            Ok(answer) => ("ok".to_owned(), answer.as_str()),
            Err(error) => (format!("{:?}", error.kind()), error.message()),
        };
        self.server.metrics.tool_call(&tool.name, &outcome);
        if answer.is_err() {
            Span::current().record("otel.status_code", "ERROR");
        }
        Span::current().record("outcome", &outcome);
        tracing::info!(tool = tool.name, outcome, "called");
        tracing::info!(target: PAYLOADS, tool = tool.name, arguments, answer = said);
    }
}

/// Returns an extension that the guard has added to the request; `None` over standard input.
fn of_request<T: Clone + Send + Sync + 'static>(context: &RequestContext<RoleServer>) -> Option<T> {
    context.extensions.get::<Parts>()?.extensions.get::<T>().cloned()
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_resources_subscribe();
        let capabilities = capabilities.build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("agent-memory", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if let Some(place) = self.server.limits.sessions.take(&self.access(&context)?.name) {
            // A client that initializes twice keeps its first permit.
            let _ = self.place.set(place);
        } else if self.place.get().is_none() {
            let sentence = "the server or this token has reached its limit of sessions: end one, or try again later";
            return Err(ErrorData::internal_error(sentence, None));
        }
        let answer = self.negotiate_initialize(&request);
        context.peer.set_peer_info(request);
        answer
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let access = self.access(&context)?;
        Ok(ListToolsResult::with_all_items(self.tools(&access).map(Tool::describe).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let access = self.access(&context)?;
        // A tool that the caller may not see does not exist for it.
        let tool = self.tools(&access).find(|tool| tool.name == request.name);
        let tool = tool.ok_or_else(|| ErrorData::invalid_params("there is no tool of this name", None))?;
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default()).to_string();
        let progress = Progress::start(&context).await;
        // A cancelled call is dropped, which leaves its whole effect or none (W10).
        let answer = tokio::select! {
            answer = self.run(tool, &access, &context, &arguments) => answer,
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        progress.end(&context).await;
        let refused = |error: Error| CallToolResult::error(vec![ContentBlock::text(error.message())]);
        Ok(answer.map_or_else(refused, |answer| tools::result(&answer)).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let access = self.access(&context)?;
        Ok(ListResourcesResult::with_all_items(resources::list(&access)))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let access = self.access(&context)?;
        let not_found = || ErrorData::resource_not_found("there is no resource of this URI", None);
        let arguments = resources::arguments(&request.uri).ok_or_else(not_found)?;
        let query = self.tools(&access).find(|tool| tool.executor.name() == "memory:query").ok_or_else(not_found)?;
        let answer = self.run(query, &access, &context, &arguments.to_string()).await;
        let answer = answer.map_err(|error| ErrorData::invalid_params(error.message().to_owned(), None))?;
        Ok(ReadResourceResult::new(vec![resources::contents(&request.uri, &answer)]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.subscriptions.has(&request.uri) {
            return Ok(());
        }
        let updates = Updates::begin(&self.server, &self.access(&context)?, &request.uri).await?;
        self.subscriptions.add(request.uri, updates, context.peer, self.server.limits.stall)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        let known = requested.resource_subscriptions.iter().flatten().filter(|uri| resources::query(uri).is_some());
        let uris: BTreeSet<_> = known.cloned().collect();
        accepted.resource_subscriptions = Some(uris.into_iter().take(MAX_SUBSCRIPTIONS).collect());
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let access = self.access(context.request_context())?;
        let uris = context.accepted().resource_subscriptions.iter().flatten();
        let told = try_join_all(uris.map(|uri| self.tell_updates(uri, &access, &context)));
        tokio::select! {
            told = told => told.map(drop),
            () = context.cancelled() => Ok(()),
        }
    }
}

/// Notifies a client that wants progress of the begin and the end of a call; there are no steps in between.
struct Progress(Option<rmcp::model::ProgressToken>);

impl Progress {
    async fn start(context: &RequestContext<RoleServer>) -> Self {
        let progress = Self(context.meta.get_progress_token());
        progress.tell(context, 0.0).await;
        progress
    }

    async fn end(self, context: &RequestContext<RoleServer>) {
        self.tell(context, 1.0).await;
    }

    async fn tell(&self, context: &RequestContext<RoleServer>, done: f64) {
        if let Some(token) = &self.0 {
            let param = ProgressNotificationParam::new(token.clone(), done).with_total(1.0);
            // Fails if the client is gone.
            let _ = context.peer.notify_progress(param).await;
        }
    }
}
