//! What an MCP client can ask, and how it is answered.

use std::borrow::Cow;

use hotcell_model::{Caller, Error, FileCall, FileOp, Reply, Request};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, Extensions,
    GetTaskParams, GetTaskResult, Implementation, InputResponses, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    RequestId, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tracing::Instrument;

use super::calls::Calls;
use super::client_profile::ResultForm;
use super::exec_call::ExecCall;
use super::held_call::{self, Called};
use super::parameters::{self, Methods};
use super::starting_call::{self, Resolved};
use super::subscriptions::{self, Subscriptions};
use super::{elicited, heartbeat, passed, resources, search_call, talking, tasks};
use crate::call_id;
use crate::door::{ClientAt, Door};
use crate::encoded;
use hotcell_dialects::{Outcome, Question, Show, StartingExec, ToolCall};

/// The MCP side of one connection, or of one request where there are no connections.
#[derive(Debug, Clone)]
pub(crate) struct McpHandler {
    pub(super) door: Door,
    pub(super) caller: Caller,
    pub(super) calls: Calls,
    pub(super) subscriptions: Subscriptions,
    versions: &'static [ProtocolVersion],
    writes_encoded: bool,
    pub(super) at: ClientAt,
}

/// What a client answered to what an earlier round of a call asked.
pub(super) struct Answered {
    pub(super) state: Option<String>,
    pub(super) responses: Option<InputResponses>,
}

impl McpHandler {
    /// A handler for a caller, for these revisions of the protocol.
    pub(crate) fn new(door: Door, caller: Caller, versions: &'static [ProtocolVersion]) -> Self {
        let (calls, subscriptions) = (Calls::default(), Subscriptions::default());
        // What is shown to a model is never more than an agent may see.
        let caller = caller.masked();
        let (writes_encoded, at) = (false, ClientAt::Http);
        Self { door, caller, calls, subscriptions, versions, writes_encoded, at }
    }

    /// The same on standard input and output, a transport that knows of structured content that is
    /// JSON already.
    pub(crate) fn over_own_transport(self) -> Self {
        Self { writes_encoded: true, at: ClientAt::Stdio, ..self }
    }

    /// The same for one request: on behalf of whoever sent it, who may do less than whoever opened
    /// the session, and by the name that the request has in logs and in the ledger.
    fn asked_by(&self, extensions: &Extensions, id: &RequestId) -> Self {
        let mut caller = call_id::caller(extensions, id, &self.caller);
        if !self.door.dialect.has_default_cell() {
            caller.default_cell = None;
        }
        Self { caller, ..self.clone() }
    }

    fn asked_in(&self, context: &RequestContext<RoleServer>) -> Self {
        self.asked_by(&context.extensions, &context.id)
    }

    async fn perform(
        &self,
        tool: &str,
        call: ToolCall,
        answered: Answered,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Question { request, show } = match call {
            ToolCall::Asks(question) => *question,
            ToolCall::Talks(talk) => return talking::perform(self, tool, talk, context).await,
        };
        if let Request::ExecRun(run) = request {
            let call = ExecCall { handler: self, tool, context, show };
            return match &answered.state {
                Some(state) => call.go_on(&run, state, answered.responses.as_ref()).await,
                None => call.perform(run).await,
            };
        }
        let answer = async {
            match (request, context.meta.get_progress_token()) {
                (
                    Request::FileCall(FileCall { cell, op: FileOp::Search(search), .. }),
                    Some(token),
                ) => Called::done(search_call::perform(self, cell, search, token, context).await),
                (request, _) => tokio::select! {
                    biased;
                    called = self.resolve(request, &answered, context) => called,
                    never = heartbeat::beat(context) => match never {},
                },
            }
        };
        tokio::select! {
            called = answer => match (called, show) {
                (Called::Asks(asked), _) => {
                    call_id::note_status(call_id::OK);
                    elicited::required(&asked).map(Into::into)
                }
                (Called::Starting(exec), _) => Ok(self.starting(tool, &exec)),
                (Called::Listed(answered, starting), Some(show)) => {
                    Ok(self.show_with(tool, *answered, starting, show, context))
                }
                (Called::Done(answered), Some(show)) => Ok(self.show(tool, *answered, show, context)),
                (Called::Done(answered) | Called::Listed(answered, _), None) => {
                    Ok(self.tell(tool, *answered))
                }
            },
            () = context.ct.cancelled() => Err(no_longer_awaited()),
            () = self.door.closing.cancelled() => Err(no_longer_awaited()),
        }
    }

    async fn resolve(
        &self,
        request: Request,
        answered: &Answered,
        context: &RequestContext<RoleServer>,
    ) -> Called {
        match starting_call::resolve(self, request).await {
            Resolved::Ask(request) => {
                Box::pin(held_call::perform(self, *request, answered, context)).await
            }
            Resolved::Called(called) => called,
        }
    }

    /// Answers a request that is no call of a tool, in a span that says what it came to.
    async fn answer<T>(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
        answer: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        let span = call_id::span(context, &self.caller, method);
        let answered = Box::pin(answer).instrument(span.clone()).await;
        let status = answered.as_ref().map_or_else(status_of, |_| call_id::OK);
        span.record(call_id::STATUS, status);
        answered.map_err(|error| self.covered(error))
    }

    /// An error as it is shown: it may quote what was asked for.
    pub(super) fn covered(&self, error: ErrorData) -> ErrorData {
        let ErrorData { code, message, mut data, .. } = error;
        let fields = data.as_mut().and_then(Value::as_object_mut);
        for field in fields.into_iter().flat_map(serde_json::Map::values_mut) {
            if let Value::String(text) = field {
                *text = self.door.redacted(text);
            }
        }
        ErrorData::new(code, self.door.redacted(&message), data)
    }

    /// Notes a call that asks for nothing that there is.
    fn refuse(&self, error: &Error) {
        self.door.refused(error);
        call_id::note_status(error.code.as_str());
    }

    /// What the caller of a tool sees of an answer.
    pub(super) fn tell(
        &self,
        tool: &str,
        answered: hotcell_model::Result<Reply>,
    ) -> CallToolResponse {
        match answered {
            Ok(reply) => {
                call_id::note_reply(&reply);
                call_id::note_status(call_id::OK);
                self.door.dialect.result(tool, reply).into()
            }
            Err(error) => {
                call_id::note_status(error.code.as_str());
                self.door.dialect.failure(tool, &error).into()
            }
        }
    }

    /// What the caller sees of an exec that the engine does not have yet.
    pub(super) fn starting(&self, tool: &str, exec: &StartingExec) -> CallToolResponse {
        call_id::note_exec_id(&exec.exec);
        call_id::note_status(call_id::OK);
        self.door.dialect.starting(tool, exec).into()
    }

    /// The same where the call's arguments say how it is shown.
    pub(super) fn show(
        &self,
        tool: &str,
        answered: hotcell_model::Result<Reply>,
        show: Show,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        self.show_with(tool, answered, Vec::new(), show, context)
    }

    /// The same with execs that the engine does not have yet.
    fn show_with(
        &self,
        tool: &str,
        answered: hotcell_model::Result<Reply>,
        starting: Vec<StartingExec>,
        show: Show,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        if let Ok(reply) = &answered {
            call_id::note_reply(reply);
        }
        match show(Outcome { reply: answered, site: call_id::site(context), starting }) {
            Ok(mut shown) => {
                call_id::note_status(call_id::OK);
                if !self.writes_encoded {
                    encoded::decode(&mut shown);
                }
                shown.into()
            }
            Err(error) => self.tell(tool, Err(error)),
        }
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions();
        let mut capabilities = match self.door.dialect.has_tasks() {
            true => capabilities.enable_tasks().build(),
            false => capabilities.build(),
        };
        if let Some(tools) = capabilities.tools.as_mut().filter(|_| self.door.passes_tools()) {
            tools.list_changed = Some(true);
        }
        let program =
            Implementation::new("hotcell", env!("CARGO_PKG_VERSION")).with_title("Hotcell");
        let config = ServerConfig::new(capabilities).with_server_info(program);
        match self.door.dialect.instructions() {
            Some(instructions) => config.with_instructions(instructions),
            None => config,
        }
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let profile = self.door.client_rules.profile(&context);
        let mut tools = self.door.dialect.tools_for(profile.terms);
        if profile.form == ResultForm::Text {
            tools.iter_mut().for_each(|tool| tool.output_schema = None);
        }
        tools.extend(passed::tools(self, profile.terms.most_wait_s).await);
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.door.dialect.find(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.as_ref();
        let span = call_id::span(&context, &self.caller, "tools/call");
        let answered =
            Answered { state: request.request_state, responses: request.input_responses };
        let arguments = request.arguments.unwrap_or_default();
        let passed = match self.get_tool(tool) {
            Some(_) => None,
            None => passed::call(self, tool, &arguments).instrument(span.clone()).await,
        };
        let profile = self.door.client_rules.profile(&context);
        let is_passed = passed.is_some();
        let own = || self.door.dialect.call_for(profile.terms, tool, arguments);
        let mut response =
            match span.in_scope(|| passed.map_or_else(own, |question| question.map(Into::into))) {
                Ok(call) => {
                    span.record(call_id::TOOL, tool);
                    let handler = self.asked_in(&context);
                    Box::pin(handler.perform(tool, call, answered, &context)).instrument(span).await
                }
                Err(error) => span.in_scope(|| {
                    // A model can mend its arguments; a tool that is not there is the client's mistake.
                    if !is_passed && self.get_tool(tool).is_none() {
                        self.refuse(&error);
                        return Err(self.covered(ErrorData::invalid_params(error.message, None)));
                    }
                    self.door.refused(&error);
                    span.record(call_id::TOOL, tool);
                    Ok(self.tell(tool, Err(self.door.covered(error))))
                }),
            };
        if let Ok(CallToolResponse::Complete(result)) = &mut response {
            profile.fit(result);
        }
        response
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        subscriptions::tell_of_tools(self, context.peer);
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let handler = self.asked_in(&context);
        self.answer("resources/list", &context, resources::list(&handler, page)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.answer("resources/templates/list", &context, async { Ok(resources::templates()) })
            .await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let handler = self.asked_in(&context);
        let read = resources::read(&handler, &request.uri);
        self.answer("resources/read", &context, read).await.map(Into::into)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let handler = self.asked_in(&context);
        let begun = subscriptions::subscribe(&handler, request.uri, context.peer.clone());
        self.answer("resources/subscribe", &context, begun).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let end = async {
            self.subscriptions.end(&request.uri);
            Ok(())
        };
        self.answer("resources/unsubscribe", &context, end).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(subscriptions::accepted(self, requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let handler = self.asked_in(context.request_context());
        let listen = async {
            subscriptions::listen(&handler, &context).await;
            Ok(())
        };
        self.answer("subscriptions/listen", context.request_context(), listen).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let handler = self.asked_in(&context);
        self.answer("completion/complete", &context, resources::complete(&handler, &request)).await
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
        let handler = self.asked_in(&context);
        self.answer("tasks/get", &context, tasks::get(&handler, &context, &request.task_id)).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Nothing is ever asked of a task's owner.
        let handler = self.asked_in(&context);
        let found = tasks::get(&handler, &context, &request.task_id);
        self.answer("tasks/update", &context, found).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let handler = self.asked_in(&context);
        let cancelled = tasks::cancel(&handler, &context, &request.task_id);
        self.answer("tasks/cancel", &context, cancelled).await
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        let Some(request) = notification.request_id else { return };
        let method = "notifications/cancelled";
        let span = call_id::span_within(&context.extensions, &request, &self.caller, method);
        let Some(exec) = self.calls.end(&request) else { return };
        let handler = self.asked_by(&context.extensions, &request);
        async {
            call_id::note_exec_id(&exec);
            if is_timeout(notification.reason.as_deref()) {
                tracing::debug!("a client's patience is over; what it began goes on");
            } else {
                handler.door.end_exec(&handler.caller, exec).await;
            }
        }
        .instrument(span)
        .await;
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let methods = if is_modern(&context) { Methods::Newest } else { Methods::Older };
        // What has the parameters of no known request comes here as well.
        let fault = parameters::find_fault(methods, &request.method, request.params.as_ref());
        let known = fault.is_some().then_some(request.method.as_str());
        let span = call_id::span(&context, &self.caller, known.unwrap_or("unknown"));
        let refused = span.in_scope(|| match fault {
            Some(fault) => {
                self.refuse(&Error::invalid(&fault));
                ErrorData::invalid_params(fault, None)
            }
            None => {
                self.refuse(&Error::unsupported("there is no such method"));
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)
            }
        });
        Err(self.covered(refused))
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
    call_id::note_status(hotcell_model::ErrorCode::Cancelled.as_str());
    ErrorData::internal_error("the wait was ended; what runs goes on", None)
}

/// The name of an error that no tool carries.
fn status_of(error: &ErrorData) -> &str {
    use hotcell_model::ErrorCode as Code;
    let told = error.data.as_ref().and_then(|data| data.get("code")).and_then(|code| code.as_str());
    let code = match error.code {
        ErrorCode::INVALID_PARAMS => Code::Invalid,
        ErrorCode::RESOURCE_NOT_FOUND => Code::NotFound,
        ErrorCode::METHOD_NOT_FOUND => Code::Unsupported,
        _ => Code::Internal,
    };
    told.unwrap_or(code.as_str())
}

/// An error of the engine where there is no tool to carry it.
pub(super) fn protocol_error(error: hotcell_model::Error) -> ErrorData {
    let data = serde_json::to_value(&error).ok();
    ErrorData::new(ErrorCode(error.code.json_rpc()), error.message, data)
}
