//! From a plan to a supervisor that is ready.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use hotcell_jail::cgroup::{ExecCgroups, Kind, Meter};
use hotcell_jail::host::inherited_fds;
use hotcell_jail::process::{Confinement, Launcher, Readiness, hide_self, lock_privileges};
use hotcell_jail::signals::ChildSignal;
use hotcell_link::{KillMeans, Plan};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getpid, set_child_subreaper};

use crate::ground::{locks, surroundings};

/// A supervisor that has all it needs: what it waits for, and what it works with.
#[derive(Debug)]
pub(crate) struct Booted {
    pub(crate) listener: UnixListener,
    /// Where programs of the cell call tools.
    pub(crate) calls: Option<UnixListener>,
    /// Where the host's side asks for sockets of the cell.
    pub(crate) sockets: Option<UnixListener>,
    pub(crate) ready: OwnedFd,
    pub(crate) confinement: Confinement,
    pub(crate) children: ChildSignal,
    pub(crate) means: Means,
}

/// What a supervisor works with.
#[derive(Debug)]
pub(crate) struct Means {
    pub(crate) plan: Plan,
    pub(crate) records: OwnedFd,
    pub(crate) launcher: Launcher,
    pub(crate) exec_cgroups: Option<ExecCgroups>,
    pub(crate) memory: Option<Meter>,
    pub(crate) pids: Option<Meter>,
    pub(crate) cpu: Option<Meter>,
    /// This program, for reading.
    pub(crate) program: Option<OwnedFd>,
}

pub(crate) fn boot(plan: Plan) -> io::Result<Booted> {
    let numbers = plan.fds;
    let optional = [
        numbers.exec_cgroup,
        numbers.memory,
        numbers.pids,
        numbers.cpu,
        numbers.calls,
        numbers.program,
        numbers.sockets,
    ];
    let required = [numbers.listener, numbers.records, numbers.ready];
    let all: Vec<i32> = required.into_iter().chain(optional.into_iter().flatten()).collect();
    let mut fds = inherited_fds(&all)?.into_iter();
    let mut next = || fds.next().ok_or_else(|| io::Error::other("a descriptor is missing"));
    let (listener, records, ready) = (next()?, next()?, next()?);
    let mut optional_next = |number: Option<i32>| number.map(|_| next()).transpose();
    let exec_cgroup = optional_next(numbers.exec_cgroup)?;
    let memory = optional_next(numbers.memory)?.map(Meter::new);
    let pids = optional_next(numbers.pids)?.map(Meter::new);
    let cpu = optional_next(numbers.cpu)?.map(Meter::new);
    let calls = optional_next(numbers.calls)?.map(UnixListener::from);
    let program = optional_next(numbers.program)?;
    let sockets = optional_next(numbers.sockets)?.map(UnixListener::from);

    use_null_streams()?;
    take_on_limits()?;
    hide_self().map_err(io::Error::other)?;
    lock_privileges(locks(&plan)).map_err(io::Error::other)?;
    // Pid 1 of a namespace is one anyway.
    set_child_subreaper(Some(getpid()))?;
    let children = ChildSignal::new()?;
    let (launcher, confinement) = match Launcher::new(surroundings(&plan)) {
        Ok(confined) => confined,
        Err(error) => {
            // Whoever waits for the cell is told, and a cell without its layers ends.
            tell(&ready, &Err(error.to_string()));
            return Err(io::Error::other(error));
        }
    };
    let exec_cgroups = match (exec_cgroup, plan.kill) {
        (Some(directory), KillMeans::CgroupKill) => {
            Some(ExecCgroups::new(directory, Kind::Unified))
        }
        (Some(directory), KillMeans::Freezer) => Some(ExecCgroups::new(directory, Kind::Freezer)),
        (_, KillMeans::Subreaper) | (None, _) => None,
    };
    let listener = UnixListener::from(listener);
    listener.set_nonblocking(true)?;
    for optional in calls.iter().chain(&sockets) {
        optional.set_nonblocking(true)?;
    }
    let means = Means { plan, records, launcher, exec_cgroups, memory, pids, cpu, program };
    Ok(Booted { listener, calls, sockets, ready, confinement, children, means })
}

/// Tells the keeper how its execs are confined, or why there can be none.
pub(crate) fn tell(ready: &OwnedFd, word: &Readiness) {
    if let Ok(word) = serde_json::to_vec(word) {
        // Whoever waits for it may be gone.
        let _ = rustix::io::write(ready, &word);
    }
}

/// No core file is so small, and no program of the host is handed one: the kernel takes this one limit
/// for "not at all", and every other for a bound of files alone.
const CORE_BYTES: u64 = 1;
/// What one process of a cell may lock into memory.
const LOCKED_BYTES: u64 = 8 << 20;
/// What the message queues of one user of a cell may hold.
const QUEUE_BYTES: u64 = 800 << 10;
/// Signals that may wait for the processes of one user of a cell.
const PENDING_SIGNALS: u64 = 4096;

/// Neither the umask nor the limits of whoever started this process are a cell's business.
fn take_on_limits() -> io::Result<()> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let files = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?;
    // What execs inherit, and can raise no more. Signals that wait and message queues are counted
    // for all processes of a user together, in the user's own account on the host as well.
    let inherited = [
        (Resource::Core, CORE_BYTES),
        (Resource::Memlock, LOCKED_BYTES),
        (Resource::Msgqueue, QUEUE_BYTES),
        (Resource::Sigpending, PENDING_SIGNALS),
        (Resource::Nice, 0),
        (Resource::Rtprio, 0),
    ];
    for (resource, most) in inherited {
        let present = rustix::process::getrlimit(resource).maximum.unwrap_or(most);
        let most = Some(most.min(present));
        rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })?;
    }
    Ok(())
}

/// Nothing of whoever started this process stays open, and 0, 1, 2 are never reused.
fn use_null_streams() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
