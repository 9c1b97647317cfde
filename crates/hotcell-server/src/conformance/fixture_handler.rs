//! The real handler, with the fixtures beside what it has.
#![expect(deprecated, reason = "older revisions have what the newest has not")]

use std::borrow::Cow;

use hotcell_model::Caller;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestParams, CompleteResult, CompletionInfo, CustomRequest, CustomResult,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use super::{Rounds, complete, fixture_prompts, fixture_resources, fixture_tools, wire};
use crate::door::Door;
use crate::mcp::RealHandler;

/// The real handler, and the fixtures where they were asked for.
#[derive(Debug, Clone)]
pub(crate) struct FixtureHandler {
    real: RealHandler,
    rounds: Option<Rounds>,
}

impl FixtureHandler {
    /// A handler like the real one.
    pub(crate) fn new(door: Door, caller: Caller, versions: &'static [ProtocolVersion]) -> Self {
        let rounds = door.fixtures.clone();
        Self { real: RealHandler::new(door, caller, versions), rounds }
    }

    /// The same for a transport that knows of structured content that is JSON already.
    pub(crate) fn over_own_transport(self) -> Self {
        Self { real: self.real.over_own_transport(), ..self }
    }

    /// What the fixtures add to what the server says it can.
    fn add(&self, capabilities: &mut ServerCapabilities, more: &serde_json::Value) {
        if self.rounds.is_none() {
            return;
        }
        let mut all = serde_json::to_value(&*capabilities).unwrap_or_default();
        for (name, value) in more.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        if let Ok(all) = wire(all) {
            *capabilities = all;
        }
    }
}

impl ServerHandler for FixtureHandler {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.real.get_info();
        self.add(&mut info.capabilities, &json!({ "prompts": {} }));
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        let old = json!({ "logging": {}, "resources": { "subscribe": true } });
        self.add(&mut result.capabilities, &old);
        Ok(result)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.real.supported_protocol_versions()
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.real.list_tools(page, context).await?;
        if self.rounds.is_some() {
            listed.tools.extend(fixture_tools::all()?);
        }
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.real.get_tool(name).or_else(|| {
            self.rounds.as_ref()?;
            fixture_tools::all().ok()?.into_iter().find(|tool| tool.name == name)
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(rounds) = self.rounds.as_ref().filter(|_| fixture_tools::has(&request.name))
        else {
            return self.real.call_tool(request, context).await;
        };
        match rounds.call(&request, &context)? {
            Some(response) => Ok(response),
            None => fixture_tools::call(&request, &context).await,
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.real.list_resources(page, context).await?;
        if self.rounds.is_some() {
            listed.resources.extend(fixture_resources::all()?);
        }
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.real.list_resource_templates(page, context).await?;
        if self.rounds.is_some() {
            listed.resource_templates.push(fixture_resources::template()?);
        }
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match self.rounds.as_ref().and_then(|_| fixture_resources::find(&request.uri)) {
            Some(found) => complete::<ReadResourceResult>(found).map(Into::into),
            None => self.real.read_resource(request, context).await,
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if self.rounds.is_some() && matches!(request.r#ref, Reference::Prompt(_)) {
            let values = vec![format!("{}-completed", request.argument.value)];
            return CompletionInfo::new(values)
                .map(CompleteResult::new)
                .map_err(|message| ErrorData::internal_error(message, None));
        }
        self.real.complete(request, context).await
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self.rounds {
            Some(_) => Ok(ListPromptsResult::with_all_items(fixture_prompts::all()?)),
            None => self.real.list_prompts(page, context).await,
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match self.rounds {
            Some(_) => fixture_prompts::get(&request),
            None => self.real.get_prompt(request, context).await,
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.rounds {
            Some(_) => Ok(()),
            None => self.real.set_level(request, context).await,
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.rounds {
            Some(_) => Ok(()),
            None => self.real.subscribe(request, context).await,
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.rounds {
            Some(_) => Ok(()),
            None => self.real.unsubscribe(request, context).await,
        }
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.real.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.real.listen(context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.real.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.real.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.real.cancel_task(request, context).await
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        self.real.on_cancelled(notification, context).await;
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.real.on_custom_request(request, context).await
    }
}
