//! Where a cell in a container lies in the state directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_keeper::KeptPlace;
use hotcell_model::{CellId, CellSpec};
use hotcell_place::{Accounts, read_json, save_json};
use serde::{Deserialize, Serialize};

/// The driver's part of the state directory.
#[derive(Debug, Clone)]
pub(crate) struct DockerPaths {
    root: PathBuf,
}

/// What is written down of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Placed {
    /// The format of this file.
    pub(crate) version: u32,
    pub(crate) spec: CellSpec,
    pub(crate) records: PathBuf,
    /// What its image is called by, whatever has its name by now.
    pub(crate) image: String,
    /// The user and group of its container.
    pub(crate) user: (u32, u32),
    /// The engine that has its volumes, by what it calls itself.
    pub(crate) engine: String,
    /// The same engine, by what the configuration called it then; none of the time when there was one.
    #[serde(default)]
    pub(crate) engine_name: Option<String>,
    /// Whether its engine is on another machine, where a container beside it has its records.
    #[serde(default)]
    pub(crate) outpost: bool,
    /// Where that engine has its data, in its own words: copies of a machine call themselves the same.
    #[serde(default)]
    pub(crate) engine_data: Option<String>,
    /// Where its image wants to write.
    pub(crate) scratch: Vec<String>,
    /// Whether its volumes are as they have to be.
    pub(crate) prepared: bool,
}

/// The socket of a cell's supervisor, in its place.
pub(crate) const LINK_SOCKET: &str = "link.sock";
/// The format that this version writes.
pub(crate) const PLACED_VERSION: u32 = 1;

impl DockerPaths {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { root: state_dir.join("docker") }
    }

    /// The copies of the program that containers run from.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join("programs")
    }

    /// What is known of an engine.
    pub(crate) fn engine(&self, name: &str) -> PathBuf {
        self.engines().join(format!("{name}.json"))
    }

    fn engines(&self) -> PathBuf {
        self.root.join("engines")
    }

    pub(crate) fn make(&self) -> io::Result<()> {
        fs::create_dir_all(self.engines())
    }

    pub(crate) fn cells(&self) -> PathBuf {
        self.root.join("cells")
    }

    pub(crate) fn cell(&self, cell: &CellId) -> CellPaths {
        CellPaths { root: self.cells().join(cell.as_str()) }
    }

    /// What this state directory is called by at engines that others use too; made if there is none.
    pub(crate) fn state_id(&self) -> io::Result<String> {
        let path = self.root.join("id.json");
        if let Some(id) = read_json(&path)? {
            return Ok(id);
        }
        fs::create_dir_all(&self.root)?;
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let id = format!("{:016x}", u64::from_be_bytes(bytes));
        let temporary = self.root.join(format!("id-{id}"));
        save_json(&temporary, &id)?;
        // Whoever comes first is right.
        let linked = fs::hard_link(&temporary, &path);
        fs::remove_file(&temporary)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => read_json(&path)?.ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }
}

/// One cell's part.
#[derive(Debug, Clone)]
pub(crate) struct CellPaths {
    root: PathBuf,
}

impl CellPaths {
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What the cell is.
    pub(crate) fn placed(&self) -> PathBuf {
        self.root.join("cell.json")
    }

    /// What separates it from the host.
    pub(crate) fn isolation(&self) -> PathBuf {
        self.root.join("isolation.json")
    }

    /// Who is who in it.
    pub(crate) fn accounts(&self, accounts: Accounts) -> PathBuf {
        let name = Path::new(accounts.path).file_name().unwrap_or_default();
        self.root.join(name)
    }

    /// What of it is its keeper's.
    pub(crate) fn kept(&self) -> KeptPlace<'_> {
        KeptPlace::at(&self.root)
    }

    /// The directories of this machine that it writes to, where they are measured.
    pub(crate) fn measured(&self) -> PathBuf {
        self.root.join("measured.json")
    }

    /// The filter of its container, for an engine that wants it as a file.
    pub(crate) fn filter(&self) -> PathBuf {
        self.root.join("filter.json")
    }

    /// Whom its programs are to trust besides, for a cell with an authority of its own.
    pub(crate) fn trust(&self) -> PathBuf {
        self.root.join("trust")
    }

    /// The directory in which its first process asks what to be; all of it that a container sees.
    pub(crate) fn birthplace(&self) -> PathBuf {
        self.root.join("birth")
    }
}
