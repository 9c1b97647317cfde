//! What is around the programs of a cell: a root and namespaces of its own, or the host's.

use std::path::PathBuf;

use crate::seccomp::{Ground, SetUserId};

/// What programs find around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surroundings {
    /// Namespaces and a root that are the cell's own.
    Cell(SetUserId),
    /// Those of the host, of which they may use these parts.
    Host(HostParts),
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
            Self::Cell(set_user_id) => Ground::Cell(*set_user_id),
            Self::Host(_) => Ground::Host,
        }
    }
}
