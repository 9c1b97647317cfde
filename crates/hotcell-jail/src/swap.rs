//! Other layers for a cell that runs: its root is exchanged under it, by a process from outside.
//!
//! Nothing may hold on to the old root but pid 1, whose root and directory the kernel moves along.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsPickFlags, MoveMountFlags, UnmountFlags, fsconfig_reconfigure, fspick, move_mount, unmount,
};
use rustix::process::{Gid, Uid, fchdir, pivot_root};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::ids::{EXEC_ID, IdLayout};
use crate::lists::FRESH;
use crate::mounts::Layer;
use crate::namespace_work::{become_root, in_child, in_process_of_its_own};
use crate::overlay::{layers_from_inside, layers_shown_in, unshare_mounts};
use crate::process::drop_capabilities;
use crate::{Step, StepError, shown};

/// The namespaces of a cell that runs.
#[derive(Debug)]
pub struct CellNamespaces {
    /// Its user namespace.
    pub user: OwnedFd,
    /// Its mount namespace.
    pub mount: OwnedFd,
    /// Its network namespace.
    pub network: OwnedFd,
}

impl CellNamespaces {
    /// Those of a live process that does not hide itself yet, or of any for root.
    ///
    /// # Errors
    /// The process is gone, or may not be looked at.
    pub fn of(pid: rustix::process::Pid) -> Result<Self, StepError> {
        let open = |kind: &str| {
            let path = format!("/proc/{}/ns/{kind}", pid.as_raw_nonzero());
            std::fs::File::open(&path).map(OwnedFd::from).step(|| format!("open {path}"))
        };
        Ok(Self { user: open("user")?, mount: open("mnt")?, network: open("net")? })
    }
}

/// Gives a cell other layers. Those of `layers` that are in `changed` too are made anew, `/` before
/// the others; every other mount below `/` goes along as it is. `scratch` is an empty
/// directory.
///
/// # Errors
/// The step that failed. The cell may then have no root that is whole, and must be ended.
pub fn swap_layers(
    cell: &CellNamespaces,
    ids: &IdLayout,
    layers: &[Layer],
    changed: &[Layer],
    scratch: &Path,
) -> Result<(), StepError> {
    let mounts = match ids {
        IdLayout::Private { .. } => layers_shown_in(changed, ids, cell.user.as_fd(), scratch)?,
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
            Vec::new()
        }
    };
    let exchange = || {
        let mounts = match ids {
            IdLayout::Private { .. } => mounts,
            IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
                join(cell.user.as_fd(), LinkNameSpaceType::User)?;
                // The host's files as the cell's user namespace may use them.
                unshare_mounts()?;
                layers_from_inside(changed)?
            }
        };
        join(cell.mount.as_fd(), LinkNameSpaceType::Mount)?;
        exchange_root(layers, changed, &mounts)
    };
    in_process_of_its_own("exchange the layers of a cell", exchange)
}

/// Lets a cell that runs forget what it knows of the directories below one of its overlays, so that
/// it sees what was changed in them from outside.
///
/// # Errors
/// The step that failed.
pub fn refresh_layer(
    cell: &CellNamespaces,
    ids: &IdLayout,
    target: &Path,
) -> Result<(), StepError> {
    let name = || format!("refresh {}", target.display());
    in_process_of_its_own("refresh a layer of a cell", || {
        join_mounts(cell, ids)?;
        let context = fspick(CWD, target, FsPickFlags::FSPICK_CLOEXEC).step(name)?;
        // With every option as it is: all that happens is that what is not in use is forgotten.
        fsconfig_reconfigure(&context).step(name)
    })
}

/// Does some work on what a cell that runs sees at one of its overlays, as an ordinary user of the
/// cell. What the work says is passed back.
///
/// # Errors
/// The step that failed, or the work did.
pub fn work_in_layer(
    cell: &CellNamespaces,
    ids: &IdLayout,
    target: &Path,
    work: impl FnOnce(&OwnedFd) -> io::Result<Vec<u8>>,
) -> Result<Vec<u8>, StepError> {
    let name = || format!("work in {} of a cell", target.display());
    in_child("work in a layer of a cell", || {
        join_mounts(cell, ids)?;
        if matches!(ids, IdLayout::Private { .. }) {
            join(cell.user.as_fd(), LinkNameSpaceType::User)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(target, flags, Mode::empty()).step(name)?;
        become_exec(ids).step(name)?;
        work(&directory).step(name)
    })
}

/// Switches to the user of ordinary execs and drops all capabilities.
fn become_exec(ids: &IdLayout) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(EXEC_ID), Gid::from_raw(EXEC_ID));
    if ids.has_root() {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    drop_capabilities()
}

/// The same for what is shown at `/tools`.
///
/// # Errors
/// The step that failed.
pub fn refresh_shown(cell: &CellNamespaces, ids: &IdLayout) -> Result<(), StepError> {
    in_process_of_its_own("refresh the tools of a cell", || {
        join_mounts(cell, ids)?;
        shown::look_anew()
    })
}

/// Moves this process, which must have one thread, into the network of a cell, with no more power
/// over the host than the cell's own root has.
///
/// # Errors
/// The step that failed.
pub fn enter_network(cell: &CellNamespaces) -> Result<(), StepError> {
    join(cell.user.as_fd(), LinkNameSpaceType::User)?;
    join(cell.network.as_fd(), LinkNameSpaceType::Network)?;
    become_root();
    Ok(())
}

/// Moves this process to the mounts of a cell, with the power over them of whoever made them.
fn join_mounts(cell: &CellNamespaces, ids: &IdLayout) -> Result<(), StepError> {
    if !matches!(ids, IdLayout::Private { .. }) {
        join(cell.user.as_fd(), LinkNameSpaceType::User)?;
    }
    join(cell.mount.as_fd(), LinkNameSpaceType::Mount)
}

fn join(namespace: BorrowedFd<'_>, kind: LinkNameSpaceType) -> Result<(), StepError> {
    move_into_link_name_space(namespace, Some(kind)).step(|| "enter the cell".to_owned())
}

/// What is mounted below `/` and goes along.
struct Along {
    name: OsString,
    mount: OwnedFd,
}

/// The old root, which is nowhere to be seen any more. Before the kernel lets go of it, it writes out
/// what is in memory of its disk; that may take long.
fn exchange_root(
    layers: &[Layer],
    changed: &[Layer],
    mounts: &[OwnedFd],
) -> Result<OwnedFd, StepError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = rustix::fs::open("/", flags, Mode::empty()).step(|| "open /".to_owned())?;
    let Some((root, others)) = mounts.split_first() else { return Ok(old) };
    if changed.first().is_none_or(|first| first.target != Path::new("/")) {
        exchange_parts(changed, mounts)?;
        return Ok(old);
    }
    let along = mounted_below_root(layers, changed)?;
    let tools = shown::find()?;
    let both_empty =
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(root, "", &old, "", both_empty).step(|| "put the new root in place".to_owned())?;
    let put = |mount: &OwnedFd, name: &Path| {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(mount, "", root, name, flags)
            .step(|| format!("put /{} in place", name.display()))
    };
    for (layer, mount) in changed[1..].iter().zip(others) {
        put(mount, layer.target.strip_prefix("/").unwrap_or(&layer.target))?;
    }
    for Along { name, mount } in &along {
        put(mount, Path::new(name))?;
    }
    if let Some(tools) = &tools {
        shown::put(tools, root)?;
    }
    fchdir(root).step(|| "enter the new root".to_owned())?;
    pivot_root(".", ".").step(|| "pivot_root".to_owned())?;
    unmount(".", UnmountFlags::DETACH).step(|| "detach the old root".to_owned())?;
    Ok(old)
}

/// The same for parts alone, with the root as it is.
fn exchange_parts(changed: &[Layer], mounts: &[OwnedFd]) -> Result<(), StepError> {
    for (layer, mount) in changed.iter().zip(mounts) {
        let name = || format!("put {} in place", layer.target.display());
        unmount(&layer.target, UnmountFlags::DETACH).step(name)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(mount, "", CWD, &layer.target, flags).step(name)?;
    }
    Ok(())
}

/// The mounts directly below `/` that are not made anew.
fn mounted_below_root(layers: &[Layer], changed: &[Layer]) -> Result<Vec<Along>, StepError> {
    let others = layers.iter().filter(|layer| changed.iter().all(|new| new.target != layer.target));
    let others = others.filter_map(|layer| layer.target.strip_prefix("/").ok());
    let names = others.map(Path::as_os_str).chain(FRESH.iter().map(OsStr::new));
    names
        .filter(|name| !name.is_empty())
        .map(|name| {
            let target = Path::new("/").join(name);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mount = rustix::fs::open(&target, flags, Mode::empty())
                .step(|| format!("open {}", target.display()))?;
            Ok(Along { name: name.to_owned(), mount })
        })
        .collect()
}
