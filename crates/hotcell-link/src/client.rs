//! The engine's end of a link: one connection shared by many calls.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::{Error, ExecEnd, ExecId, ExecSpec, Record};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::frame::{Frame, FrameKind, encode};
use crate::peer::{Peer, PeerError};
use crate::{Ask, RecordHead, Started, Tell, record_cost};

/// How many bytes of one followed output may be under way.
const WINDOW: u32 = 512 * 1024;
/// No record counts less than this against the window, so no more of them are under way.
const RECORDS_IN_WINDOW: usize = (WINDOW / 64) as usize;
const FRAMES_TO_WRITE: usize = 256;
const READ_BYTES: usize = 64 * 1024;

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

/// What comes of following an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowEvent {
    /// Output.
    Record(Record),
    /// The end; nothing comes after it.
    Ended(ExecEnd),
}

enum Waiter {
    Answer(oneshot::Sender<Tell>),
    Follow { answer: Option<oneshot::Sender<Tell>>, events: mpsc::Sender<FollowEvent> },
}

#[derive(Debug, Default)]
struct Channels {
    waiters: HashMap<u32, Waiter>,
    closed: Option<LinkError>,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Answer(_) => "Answer",
            Self::Follow { .. } => "Follow",
        })
    }
}

type Shared = Arc<Mutex<Channels>>;

/// A connection to one supervisor. Dropped, it is closed, and with it all it was waiting for.
#[derive(Debug)]
pub struct Link {
    channels: Shared,
    frames: mpsc::Sender<Vec<u8>>,
    next_channel: AtomicU32,
    _tasks: JoinSet<()>,
}

impl Link {
    /// Opens a link over a fresh stream and waits for the other end's greeting.
    ///
    /// # Errors
    /// The stream broke, or the versions do not meet.
    pub async fn open(stream: StdUnixStream) -> Result<Self, LinkError> {
        let stream = into_tokio(stream).map_err(|_| LinkError::Lost)?;
        let (reader, mut writer) = stream.into_split();
        let mut peer = Peer::new();
        writer.write_all(peer.unsent()).await.map_err(|_| LinkError::Lost)?;
        let unsent = peer.unsent().len();
        peer.mark_sent(unsent);
        let mut incoming = Incoming { peer, reader, buffer: vec![0; READ_BYTES] };
        incoming.greet().await?;

        let channels = Shared::default();
        let (frames, to_write) = mpsc::channel(FRAMES_TO_WRITE);
        let mut tasks = JoinSet::new();
        tasks.spawn(write_frames(writer, to_write));
        tasks.spawn(read_frames(incoming, Arc::clone(&channels)));
        Ok(Self { channels, frames, next_channel: AtomicU32::new(1), _tasks: tasks })
    }

    /// Whether the connection is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.channels).closed.is_some()
    }

    /// Asks, with bytes that belong to the question, and waits for the answer.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor said no.
    pub async fn ask(&self, ask: &Ask, blob: &[u8]) -> Result<Tell, LinkError> {
        let (answer, answered) = oneshot::channel();
        let channel = self.register(Waiter::Answer(answer))?;
        self.send(FrameKind::Ask, channel, ask, blob).await?;
        match answered.await {
            Ok(Tell::Failed(error)) => Err(LinkError::Failed(error)),
            Ok(tell) => Ok(tell),
            Err(_) => Err(self.reason()),
        }
    }

    /// Starts an exec and follows its output from the beginning.
    ///
    /// # Errors
    /// The connection was lost, or the supervisor said no.
    pub async fn start(&self, spec: ExecSpec) -> Result<(Started, Following), LinkError> {
        let ask = Ask::Start { spec: Box::new(spec), window: Some(WINDOW) };
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
        let (events, receiver) = mpsc::channel(RECORDS_IN_WINDOW + 1);
        let channel = self.register(Waiter::Follow { answer: Some(answer), events })?;
        let following = Following {
            channel,
            events: receiver,
            frames: self.frames.clone(),
            channels: Arc::clone(&self.channels),
            uncredited: 0,
        };
        self.send(FrameKind::Ask, channel, ask, &[]).await?;
        match answered.await {
            Ok(Tell::Failed(error)) => Err(LinkError::Failed(error)),
            Ok(tell) => Ok((tell, following)),
            Err(_) => Err(self.reason()),
        }
    }

    fn register(&self, waiter: Waiter) -> Result<u32, LinkError> {
        let channel = self.next_channel.fetch_add(1, Ordering::Relaxed);
        let mut channels = lock(&self.channels);
        match &channels.closed {
            Some(reason) => Err(reason.clone()),
            None => {
                channels.waiters.insert(channel, waiter);
                Ok(channel)
            }
        }
    }

    async fn send<T: Serialize>(
        &self,
        kind: FrameKind,
        channel: u32,
        head: &T,
        blob: &[u8],
    ) -> Result<(), LinkError> {
        self.frames.send(frame_bytes(kind, channel, head, blob)).await.map_err(|_| self.reason())
    }

    fn reason(&self) -> LinkError {
        lock(&self.channels).closed.clone().unwrap_or(LinkError::Lost)
    }
}

/// The output of an exec as it comes. Dropped, the supervisor stops sending it.
#[derive(Debug)]
pub struct Following {
    channel: u32,
    events: mpsc::Receiver<FollowEvent>,
    frames: mpsc::Sender<Vec<u8>>,
    channels: Shared,
    uncredited: u32,
}

impl Following {
    /// The next event; `None` when the connection was lost before the end. Can be cancelled
    /// without losing an event.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        let event = self.events.recv().await?;
        if let FollowEvent::Record(record) = &event {
            self.uncredited += record_cost(record.bytes.len());
            if self.uncredited >= WINDOW / 2 {
                let credit = frame_bytes(FrameKind::Credit, self.channel, &self.uncredited, &[]);
                // A full queue only delays the credit until the next record.
                if self.frames.try_send(credit).is_ok() {
                    self.uncredited = 0;
                }
            }
        }
        Some(event)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if lock(&self.channels).waiters.remove(&self.channel).is_some() {
            // With the queue full the supervisor stops by itself once its window is used up.
            let _ = self.frames.try_send(frame_bytes(FrameKind::Forget, self.channel, &(), &[]));
        }
    }
}

struct Incoming {
    peer: Peer,
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Incoming {
    async fn greet(&mut self) -> Result<(), LinkError> {
        while !self.peer.is_greeted() {
            self.read().await.map_err(|_| LinkError::Lost)?;
            self.peer.greet().map_err(|error| LinkError::Refused(error.to_string()))?;
        }
        Ok(())
    }

    async fn read(&mut self) -> io::Result<()> {
        match self.reader.read(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                self.peer.receive(&self.buffer[..length]);
                Ok(())
            }
        }
    }
}

async fn write_frames(mut writer: OwnedWriteHalf, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut bytes) = frames.recv().await {
        while let Ok(more) = frames.try_recv() {
            bytes.extend_from_slice(&more);
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read_frames(mut incoming: Incoming, channels: Shared) {
    let reason = loop {
        match incoming.peer.next_frame() {
            Ok(Some(frame)) => {
                if let Err(error) = dispatch(&channels, &frame) {
                    break LinkError::Refused(error.to_string());
                }
            }
            Ok(None) => {
                if incoming.read().await.is_err() {
                    break LinkError::Lost;
                }
            }
            Err(error) => break LinkError::Refused(error.to_string()),
        }
    };
    let mut channels = lock(&channels);
    channels.closed = Some(reason);
    channels.waiters.clear();
}

fn dispatch(channels: &Shared, frame: &Frame) -> Result<(), PeerError> {
    match frame.kind {
        FrameKind::Tell => {
            let tell: Tell = frame.head()?;
            answer(channels, frame.channel, tell);
        }
        FrameKind::Record => {
            let head: RecordHead = frame.head()?;
            let record = Record {
                seq: head.seq,
                ts: head.ts,
                stream: head.stream,
                bytes: frame.blob.clone(),
            };
            deliver(channels, frame.channel, FollowEvent::Record(record));
        }
        FrameKind::Ended => {
            deliver(channels, frame.channel, FollowEvent::Ended(frame.head()?));
            lock(channels).waiters.remove(&frame.channel);
        }
        FrameKind::Hello
        | FrameKind::Ask
        | FrameKind::Activity
        | FrameKind::Credit
        | FrameKind::Forget => {}
    }
    Ok(())
}

fn answer(channels: &Shared, channel: u32, tell: Tell) {
    let mut channels = lock(channels);
    let follows = matches!(channels.waiters.get(&channel), Some(Waiter::Follow { .. }));
    let sender = if follows && !matches!(tell, Tell::Failed(_)) {
        match channels.waiters.get_mut(&channel) {
            Some(Waiter::Follow { answer, .. }) => answer.take(),
            Some(Waiter::Answer(_)) | None => None,
        }
    } else {
        match channels.waiters.remove(&channel) {
            Some(Waiter::Follow { answer, .. }) => answer,
            Some(Waiter::Answer(answer)) => Some(answer),
            None => None,
        }
    };
    if let Some(sender) = sender {
        // The one who asked may have stopped waiting.
        let _ = sender.send(tell);
    }
}

fn deliver(channels: &Shared, channel: u32, event: FollowEvent) {
    let mut channels = lock(channels);
    let overrun = match channels.waiters.get(&channel) {
        Some(Waiter::Follow { events, .. }) => {
            matches!(events.try_send(event), Err(mpsc::error::TrySendError::Full(_)))
        }
        Some(Waiter::Answer(_)) | None => false,
    };
    if overrun {
        // More than the window allows: the follower sees the stream break and follows anew.
        channels.waiters.remove(&channel);
    }
}

fn frame_bytes<T: Serialize>(kind: FrameKind, channel: u32, head: &T, blob: &[u8]) -> Vec<u8> {
    // The heads are our own types, whose keys are strings: serialising cannot fail.
    let head = serde_json::to_vec(head).unwrap_or_default();
    let mut bytes = Vec::new();
    encode(kind, channel, &head, blob, &mut bytes);
    bytes
}

fn into_tokio(stream: StdUnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn lock(channels: &Shared) -> std::sync::MutexGuard<'_, Channels> {
    // A panic while the lock is held leaves a map that is still a map.
    channels.lock().unwrap_or_else(PoisonError::into_inner)
}
