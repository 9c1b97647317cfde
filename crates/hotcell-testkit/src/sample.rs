//! Cells and execs to try things with: the same number gives the same one.

use std::collections::BTreeMap;

use hotcell_model::{
    Alias, CellId, CellSpec, Command, EndCause, Exec, ExecEnd, ExecId, ExecState, Isolation, Keep,
    LIMITS, Layer, Limits, MissingLayer, Network, SessionBounds, Signal, StoredCell, Tenant,
    Timestamp, Usage,
};

/// When the samples were made.
pub const EPOCH: Timestamp = Timestamp(1_700_000_000_123);

/// The spec of the cell with this number, made that many seconds after [`EPOCH`].
#[must_use]
pub fn cell_spec(number: u64) -> CellSpec {
    CellSpec {
        id: CellId::from_random(number),
        tenant: Tenant::default(),
        alias: None,
        driver: "sample".to_owned(),
        image: "host".to_owned(),
        keep: Keep::Always,
        ttl_s: Some(3600),
        idle_ttl_s: None,
        sleep_after_s: 600,
        orphan_grace_s: 60,
        limits: Limits {
            memory_mb: 512,
            cpus: Some(1.5),
            pids: 64,
            disk_mb: 100,
            disk_files: 1000,
        },
        max_running: LIMITS.max_running,
        output_bytes: LIMITS.output_bytes,
        sessions: SessionBounds::default(),
        network: Network::None,
        workspace: None,
        secrets: Vec::new(),
        checkpoint_before: None,
        on: BTreeMap::new(),
        labels: BTreeMap::new(),
        env: BTreeMap::from([("GREETING".to_owned(), "héllo\n'\"".to_owned())]),
        created_at: EPOCH.plus_seconds(number),
    }
}

/// The cell with this number, never started and not ended.
#[must_use]
pub fn cell(number: u64) -> StoredCell {
    StoredCell { spec: cell_spec(number), isolation: None, ended_at: None, kept: false }
}

/// The cell with this number and this alias.
#[must_use]
pub fn named_cell(number: u64, alias: &Alias) -> StoredCell {
    let mut named = cell(number);
    named.spec.alias = Some(alias.clone());
    named
}

/// An isolation with something in force and something missing.
#[must_use]
pub fn isolation() -> Isolation {
    Isolation::from_layers(
        vec![Layer { name: "user_namespace".to_owned(), means: Some("own ids".to_owned()) }],
        vec![MissingLayer {
            name: "memory_limit".to_owned(),
            reason: "no memory controller".to_owned(),
            remedy: "delegate one".to_owned(),
        }],
    )
}

/// The running exec with this number, asked for that many milliseconds after [`EPOCH`].
#[must_use]
pub fn exec(cell: &CellId, number: u64) -> Exec {
    Exec {
        id: ExecId::from_random(number),
        cell: cell.clone(),
        state: ExecState::Running,
        command: Command::Argv(vec!["printf".to_owned(), "%s\u{1F980}\0".to_owned()]),
        pty: false,
        as_root: false,
        queued_at: Timestamp(EPOCH.0 + number),
        started_at: Some(Timestamp(EPOCH.0 + number + 1)),
        pid: Some(7),
        keep_s: None,
        approval: None,
        checkpoint: None,
        end: None,
    }
}

/// The same exec after a signal has ended it.
#[must_use]
pub fn ended(exec: &Exec) -> Exec {
    let end = ExecEnd {
        cause: EndCause::Signaled,
        exit_code: None,
        signal: Some(Signal::TERM),
        limit: None,
        limits_hit: Vec::new(),
        killed_descendants: 2,
        ended_at: Timestamp(exec.queued_at.0 + 5),
        usage: Usage { wall_ms: 4, cpu_ms: 3, max_rss_kb: 2, stdout_bytes: 1, stderr_bytes: 0 },
        session: None,
    };
    Exec { state: ExecState::Ended, end: Some(end), ..exec.clone() }
}
