//! What an MCP client can ask, and how it is answered.

use std::borrow::Cow;
use std::time::Duration;

use hotcell_model::{Caller, CancelStatus, ExecCancel, ExecId, Request, Signal};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, GetTaskParams,
    GetTaskResult, Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Instrument;

use super::calls::Calls;
use super::exec_call::ExecCall;
use super::parameters::{self, Methods};
use super::{resources, tasks};
use crate::call_id;
use crate::dialect::{Outcome, ToolCall};
use crate::door::Door;

/// The MCP side of one connection, or of one request where there are no connections.
#[derive(Debug, Clone)]
pub(crate) struct McpHandler {
    pub(super) door: Door,
    pub(super) caller: Caller,
    pub(super) calls: Calls,
    versions: &'static [ProtocolVersion],
}

/// How often a cancel looks for an exec that is just being started.
const CANCEL_ATTEMPTS: u32 = 40;
const CANCEL_PAUSE: Duration = Duration::from_millis(50);
const CANCEL_GRACE_S: f64 = 5.0;

impl McpHandler {
    /// A handler for a caller, for these revisions of the protocol.
    pub(crate) fn new(door: Door, caller: Caller, versions: &'static [ProtocolVersion]) -> Self {
        Self { door, caller, calls: Calls::default(), versions }
    }

    async fn perform(
        &self,
        tool: &str,
        call: ToolCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let dialect = &self.door.dialect;
        let ToolCall { request, show } = call;
        if let Request::ExecRun(run) = request {
            return ExecCall { handler: self, tool, context }.perform(run).await;
        }
        tokio::select! {
            reply = self.door.call(&self.caller, request) => {
                let shown = match show {
                    Some(show) => show(Outcome { reply, site: call_id::site(context) }),
                    None => reply.map(|reply| dialect.result(tool, reply)),
                };
                Ok(shown.unwrap_or_else(|error| dialect.failure(tool, &error)).into())
            }
            () = context.ct.cancelled() => Err(no_longer_awaited()),
            () = self.door.closing.cancelled() => Err(no_longer_awaited()),
        }
    }

    /// Ends an exec that may be being started just now.
    pub(super) async fn cancel(&self, exec: ExecId) {
        for _ in 0..CANCEL_ATTEMPTS {
            let request =
                ExecCancel { exec: exec.clone(), signal: Signal::TERM, grace_s: CANCEL_GRACE_S };
            match self.door.ask(&self.caller, request).await {
                Ok(cancelled) if cancelled.status == CancelStatus::NotFound => {}
                Ok(_) => return,
                Err(error) => tracing::debug!(%exec, %error, "a cancel did not arrive"),
            }
            tokio::time::sleep(CANCEL_PAUSE).await;
        }
        tracing::warn!(%exec, "nothing was found to cancel");
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_completions()
            .enable_tasks()
            .build();
        let program =
            Implementation::new("hotcell", env!("CARGO_PKG_VERSION")).with_title("Hotcell");
        ServerConfig::new(capabilities)
            .with_server_info(program)
            .with_instructions(self.door.dialect.instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.door.dialect.tools().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.door.dialect.tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.as_ref();
        let dialect = &self.door.dialect;
        match dialect.call(tool, request.arguments.unwrap_or_default()) {
            Ok(call) => {
                let span = call_id::span(&context, tool);
                Box::pin(self.perform(tool, call, &context)).instrument(span).await
            }
            // A model can mend its arguments; a tool that is not there is the client's mistake.
            Err(error) if self.get_tool(tool).is_none() => {
                Err(ErrorData::invalid_params(error.message, None))
            }
            Err(error) => {
                self.door.refused(&error);
                Ok(dialect.failure(tool, &error).into())
            }
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(self, page).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(self, &request.uri).await.map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        resources::complete(self, &request).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        tasks::require(&context)?;
        tasks::get(self, &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::require(&context)?;
        // Nothing is ever asked of a task's owner.
        tasks::get(self, &request.task_id).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::require(&context)?;
        tasks::cancel(self, &request.task_id).await
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        let Some(request) = notification.request_id else { return };
        if is_timeout(notification.reason.as_deref()) {
            tracing::debug!(?request, "a client's patience is over; what it began goes on");
            self.calls.end(&request);
            return;
        }
        if let Some(exec) = self.calls.end(&request) {
            self.cancel(exec).await;
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let methods = if is_modern(&context) { Methods::Newest } else { Methods::Older };
        // What has the parameters of no known request comes here as well.
        let fault = parameters::find_fault(methods, &request.method, request.params.as_ref());
        Err(match fault {
            Some(fault) => ErrorData::invalid_params(fault, None),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }
}

/// Whether a request is of the revision without sessions.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// Clients send the same notification when they give up waiting as when their user cancels; only
/// the latter is meant for the exec.
fn is_timeout(reason: Option<&str>) -> bool {
    let reason = reason.unwrap_or_default().to_ascii_lowercase();
    ["timeout", "timed out", "time out", "timed-out"].iter().any(|word| reason.contains(word))
}

/// The answer to a request that nobody waits for any more; it is not sent.
pub(super) fn no_longer_awaited() -> ErrorData {
    ErrorData::internal_error("the wait was ended; what runs goes on", None)
}

/// An error of the engine where there is no tool to carry it.
pub(super) fn protocol_error(error: hotcell_model::Error) -> ErrorData {
    let data = serde_json::to_value(&error).ok();
    ErrorData::new(ErrorCode(error.code.json_rpc()), error.message, data)
}
