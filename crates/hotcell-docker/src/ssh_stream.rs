//! A connection to the engine of another machine: an `ssh` that runs that machine's `docker`.

use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use crate::engine_address::{EngineAddress, EngineSettings};

/// As much of what `ssh` says as anybody reads.
const MOST_WORDS: usize = 2048;
/// How long is waited for what an `ssh` that ended had to say.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How `ssh` is to behave, whatever its configuration says. It asks nobody anything, and notices
/// within a minute that the other side is gone.
const OPTIONS: [&str; 7] = [
    "BatchMode=yes",
    "ConnectTimeout=5",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RequestTTY=no",
];

/// What an `ssh` says whose connection ended before anything was said over it. An sshd with many at its
/// door does that to some (`MaxStartups`).
const TURNED_AWAY: &str = "exchange_identification";

/// Whether a connection ended before anything was said over it.
pub(crate) fn is_turned_away(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted && error.to_string().contains(TURNED_AWAY)
}

/// A running `ssh`; dropped, it is ended.
#[derive(Debug)]
pub(crate) struct SshStream {
    /// Ends with it.
    _child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// What it says beside its output, and who takes it down.
    said: Arc<Mutex<Vec<u8>>>,
    listening: JoinSet<()>,
    has_answered: bool,
    patience: Option<Pin<Box<Sleep>>>,
}

/// What `ssh` is told for an engine; `None` for one that is reached otherwise.
pub(crate) fn arguments(settings: &EngineSettings) -> Option<Vec<String>> {
    let EngineAddress::Ssh { user, host, port, socket } = &settings.address else { return None };
    let mut arguments = vec!["-T".to_owned()];
    for option in OPTIONS {
        arguments.extend(["-o".to_owned(), option.to_owned()]);
    }
    if let Some(file) = &settings.ssh_config {
        arguments.extend(["-F".to_owned(), file.display().to_string()]);
    }
    if let Some(user) = user {
        arguments.extend(["-l".to_owned(), user.clone()]);
    }
    if let Some(port) = port {
        arguments.extend(["-p".to_owned(), port.to_string()]);
    }
    arguments.extend(["--".to_owned(), host.clone(), "docker".to_owned()]);
    if let Some(socket) = socket {
        arguments.push(format!("--host=unix://{socket}"));
    }
    arguments.extend(["system".to_owned(), "dial-stdio".to_owned()]);
    Some(arguments)
}

impl SshStream {
    /// Starts `ssh`. Whether it gets anywhere is seen by who reads.
    #[expect(clippy::disallowed_methods, reason = "the way to another machine is a program")]
    pub(crate) fn start(
        arguments: &[String],
        environment: &[(String, String)],
    ) -> io::Result<Self> {
        let mut command = Command::new("ssh");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // It has the agent and the home directory of the user, and no signals of our terminal.
        command.env_clear().envs(environment.iter().cloned());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start the program `ssh`: {error}"))
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("the program `ssh` has no pipes"));
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut listening = JoinSet::new();
        listening.spawn(listen(errors, Arc::clone(&said)));
        Ok(Self {
            _child: child,
            input: Some(input),
            output,
            said,
            listening,
            has_answered: false,
            patience: None,
        })
    }

    /// Why an `ssh` that was never answered has ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(LAST_WORDS)));
        // What it started may hold its pipe open.
        if self.listening.poll_join_next(cx).is_pending() && patience.as_mut().poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&said);
        let mut why = "`ssh` ended before the engine answered".to_owned();
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        if !lines.is_empty() {
            // Text cannot refuse to be written to.
            let _ = write!(why, ": {}", lines.join("; "));
        }
        let kind = match said.contains(TURNED_AWAY) {
            true => io::ErrorKind::ConnectionAborted,
            false => io::ErrorKind::NotConnected,
        };
        Poll::Ready(io::Error::new(kind, why))
    }
}

async fn listen(mut errors: ChildStderr, said: Arc<Mutex<Vec<u8>>>) {
    let mut piece = [0; 512];
    while let Ok(count @ 1..) = errors.read(&mut piece).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_WORDS.saturating_sub(said.len());
        said.extend(piece.iter().take(count.min(room)));
    }
}

impl AsyncRead for SshStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut stream.output).poll_read(cx, buf))?;
        if buf.filled().len() > before || stream.has_answered {
            stream.has_answered = true;
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(ready!(stream.poll_end(cx))))
    }
}

impl AsyncWrite for SshStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let Some(input) = &mut stream.input else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        match ready!(Pin::new(input).poll_write(cx, bytes)) {
            Err(_) if !stream.has_answered => Poll::Ready(Err(ready!(stream.poll_end(cx)))),
            written => Poll::Ready(written),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().input {
            Some(input) => Pin::new(input).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A pipe is at its end when it is closed.
        self.get_mut().input = None;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_an_address_is_never_an_option() {
        let address = "ssh://me@host:2222/run/docker.sock".parse().expect("an address");
        let arguments = arguments(&EngineSettings::new("far", address)).expect("over ssh");
        let at = arguments.iter().position(|it| it == "--").expect("an end of the options");
        let after: Vec<&str> = arguments[at + 1..].iter().map(String::as_str).collect();
        let expected = ["host", "docker", "--host=unix:///run/docker.sock", "system", "dial-stdio"];
        assert_eq!(after, expected);
        assert!(arguments.contains(&"BatchMode=yes".to_owned()));
        assert!(arguments.windows(2).any(|pair| pair == ["-l", "me"]));
        assert!(arguments.windows(2).any(|pair| pair == ["-p", "2222"]));
    }
}
