//! Execs as tasks, for clients that know them: a task's id is its exec's.
//!
//! That id is no secret and proves nothing: who may see and end an exec is decided by the engine, from
//! the caller that came with the request, as for every other way to it.

use hotcell_dialects::{StartPhase, StartingExec};
use hotcell_model::{
    EndCause, ErrorCode as HotcellCode, Exec, ExecGet, ExecId, ExecState, ExecWait,
};
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ErrorCode, GetTaskResult, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::handler::{McpHandler, is_modern, protocol_error};
use crate::call_id;
use crate::starting_execs::{Found, Start};

const POLL_INTERVAL_MS: u64 = 1000;
const RESULT_BYTES: u64 = 64_000;

/// Whether the client of a request declared tasks, in the revision that has them.
pub(super) fn are_known_to(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context)
        && context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// Refuses the requests of the extension in revisions that have none.
fn require(context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    if is_modern(context) {
        return Ok(());
    }
    Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this revision has no tasks", None))
}

/// A task for an exec that runs.
pub(super) fn of_exec(exec: &Exec) -> CreateTaskResult {
    CreateTaskResult::new(describe(exec))
}

/// A task for an exec whose cell is still being started.
pub(super) fn of_starting(exec: &StartingExec) -> CreateTaskResult {
    CreateTaskResult::new(describe_starting(exec))
}

fn describe_starting(exec: &StartingExec) -> Task {
    let status = match &exec.phase {
        StartPhase::Starting => TaskStatus::Working,
        StartPhase::Failed(_) => TaskStatus::Completed,
        StartPhase::Cancelled => TaskStatus::Cancelled,
    };
    let at = exec.queued_at.to_string();
    Task::new(exec.exec.to_string(), status, at.clone(), at)
        .with_poll_interval_ms(POLL_INTERVAL_MS)
        .with_status_message(exec.status())
}

fn describe(exec: &Exec) -> Task {
    let status = match (exec.state, &exec.end) {
        (ExecState::Ended, Some(end)) if end.cause == EndCause::Cancelled => TaskStatus::Cancelled,
        (ExecState::Ended, _) => TaskStatus::Completed,
        (ExecState::Queued | ExecState::Running, _) => TaskStatus::Working,
    };
    let changed = exec.end.as_ref().map(|end| end.ended_at).or(exec.started_at);
    let changed = changed.unwrap_or(exec.queued_at);
    Task::new(exec.id.to_string(), status, exec.queued_at.to_string(), changed.to_string())
        .with_poll_interval_ms(POLL_INTERVAL_MS)
        .with_status_message(exec.state.as_str())
}

/// How a task stands, with its result once it has one.
pub(super) async fn get(
    handler: &McpHandler,
    context: &RequestContext<RoleServer>,
    task: &str,
) -> Result<GetTaskResult, ErrorData> {
    let exec = match find_starting(handler, context, task).await? {
        Some((_, Found::NotYet(exec))) => {
            let payload = match &exec.phase {
                StartPhase::Starting => TaskPayload::Working,
                StartPhase::Cancelled => TaskPayload::Cancelled,
                StartPhase::Failed(_) => {
                    let result = handler.door.dialect.starting(TASK, &exec);
                    TaskPayload::Completed { result: object(&result) }
                }
            };
            return Ok(GetTaskResult::new(DetailedTask::new(describe_starting(&exec), payload)));
        }
        Some((_, Found::InEngine(exec))) => find(handler, context, exec.as_str()).await?,
        None => find(handler, context, task).await?,
    };
    let payload = match (exec.state, &exec.end) {
        (ExecState::Queued | ExecState::Running, _) => TaskPayload::Working,
        (ExecState::Ended, Some(end)) if end.cause == EndCause::Cancelled => TaskPayload::Cancelled,
        (ExecState::Ended, _) => {
            let wait = ExecWait { exec: exec.id.clone(), wait_s: 0.0, result_bytes: RESULT_BYTES };
            let result = handler.door.ask(&handler.caller, wait).await.map_err(protocol_error)?;
            let result = handler.door.dialect.exec_result(result);
            TaskPayload::Completed { result: object(&result) }
        }
    };
    Ok(GetTaskResult::new(DetailedTask::new(describe(&exec), payload)))
}

/// Cancels a task's exec; one that has ended stays as it is.
pub(super) async fn cancel(
    handler: &McpHandler,
    context: &RequestContext<RoleServer>,
    task: &str,
) -> Result<(), ErrorData> {
    let exec = match find_starting(handler, context, task).await? {
        Some((start, Found::NotYet(_))) => {
            start.cancel();
            return Ok(());
        }
        Some((_, Found::InEngine(exec))) => exec,
        None => find(handler, context, task).await?.id,
    };
    handler.door.end_exec(&handler.caller, exec).await;
    Ok(())
}

/// What a failed start is called where no tool's result is asked for.
const TASK: &str = "a task";

fn object(result: &CallToolResult) -> JsonObject {
    let result = serde_json::to_value(result).ok();
    result.and_then(|result| result.as_object().cloned()).unwrap_or_default()
}

async fn find_starting(
    handler: &McpHandler,
    context: &RequestContext<RoleServer>,
    task: &str,
) -> Result<Option<(Start, Found)>, ErrorData> {
    require(context)?;
    let Ok(exec) = task.parse::<ExecId>() else { return Ok(None) };
    handler.door.find_starting(&handler.caller, &exec).await.map_err(protocol_error)
}

async fn find(
    handler: &McpHandler,
    context: &RequestContext<RoleServer>,
    task: &str,
) -> Result<Exec, ErrorData> {
    require(context)?;
    let unknown = || ErrorData::invalid_params(format!("there is no task {task}"), None);
    let exec: ExecId = task.parse().map_err(|_| unknown())?;
    match handler.door.ask(&handler.caller, ExecGet { exec }).await {
        Ok(exec) => {
            call_id::note_exec(&exec);
            Ok(exec)
        }
        Err(error) if error.code == HotcellCode::NotFound => Err(unknown()),
        Err(error) => Err(protocol_error(error)),
    }
}
