//! A cell's layers as mounts that are not attached yet.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use crate::ids::IdLayout;
use crate::mounts::{
    Below, Depth, Layer, Lower, LowerIds, OverlayMaker, Upper, attach, copy_tree, make_read_only,
    make_safe, map_ids, overlay, path_of,
};
use crate::namespace_work::{host_map, range_map, user_namespace_of};
use crate::{Step, StepError};

/// Makes the layers of a cell from the host's side, with the ids of the layers below shown through
/// the cell's map. `scratch` is an empty directory.
pub(crate) fn layers_from_host(
    layers: &[Layer],
    ids: &IdLayout,
    cell: Pid,
    scratch: &Path,
) -> Result<Vec<OwnedFd>, StepError> {
    let user_namespace = user_namespace_of(cell)?;
    layers_shown_in(layers, ids, user_namespace.as_fd(), scratch)
}

/// The same for a cell whose user namespace is at hand.
pub(crate) fn layers_shown_in(
    layers: &[Layer],
    ids: &IdLayout,
    user_namespace: BorrowedFd<'_>,
    scratch: &Path,
) -> Result<Vec<OwnedFd>, StepError> {
    let mut mounts = Vec::with_capacity(layers.len());
    for layer in layers {
        let shown = layer
            .lowers
            .iter()
            .map(|lower| shown_lower(lower, ids, user_namespace))
            .collect::<Result<Vec<_>, _>>()?;
        match (&layer.upper, shown.as_slice()) {
            (None, [_]) => {
                let only = shown.into_iter().next();
                let only = only.ok_or_else(|| std::io::Error::other("nothing is shown"));
                let only = only.step(|| format!("show {}", layer.target.display()))?;
                bound(&only, layer)?;
                mounts.push(only);
            }
            (upper, shown) => {
                // Since Linux 6.15 a layer need not be attached anywhere.
                let unattached: Vec<PathBuf> = shown.iter().map(path_of).collect();
                let made = overlay(&unattached, upper.as_ref(), OverlayMaker::Host, layer.below());
                let made = made
                    .or_else(|_| overlay_attached(shown, upper.as_ref(), layer.below(), scratch))?;
                mounts.push(made);
            }
        }
    }
    Ok(mounts)
}

/// Gives a mount of a single directory what the layer says of writing to it.
fn bound(mount: &OwnedFd, layer: &Layer) -> Result<(), StepError> {
    let made = match layer.shared {
        Some(_) => make_safe(mount.as_fd(), Depth::Tree),
        None => make_read_only(mount.as_fd(), Depth::Tree),
    };
    made.step(|| format!("make {} safe", layer.target.display()))
}

/// A directory below as a mount that shows the cell's ids.
fn shown_lower(
    lower: &Lower,
    ids: &IdLayout,
    user_namespace: BorrowedFd<'_>,
) -> Result<OwnedFd, StepError> {
    let mount = copy_tree(&lower.hold()?.path)?;
    let name = || format!("idmapped mount of {}", lower.path.display());
    match (lower.ids, ids) {
        (LowerIds::Own, _) => {}
        (LowerIds::Image, _) => map_ids(mount.as_fd(), user_namespace).step(name)?,
        (LowerIds::Other(from), IdLayout::Private { base }) => {
            let map = range_map(from, *base)?;
            map_ids(mount.as_fd(), map.as_fd()).step(name)?;
        }
        (LowerIds::Host { uid, gid }, IdLayout::Private { base }) => {
            let map = host_map(*base, uid, gid)?;
            map_ids(mount.as_fd(), map.as_fd()).step(name)?;
        }
        (
            LowerIds::Other(_) | LowerIds::Host { .. },
            IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. },
        ) => {}
    }
    Ok(mount)
}

/// Makes an overlay on layers that are attached meanwhile, in a mount namespace of this process's
/// own, so that nothing of it is seen on the host.
fn overlay_attached(
    lowers: &[OwnedFd],
    upper: Option<&Upper>,
    below: Below,
    scratch: &Path,
) -> Result<OwnedFd, StepError> {
    unshare_mounts()?;
    let mut attached = Vec::with_capacity(lowers.len());
    for (number, lower) in lowers.iter().enumerate() {
        let place = scratch.join(number.to_string());
        std::fs::create_dir_all(&place).step(|| format!("make {}", place.display()))?;
        attach(lower.as_fd(), &place)?;
        attached.push(place);
    }
    let made = overlay(&attached, upper, OverlayMaker::Host, below);
    for place in attached {
        // The overlay has its own hold on the layers below.
        unmount(&place, UnmountFlags::DETACH).step(|| format!("detach {}", place.display()))?;
        let _ = std::fs::remove_dir(&place);
    }
    made
}

/// Makes the layers of a cell from inside its user namespace.
pub(crate) fn layers_from_inside(layers: &[Layer]) -> Result<Vec<OwnedFd>, StepError> {
    layers
        .iter()
        .map(|layer| match (&layer.upper, layer.lowers.as_slice()) {
            (None, [only]) => {
                let tree = copy_tree(&only.hold()?.path)?;
                bound(&tree, layer)?;
                Ok(tree)
            }
            (upper, lowers) => {
                let held = lowers.iter().map(Lower::hold).collect::<Result<Vec<_>, _>>()?;
                let paths: Vec<PathBuf> = held.iter().map(|held| held.path.clone()).collect();
                overlay(&paths, upper.as_ref(), OverlayMaker::Inside, layer.below())
            }
        })
        .collect()
}

pub(crate) fn unshare_mounts() -> Result<(), StepError> {
    // SAFETY: only the mount namespace is unshared; nothing in this process refers to mounts by
    // anything but descriptors and paths.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .step(|| "unshare the mount namespace".to_owned())?;
    // Slave: what is unmounted on the host is unmounted here too and not held busy.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .step(|| "make mounts private".to_owned())
}
