//! Takes over into the ledger what happens in cells by itself: ends of execs and connections. Each
//! once, whoever sees it first, and also when that process dies in the middle.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_model::{
    AppendWait, CellId, EntryKind, Error, Exec, ExecFilter, ExecId, ExecStatusFilter, Ledger,
    LedgerEntry, LedgerFilter, NetCursor, NetRecord, NetVerdict, Networks, Result, Tenant, Tenants,
    Verdict,
};
use serde::{Deserialize, Serialize};

use crate::fault;
use crate::recorded::with_end;
use crate::site::Site;

/// How much of a cell is in the ledger; a file beside the cell's records.
const FILE: &str = "noted.json";
/// How long another process is waited for that is at work on it.
const WAIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// How much of a cell is in the ledger.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Noted {
    /// So much of its journal, in bytes.
    journal: u64,
    /// Execs that are in no journal and were lost.
    #[serde(default)]
    lost: BTreeSet<ExecId>,
    /// So much of its connections.
    #[serde(default)]
    network: NetCursor,
    /// Ends of execs are being added after this entry. It stays when a process dies before it is
    /// through.
    #[serde(default)]
    ends_after: Option<u64>,
    /// The same for connections.
    #[serde(default)]
    network_after: Option<u64>,
}

/// The part of a journal that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// What was known before.
    pub(crate) from: u64,
    /// What is known now.
    pub(crate) to: u64,
    /// Whether the journal is another one than the one that was known.
    pub(crate) begun_anew: bool,
}

/// The file, which is nobody else's as long as this is held.
#[derive(Debug)]
struct Held {
    file: File,
    path: PathBuf,
    noted: Noted,
}

impl Held {
    /// Waits until the file is ours. One that cannot be read says nothing: then the ledger itself is
    /// looked through.
    fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        let failed = |error: io::Error| fault::io(format_args!("open {}", path.display()), &error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        lock(&file).map_err(failed)?;
        let text = io::read_to_string(&file).map_err(failed)?;
        let noted = match (text.is_empty(), serde_json::from_str(&text)) {
            (true, _) => Noted::default(),
            (false, Ok(noted)) => noted,
            (false, Err(_)) => {
                let begun = Some(0);
                Noted { ends_after: begun, network_after: begun, ..Noted::default() }
            }
        };
        Ok(Self { file, path, noted })
    }

    fn write(&self) -> Result<()> {
        let text = serde_json::to_vec(&self.noted).unwrap_or_default();
        let written =
            self.file.write_all_at(&text, 0).and_then(|()| self.file.set_len(text.len() as u64));
        written.map_err(|error| fault::io(format_args!("write {}", self.path.display()), &error))
    }
}

fn add(ledger: &dyn Ledger, entries: &[LedgerEntry]) -> Result<()> {
    entries.iter().try_for_each(|entry| ledger.append(entry, AppendWait::Bounded).map(drop))
}

/// Waits for the lock, but not for ever: a process that was stopped may have it.
fn lock(file: &File) -> io::Result<()> {
    let until = Instant::now() + WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() > until => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another process has its lock",
                ));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

impl Site {
    /// Writes down which execs have ended, before the index knows it. What fails is logged, and made
    /// up for the next time.
    pub(crate) async fn note_ends(&self, cell: &CellId, execs: &[Exec], span: Span) {
        let Some(ledger) = self.ledger.as_ref().map(Arc::clone) else { return };
        let noted = async {
            let earlier = self.ended_execs(cell, span, execs).await?;
            let tenant = self.indexed_tenant(cell).await?;
            let (cell, directory) = (cell.clone(), self.cell_dir(cell));
            let ended = Changed { tenant, earlier, now: execs.to_vec() };
            fault::blocking(move || note_ends(&*ledger, &cell, &directory, ended, span)).await
        };
        if let Err(error) = noted.await {
            tracing::error!(%cell, %error, "ends of execs are not in the ledger yet");
        }
    }

    /// Whose a cell is, as the index has it.
    async fn indexed_tenant(&self, cell: &CellId) -> Result<Tenant> {
        if let Some(tenant) = self.links.tenant_of(cell) {
            return Ok(tenant);
        }
        Ok(self.store.find_cell(cell).await?.map(|found| found.spec.tenant).unwrap_or_default())
    }

    /// The execs that ended before, where it is in doubt whether that was written down.
    async fn ended_execs(&self, cell: &CellId, span: Span, changed: &[Exec]) -> Result<Vec<Exec>> {
        let directory = self.cell_dir(cell);
        let lost = span.from == span.to;
        let plain = fault::blocking(move || {
            let held = Held::open(&directory)?;
            let noted = &held.noted;
            Ok(noted.ends_after.is_none() && (lost || noted.journal >= span.from))
        });
        if plain.await? {
            return Ok(Vec::new());
        }
        let status = Some(ExecStatusFilter::Ended);
        let filter = ExecFilter {
            tenants: Tenants::All,
            cell: Some(cell.clone()),
            status,
            limit: u32::MAX,
            before: None,
        };
        let mut ended = self.store.list_execs(&filter).await?;
        ended.retain(|exec| !changed.iter().any(|it| it.id == exec.id));
        Ok(ended)
    }

    /// Takes over what a cell did over the network. What fails is logged, and made up for the next
    /// time.
    pub(crate) async fn note_network(&self, cell: &CellId) {
        let Some(ledger) = self.ledger.as_ref().map(Arc::clone) else { return };
        let Some(networks) = self.drivers.iter().find_map(|driver| driver.networks()) else {
            return;
        };
        if let Err(error) = self.note_records(ledger, networks, cell).await {
            tracing::error!(%cell, %error, "connections of a cell are not in the ledger yet");
        }
    }

    async fn note_records(
        &self,
        ledger: Arc<dyn Ledger>,
        networks: &dyn Networks,
        cell: &CellId,
    ) -> Result<()> {
        let records = self.records(cell);
        if !networks.has_log(&records) {
            return Ok(());
        }
        let directory = self.cell_dir(cell);
        let mut held = fault::blocking(move || Held::open(&directory)).await?;
        let tail = networks.log_after(&records, &held.noted.network).await?;
        if tail.cursor == held.noted.network && held.noted.network_after.is_none() {
            return Ok(());
        }
        let tenant = self.indexed_tenant(cell).await?;
        let cell = cell.to_string();
        let told = tail.records.iter().map(|record| connection(&cell, record));
        let connections: Vec<LedgerEntry> = told.map(|entry| self.without_secrets(entry)).collect();
        fault::blocking(move || {
            let mut entries = Vec::new();
            if tail.missed {
                let missed = LedgerEntry::own(EntryKind::Egress, "missed");
                entries.push(LedgerEntry { cell: Some(cell.clone()), ..missed });
            }
            entries.extend(connections);
            for entry in &mut entries {
                entry.tenant = tenant.clone();
            }
            if let Some(after) = held.noted.network_after {
                // Those that were added before a process died are the first of these.
                let filter = LedgerFilter {
                    after: Some(after),
                    cells: vec![cell],
                    kind: Some(EntryKind::Egress),
                    ..LedgerFilter::default()
                };
                let mut added = 0;
                ledger.scan(&filter, &mut |_| added += 1)?;
                entries.drain(..added.min(entries.len()));
            }
            held.noted.network_after = Some(ledger.last()?);
            held.write()?;
            add(&*ledger, &entries)?;
            held.noted.network = tail.cursor;
            held.noted.network_after = None;
            held.write()
        })
        .await
    }
}

/// Execs of a cell of which something is new, and those of which it may be.
struct Changed {
    tenant: Tenant,
    earlier: Vec<Exec>,
    now: Vec<Exec>,
}

fn note_ends(
    ledger: &dyn Ledger,
    cell: &CellId,
    directory: &Path,
    changed: Changed,
    span: Span,
) -> Result<()> {
    let Changed { tenant, earlier, now: changed } = changed;
    let mut held = Held::open(directory)?;
    if span.begun_anew {
        held.noted.journal = 0;
    }
    let lost = span.from == span.to;
    let is_known = !lost && held.noted.journal >= span.to;
    if held.noted.ends_after.is_none() && is_known {
        return Ok(());
    }
    let mut ended: Vec<Exec> = changed.into_iter().chain(earlier).collect();
    ended.retain(|exec| exec.end.is_some() && !held.noted.lost.contains(&exec.id));
    let in_doubt = held.noted.ends_after.is_some() || (!lost && held.noted.journal != span.from);
    if in_doubt && !ended.is_empty() {
        let filter = LedgerFilter {
            cells: vec![cell.to_string()],
            kind: Some(EntryKind::ExecEnd),
            ..LedgerFilter::default()
        };
        let mut told = BTreeSet::new();
        ledger.scan(&filter, &mut |record| told.extend(record.exec))?;
        ended.retain(|exec| !told.contains(&exec.id));
    }
    ended.sort_by_key(|exec| exec.end.as_ref().map(|end| end.ended_at));
    let entries: Vec<LedgerEntry> =
        ended.iter().map(|exec| LedgerEntry { tenant: tenant.clone(), ..end_of(exec) }).collect();
    if !entries.is_empty() {
        held.noted.ends_after = Some(ledger.last()?);
        held.write()?;
        add(ledger, &entries)?;
    }
    if lost {
        held.noted.lost.extend(ended.into_iter().map(|exec| exec.id));
    } else {
        held.noted.journal = span.to;
    }
    held.noted.ends_after = None;
    held.write()
}

/// The entry about the end of an exec.
fn end_of(exec: &Exec) -> LedgerEntry {
    let mut entry = with_end(LedgerEntry::own(EntryKind::ExecEnd, "exec_end"), exec);
    entry.cell = Some(exec.cell.to_string());
    entry.exec = Some(exec.id.clone());
    if let Some(end) = &exec.end {
        entry.outcome = Some(end.cause.as_str().to_owned());
        entry = entry.with("ended_at", end.ended_at.to_string());
    }
    entry
}

/// The entry about something that a cell did over the network.
fn connection(cell: &str, record: &NetRecord) -> LedgerEntry {
    let (what, verdict) = match record.verdict {
        NetVerdict::Opened => ("opened", Verdict::Allowed),
        NetVerdict::Closed => ("closed", Verdict::Allowed),
        NetVerdict::Failed => ("failed", Verdict::Allowed),
        NetVerdict::Denied => ("denied", Verdict::Denied),
        NetVerdict::Cut => ("cut", Verdict::Denied),
    };
    let entry = LedgerEntry::own(EntryKind::Egress, what)
        .with("at", record.ts.to_string())
        .with("name", record.name.as_str())
        .with_some("port", record.port.map(u64::from))
        .with_some("connection", record.connection)
        .with_some("address", record.address.map(|address| address.to_string()))
        .with_some("sent_bytes", record.sent_bytes)
        .with_some("received_bytes", record.received_bytes)
        .with_some("duration_ms", record.duration_ms)
        .with_some("reason", record.reason.as_deref());
    LedgerEntry { cell: Some(cell.to_owned()), verdict: Some(verdict), ..entry }
}

/// Where there is no ledger.
pub(crate) fn no_ledger() -> Error {
    Error::unsupported("there is no ledger here")
        .hint("use the ledger with the hotcell command and its server")
}
