//! The engine's end of a link: one connection shared by many calls.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use hotcell_model::{Command, Error, ExecId, ExecSpec, FileOp, FileScope};
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::carrier::Carrier;
use crate::conversation::UploadCredit;
use crate::files::FileConversation;
use crate::following::Following;
use crate::frame::{FrameKind, MAX_FRAME_BYTES, frame_bytes};
use crate::hello::{
    APPROVALS, CALLERS, CODE, FILES, INPUT_STATE, PORTS, SCRIPTS, SECRETS, SESSIONS,
};
use crate::inflow::{WINDOW, inflow};
use crate::ports::{PortConnection, PortEvent};
use crate::waiters::{FileWaiter, FollowWaiter, PortWaiter, Waiter, Waiters};
use crate::{Ask, FileAsk, GivenSecret, InputState, Started, Tell};

const FRAMES_TO_WRITE: usize = 256;

/// Why a call over a link failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    /// The connection is gone; what became of the call is not known.
    #[error("the connection to the cell's supervisor was lost")]
    Lost,
    /// The two ends cannot talk to each other.
    #[error("{0}")]
    Refused(String),
    /// The supervisor said no.
    #[error("{0}")]
    Failed(Error),
    /// The supervisor answered something else than was asked.
    #[error("the cell's supervisor gave an answer to another question")]
    Confused,
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Failed(error) => error,
            LinkError::Lost => Error::unavailable(error.to_string())
                .hint("look at the cell with `hotcell info`, then try again"),
            LinkError::Refused(reason) => Error::unavailable(reason)
                .hint("use the hotcell version that made the cell, or kill the cell"),
            LinkError::Confused => Error::internal(error.to_string()),
        }
    }
}

/// A connection to one supervisor. Dropped, it is closed, and with it all it was waiting for.
#[derive(Debug)]
pub struct Link {
    waiters: Waiters,
    frames: mpsc::Sender<Vec<u8>>,
    version: u32,
    features: Vec<String>,
    _carrier: JoinSet<()>,
}

impl Link {
    /// Opens a link over a fresh stream and waits for the other end's greeting.
    ///
    /// # Errors
    /// The stream broke, or the versions do not meet.
    pub async fn open(stream: StdUnixStream) -> Result<Self, LinkError> {
        let stream = into_tokio(stream).map_err(|_| LinkError::Lost)?;
        let carrier = Carrier::greet(stream).await?;
        let (version, features) = (carrier.version(), carrier.features());
        let waiters = Waiters::default();
        let (frames, to_write) = mpsc::channel(FRAMES_TO_WRITE);
        let mut task = JoinSet::new();
        task.spawn(carrier.run(to_write, waiters.clone()));
        Ok(Self { waiters, frames, version, features, _carrier: task })
    }

    /// The protocol version that both ends speak.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether the connection is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.waiters.closed().is_some()
    }

    /// Asks, with bytes that belong to the question, and waits for the answer.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor said no.
    pub async fn ask(&self, ask: &Ask, blob: &[u8]) -> Result<Tell, LinkError> {
        let (_waiting, answered) = self.begin(ask, blob).await?;
        self.answer(answered.await)
    }

    /// Asks, and waits a while for the answer. `None` if it did not come: what was asked for stands.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor said no.
    pub async fn ask_within(
        &self,
        ask: &Ask,
        blob: &[u8],
        patience: Duration,
    ) -> Result<Option<Tell>, LinkError> {
        let (_waiting, answered) = self.begin(ask, blob).await?;
        match timeout(patience, answered).await {
            Ok(answered) => self.answer(answered).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Asks; the answer is awaited as long as what comes with it is kept.
    async fn begin(
        &self,
        ask: &Ask,
        blob: &[u8],
    ) -> Result<(Waiting<'_>, oneshot::Receiver<Tell>), LinkError> {
        let (answer, answered) = oneshot::channel();
        let channel = self.waiters.add(Waiter::Answer(answer))?;
        let waiting = Waiting { waiters: &self.waiters, channel };
        self.send(channel, FrameKind::Ask, ask, blob).await?;
        Ok((waiting, answered))
    }

    fn answer(&self, answered: Result<Tell, RecvError>) -> Result<Tell, LinkError> {
        match answered {
            Ok(Tell::Failed(error)) => Err(LinkError::Failed(error)),
            Ok(tell) => Ok(tell),
            Err(_) => Err(self.reason(LinkError::Confused)),
        }
    }

    /// Starts an exec and follows its output from the beginning.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor said no.
    pub async fn start(&self, spec: ExecSpec) -> Result<(Started, Following), LinkError> {
        self.start_with(spec, Vec::new()).await
    }

    /// The same with secrets.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor said no or takes no secrets.
    pub async fn start_with(
        &self,
        spec: ExecSpec,
        secrets: Vec<GivenSecret>,
    ) -> Result<(Started, Following), LinkError> {
        if !secrets.is_empty() {
            self.require(SECRETS, "takes no secrets")?;
        }
        if spec.approval.is_some() {
            self.require(APPROVALS, "cannot let a command wait for approval")?;
        }
        if let Command::Code(code) = &spec.command {
            self.require(CODE, "runs no code")?;
            if code.language.is_script() {
                self.require(SCRIPTS, "runs neither TypeScript nor JavaScript")?;
            }
            if code.session.is_some() {
                self.require(SESSIONS, "keeps no variables between runs")?;
            }
        }
        let ask = Ask::Start { spec: Box::new(spec), window: Some(WINDOW), secrets };
        match self.open_follow(&ask).await? {
            (Tell::Started(started), following) => Ok((started, following)),
            _ => Err(LinkError::Confused),
        }
    }

    /// Follows an exec's output after a seq.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor does not know the exec.
    pub async fn follow(&self, exec: ExecId, after_seq: u64) -> Result<Following, LinkError> {
        let ask = Ask::Follow { exec, after_seq, window: WINDOW };
        self.open_follow(&ask).await.map(|(_, following)| following)
    }

    async fn open_follow(&self, ask: &Ask) -> Result<(Tell, Following), LinkError> {
        let (answer, answered) = oneshot::channel();
        let (unbound, events) = inflow();
        let waiter = FollowWaiter { answer: Some(answer), events };
        let channel = self.waiters.add(Waiter::Follow(waiter))?;
        let events = unbound.on(channel, self.frames.clone(), self.waiters.clone());
        let following = Following::new(events);
        self.send(channel, FrameKind::Ask, ask, &[]).await?;
        match answered.await {
            Ok(Tell::Failed(error)) => Err(LinkError::Failed(error)),
            Ok(tell) => Ok((tell, following)),
            Err(_) => Err(self.reason(LinkError::Confused)),
        }
    }

    /// Begins to do something with files.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor serves no files.
    pub async fn file(&self, op: FileOp, scope: FileScope) -> Result<FileConversation, LinkError> {
        self.require(FILES, "serves no files")?;
        let (unbound, events) = inflow();
        let credit = UploadCredit::new();
        let waiter = FileWaiter { events, credit: credit.clone() };
        let channel = self.waiters.add(Waiter::File(waiter))?;
        let (frames, waiters) = (self.frames.clone(), self.waiters.clone());
        let events = unbound.on(channel, frames.clone(), waiters.clone());
        let conversation = FileConversation::new(channel, events, frames, waiters, credit);
        let ask = FileAsk { op, scope, window: WINDOW };
        self.send(channel, FrameKind::File, &ask, &[]).await?;
        Ok(conversation)
    }

    /// Connects to a service at a port of the cell's own loopback.
    ///
    /// # Errors
    /// The connection was lost, nothing listens there, or the supervisor cannot do this.
    pub async fn dial(&self, port: u16) -> Result<PortConnection, LinkError> {
        self.require(PORTS, "does not connect to ports")?;
        self.connect(&Ask::Dial { port, window: WINDOW }).await
    }

    /// Carries the calls that the code of an exec makes.
    ///
    /// # Errors
    /// The connection was lost, the exec makes no calls, or somebody carries them already.
    pub async fn calls(&self, exec: ExecId) -> Result<PortConnection, LinkError> {
        self.require(CODE, "runs no code")?;
        self.connect(&Ask::Calls { exec, window: WINDOW }).await
    }

    /// Waits for the next program that calls tools and belongs to an exec that was started over this
    /// link: which exec, and what it says after that.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor carries no calls of programs.
    pub async fn accept(&self) -> Result<(ExecId, PortConnection), LinkError> {
        self.require(CALLERS, "carries no calls of programs")?;
        let mut connection = self.connect(&Ask::Accept { window: WINDOW }).await?;
        let exec = match connection.receiver.next().await {
            Ok(PortEvent::Data(line)) => std::str::from_utf8(&line).ok().and_then(exec_of_line),
            Ok(PortEvent::End | PortEvent::Closed | PortEvent::Failed(_)) | Err(_) => None,
        };
        exec.map(|exec| (exec, connection)).ok_or(LinkError::Confused)
    }

    async fn connect(&self, ask: &Ask) -> Result<PortConnection, LinkError> {
        let (answer, answered) = oneshot::channel();
        let (unbound, events) = inflow();
        let credit = UploadCredit::new();
        let waiter = PortWaiter { answer: Some(answer), events, credit: credit.clone() };
        let channel = self.waiters.add(Waiter::Port(waiter))?;
        let (frames, waiters) = (self.frames.clone(), self.waiters.clone());
        let events = unbound.on(channel, frames.clone(), waiters.clone());
        let connection = PortConnection::new(channel, events, frames, waiters, credit);
        self.send(channel, FrameKind::Ask, ask, &[]).await?;
        match answered.await {
            Ok(Tell::Done) => Ok(connection),
            Ok(Tell::Failed(error)) => Err(LinkError::Failed(error)),
            Ok(_) => Err(LinkError::Confused),
            Err(_) => Err(self.reason(LinkError::Confused)),
        }
    }

    /// What the foreground program of an exec is doing; `None` if the supervisor cannot tell.
    ///
    /// # Errors
    /// The connection was lost, or there is no such exec.
    pub async fn input_state(&self, exec: ExecId) -> Result<Option<InputState>, LinkError> {
        if !self.can(INPUT_STATE) {
            return Ok(None);
        }
        match self.ask(&Ask::InputState { exec }, &[]).await? {
            Tell::InputState(state) => Ok(Some(state)),
            Tell::Done
            | Tell::Started(_)
            | Tell::Cancelled(_)
            | Tell::Stats(_)
            | Tell::File(_)
            | Tell::Failed(_) => Err(LinkError::Confused),
        }
    }

    /// Whether the other end said that it can do this.
    #[must_use]
    pub fn can(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }

    /// Refuses what the other end did not say that it can do.
    fn require(&self, feature: &str, lacking: &str) -> Result<(), LinkError> {
        if self.can(feature) {
            return Ok(());
        }
        Err(LinkError::Failed(
            Error::unsupported(format!("the cell's supervisor {lacking}"))
                .hint("the cell was made by another version of hotcell; spawn a new one"),
        ))
    }

    async fn send<T: Serialize>(
        &self,
        channel: u32,
        kind: FrameKind,
        head: &T,
        blob: &[u8],
    ) -> Result<(), LinkError> {
        let bytes = frame_bytes(kind, channel, head, blob);
        if bytes.len() > MAX_FRAME_BYTES {
            // The other end would have to give the whole connection up.
            let length = bytes.len();
            return Err(LinkError::Failed(
                Error::invalid(format!("a message of {length} bytes cannot be sent to a cell"))
                    .hint("send at most 8 MiB at once"),
            ));
        }
        self.frames.send(bytes).await.map_err(|_| self.reason(LinkError::Lost))
    }

    /// Why the connection was closed, or what it means that it was not.
    fn reason(&self, open: LinkError) -> LinkError {
        self.waiters.closed().unwrap_or(open)
    }
}

/// Stops waiting for an answer when the one who asked does.
struct Waiting<'a> {
    waiters: &'a Waiters,
    channel: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waiters.remove(self.channel);
    }
}

/// The exec that a supervisor names before what its program says.
fn exec_of_line(line: &str) -> Option<ExecId> {
    line.strip_suffix('\n')?.parse().ok()
}

fn into_tokio(stream: StdUnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
