//! Starting the processes of execs, and collecting their ends.
//!
//! The order of steps between fork and execve is the order in which a cell's layers close:
//! session, standard streams, descriptors, limits, ids, capabilities, (Landlock, seccomp), execve.
//! `no_new_privs`, the empty bounding set and the locked securebits are inherited from the
//! supervisor, which calls [`lock_privileges`] once.

use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Gid, Pid, Resource, Rlimit, Uid};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::clone::{
    CLONE_CLEAR_SIGHAND, CLONE_INTO_CGROUP, CLONE_VFORK, CLONE_VM, CloneArgs, clone3_call,
};
use crate::signals::use_default;
use crate::{Forked, Step, StepError, fork};

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
}

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
/// The step whose failure means that the exec may not enter its directory.
pub const CHDIR_STEP: &str = "enter the working directory";

const STACK_BYTES: usize = 64 * 1024;

/// Starts processes. Holds the stack on which they run until they are a program of their own.
#[derive(Debug)]
pub struct Launcher {
    stack: Box<[u8]>,
}

/// What the child sees of the parent's memory.
struct Shared<'a> {
    launch: &'a Launch<'a>,
    argv: *const *const c_char,
    env: *const *const c_char,
    failed: Option<(&'static str, i32)>,
}

impl Default for Launcher {
    fn default() -> Self {
        Self { stack: vec![0; STACK_BYTES].into_boxed_slice() }
    }
}

impl Launcher {
    /// Starts a process; returns when it has become its program.
    ///
    /// # Errors
    /// A step failed; no process is left.
    pub fn launch(&mut self, launch: &Launch<'_>) -> Result<Pid, LaunchError> {
        let argv = pointers(launch.argv);
        let env = pointers(launch.env);
        let mut shared = Shared { launch, argv: argv.as_ptr(), env: env.as_ptr(), failed: None };
        let mut args = CloneArgs {
            flags: CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND,
            exit_signal: libc::SIGCHLD as u64,
            stack: self.stack.as_mut_ptr() as u64,
            stack_size: self.stack.len() as u64,
            ..CloneArgs::default()
        };
        if let Cgroup::Born(directory) = launch.cgroup {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = directory.as_raw_fd() as u64;
        }
        // SAFETY: the stack and `shared` outlive the child's use of them, since CLONE_VFORK holds
        // this thread until the child has called execve or _exit; `child` never returns.
        let pid = unsafe {
            clone3_call(&mut args, child, std::ptr::from_mut(&mut shared).cast::<c_void>())
        };
        let pid = pid.map_err(|source| LaunchError { step: "clone3", source })?;
        let pid = Pid::from_raw(pid)
            .ok_or_else(|| LaunchError { step: "clone3", source: io::Error::other("no pid") })?;
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

    /// Starts a process below a subreaper of its own, so that none of its descendants gets away.
    ///
    /// # Errors
    /// A step failed; no process is left.
    pub fn launch_reaped(&mut self, launch: &Launch<'_>) -> Result<ReapedLaunch, LaunchError> {
        let failed = |step, source| LaunchError { step, source };
        let (report, reporter) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| failed("pipe", errno.into()))?;
        match fork().map_err(|source| failed("fork", source))? {
            Forked::Child => {
                drop(report);
                let code = self.reap_for(launch, &reporter);
                // SAFETY: _exit ends this process without running anything of the parent's.
                unsafe { libc::_exit(code) }
            }
            Forked::Parent { pid, .. } => {
                drop(reporter);
                rustix::io::ioctl_fionbio(&report, true)
                    .map_err(|errno| failed("ioctl", errno.into()))?;
                Ok(ReapedLaunch { reaper: pid, report })
            }
        }
    }

    /// The life of a subreaper: starts the process, tells of its end, waits for all the others.
    fn reap_for(&mut self, launch: &Launch<'_>, reporter: &OwnedFd) -> i32 {
        if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
            return 1;
        }
        let main = match self.launch(launch) {
            Ok(pid) => {
                tell(reporter, &Report::Started(pid.as_raw_nonzero().get()));
                pid
            }
            Err(error) => {
                tell(
                    reporter,
                    &Report::Failed {
                        execve: error.step == EXECVE_STEP,
                        chdir: error.step == CHDIR_STEP,
                        errno: error.source.raw_os_error().unwrap_or(libc::EIO),
                    },
                );
                return 1;
            }
        };
        close_all_but(reporter.as_fd());
        loop {
            match reap(Wait::Block) {
                Ok(Some(end)) if end.pid == main => tell(reporter, &Report::Ended(end)),
                Ok(_) => {}
                Err(_) => return 0,
            }
        }
    }
}

/// A process below a subreaper.
#[derive(Debug)]
pub struct ReapedLaunch {
    /// The subreaper, a child of this process.
    pub reaper: Pid,
    /// Where the subreaper writes [`Report`]s.
    pub report: OwnedFd,
}

/// What a subreaper tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The process runs under this pid.
    Started(i32),
    /// It could not be started.
    Failed {
        /// Whether the program itself could not be run.
        execve: bool,
        /// Whether its directory could not be entered.
        chdir: bool,
        /// What the kernel said.
        errno: i32,
    },
    /// It has ended.
    Ended(Reaped),
}

impl Report {
    /// The bytes of one report in the pipe.
    pub const BYTES: usize = 40;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let fields: [i64; 5] = match self {
            Self::Started(pid) => [1, i64::from(pid), 0, 0, 0],
            Self::Failed { execve, chdir, errno } => {
                [2, i64::from(execve), i64::from(chdir), i64::from(errno), 0]
            }
            Self::Ended(end) => [
                3,
                i64::from(end.pid.as_raw_nonzero().get()),
                i64::from(end.status),
                i64::try_from(end.cpu_us).unwrap_or(i64::MAX),
                i64::try_from(end.max_rss_kb).unwrap_or(i64::MAX),
            ],
        };
        let mut bytes = [0; Self::BYTES];
        for (chunk, field) in bytes.chunks_exact_mut(8).zip(fields) {
            chunk.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Reads a report back.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut fields = [0_i64; 5];
        for (field, chunk) in fields.iter_mut().zip(bytes.chunks_exact(8)) {
            *field = i64::from_le_bytes(chunk.try_into().ok()?);
        }
        let [kind, first, second, third, fourth] = fields;
        match kind {
            1 => Some(Self::Started(i32::try_from(first).ok()?)),
            2 => Some(Self::Failed {
                execve: first != 0,
                chdir: second != 0,
                errno: i32::try_from(third).ok()?,
            }),
            3 => Some(Self::Ended(Reaped {
                pid: Pid::from_raw(i32::try_from(first).ok()?)?,
                status: i32::try_from(second).ok()?,
                cpu_us: u64::try_from(third).ok()?,
                max_rss_kb: u64::try_from(fourth).ok()?,
            })),
            _ => None,
        }
    }
}

fn tell(reporter: &OwnedFd, report: &Report) {
    // A supervisor that is gone has taken the whole cell with it.
    let _ = rustix::io::write(reporter, &report.to_bytes());
}

fn close_all_but(kept: BorrowedFd<'_>) {
    let kept = kept.as_raw_fd().unsigned_abs();
    // SAFETY: closing descriptors by number; this process uses none but `kept` from here on.
    unsafe {
        if kept > 0 {
            libc::syscall(libc::SYS_close_range, 0_u32, kept - 1, 0_u32);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0_u32);
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
    if let Err(failure) = take_on(shared.launch) {
        return failure;
    }
    // SAFETY: both arrays end with a null pointer and point to strings that outlive the call.
    unsafe { libc::execve(shared.launch.program.as_ptr(), shared.argv, shared.env) };
    // SAFETY: errno is this thread's, set by the call above.
    (EXECVE_STEP, Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}

fn take_on(launch: &Launch<'_>) -> Result<(), (&'static str, Errno)> {
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
    rustix::process::fchdir(launch.cwd).map_err(named(CHDIR_STEP))?;
    // Landlock and the seccomp filter have their place here.
    // SAFETY: closing descriptors by number; from here on only execve is called.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    if closed != 0 {
        return Err(("close_range", Errno::NOSYS));
    }
    // Rust's runtime ignores it in the supervisor; a command expects to be ended by it.
    use_default(libc::SIGPIPE);
    // SAFETY: an empty set is valid, and so are the pointers.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    Ok(())
}

fn drop_capabilities() -> Result<(), Errno> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

/// Makes sure that nothing started by this process can ever gain a privilege: `no_new_privs`, an
/// empty bounding set, and securebits under which uid 0 means nothing. This process keeps the
/// capabilities it has.
///
/// # Errors
/// The kernel refused a step.
pub fn lock_privileges() -> Result<(), StepError> {
    rustix::thread::set_no_new_privs(true).step(|| "set no_new_privs".to_owned())?;
    for capability in 0..=63_u32 {
        // SAFETY: prctl with plain numbers. EINVAL tells that the kernel has no more of them.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if result != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINVAL) {
                break;
            }
            return Err(error)
                .step(|| format!("drop capability {capability} from the bounding set"));
        }
    }
    rustix::thread::clear_ambient_capability_set()
        .step(|| "clear ambient capabilities".to_owned())?;
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(bits).step(|| "lock securebits".to_owned())
}

/// Makes this process unreadable for every other one in its namespace.
///
/// # Errors
/// The kernel refused.
pub fn hide_self() -> Result<(), StepError> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .step(|| "make pid 1 non-dumpable".to_owned())
}

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Which.
    pub pid: Pid,
    /// Its wait status.
    pub status: i32,
    /// CPU time of it and of the children it had waited for.
    pub cpu_us: u64,
    /// The largest resident size of one of those.
    pub max_rss_kb: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By exiting with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

impl Reaped {
    /// How it ended.
    #[must_use]
    pub fn ending(&self) -> Ending {
        if libc::WIFSIGNALED(self.status) {
            Ending::Signaled(libc::WTERMSIG(self.status))
        } else {
            Ending::Exited(libc::WEXITSTATUS(self.status))
        }
    }
}

/// Whether to wait for a child to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until one ends.
    Block,
    /// Not at all.
    Poll,
}

/// Collects one child that has ended; `None` when none has.
///
/// # Errors
/// There are no children (`ECHILD`).
pub fn reap(wait: Wait) -> io::Result<Option<Reaped>> {
    let options = match wait {
        Wait::Block => 0,
        Wait::Poll => libc::WNOHANG,
    };
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid; both pointers are valid for the call.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: as above.
        let pid = unsafe { libc::wait4(-1, &raw mut status, options, &raw mut usage) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        return Ok(Pid::from_raw(pid).map(|pid| Reaped {
            pid,
            status,
            cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
            max_rss_kb: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        }));
    }
}

fn micros(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
}
