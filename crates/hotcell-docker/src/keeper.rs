//! `hotcell keep-container`: the host-side half of a cell in a container, a process of its own that
//! needs no other. It sees to the cell's connections and to its disk, and ends with its container.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use hotcell_egress::EgressSettings;
use hotcell_jail::cgroup::CarrierCgroups;
use hotcell_keeper::{
    DiskMeter, Door, KeptCarrier, LockWait, Served, Side, WatchLink, answer_one, answer_order,
    belong_to_nobody, take_order, used_below,
};
use hotcell_model::{Error, LentSecret, Result};
use hotcell_place::{connect_in, read_json, write_json};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::carrier_id::find_carrier;
use crate::driver::at;
use crate::paths::{CellPaths, LINK_SOCKET, Placed};

/// What a keeper is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeepOrder {
    /// The cell's directory.
    pub(crate) directory: PathBuf,
    /// What the operator chose about the network of cells.
    pub(crate) egress: EgressSettings,
}

/// What a keeper answers, to its order and to what it is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeepOutcome {
    /// It was done.
    Done,
    /// It was not.
    Failed(Error),
}

impl From<Result<()>> for KeepOutcome {
    fn from(tried: Result<()>) -> Self {
        match tried {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error),
        }
    }
}

impl KeepOutcome {
    pub(crate) fn into_result(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Failed(error) => Err(error),
        }
    }
}

/// What a keeper is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeeperAsk {
    /// To see to it that connections of its cell are carried, by the rules that are written down now.
    Network,
    /// To keep the values of these secrets in memory, for what carries connections of its cell.
    Lend(Vec<LentSecret>),
    /// To remove what a directory of its place shows the cell beside these paths.
    Tools { shown: String, keep: Vec<String> },
}

/// The whole life of a keeper: its order comes on standard input, its outcome goes to standard
/// output, and then it belongs to nobody.
#[must_use]
pub fn keep() -> ExitCode {
    let Ok(order) = take_order::<KeepOrder>() else { return ExitCode::FAILURE };
    let kept = match belong_to_nobody() {
        Ok(Side::Keeper) => keep_cell(&order),
        Ok(Side::Starter) => return ExitCode::SUCCESS,
        Err(error) => Err(error),
    };
    match kept {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever has been answered hears no more of it.
            let error = Error::unavailable(format!("the keeper of the cell failed: {error}"));
            let _ = answer_order(&KeepOutcome::Failed(error));
            ExitCode::FAILURE
        }
    }
}

fn keep_cell(order: &KeepOrder) -> io::Result<()> {
    let paths = CellPaths::at(order.directory.clone());
    // Another process may have started a keeper meanwhile.
    let Some(_lock) = paths.kept().lock_keeper(LockWait::Try)? else {
        return answer_order(&KeepOutcome::Done);
    };
    let Some(placed) = read_json::<Placed>(&paths.placed())? else {
        // It is over by now.
        return answer_order(&KeepOutcome::Done);
    };
    look_after(&paths, &placed, order.egress.clone(), || answer_order(&KeepOutcome::Done))
}

/// Looks after a cell until it is over, and tells when that has begun.
pub(crate) fn look_after(
    paths: &CellPaths,
    placed: &Placed,
    egress: EgressSettings,
    begun: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let Some(stream) = connect_in(paths.root(), LINK_SOCKET)? else { return begun() };
    let link = WatchLink::open(stream)?;
    // Its memory is bounded by a limit of its own: the groups of a container are the engine's.
    let groups = CarrierCgroups::default();
    let mut carrier = KeptCarrier::find(paths.kept(), egress, &groups);
    let disk = read_json::<Vec<PathBuf>>(&paths.measured())?
        .map(|directories| CountedDisk { meter: DiskMeter::new(&placed.spec.limits), directories });
    let cell = served(paths, placed)?;
    // A cell whose connections cannot be carried has no network, and is tried again.
    let _ = carrier.ensure(cell);
    let listener = paths.kept().listen_as_keeper()?;
    begun()?;
    let kept = Kept { paths, cell, link, listener };
    watch(kept, &mut carrier, disk)?;
    carrier.end();
    carrier.forget_lent();
    Ok(())
}

/// The cell, as whoever carries its connections sees it.
fn served<'a>(paths: &'a CellPaths, placed: &'a Placed) -> io::Result<Served<'a>> {
    let owner = find_carrier(&placed.records, &placed.spec.id)?;
    Ok(Served {
        place: paths.kept(),
        spec: &placed.spec,
        records: &placed.records,
        owner,
        becomes: geteuid().is_root().then_some(owner),
        door: Some(Door::Supervisor),
    })
}

/// What a cell writes to, where it is measured.
struct CountedDisk {
    meter: DiskMeter,
    directories: Vec<PathBuf>,
}

impl CountedDisk {
    fn next_look(&self) -> Option<Instant> {
        self.meter.next_look()
    }

    /// Measures if it is time for that, and tells the supervisor, which ends what makes it worse.
    fn look_if_due(&mut self, link: &mut WatchLink, used: &Path) {
        if self.next_look().is_none_or(|at| at > Instant::now()) {
            return;
        }
        let Some(first) = self.directories.first() else { return };
        let walk = || used_below(self.directories.iter().map(PathBuf::as_path)).ok();
        if let Some(state) = self.meter.look(first, walk) {
            // For whoever adds up what a tenant has; the next walk writes it again.
            let _ = write_json(used, &state.used_bytes);
            // A supervisor that is ending needs to know no more.
            let _ = link.tell(state);
        }
    }
}

/// What a keeper holds of its cell.
struct Kept<'a> {
    paths: &'a CellPaths,
    cell: Served<'a>,
    link: WatchLink,
    listener: std::os::unix::net::UnixListener,
}

/// Looks after a cell until its supervisor is gone, and its container with it.
fn watch(kept: Kept<'_>, carrier: &mut KeptCarrier, disk: Option<CountedDisk>) -> io::Result<()> {
    let Kept { paths, cell, mut link, listener } = kept;
    let mut disk = disk;
    loop {
        let mut fds = vec![
            PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN),
            PollFd::new(&listener, PollFlags::IN),
        ];
        if let Some(process) = carrier.descriptor() {
            fds.push(PollFd::from_borrowed_fd(process, PollFlags::IN));
        }
        let measured_at = disk.as_ref().and_then(CountedDisk::next_look);
        let next = [measured_at, carrier.wanted_at()].into_iter().flatten().min();
        match poll(&mut fds, next.map(time_until).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let has_come = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let (came, asked, carrier_ended) = (has_come(0), has_come(1), has_come(2));
        drop(fds);
        if came {
            match (link.take_activity(), &mut disk) {
                (Ok(true), Some(disk)) => disk.meter.note_activity(),
                (Ok(true | false), _) => {}
                // It says nothing more, and neither does anything that it ran.
                (Err(_), _) => return Ok(()),
            }
        }
        if carrier_ended {
            carrier.collect();
        }
        carrier.start_if_due(cell);
        carrier.look_if_due(cell);
        if asked {
            answer_one(&listener, |ask: KeeperAsk| {
                let done = match ask {
                    KeeperAsk::Network => carrier.ensure(cell),
                    KeeperAsk::Lend(secrets) => carrier.lend(cell, secrets),
                    KeeperAsk::Tools { shown, keep } => {
                        keep_only(paths.root(), &shown, &keep.into_iter().collect())
                            .map_err(|error| at("tidy up the tools in", paths, &error))
                    }
                };
                (KeepOutcome::from(done), ())
            });
        }
        if let Some(disk) = &mut disk {
            disk.look_if_due(&mut link, &paths.kept().disk_used());
        }
    }
}

/// Removes what lies in a directory below a place and is not to be kept.
fn keep_only(place: &Path, directory: &str, keep: &BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(place.join(directory))? {
        let entry = entry?;
        let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
        let is_directory = entry.file_type()?.is_dir();
        match (keep.contains(&path), is_directory) {
            (true, true) => keep_only(place, &path, keep)?,
            (true, false) => {}
            (false, true) => fs::remove_dir_all(entry.path())?,
            (false, false) => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

fn time_until(at: Instant) -> Timespec {
    let left = at.saturating_duration_since(Instant::now());
    let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: i64::from(left.subsec_nanos()) }
}
