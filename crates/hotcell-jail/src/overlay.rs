//! A cell's layers as mounts that are not attached yet.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use crate::mounts::{
    Depth, Layer, OverlayMaker, Upper, attach, copy_tree, make_read_only, map_ids, overlay,
};
use crate::namespace_work::user_namespace_of;
use crate::{Step, StepError};

/// Makes the layers of a cell from the host's side, with the ids of the layers below shown through
/// the cell's map. `scratch` is an empty directory.
pub(crate) fn layers_from_host(
    layers: &[Layer],
    cell: Pid,
    scratch: &Path,
) -> Result<Vec<OwnedFd>, StepError> {
    let user_namespace = user_namespace_of(cell)?;
    let mut mounts = Vec::with_capacity(layers.len());
    for layer in layers {
        let lower = copy_tree(&layer.lower)?;
        map_ids(lower.as_fd(), user_namespace.as_fd())
            .step(|| format!("idmapped mount of {}", layer.lower.display()))?;
        match &layer.upper {
            None => {
                make_read_only(lower.as_fd(), Depth::Tree)
                    .step(|| format!("make {} read-only", layer.lower.display()))?;
                mounts.push(lower);
            }
            Some(upper) => {
                // Since Linux 6.15 a layer need not be attached anywhere.
                let unattached = PathBuf::from(format!("/proc/self/fd/{}", lower.as_raw_fd()));
                let made = overlay(&unattached, upper, OverlayMaker::Host);
                mounts.push(made.or_else(|_| overlay_attached(&lower, upper, scratch))?);
            }
        }
    }
    Ok(mounts)
}

/// Makes an overlay on a layer that is attached meanwhile, in a mount namespace of this process's
/// own, so that nothing of it is seen on the host.
fn overlay_attached(lower: &OwnedFd, upper: &Upper, scratch: &Path) -> Result<OwnedFd, StepError> {
    unshare_mounts()?;
    attach(lower.as_fd(), scratch)?;
    let made = overlay(scratch, upper, OverlayMaker::Host);
    // The overlay has its own hold on the layer below.
    unmount(scratch, UnmountFlags::DETACH).step(|| format!("detach {}", scratch.display()))?;
    made
}

/// Makes the layers of a cell from inside its user namespace.
pub(crate) fn layers_from_inside(layers: &[Layer]) -> Result<Vec<OwnedFd>, StepError> {
    layers
        .iter()
        .map(|layer| match &layer.upper {
            Some(upper) => overlay(&layer.lower, upper, OverlayMaker::Inside),
            None => {
                let tree = copy_tree(&layer.lower)?;
                make_read_only(tree.as_fd(), Depth::Tree)
                    .step(|| format!("make {} read-only", layer.lower.display()))?;
                Ok(tree)
            }
        })
        .collect()
}

fn unshare_mounts() -> Result<(), StepError> {
    // SAFETY: only the mount namespace is unshared; nothing in this process refers to mounts by
    // anything but descriptors and paths.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .step(|| "unshare the mount namespace".to_owned())?;
    // Slave: what is unmounted on the host is unmounted here too and not held busy.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .step(|| "make mounts private".to_owned())
}
