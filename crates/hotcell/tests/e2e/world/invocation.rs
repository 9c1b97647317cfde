//! One start of a program: what it is given, what it prints, how it ends.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::polling::{DEADLINE, some_within};
use super::{Kind, Wire, World, docker, eventually, is_root};

/// A program that is about to be started.
#[derive(Debug)]
pub(crate) struct Invocation {
    command: Command,
    input: Option<Vec<u8>>,
}

impl Invocation {
    pub(super) fn new<const N: usize>(world: &World, program: &OsStr, args: [&str; N]) -> Self {
        let mut command = match world.kind() {
            Kind::ContainerRoot => with_powers_of_a_container(program),
            Kind::WithoutNamespaces => under_the_filter_of_a_container(program),
            Kind::Root
            | Kind::RootWithoutCgroups
            | Kind::Rootless
            | Kind::SingleId
            | Kind::Docker
            | Kind::Remote => Command::new(program),
        };
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOTCELL_STATE_DIR", world.state_dir())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !world.kind().uses_cgroups() {
            command.env("HOTCELL_NATIVE_CGROUPS", "off");
        }
        if world.kind() == Kind::WithoutNamespaces {
            command.env("HOTCELL_NATIVE_LEVEL", "process");
        }
        if world.kind().has_containers()
            && let Some((socket, image)) = docker()
        {
            let address = world.wire().map(Wire::address);
            command
                .env("HOTCELL_DRIVER", "docker")
                .env("HOTCELL_DOCKER_HOST", address.unwrap_or_else(|| format!("unix://{socket}")))
                // What tests let cells reach is on this machine.
                .env("HOTCELL_DOCKER_NETWORK", "host")
                .env("HOTCELL_DOCKER_IMAGE", image);
        }
        // Where an instrumented build writes what it ran.
        if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", profile);
        }
        if is_root() {
            command.uid(world.user().uid).gid(world.user().gid);
        }
        Self { command, input: None }
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// What it reads from its standard input.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(mut self) -> Finished {
        let input = self.input.take();
        let mut live = match input {
            Some(_) => self.start_with_input(),
            None => self.start(),
        };
        let mut stdin = live.stdin.take();
        let writer = std::thread::spawn(move || {
            if let (Some(stdin), Some(bytes)) = (&mut stdin, input) {
                // It may end without having read all of it.
                let _ = stdin.write_all(&bytes);
            }
        });
        let finished = live.finish();
        writer.join().unwrap();
        finished
    }

    /// Starts it with nothing to read.
    #[track_caller]
    pub(crate) fn start(mut self) -> Live {
        Live::new(self.command.spawn().unwrap_or_else(|error| panic!("{self:?}: {error}")))
    }

    /// Starts it with a standard input that stays open.
    #[track_caller]
    pub(crate) fn start_with_input(mut self) -> Live {
        self.command.stdin(Stdio::piped());
        self.start()
    }

    /// Starts it with output that nobody reads until it is taken.
    #[track_caller]
    pub(crate) fn start_unread(mut self) -> Live {
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let unread = child.stdout.take();
        let mut live = Live::new(child);
        live.unread = unread;
        live
    }

    /// Both: an input that stays open, and output that nobody reads until it is taken.
    #[track_caller]
    pub(crate) fn start_unread_with_input(mut self) -> Live {
        self.command.stdin(Stdio::piped());
        self.start_unread()
    }

    /// Starts it with all three streams on these descriptors.
    #[track_caller]
    pub(super) fn start_on(mut self, fds: [OwnedFd; 3]) -> Live {
        let [stdin, stdout, stderr] = fds;
        self.command.stdin(stdin).stdout(stdout).stderr(stderr);
        self.start()
    }
}

/// What engines leave to root in a container unless told otherwise.
const CONTAINER_POWERS: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,\
                                +setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,\
                                +audit_write,+setfcap";

/// Forbids namespaces as engines do for everything in a container.
pub(crate) const AS_IN_A_CONTAINER: &str =
    include_str!("../../../../../scripts/as-in-a-container.py");

fn under_the_filter_of_a_container(program: &OsStr) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", AS_IN_A_CONTAINER]).arg(program);
    command
}

fn with_powers_of_a_container(program: &OsStr) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", CONTAINER_POWERS, "--"]).arg(program);
    command
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Live {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    unread: Option<ChildStdout>,
    stdout: Stream,
    stderr: Stream,
}

/// What came out of a stream so far.
#[derive(Debug, Default)]
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn of(source: Option<impl Read + Send + 'static>) -> Self {
        let Some(mut source) = source else { return Self::default() };
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn take_all(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        std::mem::take(&mut *self.bytes.lock().unwrap())
    }
}

impl Live {
    fn new(mut child: Child) -> Self {
        let stdin = child.stdin.take();
        let (stdout, stderr) = (Stream::of(child.stdout.take()), Stream::of(child.stderr.take()));
        Self { child, stdin, unread: None, stdout, stderr }
    }

    /// The output of a program that was started unread.
    pub(crate) fn take_stdout(&mut self) -> ChildStdout {
        self.unread.take().unwrap()
    }

    /// How much waits in the pipe of a program that was started unread.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.unread.as_ref().map_or(0, |stdout| rustix::io::ioctl_fionread(stdout).unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits until it has printed this.
    #[track_caller]
    pub(crate) fn await_stdout(&self, text: &str) {
        eventually(&format!("stdout has {text:?}"), || self.stdout.text().contains(text));
    }

    /// Waits until it has said this on its standard error.
    #[track_caller]
    pub(crate) fn await_stderr(&self, text: &str) {
        eventually(&format!("stderr has {text:?}"), || self.stderr.text().contains(text));
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        self.stdout.text()
    }

    /// What it has said on its standard error so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.text()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(self) -> Finished {
        self.finish_within(DEADLINE)
    }

    /// The same for one that may take longer than most.
    #[track_caller]
    pub(crate) fn finish_within(mut self, deadline: Duration) -> Finished {
        drop(self.stdin.take());
        let status = self.await_end(deadline);
        let (stdout, stderr) = (self.stdout.take_all(), self.stderr.take_all());
        Finished { status, stdout, stderr }
    }

    /// Waits for its end with its input left open.
    pub(crate) fn finish_unfed(mut self) -> Finished {
        self.await_end(DEADLINE);
        self.finish()
    }

    /// Kills it, and only it.
    pub(crate) fn kill(mut self) -> Finished {
        self.child.kill().unwrap();
        self.finish()
    }

    #[track_caller]
    fn await_end(&mut self, deadline: Duration) -> ExitStatus {
        let (stdout, stderr) = (&self.stdout, &self.stderr);
        let child = &mut self.child;
        let printed = || {
            let tail = |text: String| text.chars().rev().take(2000).collect::<String>();
            let turn = |text: String| text.chars().rev().collect::<String>();
            format!("{:?} {:?}", turn(tail(stdout.text())), turn(tail(stderr.text())))
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            some_within(deadline, "the program ends", &mut || child.try_wait().unwrap())
        }));
        found.unwrap_or_else(|_| panic!("the program hangs; it printed {}", printed()))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that has ended.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Finished {
    /// Its exit code; a signal counts as 128 and its number, as a shell shows it.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The same, if it exited with 0.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        self.exited(0)
    }

    /// The same, if it exited with this code.
    #[track_caller]
    pub(crate) fn exited(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{self:?}");
        self
    }
}

impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: String| text.chars().take(4000).collect::<String>();
        writeln!(f, "exit code {}", self.code())?;
        writeln!(f, "stdout: {}", shown(self.stdout()))?;
        write!(f, "stderr: {}", shown(self.stderr()))
    }
}
