//! `cell_spawn`, `cell_attach`, `cell_list`, `cell_info`, `cell_kill`.

use std::collections::BTreeMap;

use hotcell_model::{
    Alias, CellAttach, CellDetails, CellInfo, CellKill, CellList, CellRef, CellSpawn, CellStats,
    CheckpointBefore, Error, Isolation, Keep, KillWait, Network, Reply, RequestedLimits, Result,
    SecretGrant, Workspace,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, Object};
use super::text::bounded;
use super::tool::{Effect, MAX_SECONDS, ToolBounds, ToolKind, answer, named, question, read};
use super::views::{CellView, Detail, ExecView, plain};
use crate::call_id;
use crate::toolsets::Toolset;
use hotcell_dialects::Question;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "cell_spawn",
        toolset: Toolset::Cell,
        about: "Create another cell: a sandbox with its own files, processes, limits and network.",
        found_by: "create a sandbox, container, virtual machine, isolated environment",
        effect: Effect::Adds,
        example: r#"{"alias": "build", "persistent": true}"#,
        input: schema::of::<Spawn>,
        output: schema::output::<CellView>,
        call: spawn,
    },
    ToolKind {
        name: "cell_attach",
        toolset: Toolset::Cell,
        about: "Show a cell's roots and live execs, to continue earlier work.",
        found_by: "continue earlier work, reconnect to a sandbox",
        effect: Effect::Reads,
        example: r#"{"cell": "default"}"#,
        input: schema::of::<Attach>,
        output: schema::output::<Attached>,
        call: attach,
    },
    ToolKind {
        name: "cell_list",
        toolset: Toolset::Cell,
        about: "List cells.",
        found_by: "list sandboxes, containers, environments",
        effect: Effect::Reads,
        example: r#"{"include_stopped": true}"#,
        input: schema::of::<List>,
        output: schema::output::<CellsView>,
        call: |arguments, _| {
            let List { include_stopped } = read(arguments)?;
            Ok(question(CellList { include_stopped }, cells))
        },
    },
    ToolKind {
        name: "cell_info",
        toolset: Toolset::Cell,
        about: "Show a cell: limits, isolation, resource use, live execs.",
        found_by: "sandbox memory, cpu and disk usage, limits, isolation, network rules",
        effect: Effect::Reads,
        example: r#"{"cell": "default"}"#,
        input: schema::of::<Named>,
        output: schema::output::<Details>,
        call: |arguments, _| {
            let Named { cell } = read(arguments)?;
            Ok(question(CellInfo { cell: cell_ref(cell.as_deref())? }, details))
        },
    },
    ToolKind {
        name: "cell_kill",
        toolset: Toolset::Cell,
        about: "End a cell and remove its files.",
        found_by: "delete or destroy a sandbox or container",
        effect: Effect::Removes,
        example: r#"{"cell": "build"}"#,
        input: schema::of::<Kill>,
        output: schema::output::<Killed>,
        call: |arguments, _| {
            let Kill { cell, force, volumes } = read(arguments)?;
            let wait = KillWait::Removed;
            Ok(question(
                CellKill { cell: named("cell", cell.parse())?, force, volumes, wait },
                killed,
            ))
        },
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Spawn {
    /// default host: the machine's programs
    #[serde(default = "host")]
    image: String,
    /// a name, usable as cell
    alias: Option<String>,
    /// keep until killed
    #[serde(default)]
    persistent: bool,
    /// end it after this time, at most 31536000
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    ttl_s: Option<u64>,
    /// end it after this time without use, at most 31536000
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    idle_ttl_s: Option<u64>,
    #[schemars(with = "Option<LimitsSchema>")]
    limits: Option<RequestedLimits>,
    /// default none; {"allow": [...]} with names the operator allowed
    #[schemars(with = "Option<NetworkSchema>")]
    network: Option<Network>,
    /// a host directory the operator allowed; cow: writes stay in the cell
    #[schemars(with = "Option<WorkspaceSchema>")]
    workspace: Option<Workspace>,
    env: Option<BTreeMap<String, String>>,
    /// names the operator allowed, as variables or headers
    secrets: Option<Vec<String>>,
    /// "destructive": checkpoint before commands that delete
    #[schemars(with = "Option<String>")]
    checkpoint_before: Option<CheckpointBefore>,
    /// native, docker; default the operator's
    driver: Option<String>,
    /// placement: label=value
    on: Option<String>,
    idempotency_key: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "a shape for the schema alone")]
struct WorkspaceSchema {
    dir: String,
    /// cow (default), rw, ro
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
    /// id or alias; default: yours
    cell: Option<String>,
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
    /// id or alias; default: yours
    cell: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Kill {
    /// id or alias
    cell: String,
    /// even if execs run
    #[serde(default)]
    force: bool,
    /// also delete files that would be kept
    #[serde(default)]
    volumes: bool,
}

fn host() -> String {
    "host".to_owned()
}

fn spawn(arguments: JsonObject, _: ToolBounds) -> Result<Question> {
    let asked: Spawn = read(arguments)?;
    let alias: Option<Alias> =
        asked.alias.map(|alias| named("alias", alias.parse())).transpose()?;
    let spawn = CellSpawn {
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
        labels: BTreeMap::new(),
        idempotency_key: asked.idempotency_key,
    };
    Ok(question(spawn, cell))
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
    texts.iter().map(|text| named("secrets", text.parse())).collect()
}

fn cell(reply: Reply) -> Option<CallToolResult> {
    let Reply::Cell(cell) = reply else { return None };
    let view = CellView::new(&cell, Detail::Full);
    Some(answer(&view, lines(view.line(), view.detail_lines().into_iter())))
}

/// Who a client says it is stands in the log, and decides nothing.
fn attach(arguments: JsonObject, _: ToolBounds) -> Result<Question> {
    let Attach { cell, client_name, session_id } = read(arguments)?;
    let cell: CellRef = cell_ref(cell.as_deref())?;
    call_id::note_client(client_name.as_deref(), session_id.as_deref());
    tracing::info!(asked = %cell, "a client attaches");
    Ok(question(CellAttach { cell, client_name, session_id }, attached))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Attached {
    #[schemars(with = "Object")]
    cell: CellView,
    roots: Vec<String>,
    #[schemars(with = "Vec<Object>")]
    execs: Vec<ExecView>,
}

fn exec_views(details: &CellDetails) -> Vec<ExecView> {
    let view = |exec| ExecView::new(exec, &details.awaiting, Detail::Brief);
    details.execs.iter().map(view).collect()
}

fn attached(reply: Reply) -> Option<CallToolResult> {
    let Reply::CellDetails(details) = reply else { return None };
    let view = Attached {
        roots: vec![format!("workspace:{}", details.cell.id)],
        cell: CellView::new(&details.cell, Detail::Brief),
        execs: exec_views(&details),
    };
    let roots = view.roots.iter().map(|root| format!("root {root}"));
    let text = lines(view.cell.line(), roots.chain(view.execs.iter().map(ExecView::line)));
    Some(answer(&view, text))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CellsView {
    #[schemars(with = "Vec<Object>")]
    cells: Vec<CellView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<usize>,
}

pub(super) fn cells(reply: Reply) -> Option<CallToolResult> {
    let Reply::Cells(cells) = reply else { return None };
    let shown = cells.cells.iter().map(|cell| CellView::new(cell, Detail::Brief));
    let mut view = CellsView { cells: shown.collect(), left_out: None };
    let (mut text, left_out) = bounded(view.cells.iter().map(CellView::line));
    if view.cells.is_empty() {
        text.push_str("no cells");
    }
    if left_out > 0 {
        text.push_str(&format!("[{left_out} more cells are not shown]"));
        view.cells.truncate(view.cells.len() - left_out);
        view.left_out = Some(left_out);
    }
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
        cell: CellView::new(&details.cell, Detail::Full),
        execs: exec_views(&details),
        stats: details.stats,
        isolation: details.cell.isolation,
    };
    let missing = view.isolation.iter().flat_map(|isolation| &isolation.missing);
    let missing = missing.map(|layer| format!("not enforced: {} ({})", layer.name, layer.reason));
    let stats = view.stats.iter().map(|stats| format!("use: {}", plain(stats)));
    let about = view.cell.detail_lines().into_iter().chain(missing).chain(stats);
    let text = lines(view.cell.line(), about.chain(view.execs.iter().map(ExecView::line)));
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
    cell.map_or(Ok(CellRef::Default), |cell| named("cell", cell.parse()))
}
