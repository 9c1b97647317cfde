//! What every use case works on: the state directory, the ports, and what this process remembers.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hotcell_journal::remove_records;
use hotcell_masking::Shapes;
use hotcell_model::{
    CellId, Driver, Error, Ledger, Result, SecretStore, Store, Tenant, TokenStore,
};
use tokio::sync::{Mutex, watch};

use crate::code_counts::CodeCounts;
use crate::code_stats::CodeSums;
use crate::links::Links;
use crate::long_text::LongTexts;
use crate::pending_calls::PendingCalls;
use crate::policies::Rules;
use crate::pool::Pool;
use crate::recent::RecentExecs;
use crate::screen::Screens;
use crate::tool_callers::ToolCallers;
use crate::toolbox::Toolbox;
use crate::turns::Turns;
use crate::{Settings, fault};

/// Where it stands beside a cell's records whose they are.
const TENANT: &str = "tenant";

/// One state directory as one process sees it.
#[derive(Debug)]
pub(crate) struct Site {
    state_dir: PathBuf,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) drivers: Vec<Arc<dyn Driver>>,
    pub(crate) settings: Settings,
    /// Where secrets are kept, if anywhere.
    pub(crate) secrets: Option<Arc<dyn SecretStore>>,
    /// The rules that callers obey, or may ask about.
    pub(crate) rules: Option<Rules>,
    /// Where tokens of callers are kept, if anywhere.
    pub(crate) tokens: Option<Arc<dyn TokenStore>>,
    /// Where everything is written down, if anywhere.
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    /// The tools of other servers, if there are any.
    pub(crate) toolbox: Option<Toolbox>,
    /// On whose behalf programs call them.
    pub(crate) tool_callers: ToolCallers,
    /// Tool calls of execs that await approval in this process.
    pub(crate) pending_calls: PendingCalls,
    pub(crate) links: Links,
    pub(crate) pool: Pool,
    pub(crate) recent: RecentExecs,
    /// What code that this process started has called.
    pub(crate) counts: CodeCounts,
    /// What runs of code came to, as far as the ledger was read.
    pub(crate) code_sums: CodeSums,
    /// Those who start an exec by the same key.
    pub(crate) keyed_starts: Turns,
    /// Those who read the journal of the same cell into the index.
    pub(crate) syncs: Turns,
    pub(crate) long_texts: LongTexts,
    /// Terminals that were looked at.
    pub(crate) screens: Screens,
    /// Whether waits for a person's word are to end early.
    pub(crate) hurry: watch::Sender<bool>,
    /// What has the form of a secret; made when it is first looked for.
    pub(crate) shapes: OnceLock<Arc<Shapes>>,
    /// Whether this process has looked for what the index may lack.
    pub(crate) rebuilt: Mutex<bool>,
    /// When this process last removed what is over for want of room on the disk.
    pub(crate) collected: Mutex<Option<Instant>>,
}

/// Whether a directory was made or had been there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    New,
    Existed,
}

impl Site {
    pub(crate) fn new(
        state_dir: PathBuf,
        store: Arc<dyn Store>,
        drivers: Vec<Arc<dyn Driver>>,
        settings: Settings,
    ) -> Self {
        Self {
            state_dir,
            store,
            drivers,
            settings,
            secrets: None,
            rules: None,
            tokens: None,
            ledger: None,
            toolbox: None,
            tool_callers: ToolCallers::default(),
            pending_calls: PendingCalls::default(),
            links: Links::default(),
            pool: Pool::default(),
            recent: RecentExecs::default(),
            counts: CodeCounts::default(),
            code_sums: CodeSums::default(),
            keyed_starts: Turns::default(),
            syncs: Turns::default(),
            long_texts: LongTexts::default(),
            screens: Screens::default(),
            hurry: watch::Sender::new(false),
            shapes: OnceLock::new(),
            rebuilt: Mutex::default(),
            collected: Mutex::default(),
        }
    }

    /// The driver with this name.
    pub(crate) fn driver(&self, name: &str) -> Result<&Arc<dyn Driver>> {
        self.drivers.iter().find(|driver| driver.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.drivers.iter().map(|driver| driver.name()).collect();
            Error::invalid(format!("there is no driver {name:?}"))
                .hint(format!("use one of: {}", known.join(", ")))
        })
    }

    /// The driver of that name, or the default one.
    pub(crate) fn named_or_default(&self, name: Option<&str>) -> Result<&Arc<dyn Driver>> {
        self.driver(name.unwrap_or(&self.settings.default_driver))
    }

    /// The state directory.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The directory below which each cell has its own.
    pub(crate) fn cells_dir(&self) -> PathBuf {
        self.state_dir.join("cells")
    }

    /// Where each tenant has what its cells see at `/tools`.
    pub(crate) fn tools_dir(&self) -> PathBuf {
        self.state_dir.join("tools")
    }

    /// Where those show themselves who wait for room.
    pub(crate) fn waiting_dir(&self) -> PathBuf {
        self.state_dir.join("waiting")
    }

    /// Where execs are shown that are about to begin.
    pub(crate) fn beginning_dir(&self) -> PathBuf {
        self.state_dir.join("beginning")
    }

    /// What the engine keeps of a cell.
    pub(crate) fn cell_dir(&self, cell: &CellId) -> PathBuf {
        self.cells_dir().join(cell.as_str())
    }

    /// Where a cell's journal and logs are.
    pub(crate) fn records(&self, cell: &CellId) -> PathBuf {
        self.cell_dir(cell).join("records")
    }

    /// Makes a cell's directories. Whose it is stands beside its records, as long as there are any:
    /// it is there before them, so that no records are ever without it.
    pub(crate) fn make_cell_dir(&self, cell: &CellId, tenant: &Tenant) -> Result<Made> {
        let failed = |error| fault::io(format_args!("make the directory of cell {cell}"), &error);
        make_dir(self.cells_dir()).map_err(failed)?;
        let made = make_dir(self.cell_dir(cell)).map_err(failed)?;
        let noted = self.cell_dir(cell).join(TENANT);
        if !tenant.is_default()
            && fs::read(&noted).ok().as_deref() != Some(tenant.as_str().as_bytes())
        {
            fs::write(&noted, tenant.as_str()).map_err(failed)?;
        }
        make_dir(self.records(cell)).map_err(failed)?;
        Ok(made)
    }

    /// Whose records these are, when nothing else tells it. Those of `main` need no word.
    ///
    /// # Errors
    /// `conflict` when it cannot be told: then they are nobody's.
    pub(crate) fn tenant_on_disk(&self, cell: &CellId) -> Result<Tenant> {
        let nobodys = |what: &dyn std::fmt::Display| {
            Error::conflict(format!("whose the records of cell {cell} are cannot be told: {what}"))
        };
        match fs::read_to_string(self.cell_dir(cell).join(TENANT)) {
            Ok(name) => name.parse().map_err(|error: Error| nobodys(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Tenant::default()),
            Err(error) => Err(nobodys(&error)),
        }
    }

    /// Removes a cell's directories with everything in them. Idempotent.
    pub(crate) async fn remove_cell_dir(&self, cell: &CellId) -> Result<()> {
        let (cell, directory, records) = (cell.clone(), self.cell_dir(cell), self.records(cell));
        let remove = move || {
            remove_records(&records)?;
            match fs::remove_dir_all(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            }
        };
        fault::blocking(move || {
            remove().map_err(|error| {
                fault::io(format_args!("remove the records of cell {cell}"), &error)
            })
        })
        .await
    }

    /// The cells that have a directory, known to the store or not.
    pub(crate) fn cells_on_disk(&self) -> Result<Vec<CellId>> {
        let entries = match fs::read_dir(self.cells_dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(fault::io("list the cells' directories", &error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }
}

fn make_dir(path: PathBuf) -> io::Result<Made> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(Made::New),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Made::Existed),
        Err(error) => Err(error),
    }
}
