//! A call that asks the engine one thing after another, as its dialect says.

use async_trait::async_trait;
use hotcell_dialects::{Asking, Progress, Talk};
use hotcell_model::{Error, ExecResult, ExecRun, Reply, Request, Result, Scope};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::exec_call::ExecCall;
use super::handler::{McpHandler, no_longer_awaited};
use crate::call_id;

/// What a dialect asks on behalf of a caller.
struct OnBehalf {
    handler: McpHandler,
    tool: String,
    context: RequestContext<RoleServer>,
}

#[async_trait]
impl Asking for OnBehalf {
    async fn call(&self, request: Request) -> Result<Reply> {
        let reply = self.handler.door.call(&self.handler.caller, request).await?;
        call_id::note_reply(&reply);
        Ok(reply)
    }

    async fn run(&self, run: ExecRun, progress: Progress) -> Result<ExecResult> {
        let Self { handler, tool, context } = self;
        let result =
            ExecCall { handler, tool, context, show: None }.run_within(run, progress).await?;
        call_id::note_exec(&result.exec);
        Ok(result)
    }

    async fn metrics(&self) -> Result<String> {
        let McpHandler { door, caller, .. } = &self.handler;
        match caller.may(Scope::Metrics) {
            true => door.metrics.look(door, caller).await,
            false => {
                let scope = Scope::Metrics.as_str();
                Err(Error::without_scope("metrics", scope, &caller.principal))
            }
        }
    }
}

/// Lets a dialect ask, until it has something to tell or nobody waits for that any more.
pub(super) async fn perform(
    handler: &McpHandler,
    tool: &str,
    talk: Talk,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let asking =
        OnBehalf { handler: handler.clone(), tool: tool.to_owned(), context: context.clone() };
    let told = tokio::select! {
        told = talk(Box::new(asking)) => told,
        () = context.ct.cancelled() => return Err(no_longer_awaited()),
        () = handler.door.closing.cancelled() => return Err(no_longer_awaited()),
    };
    match told {
        Ok(result) if result.is_error == Some(true) => {
            call_id::note_status(FAILED);
            Ok(covered(handler, result).into())
        }
        Ok(result) => {
            call_id::note_status(call_id::OK);
            Ok(result.into())
        }
        Err(error) => {
            call_id::note_status(FAILED);
            Err(handler.covered(error))
        }
    }
}

/// How a call stands in logs whose dialect told of a failure in its own words.
const FAILED: &str = "failed";

/// A failure as it is shown: it may quote what was asked for.
fn covered(handler: &McpHandler, mut result: CallToolResult) -> CallToolResult {
    for block in &mut result.content {
        if let ContentBlock::Text(text) = block {
            text.text = handler.door.redacted(&text.text);
        }
    }
    result
}
