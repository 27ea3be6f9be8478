//! MCP: the verbs of the memory plugin as tools, and the newest memories of spaces as resources.

mod ledger;
mod recall;
mod resources;
mod tools;

use axum::http::request::Parts;
use memory_core::ErrorKind;
use memory_core::plugin::Arguments;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::access::Access;
use super::state::Server;
pub(crate) use tools::{Tool, tools};

/// Answers the requests of one client.
#[derive(Debug, Clone)]
pub(crate) struct Mcp {
    server: Server,
    /// What the client may do; `None` when each request brings it along.
    access: Option<Access>,
}

const INSTRUCTIONS: &str = "Long-term memory. Look with memory_query before you answer what may have come up earlier; save with \
    memory_add_document what is worth keeping. memory_recall reads the ledger of what happened, newest first.";

impl Mcp {
    /// A client over HTTP, whose requests have passed the guard.
    pub(crate) fn over_http(server: Server) -> Self {
        Self { server, access: None }
    }

    /// The client at the other end of the standard streams.
    pub(crate) fn over_stdio(server: Server) -> Self {
        let access = Some(server.callers.mcp.clone());
        Self { server, access }
    }

    fn access(&self, context: &RequestContext<RoleServer>) -> Result<Access, ErrorData> {
        let from_request = || context.extensions.get::<Parts>()?.extensions.get::<Access>().cloned();
        let access = self.access.clone().or_else(from_request);
        access.ok_or_else(|| ErrorData::internal_error("the request did not pass the guard", None))
    }

    /// The tools that this caller gets to see, and may call.
    fn tools<'a>(&'a self, access: &'a Access) -> impl Iterator<Item = &'a Tool> {
        self.server.tools.iter().filter(|tool| tool.is_for(access))
    }

    async fn run(&self, tool: &Tool, access: &Access, arguments: &str) -> CallToolResult {
        // Held until the answer is complete, so that a shutdown waits for it. Nothing closes the semaphore.
        let _permit = self.server.limits.tool_calls.acquire().await;
        let answer = async {
            let arguments = Arguments::parse(arguments)?;
            tool.executor.call(&access.scope(), &arguments).await
        };
        let answer = match tokio::time::timeout(self.server.limits.time, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                let sentence = "the call took longer than the server allows; it may have had its effect";
                Err(memory_core::Error::new(ErrorKind::Timeout, sentence))
            }
        };
        let outcome = answer.as_ref().err().map_or("ok".to_owned(), |error| format!("{:?}", error.kind()));
        self.server.metrics.tool_call(&tool.name, &outcome);
        match answer {
            Ok(answer) => tools::result(&answer),
            Err(error) => {
                tracing::info!(tool = %tool.name, kind = ?error.kind(), "a tool call failed");
                CallToolResult::error(vec![ContentBlock::text(error.message())])
            }
        }
    }
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("agent-memory", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
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
        // A tool that is not listed is not there.
        let tool = self.tools(&access).find(|tool| tool.name == request.name);
        let tool = tool.ok_or_else(|| ErrorData::invalid_params("there is no tool of this name", None))?;
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default()).to_string();
        let progress = Progress::start(&context).await;
        // A call that is cancelled is dropped, which leaves its whole effect or none (W10).
        let result = tokio::select! {
            result = self.run(tool, &access, &arguments) => result,
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        progress.end(&context).await;
        Ok(result.into())
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
        let contents = resources::read(&self.server, &access, &request.uri).await?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// Tells a client that asks for it when a call begins and ends; a call has no steps in between.
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
            // A client that is gone gets no answer either.
            let _ = context.peer.notify_progress(param).await;
        }
    }
}
