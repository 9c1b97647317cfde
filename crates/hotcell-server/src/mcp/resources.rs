//! The output of execs as resources: `exec://e_…/stdout`; beside them the files of cells.

use hotcell_model::{
    ErrorCode as HotcellCode, Exec, ExecId, ExecList, ExecWait, RESULT_BYTES, Stream,
};
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ListResourceTemplatesResult,
    ListResourcesResult, PaginatedRequestParams, ReadResourceResult, Reference, Resource,
    ResourceContents, ResourceTemplate,
};

use super::handler::{McpHandler, protocol_error};
use super::workspaces;
use crate::call_id;

const TEMPLATE: &str = "exec://{exec_id}/{stream}";
const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];
const PAGE: u32 = 50;

/// The newest execs, one resource for each stream.
pub(super) async fn list(
    handler: &McpHandler,
    page: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let cursor = page.and_then(|page| page.cursor);
    let mut resources = match cursor {
        None => workspaces::list(handler).await.map_err(protocol_error)?,
        Some(_) => Vec::new(),
    };
    let request = ExecList { cell: None, status: None, limit: PAGE, cursor };
    let execs = handler.door.ask(&handler.caller, request).await.map_err(protocol_error)?;
    resources.extend(execs.execs.iter().flat_map(of_exec));
    let mut listed = ListResourcesResult::with_all_items(resources);
    listed.next_cursor = execs.next_cursor;
    Ok(listed)
}

fn of_exec(exec: &Exec) -> Vec<Resource> {
    let streams = if exec.pty { &STREAMS[2..] } else { &STREAMS[..2] };
    let describe = |stream: &Stream| {
        let name = format!("{} of {}", stream.as_str(), exec.id);
        Resource::new(format!("exec://{}/{}", exec.id, stream.as_str()), name)
            .with_description(exec.command.to_string().chars().take(100).collect::<String>())
            .with_mime_type("text/plain")
    };
    streams.iter().map(describe).collect()
}

/// How the output of any exec and any file is named.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(TEMPLATE, "output of an exec")
        .with_description("stream is stdout, stderr or pty")
        .with_mime_type("text/plain");
    ListResourceTemplatesResult::with_all_items(vec![template, workspaces::template()])
}

/// One stream of an exec, all of it or its head and tail; or a file.
pub(super) async fn read(handler: &McpHandler, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || unknown(uri);
    if let Some(named) = workspaces::parse(uri) {
        return match workspaces::read(handler, uri, named).await {
            Err(error) if error.code == HotcellCode::NotFound => Err(unknown()),
            read => read.map_err(protocol_error),
        };
    }
    let (exec, stream) = parse(uri).ok_or_else(unknown)?;
    let wait = ExecWait { exec, wait_s: 0.0, result_bytes: RESULT_BYTES };
    let result = match handler.door.ask(&handler.caller, wait).await {
        Ok(result) => result,
        Err(error) if error.code == HotcellCode::NotFound => return Err(unknown()),
        Err(error) => return Err(protocol_error(error)),
    };
    call_id::note_exec(&result.exec);
    let records = result.records.iter().filter(|record| record.stream == stream);
    let bytes: Vec<u8> = records.flat_map(|record| record.bytes.iter().copied()).collect();
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if result.truncated {
        text.push_str("\n[cut in the middle: read all of it with exec_poll]\n");
    }
    let contents = ResourceContents::text(text, uri).with_mime_type("text/plain");
    Ok(ReadResourceResult::new(vec![contents]))
}

/// The error for a resource that is not there.
pub(super) fn unknown(uri: &str) -> ErrorData {
    let data = serde_json::json!({ "uri": uri });
    ErrorData::resource_not_found(format!("there is no resource {uri}"), Some(data))
}

fn parse(uri: &str) -> Option<(ExecId, Stream)> {
    let (exec, name) = uri.strip_prefix("exec://")?.split_once('/')?;
    let stream = STREAMS.into_iter().find(|stream| stream.as_str() == name)?;
    Some((exec.parse().ok()?, stream))
}

/// What the parts of the template can be.
pub(super) async fn complete(
    handler: &McpHandler,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let is = |uri: &str| matches!(&request.r#ref, Reference::Resource(named) if named.uri == uri);
    let ours = is(TEMPLATE);
    let given = request.argument.value.as_str();
    let mut values: Vec<String> = match request.argument.name.as_str() {
        "exec_id" if ours => {
            let limit = u32::try_from(CompletionInfo::MAX_VALUES).unwrap_or(PAGE);
            let request = ExecList { cell: None, status: None, limit, cursor: None };
            let execs = handler.door.ask(&handler.caller, request).await.map_err(protocol_error)?;
            execs.execs.iter().map(|exec| exec.id.to_string()).collect()
        }
        "cell" if is(workspaces::TEMPLATE) => {
            let mut cells = workspaces::cells(handler).await.map_err(protocol_error)?;
            cells.retain(|cell| cell.starts_with(given));
            cells.truncate(CompletionInfo::MAX_VALUES);
            cells
        }
        "stream" if ours => STREAMS.iter().map(|stream| stream.as_str().to_owned()).collect(),
        _ => Vec::new(),
    };
    values.retain(|value| value.starts_with(given));
    let completion =
        CompletionInfo::new(values).map_err(|message| ErrorData::internal_error(message, None))?;
    Ok(CompleteResult::new(completion))
}
