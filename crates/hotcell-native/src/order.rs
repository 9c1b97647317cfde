//! What the driver tells a keeper, and what a cell's directory says of the cell.

use std::path::PathBuf;

use hotcell_egress::EgressSettings;
use hotcell_jail::cgroup::Together;
use hotcell_jail::ids::IdLayout;
use hotcell_jail::mounts::Layer;
use hotcell_jail::probe::Report;
use hotcell_model::{CellSpec, Digest, Error, Isolation, Patch, PathChange, RequiredIsolation};
use serde::{Deserialize, Serialize};

use crate::checkpoint_file::Part;
use crate::driver::CgroupUse;
use crate::flatten::Aim;
use crate::merge_layers::Merge;
use crate::paths::CellPaths;
use crate::project::{Project, ProjectOutcome, ProjectTask};
use crate::unpack::{LayerOrder, UnpackedTo};

/// What a cell is on this machine; kept in its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Placed {
    /// The format of this file.
    pub(crate) version: u32,
    /// As it was spawned.
    pub(crate) spec: CellSpec,
    /// Its ids on the host; what lies on disk depends on them.
    pub(crate) ids: IdLayout,
    /// Its parts.
    pub(crate) layers: Vec<Layer>,
    /// Where its supervisor writes its journal and logs.
    pub(crate) records: PathBuf,
    /// The layer that it writes to now; none for a cell of the first format, which has it in its
    /// own directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upper: Option<PathBuf>,
    /// The directory of the host that is its workspace, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<Project>,
    /// What the content of its image is called by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image_digest: Option<Digest>,
}

impl Placed {
    /// The directory that it writes to now.
    pub(crate) fn files(&self, paths: &CellPaths) -> PathBuf {
        self.upper.clone().unwrap_or_else(|| paths.files())
    }
}

/// The format that this build writes.
pub(crate) const PLACED_VERSION: u32 = 2;

/// What a keeper is to do with a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Start its supervisor, then watch it.
    Start,
    /// Watch a supervisor whose keeper is gone.
    Watch,
    /// Remove what is left of a cell without supervisor.
    Remove,
    /// Remove layers that nobody names.
    Collect,
    /// Make layers one, each of some others.
    Merge {
        /// Which.
        merges: Vec<Merge>,
    },
    /// Make the cell's layers fewer; that it was begun is all that is answered.
    Flatten(Aim),
    /// Measure what the cell has written and writes to no more.
    Measure,
    /// Copy what the cell has written, if its disk limit and the disk have room for that.
    Copy {
        /// From where to where.
        pairs: Vec<(PathBuf, PathBuf)>,
    },
    /// Tell what differs between these layers and the cell as it is.
    Compare {
        /// What to compare with.
        parts: Vec<Part>,
        /// How many changes to skip.
        #[serde(default)]
        skip: u32,
        /// How many changes to look for at most.
        limit: u32,
        /// How many bytes of a patch to make at most.
        #[serde(default)]
        patch_bytes: Option<u32>,
    },
    /// Do something with the directory of the host that is the cell's workspace.
    Project(ProjectTask),
    /// Make a layer of an image a directory.
    Unpack(Box<LayerOrder>),
    /// Remove layers of images that nothing names.
    CollectImages {
        /// Whose their files are.
        ids: IdLayout,
    },
    /// The same, and layers of cells that nothing names.
    CollectUnnamed {
        /// Whose their files are.
        ids: IdLayout,
    },
    /// Try in the directory what a cell would need.
    Probe {
        /// Root file systems that cells start from.
        bases: PathBuf,
    },
}

/// A keeper's order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The cell's directory.
    pub(crate) directory: PathBuf,
    /// Whether control groups are used.
    pub(crate) cgroups: CgroupUse,
    /// What a cell that is started must have.
    #[serde(default)]
    pub(crate) required: RequiredIsolation,
    /// What the operator chose about the network of cells.
    #[serde(default)]
    pub(crate) egress: EgressSettings,
    /// What all cells of the state directory may use together.
    #[serde(default)]
    pub(crate) together: Together,
    /// The directory of the host that a cell that is started shows at `/tools`.
    #[serde(default)]
    pub(crate) tools: Option<PathBuf>,
    /// What to do.
    pub(crate) task: Task,
}

/// What a keeper answers: one line on its standard output.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The supervisor is ready.
    Ready(Isolation),
    /// It was done.
    Done,
    /// It was not.
    Failed(Error),
    /// What came of something with a project.
    Project(Box<ProjectOutcome>),
    /// What a layer is.
    Unpacked(UnpackedTo),
    /// What came of trying.
    Probed(Box<Report>),
    /// What differs.
    Compared {
        /// By path.
        changes: Vec<PathChange>,
        /// Whether there is more.
        truncated: bool,
        /// The changes themselves.
        #[serde(default)]
        patch: Option<Patch>,
    },
}
