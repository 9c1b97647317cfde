//! The files of cells as resources: `workspace:CELL` and `workspace:CELL/PATH`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{
    Cell, CellList, CellRef, Error, ErrorCode, FileCall, FileContent, FileEntries, FileList,
    FileRead, FileScope, Result,
};
use percent_encoding::percent_decode_str;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::handler::McpHandler;
use crate::file_shown::EntriesShown;

const SCHEME: &str = "workspace:";
/// How any file is named.
pub(super) const TEMPLATE: &str = "workspace:{cell}/{+path}";
/// The largest file that is read as a resource.
const MOST_BYTES: u64 = 16 << 20;
const MOST_ENTRIES: u32 = 1000;

/// The workspaces of the caller's default cell and of all others.
pub(super) async fn list(handler: &McpHandler) -> Result<Vec<Resource>> {
    let cells = handler.door.ask(&handler.caller, CellList::default()).await?.cells;
    let own = handler.caller.default_cell.as_ref();
    let others = cells.iter().filter(|cell| own.is_none() || cell.alias.as_ref() != own);
    let default = own.map(|_| describe(CellRef::DEFAULT, "the default cell"));
    Ok(default.into_iter().chain(others.map(of_cell)).collect())
}

fn of_cell(cell: &Cell) -> Resource {
    let id = cell.id.to_string();
    match &cell.alias {
        Some(alias) => describe(&id, alias.as_str()),
        None => describe(&id, &id),
    }
}

fn describe(cell: &str, name: &str) -> Resource {
    Resource::new(format!("{SCHEME}{cell}"), format!("workspace of {name}"))
        .with_description("a directory reads as the list of what is in it")
        .with_mime_type("application/json")
}

/// How any file is named.
pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "file of a cell")
        .with_description("path is below /workspace; a directory reads as its list")
}

/// What a cell may be in the template.
pub(super) async fn cells(handler: &McpHandler) -> Result<Vec<String>> {
    let cells = handler.door.ask(&handler.caller, CellList::default()).await?.cells;
    let name = |cell: &Cell| cell.alias.as_ref().map_or(cell.id.to_string(), ToString::to_string);
    let default = handler.caller.default_cell.as_ref().map(|_| CellRef::DEFAULT.to_owned());
    Ok(default.into_iter().chain(cells.iter().map(name)).collect())
}

/// The cell and the path of such a resource; `None` for another one.
pub(super) fn parse(uri: &str) -> Option<(CellRef, String)> {
    let rest = uri.strip_prefix(SCHEME)?;
    let (cell, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = percent_decode_str(path).decode_utf8().ok()?;
    // What leads elsewhere is no part of the workspace.
    let inside = !path.split('/').any(|name| name == "..") && !path.starts_with('/');
    let path = if path.is_empty() { ".".to_owned() } else { path.into_owned() };
    Some((cell.parse().ok()?, path)).filter(|_| inside)
}

/// A file, or the list of a directory.
pub(super) async fn read(
    handler: &McpHandler,
    uri: &str,
    (cell, path): (CellRef, String),
) -> Result<ReadResourceResult> {
    let ask = |op| {
        let call = FileCall {
            scope: FileScope::Workspace,
            most_content: MOST_BYTES,
            ..FileCall::new(cell.clone(), op)
        };
        handler.door.ask(&handler.caller, call)
    };
    let read = FileRead { path: path.clone(), ..FileRead::default() };
    let contents = match ask(read.into()).await {
        Ok(done) => {
            let about: FileContent = done.result.try_into()?;
            match String::from_utf8(done.content) {
                Ok(text) => ResourceContents::text(text, uri).with_mime_type(about.mime_type),
                Err(error) => {
                    let blob = BASE64_STANDARD.encode(error.as_bytes());
                    ResourceContents::blob(blob, uri).with_mime_type(about.mime_type)
                }
            }
        }
        // Reading says so of a directory.
        Err(error) if error.code == ErrorCode::Conflict => {
            let list = FileList { path, limit: MOST_ENTRIES, ..FileList::default() };
            let found: FileEntries =
                ask(list.into()).await.map_err(|_| error)?.result.try_into()?;
            let text = serde_json::to_string(&EntriesShown::from(found))
                .map_err(|error| Error::internal(error.to_string()))?;
            ResourceContents::text(text, uri).with_mime_type("application/json")
        }
        Err(error) => return Err(error),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}
