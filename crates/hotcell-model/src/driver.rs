//! The port to the places where cells live.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    CellId, CellSpec, Checkpointer, Error, Images, Isolation, Networks, Projects, Removed, Result,
    Thrift,
};

/// What the machine behind a driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Memory in MiB.
    pub memory_mb: u64,
    /// CPUs.
    pub cpus: u32,
    /// The most processes that can exist.
    pub pids: u32,
    /// The size of the file system that cells write to, in MiB.
    pub disk_mb: u64,
}

/// What a driver can do here; contract tests branch on these and on nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverCapabilities {
    /// What there is to share out.
    pub machine: Machine,
    /// Whether execs may run as uid 0 of the cell.
    pub as_root: bool,
    /// Whether a cell has a root and a network of its own. Without, paths in commands are the host's,
    /// and there are no checkpoints, forks, projects, ports and allowed names.
    pub own_root: bool,
    /// Whether states of a cell's files can be kept and gone back to.
    pub checkpoints: bool,
    /// Whether a memory limit is enforced.
    pub memory_limit: bool,
    /// Whether a CPU limit is enforced.
    pub cpu_limit: bool,
    /// Whether a limit on processes is enforced.
    pub pids_limit: bool,
    /// Whether a limit on bytes and files on disk is enforced.
    pub disk_limit: bool,
}

/// A cell whose supervisor was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// What separates it from the host.
    pub isolation: Isolation,
}

/// A cell that a driver knows of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedCell {
    /// As it was spawned.
    pub spec: CellSpec,
    /// What separates it from the host, when it was ever started.
    pub isolation: Option<Isolation>,
}

/// What a driver has of cells, wherever it was looked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remains {
    /// Cells that there is anything of, and what it is can be read.
    pub cells: Vec<CellId>,
    /// Cells whose description cannot be read, and why. They are never taken for missing or unknown.
    pub unreadable: Vec<(CellId, Error)>,
    /// Why it could not be looked everywhere: what is there is not known, and is left alone.
    pub unseen: Vec<Error>,
}

impl From<Vec<CellId>> for Remains {
    fn from(cells: Vec<CellId>) -> Self {
        Self { cells, ..Self::default() }
    }
}

/// How a check of the machine came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// It is there and works.
    Ok,
    /// It is missing, and cells do without it.
    Missing,
    /// It is missing, and no cell can be made.
    Fatal,
    /// It is a fact without a verdict.
    Info,
}

/// One thing that was looked at on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// How it came out.
    pub status: CheckStatus,
    /// What was seen.
    pub detail: String,
    /// What to do where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What a driver found out about its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The driver that looked.
    pub driver: String,
    /// Each thing it looked at.
    pub checks: Vec<Check>,
    /// The isolation that a new cell would have; none when no cell can be made.
    pub isolation: Option<Isolation>,
}

/// A kind of place for cells. It places a supervisor and opens streams to it, and nothing more.
///
/// Calls that change a cell are made under the cell's lock, so that a driver sees one at a time.
#[async_trait]
pub trait Driver: Send + Sync + std::fmt::Debug {
    /// The driver's name, as it stands in a cell's record.
    fn name(&self) -> &'static str;

    /// What can be enforced here. Cheap after the first call.
    async fn capabilities(&self) -> Result<DriverCapabilities>;

    /// What can be enforced in the places that have all of these labels.
    ///
    /// # Errors
    /// `not_found` where no place has them; `unsupported` where all cells are at one place.
    async fn capabilities_on(&self, on: &BTreeMap<String, String>) -> Result<DriverCapabilities> {
        match on.is_empty() {
            true => self.capabilities().await,
            false => Err(Error::unsupported(format!(
                "all cells of the driver {} are at one place, and it has no labels",
                self.name()
            ))
            .hint("leave out `on`, or choose the driver docker with several engines")),
        }
    }

    /// Whether the place of a cell that has no supervisor can be reached, so that it could wake. Cheap
    /// enough to be asked for every cell of a list.
    async fn reach_cell(&self, cell: &CellId) -> Result<()> {
        let _ = cell;
        Ok(())
    }

    /// Which of several places a cell is at, by name; `None` where there is but one.
    async fn engine_of(&self, cell: &CellId) -> Result<Option<String>> {
        let _ = cell;
        Ok(None)
    }

    /// Whether what places cells can be reached now.
    async fn reach(&self) -> Result<()> {
        self.capabilities().await.map(drop)
    }

    /// Looks at everything that cells need. Slow and thorough; for people.
    async fn diagnose(&self) -> Diagnosis;

    /// Starts the cell's supervisor: makes the cell if it is new, wakes it otherwise. The
    /// supervisor writes its journal and logs into `records`. Where a cell has a root of its own, what
    /// lies in `tools` is seen in it at `/tools`, by everybody, and nobody in the cell can write
    /// there. Idempotent: a cell that runs is left as it is. If it fails or is
    /// cancelled, a later call goes on from whatever was done.
    async fn start(
        &self,
        spec: &CellSpec,
        records: &Path,
        tools: Option<&Path>,
    ) -> Result<Placement>;

    /// Makes what was changed in `tools` since the cell was started visible in it. A cell that does
    /// not run is left alone.
    async fn tools_changed(&self, cell: &CellId) -> Result<()> {
        let _ = cell;
        Ok(())
    }

    /// Opens a stream to the cell's supervisor; `None` when there is none.
    async fn connect(&self, cell: &CellId) -> Result<Option<UnixStream>>;

    /// Ends the supervisor and with it every process of the cell, at once; files stay.
    async fn stop(&self, cell: &CellId) -> Result<()>;

    /// Removes everything the driver keeps of a cell that has no supervisor. Idempotent.
    ///
    /// # Errors
    /// `unavailable` if the description of the cell cannot be read; nothing is removed then.
    async fn remove(&self, cell: &CellId) -> Result<()>;

    /// Writes down that a cell that was made ahead of need is this one now: of the same id, tenant and
    /// shape. Idempotent.
    async fn assign(&self, spec: &CellSpec) -> Result<()>;

    /// Every cell this driver keeps something of that can be used.
    async fn list(&self) -> Result<Vec<PlacedCell>>;

    /// Every cell of this state directory that there is anything of, also what can be used no more.
    async fn remains(&self) -> Result<Remains>;

    /// Removes what there is of a cell that is not listed. Idempotent.
    async fn clear(&self, cell: &CellId) -> Result<()> {
        self.remove(cell).await
    }

    /// Whether the description of a cell can be read. One that is not there has none.
    ///
    /// # Errors
    /// `unavailable`, with the reason.
    async fn check_description(&self, cell: &CellId) -> Result<()>;

    /// Removes a cell whose description cannot be read. Only called because a user asked for it by
    /// name. A cell that can be read is removed as by [`Driver::remove`]. Idempotent.
    async fn remove_unreadable(&self, cell: &CellId) -> Result<()> {
        self.remove(cell).await
    }

    /// Removes what no cell, image or checkpoint needs, or tells what that would be.
    async fn collect(&self, thrift: &Thrift) -> Result<Vec<Removed>> {
        let _ = thrift;
        Ok(Vec::new())
    }

    /// What a cell has on disk, as last measured; `None` where nobody has measured it.
    async fn disk_bytes(&self, cell: &CellId) -> Result<Option<u64>> {
        let _ = cell;
        Ok(None)
    }

    /// What keeps states of cells' files; `None` where that cannot be done.
    fn checkpointer(&self) -> Option<&dyn Checkpointer> {
        None
    }

    /// What makes directories of the host workspaces of cells; `None` where that cannot be done.
    fn projects(&self) -> Option<&dyn Projects> {
        None
    }

    /// What the content of the image that a cell began with is called by; `None` for one of the host's
    /// programs, and where nobody wrote it down.
    async fn image_digest(&self, cell: &CellId) -> Result<Option<String>> {
        let _ = cell;
        Ok(None)
    }

    /// The image of a cell that names none; `None` where that is the host's programs.
    fn usual_image(&self) -> Option<&str> {
        None
    }

    /// What keeps images that cells begin with; `None` where there are none but the host's programs.
    fn images(&self) -> Option<&dyn Images> {
        None
    }

    /// What carries connections of cells to names that they may reach; `None` where that cannot be
    /// done.
    fn networks(&self) -> Option<&dyn Networks> {
        None
    }
}
