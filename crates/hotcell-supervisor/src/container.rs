//! From the first process of a container to a supervisor that is ready.
//!
//! The container engine made the namespaces, the limits and the mounts, and took every capability
//! away. What to be it asks of whoever started it, who waits at a socket that nobody listens at later
//! on, and is told how it went.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use hotcell_jail::process::Readiness;
use hotcell_jail::receive_fds;
use hotcell_jail::shown::{CALLS_PLACE, CALLS_PROGRAM, CALLS_PROGRAMS, CALLS_SOCKET};
use hotcell_link::{
    BIRTH_SOCKET, CONTAINER_BIRTHPLACE, CONTAINER_PROGRAM, ContainerOrder, ExecIds, KillMeans,
    Plan, PlanFds, Root,
};
use rustix::fs::{Mode, OFlags};

use crate::boot::tell;

/// No order is longer.
const MOST_BYTES: u64 = 4 << 20;
/// Whoever starts a container gives its order at once. One whose starter died ends.
const ORDERED_WITHIN: Duration = Duration::from_secs(30);
/// Where an engine shows a container its control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// What the first process of a container is given.
struct Given {
    order: ContainerOrder,
    records: OwnedFd,
    listener: OwnedFd,
    sockets: OwnedFd,
}

/// The whole life of a supervisor that is the first process of a container.
///
/// # Errors
/// It could not begin, or not go on; whoever started it was told why it could not begin.
pub fn supervise_container() -> io::Result<()> {
    let starter = UnixStream::connect(Path::new(CONTAINER_BIRTHPLACE).join(BIRTH_SOCKET))?;
    starter.set_read_timeout(Some(ORDERED_WITHIN))?;
    let ready = OwnedFd::from(starter.try_clone()?);
    match receive(&starter).and_then(|given| plan(starter, given)) {
        Ok(plan) => {
            drop(ready);
            crate::supervise(plan)
        }
        Err(error) => {
            let word: Readiness = Err(error.to_string());
            tell(&ready, &word);
            Err(error)
        }
    }
}

fn receive(starter: &UnixStream) -> io::Result<Given> {
    let mut line = vec![0; 4096];
    let (length, fds) = receive_fds(starter, &mut line)?;
    line.truncate(length);
    let mut rest = starter.take(MOST_BYTES);
    while line.last().is_some_and(|byte| *byte != b'\n') {
        let mut more = [0; 4096];
        match rest.read(&mut more)? {
            0 => break,
            length => line.extend_from_slice(&more[..length]),
        }
    }
    let mut fds = fds.into_iter();
    match (line.last(), fds.next(), fds.next(), fds.next()) {
        (Some(b'\n'), Some(records), Some(listener), Some(sockets)) => {
            Ok(Given { order: serde_json::from_slice(&line)?, records, listener, sockets })
        }
        _ => Err(io::Error::other("the order for the cell did not come whole")),
    }
}

fn plan(ready: UnixStream, given: Given) -> io::Result<Plan> {
    let Given { order, records, listener, sockets } = given;
    let calls = match Path::new(CALLS_PLACE).is_dir() {
        true => Some(show_calls()?),
        false => None,
    };
    let (memory, pids, cpu) = meters();
    let number = |fd: OwnedFd| fd.into_raw_fd();
    Ok(Plan {
        spec: order.spec,
        ids: ExecIds { uid: order.uid, gid: order.gid, root: false, setgroups: false },
        kill: KillMeans::Subreaper,
        rlimit_pids: None,
        fds: PlanFds {
            listener: number(listener),
            records: number(records),
            ready: number(ready.into()),
            exec_cgroup: None,
            memory: memory.map(number),
            pids: pids.map(number),
            cpu: cpu.map(number),
            calls: calls.map(|calls| number(calls.into())),
            // It is there by its path.
            program: None,
            sockets: Some(number(sockets)),
        },
        root: Root::Container,
        writes_as_root: false,
    })
}

/// The socket at which programs call tools of others, and the program that does so, in a file system
/// that is as new as the container.
fn show_calls() -> io::Result<UnixListener> {
    let listener = UnixListener::bind(CALLS_SOCKET)?;
    fs::create_dir_all(CALLS_PROGRAMS)?;
    std::os::unix::fs::symlink(CONTAINER_PROGRAM, Path::new(CALLS_PROGRAMS).join(CALLS_PROGRAM))?;
    Ok(listener)
}

/// The container's groups of memory, processes and CPU time, as far as it sees them.
fn meters() -> (Option<OwnedFd>, Option<OwnedFd>, Option<OwnedFd>) {
    let groups = Path::new(GROUPS);
    let open = |path: &Path| path.to_str().and_then(open_directory);
    if groups.join("cgroup.controllers").exists() {
        (open(groups), open(groups), open(groups))
    } else {
        (open(&groups.join("memory")), open(&groups.join("pids")), None)
    }
}

fn open_directory(path: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}
