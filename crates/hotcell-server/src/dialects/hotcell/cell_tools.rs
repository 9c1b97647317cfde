//! `cell_spawn`, `cell_attach`, `cell_list`, `cell_info`, `cell_kill`.

use std::collections::BTreeMap;

use hotcell_model::{
    Alias, CellAttach, CellInfo, CellKill, CellList, CellRef, CellSpawn, CellStats,
    CheckpointBefore, Error, Isolation, Keep, KillWait, Network, Reply, Request, RequestedLimits,
    Result, SecretGrant, Workspace,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, Object};
use super::tool::{Effect, ToolKind, answer, read};
use super::views::{CellView, ExecView};
use crate::call_id;
use crate::toolsets::Toolset;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "cell_spawn",
        toolset: Toolset::Cell,
        about: "Make a sandbox with its own files, processes, limits and network.",
        effect: Effect::Adds,
        input: schema::of::<Spawn>,
        output: schema::of::<CellView>,
        request: spawn,
        result: cell,
    },
    ToolKind {
        name: "cell_attach",
        toolset: Toolset::Cell,
        about: "Show a cell's roots and live execs, to go on with earlier work.",
        effect: Effect::Reads,
        input: schema::of::<Attach>,
        output: schema::of::<Attached>,
        request: attach,
        result: attached,
    },
    ToolKind {
        name: "cell_list",
        toolset: Toolset::Cell,
        about: "List cells.",
        effect: Effect::Reads,
        input: schema::of::<List>,
        output: schema::of::<CellsView>,
        request: |arguments| {
            let List { include_stopped } = read(arguments)?;
            Ok(CellList { include_stopped }.into())
        },
        result: cells,
    },
    ToolKind {
        name: "cell_info",
        toolset: Toolset::Cell,
        about: "Show a cell: isolation, resources, live execs.",
        effect: Effect::Reads,
        input: schema::of::<Named>,
        output: schema::of::<Details>,
        request: |arguments| {
            let Named { cell } = read(arguments)?;
            Ok(CellInfo { cell: cell.parse()? }.into())
        },
        result: details,
    },
    ToolKind {
        name: "cell_kill",
        toolset: Toolset::Cell,
        about: "End a cell.",
        effect: Effect::Ends,
        input: schema::of::<Kill>,
        output: schema::of::<Killed>,
        request: |arguments| {
            let Kill { cell, force, volumes } = read(arguments)?;
            Ok(CellKill { cell: cell.parse()?, force, volumes, wait: KillWait::Removed }.into())
        },
        result: killed,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Spawn {
    /// host: the machine's programs
    #[serde(default = "host")]
    image: String,
    /// a name, usable as cell
    alias: Option<String>,
    /// keep until killed
    #[serde(default)]
    persistent: bool,
    ttl_s: Option<u64>,
    idle_ttl_s: Option<u64>,
    #[schemars(with = "Option<LimitsSchema>")]
    limits: Option<RequestedLimits>,
    /// none, or names the operator allowed
    #[schemars(with = "Option<NetworkSchema>")]
    network: Option<Network>,
    /// a host directory the operator allowed; cow: writes stay in the cell
    #[schemars(with = "Option<WorkspaceSchema>")]
    workspace: Option<Workspace>,
    env: Option<BTreeMap<String, String>>,
    /// names the operator allowed, as variables or headers
    secrets: Option<Vec<String>>,
    /// destructive
    #[schemars(with = "Option<String>")]
    checkpoint_before: Option<CheckpointBefore>,
    driver: Option<String>,
    /// label=value
    on: Option<String>,
    idempotency_key: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "a shape for the schema alone")]
struct WorkspaceSchema {
    dir: String,
    /// cow, rw, ro
    mode: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "a shape for the schema alone")]
#[schemars(untagged)]
enum NetworkSchema {
    None(String),
    Names {
        /// name, name:port, *.suffix
        allow: Vec<String>,
    },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "a shape for the schema alone")]
struct LimitsSchema {
    memory_mb: Option<u64>,
    cpus: Option<f64>,
    pids: Option<u32>,
    disk_mb: Option<u64>,
    disk_files: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Attach {
    /// id or alias; default for your default cell
    cell: String,
    client_name: Option<String>,
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    include_stopped: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Named {
    cell: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Kill {
    cell: String,
    /// end execs
    #[serde(default)]
    force: bool,
    /// delete files
    #[serde(default)]
    volumes: bool,
}

fn host() -> String {
    "host".to_owned()
}

fn spawn(arguments: JsonObject) -> Result<Request> {
    let asked: Spawn = read(arguments)?;
    let alias: Option<Alias> = asked.alias.map(|alias| alias.parse()).transpose()?;
    Ok(CellSpawn {
        image: asked.image,
        alias,
        reuse_alias: false,
        keep: if asked.persistent { Keep::Always } else { Keep::Server },
        ttl_s: asked.ttl_s,
        idle_ttl_s: asked.idle_ttl_s,
        limits: asked.limits.unwrap_or_default(),
        network: asked.network.unwrap_or_default(),
        workspace: asked.workspace,
        env: asked.env.unwrap_or_default(),
        secrets: grants(asked.secrets.unwrap_or_default())?,
        checkpoint_before: asked.checkpoint_before,
        driver: asked.driver,
        on: labels(asked.on.as_deref().unwrap_or_default())?,
        idempotency_key: asked.idempotency_key,
    }
    .into())
}

/// Labels of a place, separated by commas.
fn labels(text: &str) -> Result<BTreeMap<String, String>> {
    let labels = text.split(',').map(str::trim).filter(|label| !label.is_empty());
    let pairs = labels.map(|label| match label.split_once('=') {
        Some((label, value)) => Ok((label.trim().to_owned(), value.trim().to_owned())),
        None => Err(Error::invalid(format!("on: {label:?} is no label of a place"))
            .hint("write label=value, such as gpu=yes; engine=NAME names one")),
    });
    pairs.collect()
}

fn grants(texts: Vec<String>) -> Result<Vec<SecretGrant>> {
    texts.iter().map(|text| text.parse()).collect()
}

fn cell(reply: Reply) -> Option<CallToolResult> {
    let Reply::Cell(cell) = reply else { return None };
    let view = CellView::from(&cell);
    Some(answer(&view, view.line()))
}

/// Who a client says it is stands in the log, and decides nothing.
fn attach(arguments: JsonObject) -> Result<Request> {
    let Attach { cell, client_name, session_id } = read(arguments)?;
    let cell: CellRef = cell.parse()?;
    call_id::note_client(client_name.as_deref(), session_id.as_deref());
    tracing::info!(asked = %cell, "a client attaches");
    Ok(CellAttach { cell, client_name, session_id }.into())
}

#[derive(Debug, Serialize, JsonSchema)]
struct Attached {
    #[schemars(with = "Object")]
    cell: CellView,
    roots: Vec<String>,
    #[schemars(with = "Vec<Object>")]
    execs: Vec<ExecView>,
}

fn attached(reply: Reply) -> Option<CallToolResult> {
    let Reply::CellDetails(details) = reply else { return None };
    let view = Attached {
        roots: vec![format!("workspace:{}", details.cell.id)],
        cell: (&details.cell).into(),
        execs: details.execs.iter().map(ExecView::from).collect(),
    };
    let text = lines(view.cell.line(), view.execs.iter().map(ExecView::line));
    Some(answer(&view, text))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CellsView {
    #[schemars(with = "Vec<Object>")]
    cells: Vec<CellView>,
}

pub(super) fn cells(reply: Reply) -> Option<CallToolResult> {
    let Reply::Cells(cells) = reply else { return None };
    let view = CellsView { cells: cells.cells.iter().map(CellView::from).collect() };
    let text = match view.cells.as_slice() {
        [] => "no cells".to_owned(),
        cells => cells.iter().map(CellView::line).collect::<Vec<_>>().join("\n"),
    };
    Some(answer(&view, text))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Details {
    #[schemars(with = "Object")]
    cell: CellView,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    isolation: Option<Isolation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    stats: Option<CellStats>,
    #[schemars(with = "Vec<Object>")]
    execs: Vec<ExecView>,
}

fn details(reply: Reply) -> Option<CallToolResult> {
    let Reply::CellDetails(details) = reply else { return None };
    let view = Details {
        cell: (&details.cell).into(),
        execs: details.execs.iter().map(ExecView::from).collect(),
        stats: details.stats,
        isolation: details.cell.isolation,
    };
    let missing = view.isolation.iter().flat_map(|isolation| &isolation.missing);
    let missing = missing.map(|layer| format!("not enforced: {} ({})", layer.name, layer.reason));
    let text = lines(view.cell.line(), missing.chain(view.execs.iter().map(ExecView::line)));
    Some(answer(&view, text))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Killed {
    cell: String,
    status: &'static str,
    kept: bool,
}

fn killed(reply: Reply) -> Option<CallToolResult> {
    let Reply::CellKilled(killed) = reply else { return None };
    let cell = killed.cell.to_string();
    let text = match &killed.volume {
        None => format!("{cell} is gone, with its files"),
        Some(volume) => {
            let until = volume.expires_at.map(|at| format!(" until {at}")).unwrap_or_default();
            format!("{cell} is gone; its files are kept{until}")
        }
    };
    let view = Killed { cell, status: "killed", kept: killed.volume.is_some() };
    Some(answer(&view, text))
}

fn lines(first: String, rest: impl Iterator<Item = String>) -> String {
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
}

/// The cell that a call names, or the caller's default one.
pub(super) fn cell_ref(cell: Option<&str>) -> Result<CellRef> {
    cell.map_or(Ok(CellRef::Default), str::parse)
}
