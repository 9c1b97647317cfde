//! The process of a server, and all that it starts: a group of its own that ends with its owner.
#![expect(
    clippy::disallowed_methods,
    reason = "a server of the operator runs on the host, with the operator's rights"
)]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotcell_model::{Error, Result};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::servers::Surroundings;
use crate::spec::StdioLaunch;

/// So much of what it said last is kept.
const TAIL_BYTES: usize = 4096;
/// How long a process that was killed may take to be gone.
const DYING: Duration = Duration::from_secs(2);

/// How long what it said last is waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A process group. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    exit: Exit,
    said: Tail,
    listening: JoinSet<()>,
}

/// The end of what a process said on its standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    pub(crate) fn text(&self) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    fn add(&self, more: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(more);
        let over = said.len().saturating_sub(TAIL_BYTES);
        said.drain(..over);
    }
}

/// Tells when a process, though not what it started, has ended. It is not reaped by that: until then
/// its group keeps its number.
#[derive(Debug, Clone)]
pub(crate) struct Exit(Option<Arc<AsyncFd<OwnedFd>>>);

impl Exit {
    fn of(pid: Option<Pid>) -> Self {
        let open = |pid| {
            let opened = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
            #[expect(
                deprecated,
                reason = "the other way is unsafe, and nobody else has this descriptor"
            )]
            AsyncFd::with_interest(opened, Interest::READABLE).ok()
        };
        Self(pid.and_then(open).map(Arc::new))
    }

    pub(crate) async fn seen(&self) {
        match &self.0 {
            Some(exit) => drop(exit.readable().await),
            None => std::future::pending().await,
        }
    }
}

/// The pipes of a process.
pub(crate) type Pipes = (ChildStdout, ChildStdin);

impl Process {
    /// Starts a server in a group of its own, with nothing of our environment.
    ///
    /// # Errors
    /// `unavailable` when it cannot be started.
    pub(crate) fn start(
        launch: &StdioLaunch,
        env: &BTreeMap<String, String>,
        surroundings: &Surroundings,
    ) -> Result<(Self, Pipes)> {
        let mut command = Command::new(&launch.command);
        command
            .args(&launch.args)
            .env_clear()
            .envs(&surroundings.env)
            .envs(env)
            .current_dir(launch.cwd.as_ref().unwrap_or(&surroundings.directory))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let failed = |why: String| {
            Error::unavailable(format!("cannot start {:?}: {why}", launch.command))
                .hint("see `command`, `cwd` and PATH of the declaration")
        };
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let exit = Exit::of(group);
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let said = Tail::default();
        let mut process =
            Self { child, group, exit, said: said.clone(), listening: JoinSet::new() };
        let (Some(output), Some(input), Some(errors)) = pipes else {
            return Err(failed("it has no pipes".to_owned()));
        };
        process.listening.spawn(listen(errors, said));
        Ok((process, (output, input)))
    }

    pub(crate) fn said(&self) -> Tail {
        self.said.clone()
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit.clone()
    }

    /// Kills the whole group.
    pub(crate) async fn kill(&mut self) -> Option<ExitStatus> {
        self.kill_group();
        let status = timeout(DYING, self.child.wait()).await.ok()?.ok();
        // Its last words may still be in the pipe, which others may hold open.
        let _ = timeout(LAST_WORDS, self.listening.join_next()).await;
        status
    }

    fn kill_group(&mut self) {
        // Once, and before the process is reaped: afterwards another group may have the number.
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
}

async fn listen(mut errors: ChildStderr, said: Tail) {
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = errors.read(&mut piece).await {
        said.add(&piece[..read]);
    }
}
