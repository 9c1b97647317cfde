//! States of a cell's files to look at, without a cell.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use crate::ids::IdLayout;
use crate::mounts::{Below, Lower, OverlayMaker, copy_tree, overlay};
use crate::namespace_work::child_with_ids;
use crate::overlay::unshare_mounts;
use crate::{Step, StepError};

/// Makes each list of directories, the topmost first, one that can be read, and does some work on
/// them, in a process that sees the cell's ids. What the work says is passed back.
///
/// # Errors
/// The views could not be made, or the work failed.
pub fn with_views(
    ids: &IdLayout,
    states: &[Vec<Lower>],
    work: impl FnOnce(&[OwnedFd]) -> io::Result<Vec<u8>>,
) -> Result<Vec<u8>, StepError> {
    child_with_ids(ids, || {
        let name = || "look at the cell's files".to_owned();
        unshare_mounts()?;
        let maker = match ids {
            IdLayout::Private { .. } => OverlayMaker::Host,
            IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
                OverlayMaker::Inside
            }
        };
        let views = states.iter().map(|state| view(state, maker));
        let views = views.collect::<Result<Vec<_>, _>>()?;
        work(&views).step(name)
    })
}

fn view(state: &[Lower], maker: OverlayMaker) -> Result<OwnedFd, StepError> {
    let held = state.iter().map(Lower::hold).collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<PathBuf> = held.iter().map(|held| held.path.clone()).collect();
    let mount = match paths.as_slice() {
        [only] => copy_tree(only)?,
        several => overlay(several, None, maker, Below::Still)?,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&mount, ".", flags, Mode::empty())
        .step(|| "open a state of the cell's files".to_owned())
}
