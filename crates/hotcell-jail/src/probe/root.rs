//! Attempts at the parts of a cell's root, and at the whole of it.

use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::MountAttrFlags;

use super::attempt::{Attempt, Maps};
use super::{Finding, trial_layer};
use crate::enter::{Inside, Layers, enter};
use crate::ids::IdLayout;
use crate::mounts::{Layer, fresh};
use crate::overlay::{layers_from_host, layers_from_inside};
use crate::{Namespaces, Step, StepError};

const MOUNTS: Namespaces = Namespaces::USER.and(Namespaces::MOUNT);

/// The first user of a namespace may do there what needs a capability.
pub(super) fn powers(ids: &IdLayout) -> Finding {
    Attempt::new(Namespaces::USER.and(Namespaces::UTS), Maps::Of(ids))
        .work(|_| rustix::system::sethostname(b"cell").step(|| "set the host name".to_owned()))
        .run()
}

/// A new proc can be mounted, which the kernel refuses where the old one is partly covered.
pub(super) fn proc(ids: &IdLayout) -> Finding {
    Attempt::new(MOUNTS.and(Namespaces::PID), Maps::Of(ids))
        .work(|_| fresh("proc", &[], MountAttrFlags::MOUNT_ATTR_NOSUID).map(drop))
        .run()
}

/// Root of the host shows a directory through the map of a cell.
pub(super) fn idmapped_mount(ids: &IdLayout, directory: &Path) -> Finding {
    match ids {
        IdLayout::Private { .. } => {}
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
            return Finding::NotTried("only cells of root need it".to_owned());
        }
    }
    let layer = match layer_for(ids, directory, "idmapped") {
        Ok(layer) => Layer { upper: None, ..layer },
        Err(error) => return Finding::Refused(error.into()),
    };
    made_from_host(ids, std::slice::from_ref(&layer), directory).run()
}

/// An overlay is made the way that cells of these ids have it, and written to.
pub(super) fn overlay(ids: &IdLayout, directory: &Path) -> Finding {
    let layer = match layer_for(ids, directory, "overlay") {
        Ok(layer) => layer,
        Err(error) => return Finding::Refused(error.into()),
    };
    let layer = std::slice::from_ref(&layer);
    match ids {
        IdLayout::Private { .. } => {
            made_from_host(ids, layer, directory).work(|mounts| write_through(&mounts)).run()
        }
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
            Attempt::new(MOUNTS, Maps::Of(ids))
                .work(|_| write_through(&layers_from_inside(layer)?))
                .run()
        }
    }
}

/// All of a cell's root, with all of its namespaces.
pub(super) fn whole(ids: &IdLayout, inside: &Inside<'_>, directory: &Path) -> Finding {
    let all = |attempt: Attempt<'_>, layers: fn(Vec<OwnedFd>) -> Layers<'static>| {
        attempt
            .work(move |mounts| {
                enter(inside, layers(mounts))?;
                let file = "/workspace/.probe";
                std::fs::write(file, "probe").step(|| format!("write {file}"))
            })
            .run()
    };
    let attempt = Attempt::new(Namespaces::AT_BIRTH, Maps::Of(ids));
    match ids {
        IdLayout::Private { .. } => {
            let attempt = attempt
                .prepare(|cell| layers_from_host(inside.layers, ids, cell, &scratch(directory)?));
            all(attempt, |mounts| Layers::Coming(Box::new(|| Ok(mounts))))
        }
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
            all(attempt, |_| Layers::ToMake)
        }
    }
}

fn made_from_host<'a>(ids: &'a IdLayout, layers: &'a [Layer], directory: &'a Path) -> Attempt<'a> {
    Attempt::new(MOUNTS, Maps::Of(ids))
        .prepare(move |cell| layers_from_host(layers, ids, cell, &scratch(directory)?))
}

/// Writes a file through mounts that are attached nowhere.
fn write_through(mounts: &[OwnedFd]) -> Result<(), StepError> {
    for mount in mounts {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let step = || "write a file through an overlay".to_owned();
        let file = openat(mount, "probe", flags, Mode::from_raw_mode(0o600)).step(step)?;
        rustix::io::write(&file, b"probe").step(step)?;
    }
    Ok(())
}

fn layer_for(ids: &IdLayout, directory: &Path, name: &str) -> Result<Layer, StepError> {
    let step = || format!("make directories in {}", directory.display());
    let layer = trial_layer(directory, name).step(step)?;
    let (uid, gid) = ids.supervisor();
    if let Some(upper) = &layer.upper {
        for part in [&upper.data, &upper.work] {
            chown(part, Some(uid), Some(gid)).step(step)?;
        }
    }
    Ok(layer)
}

fn scratch(directory: &Path) -> Result<std::path::PathBuf, StepError> {
    let scratch = directory.join("scratch");
    std::fs::create_dir_all(&scratch).step(|| format!("make {}", scratch.display()))?;
    Ok(scratch)
}
