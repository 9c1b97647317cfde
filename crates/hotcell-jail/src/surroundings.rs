//! What is around the programs of a cell: a root and namespaces of its own, or the host's.

use std::path::PathBuf;

use crate::seccomp::{Ground, SetIds};

/// What programs find around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surroundings {
    /// Namespaces and a root that are the cell's own.
    Cell(SetIds),
    /// Those of a container, of which some parts are not theirs.
    Container(ContainerParts),
    /// Those of the host, of which they may use these parts.
    Host(HostParts),
}

/// What of the root of a container is not like the rest. Nobody in it can change the root itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerParts {
    /// What programs can neither read nor write; right below the root.
    pub hidden: PathBuf,
    /// What they may read, and no more.
    pub readable: Vec<PathBuf>,
    /// What they may read and run, though it is in what is hidden or in `/dev`.
    pub runnable: Vec<PathBuf>,
}

/// Parts of the host's file system, by what programs may do with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostParts {
    /// Read and run what is there.
    pub programs: Vec<PathBuf>,
    /// Read what is there.
    pub readable: Vec<PathBuf>,
    /// Read and write these devices.
    pub devices: Vec<PathBuf>,
    /// Everything: these directories are the cell's own. Without links on the way.
    pub own: Vec<PathBuf>,
}

impl Surroundings {
    /// As far as system calls depend on them.
    pub(crate) fn ground(&self) -> Ground {
        match self {
            Self::Cell(set_ids) => Ground::Cell(*set_ids),
            // What they write may be seen by others of the machine.
            Self::Container(_) => Ground::Container,
            Self::Host(_) => Ground::Host,
        }
    }
}
