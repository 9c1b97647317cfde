//! A new process, up to the program it becomes.
//!
//! The order of steps between clone and execve is the order in which a cell's layers close:
//! session, standard streams, limits, ids, capabilities, descriptors, execve. What is inherited is not
//! done here: `no_new_privs`, the empty bounding set and the locked securebits come from the
//! supervisor, which calls [`lock_privileges`](super::lock_privileges) once, Landlock and the seccomp
//! filter from the thread that a process is born from (`spawner.rs`).

use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::{Gid, Pid, Resource, Rlimit, Uid};
use serde::{Deserialize, Serialize};

use super::privileges::drop_capabilities;
use super::questions::Questions;
use super::reap::stopped_child;
use super::spawner::{Listening, Spawner, Until};
use super::subreaper::{ReapedLaunch, Reapers};
use crate::StepError;
use crate::clone::{
    CLONE_CLEAR_SIGHAND, CLONE_INTO_CGROUP, CLONE_VFORK, CLONE_VM, CloneArgs, clone3_call,
};
use crate::landlock::{Landlock, Rules};
use crate::seccomp::{Filter, Ground, Purpose, SetIds, allowed_to_programs};
use crate::signals::{send, unblock_all, use_default};
use crate::surroundings::Surroundings;

/// Where a new process's standard streams lead.
#[derive(Debug, Clone, Copy)]
pub enum Streams<'a> {
    /// Three descriptors.
    Pipes {
        /// Its standard input.
        stdin: BorrowedFd<'a>,
        /// Its standard output.
        stdout: BorrowedFd<'a>,
        /// Its standard error.
        stderr: BorrowedFd<'a>,
    },
    /// A terminal, which becomes the one that controls it.
    Terminal(BorrowedFd<'a>),
}

/// How a new process gets into its exec's cgroup.
#[derive(Debug, Clone, Copy)]
pub enum Cgroup<'a> {
    /// It stays in the supervisor's.
    Inherit,
    /// It is born in this cgroup v2 directory.
    Born(BorrowedFd<'a>),
    /// It writes itself into this open `tasks` of a v1 hierarchy.
    Joins(BorrowedFd<'a>),
}

/// The ids a new process takes on.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Whether its other groups are emptied; not possible where the kernel forbids `setgroups`.
    pub groups: Groups,
}

/// What becomes of the groups a process inherited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// It has none but its own.
    Cleared,
    /// They stay: the kernel forbids changing them.
    Kept,
}

/// Everything that a new process is to be.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program's path.
    pub program: &'a CStr,
    /// Its arguments, the program's name first.
    pub argv: &'a [CString],
    /// Its environment, `NAME=value` each.
    pub env: &'a [CString],
    /// The directory it starts in.
    pub cwd: BorrowedFd<'a>,
    /// Its standard streams.
    pub streams: Streams<'a>,
    /// Its ids.
    pub identity: Identity,
    /// Its limits.
    pub rlimits: &'a [(Resource, Rlimit)],
    /// Its cgroup.
    pub cgroup: Cgroup<'a>,
    /// Descriptors that it has from 3 on, besides its standard streams; at most [`MOST_EXTRA`].
    pub extra: &'a [BorrowedFd<'a>],
}

/// The most descriptors that a program is started with besides its standard streams.
pub const MOST_EXTRA: usize = 5;
/// Above every number that an extra descriptor is to have.
const OUT_OF_THE_WAY: i32 = 16;

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct LaunchError {
    /// The step that failed.
    pub step: &'static str,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

/// The step whose failure means that the program itself could not be run.
pub const EXECVE_STEP: &str = "execve";

const STACK_BYTES: usize = 64 * 1024;

/// Starts processes.
#[derive(Debug)]
pub struct Launcher {
    /// On which a process runs until it is a program of its own.
    stack: Stack,
    reapers: Reapers,
    filter: Filter,
    /// What each process puts on itself.
    no_clone3: Filter,
    surroundings: Surroundings,
    /// None while the root may be another one soon.
    spawner: Option<Spawner>,
    /// What programs ask for that share the host's root.
    questions: Option<Questions>,
}

/// What keeps the programs of a cell from the kernel, as it was put on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// How many system calls they may make.
    pub system_calls: u32,
    /// What Landlock does.
    pub landlock: Landlock,
}

/// The first word of a cell: how its programs are confined, or why there can be none.
pub type Readiness = Result<Confinement, String>;

impl Confinement {
    /// What is to be expected on this machine in a root of the cell's own.
    #[must_use]
    pub fn expected() -> Self {
        Self::with(Landlock::expected(), Ground::Cell(SetIds::Allowed))
    }

    /// What is to be expected on this machine among the host's files.
    #[must_use]
    pub fn expected_on_host() -> Self {
        Self::with(Landlock::expected(), Ground::Host)
    }

    /// What is to be expected in a container on this machine.
    #[must_use]
    pub fn expected_in_container() -> Self {
        Self::with(Landlock::expected(), Ground::Container)
    }

    fn with(landlock: Landlock, ground: Ground) -> Self {
        Self { system_calls: allowed_to_programs(ground), landlock }
    }
}

/// Memory for a process that has none of its own yet.
#[derive(Debug)]
pub(super) struct Stack(Box<[u8]>);

impl Default for Stack {
    fn default() -> Self {
        Self(vec![0; STACK_BYTES].into_boxed_slice())
    }
}

impl Stack {
    /// What `clone3` is told of it.
    pub(super) fn describe(&mut self, args: &mut CloneArgs) {
        args.stack = self.0.as_mut_ptr() as u64;
        args.stack_size = self.0.len() as u64;
    }
}

/// A process to be, with everything that takes memory done.
pub(super) struct Conception<'a> {
    launch: &'a Launch<'a>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    stack: &'a mut Stack,
    no_clone3: &'a Filter,
}

/// What the child sees of the parent's memory.
struct Shared<'a> {
    launch: &'a Launch<'a>,
    argv: *const *const c_char,
    env: *const *const c_char,
    no_clone3: &'a Filter,
    failed: Option<(&'static str, i32)>,
}

impl Launcher {
    /// One whose processes are confined to the root that is there now, and how.
    ///
    /// # Errors
    /// A layer could not be put on; nothing may be started.
    pub fn new(surroundings: Surroundings) -> Result<(Self, Confinement), StepError> {
        let ground = surroundings.ground();
        let mut launcher = Self {
            stack: Stack::default(),
            reapers: Reapers::default(),
            filter: Filter::new(Purpose::Programs(ground)),
            no_clone3: Filter::no_clone3(),
            surroundings,
            spawner: None,
            questions: None,
        };
        let landlock = launcher.confine()?;
        Ok((launcher, Confinement::with(landlock, ground)))
    }

    fn confine(&mut self) -> Result<Landlock, StepError> {
        let (rules, landlock) = Rules::within(&self.surroundings)?;
        match &self.surroundings {
            Surroundings::Cell(_) | Surroundings::Container(_) => {
                self.spawner = Some(Spawner::start(rules.as_ref(), &self.filter, Listening::No)?.0);
            }
            Surroundings::Host(parts) => {
                let (spawner, listener) =
                    Spawner::start(rules.as_ref(), &self.filter, Listening::Yes)?;
                // SAFETY: the kernel made it for the spawner, which is a thread of this process.
                self.questions = Some(unsafe { Questions::at(listener, parts.own.clone()) });
                // It is a thread of the supervisor, and under the same rules as they are.
                self.no_clone3 = Filter::no_clone3_nor_signals_to(spawner.thread());
                self.spawner = Some(spawner);
            }
        }
        Ok(landlock)
    }

    /// What its programs ask for; only those that share the host's root ask for anything.
    #[must_use]
    pub fn questions(&self) -> Option<&Questions> {
        self.questions.as_ref()
    }

    /// The root is about to be exchanged, and nothing runs. What is started after that is confined
    /// to the new one.
    pub fn leave_root(&mut self) {
        self.spawner = None;
    }

    /// Starts a process; returns when it has become its program.
    ///
    /// # Errors
    /// A step failed; no process is left.
    pub fn launch(&mut self, launch: &Launch<'_>) -> Result<Pid, LaunchError> {
        let (mut conception, spawner, _) = self.conceive(launch)?;
        conception.give_birth(Parent::Spawner(spawner))
    }

    /// Starts a process below a subreaper of its own, so that none of its descendants gets away;
    /// returns when it has become its program.
    ///
    /// # Errors
    /// A step failed; no process is left.
    pub fn launch_reaped(&mut self, launch: &Launch<'_>) -> Result<ReapedLaunch, LaunchError> {
        let (mut conception, spawner, reapers) = self.conceive(launch)?;
        reapers.start(&mut conception, spawner)
    }

    fn conceive<'a>(
        &'a mut self,
        launch: &'a Launch<'a>,
    ) -> Result<(Conception<'a>, &'a mut Spawner, &'a mut Reapers), LaunchError> {
        if self.spawner.is_none() {
            let failed = |error: StepError| LaunchError {
                step: "confine it to the cell",
                source: io::Error::new(error.source.kind(), error),
            };
            self.confine().map_err(failed)?;
        }
        let Some(spawner) = &mut self.spawner else {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(LaunchError { step: "confine it to the cell", source });
        };
        let conception = Conception {
            launch,
            argv: pointers(launch.argv),
            env: pointers(launch.env),
            stack: &mut self.stack,
            no_clone3: &self.no_clone3,
        };
        Ok((conception, spawner, &mut self.reapers))
    }

    /// Lets subreapers go on that were stopped: what they hold together may be their own user's.
    pub fn wake_reapers(&self) {
        while let Some(child) = stopped_child() {
            if self.reapers.has(child) {
                // One that is gone needs no waking.
                let _ = send(child, libc::SIGCONT);
            }
        }
    }

    /// Takes note that a child has been collected, and tells whether it was a subreaper.
    pub fn forget(&mut self, child: Pid) -> bool {
        self.reapers.forget(child)
    }
}

/// Which thread a process is born from.
pub(super) enum Parent<'a> {
    /// The one under the cell's layers.
    Spawner(&'a mut Spawner),
    /// The caller, which is under them itself.
    Caller,
}

impl Conception<'_> {
    /// Starts the process. Takes no memory, so that a process may call it that shares its parent's.
    pub(super) fn give_birth(&mut self, parent: Parent<'_>) -> Result<Pid, LaunchError> {
        let mut shared = Shared {
            launch: self.launch,
            argv: self.argv.as_ptr(),
            env: self.env.as_ptr(),
            no_clone3: self.no_clone3,
            failed: None,
        };
        let mut args = CloneArgs {
            flags: CLONE_VM | CLONE_CLEAR_SIGHAND,
            exit_signal: libc::SIGCHLD as u64,
            ..CloneArgs::default()
        };
        self.stack.describe(&mut args);
        if let Cgroup::Born(directory) = self.launch.cgroup {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = directory.as_raw_fd() as u64;
        }
        let argument = std::ptr::from_mut(&mut shared).cast::<c_void>();
        let pid = match parent {
            // SAFETY: the stack and `shared` outlive the child's use of them, since the spawner is
            // waited for until the child has called execve or _exit; `child` never returns.
            Parent::Spawner(spawner) => unsafe {
                spawner.clone3(&mut args, child, argument, Until::Program)
            },
            Parent::Caller => {
                args.flags |= CLONE_VFORK;
                // SAFETY: as above, with CLONE_VFORK to hold this thread.
                unsafe { clone3_call(&mut args, child, argument) }
            }
        };
        let pid = pid.map_err(|source| LaunchError { step: "clone3", source })?;
        // SAFETY: the child wrote through its pointer before it ended; the read must not be
        // optimised away.
        match unsafe { std::ptr::read_volatile(&raw const shared.failed) } {
            None => Ok(pid),
            Some((step, errno)) => {
                // The child has called _exit: it is collected here so that nobody else sees it.
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                Err(LaunchError { step, source: io::Error::from_raw_os_error(errno) })
            }
        }
    }
}

fn pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| word.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
}

/// The new process, on its own stack in the parent's memory: system calls and nothing else.
extern "C" fn child(shared: *mut c_void) -> ! {
    // SAFETY: `launch` passed a valid Shared that nobody else touches while this runs.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    let (step, errno) = become_program(shared);
    shared.failed = Some((step, errno.raw_os_error()));
    // SAFETY: _exit ends this process without running anything of the parent's.
    unsafe { libc::_exit(127) }
}

fn become_program(shared: &Shared<'_>) -> (&'static str, Errno) {
    if let Err(failure) = take_on(shared.launch, shared.no_clone3) {
        return failure;
    }
    // SAFETY: both arrays end with a null pointer and point to strings that outlive the call.
    unsafe { libc::execve(shared.launch.program.as_ptr(), shared.argv, shared.env) };
    // SAFETY: errno is this thread's, set by the call above.
    (EXECVE_STEP, Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}

fn take_on(launch: &Launch<'_>, no_clone3: &Filter) -> Result<(), (&'static str, Errno)> {
    let named = |step: &'static str| move |errno: Errno| (step, errno);
    rustix::process::setsid().map_err(named("setsid"))?;
    if let Cgroup::Joins(procs) = launch.cgroup {
        rustix::io::write(procs, b"0").map_err(named("join the cgroup"))?;
    }
    match launch.streams {
        Streams::Pipes { stdin, stdout, stderr } => {
            rustix::stdio::dup2_stdin(stdin).map_err(named("set stdin"))?;
            rustix::stdio::dup2_stdout(stdout).map_err(named("set stdout"))?;
            rustix::stdio::dup2_stderr(stderr).map_err(named("set stderr"))?;
        }
        Streams::Terminal(terminal) => {
            rustix::process::ioctl_tiocsctty(terminal).map_err(named("take the terminal"))?;
            rustix::stdio::dup2_stdin(terminal).map_err(named("set stdin"))?;
            rustix::stdio::dup2_stdout(terminal).map_err(named("set stdout"))?;
            rustix::stdio::dup2_stderr(terminal).map_err(named("set stderr"))?;
        }
    }
    for (resource, limit) in launch.rlimits {
        rustix::process::setrlimit(*resource, *limit).map_err(named("setrlimit"))?;
    }
    let uid = Uid::from_raw(launch.identity.uid);
    let gid = Gid::from_raw(launch.identity.gid);
    if launch.identity.groups == Groups::Cleared {
        rustix::thread::set_thread_groups(&[]).map_err(named("setgroups"))?;
    }
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(named("setresgid"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(named("setresuid"))?;
    drop_capabilities().map_err(named("drop capabilities"))?;
    rustix::process::fchdir(launch.cwd).map_err(named("enter the working directory"))?;
    no_clone3.install().map_err(named("install the seccomp filter"))?;
    let first_closed = 3 + place_extra(launch.extra).map_err(named("hand descriptors over"))?;
    // SAFETY: closing descriptors by number; from here on only execve is called.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first_closed, u32::MAX, 0_u32) };
    if closed != 0 {
        return Err(("close_range", Errno::NOSYS));
    }
    // Rust's runtime ignores it in the supervisor; a command expects to be ended by it.
    use_default(libc::SIGPIPE);
    unblock_all();
    Ok(())
}

/// Puts descriptors at 3 and after it, whatever numbers they have now; how many there are.
fn place_extra(extra: &[BorrowedFd<'_>]) -> Result<u32, Errno> {
    if extra.len() > MOST_EXTRA {
        return Err(Errno::INVAL);
    }
    let mut aside = [-1; MOST_EXTRA];
    for (fd, kept) in extra.iter().zip(&mut aside) {
        // SAFETY: a copy of an open descriptor, in this process alone; it is closed with all others.
        *kept = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
        if *kept < 0 {
            return Err(Errno::MFILE);
        }
    }
    for (number, kept) in (3..).zip(&aside[..extra.len()]) {
        // SAFETY: whatever had the number is not used any more before execve.
        if unsafe { libc::dup2(*kept, number) } < 0 {
            return Err(Errno::BADF);
        }
    }
    Ok(extra.len() as u32)
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod launch_tests;
