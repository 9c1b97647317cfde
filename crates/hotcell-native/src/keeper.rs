//! `hotcell keep`: the host-side half of a cell, a process of its own that needs no other.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hotcell_jail::ids::{IdLayout, starter};
use hotcell_jail::namespace_work::{Namespace, work_in};
use hotcell_jail::process::Confinement;
use hotcell_jail::signals::send_by_pidfd;
use hotcell_jail::swap::CellNamespaces;
use hotcell_jail::{Step as _, StepError};
use hotcell_keeper::{
    KeptCarrier, LockWait, Side, WhichProcess, answer_order as answer, belong_to_nobody, take_order,
};
use hotcell_model::Error;
use hotcell_place::write_json;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};

use crate::compare::compare;
use crate::copy_layer::copy_layer;
use crate::diagnose::try_out;
use crate::disk::Written;
use crate::driver::FREE_SPACE;
use crate::flatten::flatten;
use crate::groups::ControlGroups;
use crate::image_store::ImageStore;
use crate::isolation::describe;
use crate::layer_store::LayerStore;
use crate::merge_layers::merge_layers;
use crate::on_host;
use crate::order::{Order, Outcome, Placed, Task};
use crate::paths::CellPaths;
use crate::project::{self, Project};
use crate::removal::remove_files;
use crate::served::served;
use crate::start::{Fresh, Started, Supervise, start};
use crate::stragglers;
use crate::unpack::unpack;
use crate::watch::{forget, tidy_up, watch};
use crate::way::Way;

/// What a copy must leave free on the disk.
const LEFT_FREE: u64 = 64 << 20;

/// The whole life of a keeper: its order comes on standard input, its outcome goes to standard
/// output, and then it belongs to nobody. The supervisor that it starts is a fork of it, which goes
/// on with `supervise`.
#[must_use]
pub fn keep(supervise: Supervise) -> ExitCode {
    let Ok(order) = take_order::<Order>() else { return ExitCode::FAILURE };
    if let Task::Probe { bases } = &order.task {
        // No cell, so nothing that has to outlive whoever ordered it; and where nothing can be
        // forked, that is to be told.
        return exit_code(&probe(&order, bases));
    }
    if let Some(outcome) = of_images(&order) {
        return exit_code(&answer(&outcome));
    }
    match belong_to_nobody() {
        Ok(Side::Keeper) => {}
        Ok(Side::Starter) => return ExitCode::SUCCESS,
        Err(error) => {
            let error = Error::unavailable(format!("cannot start a process with clone3: {error}"))
                .hint("see what this machine lacks with `hotcell doctor`");
            return exit_code(&answer(&Outcome::Failed(error)));
        }
    }
    exit_code(&carry_out(&order, supervise))
}

fn exit_code(done: &io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Does what is about images; nobody needs that once whoever ordered it is gone, and with it the lock
/// on them.
fn of_images(order: &Order) -> Option<Outcome> {
    let end_with_parent = || set_parent_process_death_signal(Some(Signal::KILL));
    match &order.task {
        Task::Unpack(layer) => {
            Some(match end_with_parent().map_err(unbound).and_then(|()| unpack(layer)) {
                Ok(unpacked) => Outcome::Unpacked(unpacked),
                Err(error) => Outcome::Failed(error),
            })
        }
        Task::CollectImages { ids } => {
            let paths = CellPaths::at(order.directory.clone()).native();
            Some(collected(ImageStore::new(&paths).collect(ids)))
        }
        Task::CollectUnnamed { ids } => {
            let paths = CellPaths::at(order.directory.clone()).native();
            let of_images = ImageStore::new(&paths).collect_if_free(ids);
            Some(collected(of_images.and_then(|()| LayerStore::new(&paths).collect(ids))))
        }
        Task::Start
        | Task::Watch
        | Task::Remove
        | Task::Collect
        | Task::Merge { .. }
        | Task::Flatten(_)
        | Task::Measure
        | Task::Copy { .. }
        | Task::Compare { .. }
        | Task::Project(_)
        | Task::Probe { .. } => None,
    }
}

fn collected(done: io::Result<()>) -> Outcome {
    match done {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed(Error::unavailable(format!(
            "cannot remove layers that nothing needs: {error}"
        ))),
    }
}

fn unbound(errno: rustix::io::Errno) -> Error {
    Error::unavailable(format!("cannot end with whoever takes the image: {errno}"))
}

fn probe(order: &Order, bases: &Path) -> io::Result<()> {
    let outcome = match try_out(&order.directory, bases, order.cgroups) {
        Ok(report) => Outcome::Probed(Box::new(report)),
        Err(error) => Outcome::Failed(
            Error::unavailable(format!(
                "cannot prepare a trial in {}: {error}",
                order.directory.display()
            ))
            .hint("the state directory must be writable, and not full"),
        ),
    };
    answer(&outcome)
}

fn carry_out(order: &Order, supervise: Supervise) -> io::Result<()> {
    let paths = CellPaths::at(order.directory.clone());
    let Some(placed) = paths.read_placed()? else {
        return answer(&Outcome::Done);
    };
    let groups = ControlGroups::find(order, &paths, &placed)?;
    match &order.task {
        Task::Start => start_and_watch(order, &paths, supervise, groups),
        Task::Watch => {
            // Another process may have started a keeper meanwhile.
            let Some(_lock) = paths.kept().lock_keeper(LockWait::Try)? else {
                return answer(&Outcome::Done);
            };
            let found =
                WhichProcess::find_in(&paths.supervisor())?.map(|pid| (pid, open_pidfd(pid)));
            answer(&Outcome::Done)?;
            match found {
                Some((pid, Ok(pidfd))) => {
                    let namespaces = CellNamespaces::of(pid).ok();
                    let found = Started { pid, pidfd, namespaces };
                    let mut carrier =
                        KeptCarrier::find(paths.kept(), order.egress.clone(), &groups.carrier);
                    let (cell, pidfd) = (found.namespaces.as_ref(), found.pidfd.as_fd());
                    let _ = carrier.ensure(served(&paths, &placed, cell, pidfd));
                    watch(&paths, &placed, &groups, found, carrier)
                }
                Some((_, Err(_))) | None => tidy_up(&paths, &placed, &groups),
            }
        }
        Task::Collect => match LayerStore::new(&paths.native()).collect(&placed.ids) {
            Ok(()) => answer(&Outcome::Done),
            Err(error) => answer(&Outcome::Failed(Error::unavailable(format!(
                "cannot remove layers that nobody needs: {error}"
            )))),
        },
        Task::Merge { merges } => {
            let merge = |merge| merge_layers(merge, &placed.ids, &|| true);
            match merges.iter().try_for_each(merge) {
                Ok(()) => answer(&Outcome::Done),
                Err(error) => answer(&Outcome::Failed(Error::unavailable(format!(
                    "cannot make layers one: {error}"
                )))),
            }
        }
        Task::Flatten(aim) => {
            answer(&Outcome::Done)?;
            note_flattening(&paths, flatten(&paths, *aim))
        }
        Task::Measure => match measure(&paths, &placed) {
            Ok(_) => answer(&Outcome::Done),
            Err(error) => answer(&Outcome::Failed(unmeasured(&error))),
        },
        Task::Copy { pairs } => match copy(&paths, &placed, pairs) {
            Ok(()) => answer(&Outcome::Done),
            Err(error) => answer(&Outcome::Failed(error)),
        },
        Task::Compare { parts, skip, limit, patch_bytes } => {
            answer(&compare(&placed, parts, *skip..*limit, *patch_bytes))
        }
        Task::Project(task) => answer(&project::carry_out(&paths, task)),
        // Done without a cell.
        Task::Probe { .. }
        | Task::Unpack(_)
        | Task::CollectImages { .. }
        | Task::CollectUnnamed { .. } => answer(&Outcome::Done),
        Task::Remove => {
            let Some(_lock) = paths.kept().lock_keeper(LockWait::Wait)? else { return Ok(()) };
            match placed.way() {
                Way::OnHost => stragglers::end_of(&placed.spec.id)?,
                Way::InNamespaces => {}
            }
            let files = placed.files(&paths);
            project::leave(&paths, &placed);
            let removed = groups.remove().and_then(|()| remove_files(&files, &placed.ids));
            match removed.map_err(io::Error::other).and_then(|()| forget(&paths, &placed)) {
                Ok(()) => answer(&Outcome::Done),
                Err(error) => answer(&Outcome::Failed(Error::unavailable(format!(
                    "cannot remove the cell's files: {error}"
                )))),
            }
        }
    }
}

/// Leaves the reason of a failed merge with the cell.
fn note_flattening(paths: &CellPaths, done: io::Result<()>) -> io::Result<()> {
    match &done {
        Ok(()) => {
            let _ = std::fs::remove_file(paths.flattening_error());
        }
        Err(error) => paths.note_flattening_error(error),
    }
    done
}

/// Starts the supervisor of a cell and watches it to its end.
fn start_and_watch(
    order: &Order,
    paths: &CellPaths,
    supervise: Supervise,
    groups: ControlGroups,
) -> io::Result<()> {
    let Some(_lock) = paths.kept().lock_keeper(LockWait::Wait)? else { return Ok(()) };
    // What was removed meanwhile does not come back, and its layers may be others by now.
    let Some(placed) = paths.read_placed()? else {
        return answer(&Outcome::Done);
    };
    let expected = match placed.way() {
        Way::InNamespaces => Confinement::expected(),
        Way::OnHost => {
            if let Err(error) = on_host::check_starter(&placed.ids) {
                return answer(&Outcome::Failed(error));
            }
            // What its supervisor leaves behind comes to this process, and is ended by it.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
            stragglers::end_of(&placed.spec.id)?;
            Confinement::expected_on_host()
        }
    };
    // Groups with somebody in them cannot be removed.
    let groups = groups.prepare(order, paths, &placed)?;
    let isolation_with = |confinement: &Confinement| {
        describe(&placed.ids, &starter(), &groups.hierarchies, order.cgroups, confinement)
    };
    let mut isolation = isolation_with(&expected);
    if let Err(error) = order.required.check(&isolation) {
        return answer(&Outcome::Failed(error));
    }
    // Nothing is taken from what it writes to once it is there.
    let project_lock = placed.project.as_ref().map(|_| paths.lock_project()).transpose()?;
    let tools = order.tools.as_deref();
    let started = start(paths, &placed, supervise, &groups, &isolation, tools);
    drop(project_lock);
    let Fresh { started, confinement } = match started {
        Ok(fresh) => fresh,
        Err(error) => {
            // Nothing half-made stays behind.
            let _ = groups.remove();
            let error = start_error(paths, placed.project.as_ref(), &error);
            return answer(&Outcome::Failed(error));
        }
    };
    if confinement != expected {
        isolation = isolation_with(&confinement);
        write_json(&paths.isolation(), &isolation)?;
    }
    let mut carrier = KeptCarrier::new(order.egress.clone(), None, &groups.carrier);
    match order.required.check(&isolation) {
        Ok(()) => {
            // A cell whose connections cannot be carried has no network, and is tried again.
            let (namespaces, pidfd) = (started.namespaces.as_ref(), started.pidfd.as_fd());
            let _ = carrier.ensure(served(paths, &placed, namespaces, pidfd));
            answer(&Outcome::Ready(isolation))?;
        }
        Err(error) => {
            send_by_pidfd(started.pidfd.as_fd(), 9)?;
            answer(&Outcome::Failed(error))?;
        }
    }
    watch(paths, &placed, &groups, started, carrier)
}

/// What the cell writes to takes, and everything that counts as written by it.
fn measure(paths: &CellPaths, placed: &Placed) -> Result<(u64, u64), StepError> {
    let namespace = match placed.ids {
        IdLayout::Private { .. } | IdLayout::Host { .. } => Namespace::Own,
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } => Namespace::New(&placed.ids),
    };
    let written = Written::by(paths, placed).step(|| "read the cell's checkpoints".to_owned())?;
    let live = work_in(namespace, || written.live_use())?;
    Ok((live.bytes, live.bytes + work_in(namespace, || written.frozen_use())?.bytes))
}

fn unmeasured(error: &StepError) -> Error {
    Error::unavailable(format!("cannot measure what the cell has written: {error}"))
}

/// Copies what a cell has written where there is room for that.
fn copy(paths: &CellPaths, placed: &Placed, pairs: &[(PathBuf, PathBuf)]) -> Result<(), Error> {
    let (live, used) = measure(paths, placed).map_err(|error| unmeasured(&error))?;
    let limit = placed.spec.limits.disk_mb << 20;
    if live + used > limit {
        return Err(Error::limit_exceeded(format!(
            "something runs in the cell, so that what it has written would have to be copied: with \
             {} MiB more it would be over its disk limit of {} MiB, of which it uses {} MiB",
            live.div_ceil(1 << 20),
            placed.spec.limits.disk_mb,
            used.div_ceil(1 << 20)
        ))
        .hint("delete checkpoints or files, or try when nothing runs: nothing is copied then"));
    }
    let layers = paths.native().layers();
    let disk = rustix::fs::statvfs(&layers).map_err(|errno| {
        Error::unavailable(format!("cannot look at the disk of {}: {errno}", layers.display()))
    })?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < live + LEFT_FREE {
        return Err(Error::unavailable(format!(
            "a copy of what the cell has written takes {} MiB, and {} MiB are free at {}",
            live.div_ceil(1 << 20),
            free >> 20,
            layers.display()
        ))
        .hint(FREE_SPACE));
    }
    copy_layer(pairs, &placed.ids).map_err(|error| {
        Error::unavailable(format!("cannot copy what the cell has written: {error}"))
    })
}

fn open_pidfd(pid: Pid) -> io::Result<std::os::fd::OwnedFd> {
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Why a cell could not be started, with the remedy where it is known.
fn start_error(paths: &CellPaths, project: Option<&Project>, error: &StepError) -> Error {
    let text = error.to_string();
    // The host name is the first thing that needs a capability inside.
    let namespaces = ["clone into new namespaces", "uid_map", "set the host name"];
    let hint = if namespaces.iter().any(|step| text.contains(step)) {
        format!(
            "{}; or be content with cells of level process, see docs/isolation.md: set \
             native.level = \"process\"",
            crate::diagnose::user_namespace_remedy(error.source.raw_os_error())
        )
    } else if error.source.kind() == io::ErrorKind::StorageFull {
        let directory = paths.root().display();
        return Error::unavailable(format!("cannot start the cell in {directory}: {text}"))
            .hint(FREE_SPACE);
    } else if let Some(project) = project.filter(|project| !project.dir.is_dir()) {
        let dir = project.dir.display();
        return Error::unavailable(format!(
            "cannot start the cell: its workspace {dir} is not there"
        ))
        .hint("put the directory back, or end the cell with `hotcell kill`");
    } else if text.contains("overlay") || text.contains("idmapped mount") {
        "the state directory must be on a file system that overlayfs can write to (ext4, xfs, btrfs, tmpfs; not overlayfs or NFS): set HOTCELL_STATE_DIR".to_owned()
    } else {
        "see what this machine lacks with `hotcell doctor`".to_owned()
    };
    Error::unavailable(format!("cannot start the cell: {text}")).hint(hint)
}
