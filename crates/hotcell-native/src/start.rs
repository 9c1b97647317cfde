//! The keeper's first task: a supervisor in namespaces of its own.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use hotcell_egress::BUNDLES;
use hotcell_jail::cgroup::{CellCgroups, CellLimits, Controller, Hierarchies, join};
use hotcell_jail::enter::{Inside, Layers, MemoryFiles, enter, go_on_with};
use hotcell_jail::host::{make_layers, make_shown};
use hotcell_jail::ids::{EXEC_ID, IdLayout};
use hotcell_jail::process::{Confinement, Groups, Readiness};
use hotcell_jail::shown::{CALLS_PROGRAM, Tools};
use hotcell_jail::swap::CellNamespaces;
use hotcell_jail::trusted::Trusted;
use hotcell_jail::{
    Forked, Step, StepError, fork_into_namespaces, receive_fds, rename_self, send_fds,
};
use hotcell_keeper::{WhichProcess, find_certificate};
use hotcell_link::{ExecIds, Plan, PlanFds, Root};
use hotcell_model::{Isolation, Limits};
use hotcell_place::{show_own_program, write_json};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fchown, fstat, openat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::base::{EXEC_DIRECTORIES, make_uppers};
use crate::groups::ControlGroups;
use crate::isolation::kill_means;
use crate::on_host::make_root;
use crate::order::Placed;
use crate::paths::CellPaths;
use crate::project::Project;
use crate::records_mount::open_contained;
use crate::task_count::tasks_of_user;
use crate::way::Way;

const TMP: MemoryFiles = MemoryFiles { bytes: 512 << 20, files: 262_144 };
const SHM: MemoryFiles = MemoryFiles { bytes: 64 << 20, files: 16_384 };

/// What a cell keeps in memory without a process: never so much that none could be started.
fn in_memory(limits: &Limits) -> (MemoryFiles, MemoryFiles) {
    let memory = limits.memory_mb << 20;
    let tmp = MemoryFiles { bytes: TMP.bytes.min(memory / 2), ..TMP };
    let shm = MemoryFiles { bytes: SHM.bytes.min(memory / 8), ..SHM };
    (tmp, shm)
}

/// The whole life of a supervisor, from its plan on.
pub type Supervise = fn(Plan) -> io::Result<()>;

/// A supervisor that was started and is ready.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    /// Its namespaces, where they are within reach.
    pub(crate) namespaces: Option<CellNamespaces>,
}

/// A supervisor that was just started, and how the programs of its cell are confined.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) started: Started,
    pub(crate) confinement: Confinement,
}

/// What the two sides of the fork share.
struct Birth<'a> {
    placed: &'a Placed,
    /// What it has for tools of others.
    tools: Option<Tools<'a>>,
    listener: UnixListener,
    records: OwnedFd,
    /// This program, where it can be read.
    program: Option<OwnedFd>,
    supervise: Supervise,
    ready: OwnedFd,
    entrances: Vec<OwnedFd>,
    /// The certificate of the cell's authority, if it has one.
    certificate: Option<String>,
    cgroups: &'a CellCgroups,
    hierarchies: &'a Hierarchies,
}

/// Starts the supervisor of a cell.
pub(crate) fn start(
    paths: &CellPaths,
    placed: &Placed,
    supervise: Supervise,
    groups: &ControlGroups,
    isolation: &Isolation,
    tools: Option<&Path>,
) -> Result<Fresh, StepError> {
    let (hierarchies, cgroups) = (&groups.hierarchies, &groups.cell);
    // Before the groups: a cell without directories is taken for one without groups.
    make_uppers(&placed.layers, &placed.ids).step(|| "make the cell's directories".to_owned())?;
    let (nothing, programs) = (paths.nothing(), paths.shown_programs());
    for directory in [&paths.scratch(), &nothing] {
        std::fs::create_dir_all(directory).step(|| "make the cell's directories".to_owned())?;
    }
    let tools = tools.map(|directory| Tools { directory, programs: &programs, empty: &nothing });
    if tools.is_some() {
        show_own_program(&programs, CALLS_PROGRAM)
            .step(|| format!("put {CALLS_PROGRAM} into {}", programs.display()))?;
    }
    groups.create(&cell_limits(&placed.spec.limits), placed.ids.supervisor())?;
    let (uid, gid) = placed.ids.supervisor();
    give_records(&placed.records, uid, gid)?;

    let (ready_ours, ready) = pipe_with(PipeFlags::CLOEXEC).step(|| "pipe".to_owned())?;
    let (ours, theirs) = UnixStream::pair().step(|| "socketpair".to_owned())?;
    let birth = Birth {
        placed,
        tools,
        listener: paths.listen().step(|| "listen at the cell's socket".to_owned())?,
        records: match &placed.ids {
            IdLayout::Private { .. } => open_contained(&placed.records)?,
            // The child may mount, this process may not.
            IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
                open(&placed.records, OFlags::RDONLY | OFlags::DIRECTORY)?
            }
        },
        program: open(Path::new("/proc/self/exe"), OFlags::RDONLY).ok(),
        supervise,
        ready,
        entrances: cgroups.entrances()?,
        certificate: find_certificate(paths.kept())
            .step(|| "read the cell's certificate".to_owned())?,
        cgroups,
        hierarchies,
    };
    let birthplace = cgroups.birthplace()?;
    let namespaces = placed.way().namespaces();
    let forked = fork_into_namespaces(namespaces, birthplace.as_ref().map(AsFd::as_fd));
    match forked.step(|| "clone into new namespaces".to_owned())? {
        Forked::Child => {
            drop((ours, ready_ours));
            let error = be_born(&birth, &theirs);
            // The keeper waits for these words or for the supervisor to be ready.
            let _ = (&theirs).write_all(error.to_string().as_bytes());
            std::process::exit(1);
        }
        Forked::Parent { pid, pidfd } => {
            drop((theirs, birth));
            let namespaces = raise(paths, placed, tools, isolation, pid, &ours)?;
            let confinement = await_ready(ready_ours, ours)?;
            let started = Started { pid, pidfd, namespaces };
            Ok(Fresh { started, confinement })
        }
    }
}

/// The parent's part: ids and mounts that only the host's side can give.
fn raise(
    paths: &CellPaths,
    placed: &Placed,
    tools: Option<Tools<'_>>,
    isolation: &Isolation,
    pid: Pid,
    child: &UnixStream,
) -> Result<Option<CellNamespaces>, StepError> {
    placed.ids.write_maps(pid)?;
    send_fds(child, b"m", &[]).step(|| "tell the cell of its ids".to_owned())?;
    // From here on the child does its part meanwhile.
    let name = || "write down the supervisor's process".to_owned();
    WhichProcess::of(pid).and_then(|process| process.save_to(&paths.supervisor())).step(name)?;
    write_json(&paths.isolation(), isolation)
        .step(|| "write down the cell's isolation".to_owned())?;
    // Once it hides itself only root may look.
    let namespaces = match placed.way() {
        Way::InNamespaces => Some(CellNamespaces::of(pid)?),
        Way::OnHost => None,
    };
    let mounts = match placed.ids {
        IdLayout::Private { .. } => {
            let mut mounts = make_layers(&placed.layers, &placed.ids, pid, &paths.scratch())?;
            mounts.extend(tools.map(make_shown).transpose()?.into_iter().flatten());
            mounts
        }
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
            Vec::new()
        }
    };
    let fds: Vec<BorrowedFd<'_>> = mounts.iter().map(AsFd::as_fd).collect();
    send_fds(child, b"g", &fds).step(|| "send the cell its mounts".to_owned())?;
    Ok(namespaces)
}

fn await_ready(ready: OwnedFd, mut child: UnixStream) -> Result<Confinement, StepError> {
    let name = || "start the supervisor".to_owned();
    let mut word = Vec::new();
    File::from(ready).read_to_end(&mut word).step(name)?;
    if !word.is_empty() {
        let readiness: Readiness =
            serde_json::from_slice(&word).map_err(io::Error::other).step(name)?;
        return readiness.map_err(io::Error::other).step(name);
    }
    let mut words = Vec::new();
    // One that ended with something unread is told of as well, after its last words.
    let _ = child.read_to_end(&mut words);
    if words.is_empty() {
        return Err(io::Error::other("it ended before it was ready")).step(name);
    }
    Err(io::Error::other(String::from_utf8_lossy(&words).into_owned())).step(name)
}

/// The child's part: it goes on as the supervisor, or says why not.
fn be_born(birth: &Birth<'_>, parent: &UnixStream) -> StepError {
    match try_to_be_born(birth, parent) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_to_be_born(
    birth: &Birth<'_>,
    parent: &UnixStream,
) -> Result<std::convert::Infallible, StepError> {
    join(&birth.entrances)?;
    await_keeper(parent)?;
    let ids = &birth.placed.ids;
    let contained = match ids {
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } => {
            Some(open_contained(&birth.placed.records)?)
        }
        IdLayout::Private { .. } | IdLayout::Host { .. } => None,
    };
    let records = contained.as_ref().unwrap_or(&birth.records);
    // Opened while the host's file systems are still in view.
    let exec_cgroup = birth.cgroups.exec_directory()?;
    let memory = birth.cgroups.meter(Controller::Memory)?;
    let pids = birth.cgroups.meter(Controller::Pids)?;
    let (root, (uid, gid), calls) = match birth.placed.way() {
        Way::InNamespaces => {
            let calls = enter_namespaces(birth, parent)?;
            (Root::Own, (EXEC_ID, EXEC_ID), calls)
        }
        Way::OnHost => (stay_on_host(birth.placed, parent)?, ids.exec(), None),
    };

    let mut fds: Vec<BorrowedFd<'_>> =
        vec![birth.listener.as_fd(), records.as_fd(), birth.ready.as_fd()];
    let mut next = 6;
    let mut place = |present: bool| {
        present.then(|| {
            next += 1;
            next - 1
        })
    };
    let exec_fd = exec_cgroup.as_ref().map(|(fd, _)| fd.as_fd());
    let numbers = PlanFds {
        listener: 3,
        records: 4,
        ready: 5,
        exec_cgroup: place(exec_fd.is_some()),
        memory: place(memory.is_some()),
        pids: place(pids.is_some()),
        cpu: place(exec_fd.is_some()),
        calls: place(calls.is_some()),
        program: place(birth.program.is_some()),
        // The keeper goes there.
        sockets: None,
    };
    // The v2 directory counts CPU time with or without its controller.
    let optional = [
        exec_fd,
        memory.as_ref().map(AsFd::as_fd),
        pids.as_ref().map(AsFd::as_fd),
        exec_fd,
        calls.as_ref().map(AsFd::as_fd),
        birth.program.as_ref().map(AsFd::as_fd),
    ];
    fds.extend(optional.into_iter().flatten());

    let plan = Plan {
        spec: birth.placed.spec.clone(),
        ids: ExecIds { uid, gid, root: ids.lets_root_run(), setgroups: ids.has_root() },
        kill: kill_means(birth.hierarchies),
        rlimit_pids: match birth.hierarchies.controllers.get(&Controller::Pids) {
            Some(_) => None,
            None => Some(match birth.placed.way() {
                Way::InNamespaces => birth.placed.spec.limits.pids,
                // The kernel counts all that the user runs.
                Way::OnHost => birth.placed.spec.limits.pids.saturating_add(tasks_of_user()),
            }),
        },
        fds: numbers,
        root,
        writes_as_root: birth.placed.project.as_ref().is_some_and(Project::is_roots),
    };
    // Everybody in the cell can read the command line.
    rename_self(c"hotcell-pid1", &[c"hotcell", c"supervise"]);
    go_on_with(&fds, || (birth.supervise)(plan))
}

/// Makes the inside of a cell and goes there.
fn enter_namespaces(
    birth: &Birth<'_>,
    parent: &UnixStream,
) -> Result<Option<UnixListener>, StepError> {
    let placed = birth.placed;
    let ids = &placed.ids;
    let layers = match ids {
        IdLayout::Private { .. } => Layers::Coming(Box::new(|| await_keeper(parent))),
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } | IdLayout::Host { .. } => {
            Layers::ToMake
        }
    };
    let groups = if ids.has_root() { Groups::Cleared } else { Groups::Kept };
    let (tmp, shm) = in_memory(&placed.spec.limits);
    let inside = Inside {
        layers: &placed.layers,
        id: ids.supervisor_inside(),
        groups,
        exec_id: EXEC_ID,
        exec_directories: &EXEC_DIRECTORIES,
        tmp,
        shm,
        segments_bytes: shm.bytes,
        tools: birth.tools,
        trusted: birth
            .certificate
            .as_deref()
            .map(|certificate| Trusted { certificate, bundles: &BUNDLES }),
    };
    let goes_on_alone = matches!(layers, Layers::ToMake);
    let calls = enter(&inside, layers)?;
    if goes_on_alone {
        await_keeper(parent)?;
    }
    Ok(calls)
}

/// Stays where it is, in a session of its own, with directories of the cell's own.
fn stay_on_host(placed: &Placed, parent: &UnixStream) -> Result<Root, StepError> {
    await_keeper(parent)?;
    rustix::process::setsid().step(|| "setsid".to_owned())?;
    make_root(placed).map(Root::Host).step(|| "make the cell's directories".to_owned())
}

/// Waits for the keeper's next word, and takes what comes with it. A cell whose keeper died before
/// the last one, when it is written down nowhere, ends here.
fn await_keeper(keeper: &UnixStream) -> Result<Vec<OwnedFd>, StepError> {
    let name = || "wait for the keeper".to_owned();
    let mut word = [0];
    match receive_fds(keeper, &mut word).step(name)? {
        (0, _) => Err(io::Error::other("the keeper is gone")).step(name),
        (_, fds) => Ok(fds),
    }
}

/// A cell's limits in the kernel's units.
pub(crate) fn cell_limits(limits: &Limits) -> CellLimits {
    CellLimits {
        memory_bytes: limits.memory_mb << 20,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked: 0.01 to the machine's CPUs"
        )]
        cpu_millis: limits.cpus.map(|cpus| (cpus * 1000.0).round() as u64),
        pids: limits.pids,
    }
}

/// The supervisor writes its records under its own ids; nobody else of the cell sees them.
pub(crate) fn give_records(records: &Path, uid: u32, gid: u32) -> Result<(), StepError> {
    let name = || format!("give {} to the supervisor", records.display());
    let directory = open(records, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    fchown(&directory, uid, gid).step(name)?;
    for entry in Dir::read_from(&directory).step(name)? {
        let entry = entry.step(name)?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            give_entry(&directory, entry.file_name(), uid, gid).step(name)?;
        }
    }
    Ok(())
}

/// Gives away what lies in a directory of the cell: the journal, and the directory of logs. A link
/// stays whose it is, and so does what has another name: that may lie anywhere.
fn give_entry(
    directory: &OwnedFd,
    name: &CStr,
    uid: Option<Uid>,
    gid: Option<Gid>,
) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entry = openat(directory, name, flags, Mode::empty())?;
    let status = fstat(&entry)?;
    let is_its_own = match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => status.st_nlink == 1,
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => false,
    };
    if is_its_own { chownat(&entry, c"", uid, gid, AtFlags::EMPTY_PATH) } else { Ok(()) }
}

pub(crate) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, StepError> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .step(|| format!("open {}", path.display()))
}
