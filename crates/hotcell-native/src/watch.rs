//! The keeper's long task: to be there when the supervisor ends, and to look after the disk.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_egress::EgressSettings;
use hotcell_jail::StepError;
use hotcell_jail::cgroup::Together;
use hotcell_jail::mounts::Layer;
use hotcell_jail::swap::{CellNamespaces, refresh_layer, refresh_shown, swap_layers};
use hotcell_journal::{Entry, last_entry};
use hotcell_keeper::{KeptCarrier, WatchLink, answer_one};
use hotcell_model::{Error, HOST_IMAGE, RequiredIsolation, WorkspaceMode};
use hotcell_place::write_json;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, pidfd_send_signal, waitpid};

use crate::disk_account::DiskAccount;
use crate::driver::{CgroupUse, order_keeper};
use crate::flatten::{Aim, MANY, TOO_MANY, written_by_cells};
use crate::groups::ControlGroups;
use crate::image_store::{ImageStore, ids_of_images};
use crate::keeper_socket::KeeperAsk;
use crate::layer_store::LayerStore;
use crate::order::{Order, Outcome, Placed, Task};
use crate::paths::CellPaths;
use crate::project::watch::ProjectWatch;
use crate::project::{self, TARGET};
use crate::project::{drift, follow};
use crate::removal::{remove_directory, remove_files};
use crate::served::served;
use crate::start::Started;
use crate::way::Way;
use crate::{id_range, stragglers};

/// So long after layers were exchanged or removed it is measured what is left.
const MEASURE_AFTER: Duration = Duration::from_millis(300);

/// Watches a supervisor until it ends, then tidies up.
pub(crate) fn watch(
    paths: &CellPaths,
    placed: &Placed,
    groups: &ControlGroups,
    supervisor: Started,
    mut carrier: KeptCarrier,
) -> io::Result<()> {
    let Started { pid, pidfd, namespaces } = supervisor;
    let mut placed = placed.clone();
    let mut link = paths.connect()?.map(WatchLink::open).transpose()?;
    let mut account = DiskAccount::new(&placed);
    let listener = paths.kept().listen_as_keeper()?;
    let mut project = watch_project(paths, &placed);
    let mut flattening = Flattening::default();
    flattening.plan(paths, &placed);
    loop {
        let mut fds =
            vec![PollFd::new(&pidfd, PollFlags::IN), PollFd::new(&listener, PollFlags::IN)];
        if let Some(link) = &link {
            fds.push(PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN));
        }
        if let Some(changes) = project.as_ref().and_then(ProjectWatch::descriptor) {
            fds.push(PollFd::from_borrowed_fd(changes, PollFlags::IN));
        }
        let carrier_at = fds.len();
        if let Some(process) = carrier.descriptor() {
            fds.push(PollFd::from_borrowed_fd(process, PollFlags::IN));
        }
        let is_beginning = project.as_ref().is_some_and(ProjectWatch::is_beginning);
        let measured_at = account.next_look().filter(|_| link.is_some());
        let planned =
            [measured_at, flattening.wanted_at, carrier.wanted_at()].into_iter().flatten().min();
        let next = if is_beginning { Some(Instant::now()) } else { planned };
        let timeout = next.map(time_until);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !fds[0].revents().is_empty() {
            break;
        }
        let asked = !fds[1].revents().is_empty();
        let came = link.is_some() && fds.get(2).is_some_and(|fd| !fd.revents().is_empty());
        let carrier_ended = fds.get(carrier_at).is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        if carrier_ended {
            carrier.collect();
        }
        carrier.start_if_due(served(paths, &placed, namespaces.as_ref(), pidfd.as_fd()));
        carrier.look_if_due(served(paths, &placed, namespaces.as_ref(), pidfd.as_fd()));
        if let Some(project) = &mut project {
            project.step();
            project.look();
        }
        if asked {
            let asked = answer_one(&listener, |ask: KeeperAsk| {
                let is_change = ask.is_change();
                let cell = namespaces.as_ref();
                let answer = match ask {
                    KeeperAsk::Swap => swap(paths, &mut placed, project.as_mut(), cell),
                    KeeperAsk::Measure => Outcome::Done,
                    KeeperAsk::Network => {
                        done(carrier.ensure(served(paths, &placed, cell, pidfd.as_fd())))
                    }
                    KeeperAsk::Lend(secrets) => {
                        done(carrier.lend(served(paths, &placed, cell, pidfd.as_fd()), secrets))
                    }
                    KeeperAsk::Refresh => refresh(paths, &placed, project.as_mut(), cell),
                    KeeperAsk::RefreshTools => refresh_tools(&placed, cell),
                    KeeperAsk::ShowAnew => show_anew(paths, &placed, project.as_mut(), cell),
                };
                (answer, is_change)
            });
            if asked == Some(true) {
                account.note_change(MEASURE_AFTER);
                flattening.plan(paths, &placed);
            }
        }
        flattening.begin_if_due(paths, &placed);
        let Some(open) = &mut link else { continue };
        match if came { open.take_activity() } else { Ok(false) } {
            Ok(true) => account.note_activity(),
            Ok(false) => {}
            Err(_) => {
                link = None;
                continue;
            }
        }
        if account.next_look().is_some_and(|at| at <= Instant::now()) {
            if is_gone(paths) {
                // Nobody finds the cell any more, nor anything that it writes.
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            }
            let user = namespaces.as_ref().map(|namespaces| namespaces.user.as_fd());
            if let Some(state) = account.look(paths, &placed, user) {
                // For whoever adds up what a tenant has; the next walk writes it again.
                let _ = write_json(&paths.kept().disk_used(), &state.used_bytes);
                // A supervisor that is ending needs to know no more.
                let _ = open.tell(state);
                if account.wants_room() {
                    flattening.begin(paths, &placed, Aim::Room);
                }
            }
        }
    }
    // Its end is collected if it is this process's child, and by init otherwise.
    let _ = waitpid(Some(pid), WaitOptions::empty());
    carrier.end();
    carrier.forget_lent();
    tidy_up(paths, &placed, groups)
}

fn done(tried: Result<(), Error>) -> Outcome {
    match tried {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed(error),
    }
}

/// Whether somebody removed the cell's directory from under it.
fn is_gone(paths: &CellPaths) -> bool {
    let looked = std::fs::symlink_metadata(paths.root());
    looked.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn time_until(at: Instant) -> Timespec {
    let left = at.saturating_duration_since(Instant::now());
    let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: i64::from(left.subsec_nanos()) }
}

/// What makes the layers of a cell fewer: a process of its own, which nobody waits for.
#[derive(Debug, Default)]
struct Flattening {
    begun_at: Option<Instant>,
    /// When it is to begin, unless something comes in between.
    wanted_at: Option<Instant>,
    /// How often it was begun since there were last few layers.
    tries: u32,
}

impl Flattening {
    /// Begins soon if there are many layers. Whoever makes several checkpoints or forks in a row is
    /// left alone meanwhile, as long as there are not too many.
    fn plan(&mut self, paths: &CellPaths, placed: &Placed) {
        const APART: Duration = Duration::from_millis(500);
        const QUIET: Duration = Duration::from_secs(2);
        let depth = depth(placed);
        if depth <= MANY {
            *self = Self { begun_at: self.begun_at, ..Self::default() };
        } else if depth > TOO_MANY && self.begun_at.is_none_or(|at| at.elapsed() > APART) {
            self.begin(paths, placed, Aim::Depth);
        } else {
            self.wanted_at = Some(Instant::now() + QUIET);
        }
    }

    /// Begins what is due.
    fn begin_if_due(&mut self, paths: &CellPaths, placed: &Placed) {
        if self.wanted_at.is_some_and(|at| at <= Instant::now()) {
            self.wanted_at = None;
            if depth(placed) > MANY {
                self.begin(paths, placed, Aim::Depth);
            }
        }
    }

    /// After a while it is looked again whether there are still many: ever later if there are, but
    /// not while there are too many.
    fn begin(&mut self, paths: &CellPaths, placed: &Placed, aim: Aim) {
        const AGAIN: Duration = Duration::from_secs(10);
        const MOST_DOUBLINGS: u32 = 6;
        let now = Instant::now();
        self.begun_at = Some(now);
        let doublings = if depth(placed) > TOO_MANY { 0 } else { self.tries };
        self.wanted_at = Some(now + AGAIN * (1 << doublings));
        self.tries = (self.tries + 1).min(MOST_DOUBLINGS);
        let (directory, cgroups) = (paths.root().to_owned(), CgroupUse::Off);
        let (required, egress) = (RequiredIsolation::default(), EgressSettings::default());
        let (together, task) = (Together::default(), Task::Flatten(aim));
        let order = Order { directory, cgroups, required, egress, together, tools: None, task };
        match order_keeper(Path::new("/proc/self/exe"), &order) {
            Ok(Outcome::Failed(error)) => paths.note_flattening_error(&error),
            Err(error) => paths.note_flattening_error(&error),
            Ok(_) => {}
        }
    }
}

/// How many layers lie upon one another where they are most.
fn depth(placed: &Placed) -> usize {
    let depth = |layer: &Layer| written_by_cells(&layer.lowers);
    placed.layers.iter().map(depth).max().unwrap_or_default()
}

/// Gives the cell the layers that its description names now.
fn swap(
    paths: &CellPaths,
    placed: &mut Placed,
    project: Option<&mut ProjectWatch>,
    namespaces: Option<&CellNamespaces>,
) -> Outcome {
    if let Some(project) = project {
        project.distrust();
    }
    let failed = |what: String| Outcome::Failed(Error::unavailable(what));
    let Some(namespaces) = namespaces else {
        return failed("the namespaces of the cell are out of reach".to_owned());
    };
    let next = match paths.read_placed() {
        Ok(Some(next)) => next,
        Ok(None) => return failed("the cell has no description".to_owned()),
        Err(error) => return failed(format!("cannot read the cell's description: {error}")),
    };
    let changed: Vec<Layer> =
        next.layers.iter().filter(|layer| !placed.layers.contains(layer)).cloned().collect();
    match swap_layers(namespaces, &next.ids, &next.layers, &changed, &paths.scratch()) {
        Ok(()) => {
            *placed = next;
            Outcome::Done
        }
        Err(error) => failed(error.to_string()),
    }
}

/// Watches the project of a cell that does not write to it itself.
fn watch_project(paths: &CellPaths, placed: &Placed) -> Option<ProjectWatch> {
    let project = placed.project.as_ref()?;
    (project.mode == WorkspaceMode::Cow)
        .then(|| ProjectWatch::new(project.dir.clone(), paths.shown()))
}

/// Makes what the host changed in the cell's project visible.
fn refresh(
    paths: &CellPaths,
    placed: &Placed,
    project: Option<&mut ProjectWatch>,
    namespaces: Option<&CellNamespaces>,
) -> Outcome {
    let Some(project) = project else { return Outcome::Done };
    if project.is_unseen() {
        show_anew(paths, placed, Some(project), namespaces)
    } else {
        Outcome::Done
    }
}

/// The same, also if the host changed nothing.
fn show_anew(
    paths: &CellPaths,
    placed: &Placed,
    project: Option<&mut ProjectWatch>,
    namespaces: Option<&CellNamespaces>,
) -> Outcome {
    let Some(project) = project else { return Outcome::Done };
    project.catch_up();
    let lock = paths.try_lock_project();
    let noted = match &lock {
        Ok(Some(_)) => {
            if let Some(namespaces) = namespaces
                && let Err(error) = follow::follow(paths, placed, namespaces)
            {
                tracing::warn!(%error, "cannot give a cell what the user changed of applied files");
            }
            drift::note_host_changes(paths, placed)
        }
        // Another process works on the project just now: the next refresh notes it.
        Ok(None) | Err(_) => Ok(None),
    };
    let is_replaced = matches!(&noted, Ok(Some(noted)) if noted.is_replaced);
    let shown = in_namespaces(namespaces, |namespaces| {
        if is_replaced {
            mount_project(paths, placed, namespaces)
        } else {
            refresh_layer(namespaces, &placed.ids, Path::new(TARGET))
        }
    });
    let kept = match (noted, lock) {
        (Ok(Some(noted)), _) if matches!(shown, Outcome::Done) => {
            noted.keep(paths).map(|()| project.mark_seen())
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
        (Ok(_), Ok(_)) => Ok(()),
    };
    if let Err(error) = kept {
        // Until it is noted, all of these changes count as conflicts.
        tracing::warn!(%error, "cannot note what the user changed in a project");
    }
    shown
}

/// Mounts the project of a cell anew: another directory has its path now.
fn mount_project(
    paths: &CellPaths,
    placed: &Placed,
    namespaces: &CellNamespaces,
) -> Result<(), StepError> {
    let of_project = |layer: &&Layer| layer.target == Path::new(TARGET);
    let changed: Vec<Layer> = placed.layers.iter().filter(of_project).cloned().collect();
    swap_layers(namespaces, &placed.ids, &placed.layers, &changed, &paths.scratch())
}

/// Makes what the host changed in what is shown at `/tools` visible.
fn refresh_tools(placed: &Placed, namespaces: Option<&CellNamespaces>) -> Outcome {
    match placed.way() {
        Way::InNamespaces => {
            in_namespaces(namespaces, |namespaces| refresh_shown(namespaces, &placed.ids))
        }
        Way::OnHost => Outcome::Done,
    }
}

fn in_namespaces(
    namespaces: Option<&CellNamespaces>,
    work: impl FnOnce(&CellNamespaces) -> Result<(), StepError>,
) -> Outcome {
    let Some(namespaces) = namespaces else {
        return Outcome::Failed(Error::unavailable("the namespaces of the cell are out of reach"));
    };
    match work(namespaces) {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed(Error::unavailable(error.to_string())),
    }
}

/// Removes what a cell without supervisor needs no more: its groups, and its files if it is over.
pub(crate) fn tidy_up(
    paths: &CellPaths,
    placed: &Placed,
    groups: &ControlGroups,
) -> io::Result<()> {
    match placed.way() {
        Way::OnHost => stragglers::end_of(&placed.spec.id)?,
        Way::InNamespaces => {}
    }
    groups.remove().map_err(io::Error::other)?;
    if is_over(placed) {
        project::leave(paths, placed);
        remove_files(&placed.files(paths), &placed.ids).map_err(io::Error::other)?;
        id_range::give_back(&paths.id_ranges(), &placed.ids)?;
        forget(paths, placed)?;
        return remove_directory(paths.root());
    }
    match std::fs::remove_file(paths.supervisor()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lets go of a cell's description, and of layers that nobody else names.
pub(crate) fn forget(paths: &CellPaths, placed: &Placed) -> io::Result<()> {
    paths.remove_placed()?;
    for path in [paths.checkpoints(), paths.shown_at_checkpoints(), paths.in_the_making()] {
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let native = paths.native();
    let mut lowers = placed.layers.iter().flat_map(|layer| &layer.lowers);
    if lowers.any(|lower| lower.path.starts_with(native.layers())) {
        LayerStore::new(&native).collect(&placed.ids)?;
    }
    // It may have been the last that needed an image which was forgotten.
    if placed.spec.image != HOST_IMAGE
        && let Err(error) = ImageStore::new(&native).collect_if_free(&ids_of_images())
    {
        tracing::warn!(%error, "layers that no image needs may be left");
    }
    Ok(())
}

/// Whether the supervisor's last word was that the cell is over. What cannot be read says nothing: the
/// files stay until the cell is removed by its name or its time.
fn is_over(placed: &Placed) -> bool {
    match last_entry(&placed.records) {
        Ok(Some(Entry::Closed { reason, .. })) => reason.removes_files(),
        Ok(
            Some(
                Entry::Opened { .. }
                | Entry::Queued { .. }
                | Entry::Awaited { .. }
                | Entry::Answered { .. }
                | Entry::Kept { .. }
                | Entry::Started { .. }
                | Entry::Ended { .. },
            )
            | None,
        ) => false,
        Err(error) => {
            let cell = &placed.spec.id;
            tracing::warn!(%cell, %error, "cannot read the journal of a cell that has ended");
            false
        }
    }
}
