//! The supervisor's end of a link, as tests play it.

use std::os::unix::net::UnixStream as StdUnixStream;

use hotcell_model::{
    Command, EndCause, ExecEnd, ExecId, ExecSpec, Stdin, Stream, Timestamp, Usage,
};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::{
    Ask, Frame, FrameKind, Hello, Link, LinkError, Peer, RecordHead, Tell, Versions, encode,
};

/// A supervisor without a cell: it says what it is told to.
pub(crate) struct OtherEnd {
    pub(crate) peer: Peer,
    pub(crate) stream: UnixStream,
}

/// Both ends of a fresh stream; nothing was said yet.
pub(crate) fn streams() -> (StdUnixStream, UnixStream) {
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    (ours, UnixStream::from_std(theirs).unwrap())
}

/// A link and the other end of it.
pub(crate) async fn connected() -> (Link, OtherEnd) {
    let (ours, stream) = streams();
    let mut other = OtherEnd { peer: Peer::new(), stream };
    other.flush().await;
    (Link::open(ours).await.unwrap(), other)
}

/// What a program that speaks these versions sends first.
pub(crate) fn greeting(min: u32, max: u32) -> Vec<u8> {
    let hello = Hello {
        versions: Versions { min, max },
        features: vec!["teleport".to_owned()],
        software: "hotcell of another time".to_owned(),
    };
    let mut head = serde_json::to_value(hello).unwrap();
    head["unheard_of"] = serde_json::json!([1, 2, 3]);
    let mut bytes = Vec::new();
    encode(FrameKind::Hello, 0, &serde_json::to_vec(&head).unwrap(), &[], &mut bytes);
    bytes
}

/// Opens a link to an end that sends these bytes and then listens.
pub(crate) async fn open_to(bytes: &[u8]) -> (Result<Link, LinkError>, UnixStream) {
    let (ours, mut theirs) = streams();
    theirs.write_all(bytes).await.unwrap();
    (Link::open(ours).await, theirs)
}

impl OtherEnd {
    /// The next frame that comes.
    pub(crate) async fn frame(&mut self) -> Frame {
        self.find_frame().await.unwrap()
    }

    /// The next frame that comes; `None` when the link was closed.
    pub(crate) async fn find_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.peer.next_frame().unwrap() {
                return Some(frame);
            }
            let mut buffer = vec![0; 64 * 1024];
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.peer.receive(&buffer[..length]),
            }
        }
    }

    /// The next question and its channel.
    pub(crate) async fn question(&mut self) -> (u32, Ask) {
        let frame = self.frame().await;
        assert_eq!(frame.kind, FrameKind::Ask);
        (frame.channel, frame.head().unwrap())
    }

    pub(crate) async fn send<T: Serialize>(&mut self, kind: FrameKind, channel: u32, head: &T) {
        self.peer.send(kind, channel, head);
        self.flush().await;
    }

    pub(crate) async fn tell(&mut self, channel: u32, tell: &Tell) {
        self.send(FrameKind::Tell, channel, tell).await;
    }

    pub(crate) async fn record(&mut self, channel: u32, seq: u64, bytes: &[u8]) {
        let head = RecordHead { seq, ts: Timestamp(seq), stream: Stream::Stdout };
        self.peer.send_with_blob(FrameKind::Record, channel, &head, bytes);
        self.flush().await;
    }

    pub(crate) async fn flush(&mut self) {
        self.stream.write_all(self.peer.unsent()).await.unwrap();
        self.peer.mark_sent(self.peer.unsent().len());
    }
}

pub(crate) fn exec_id() -> ExecId {
    ExecId::from_random(1)
}

pub(crate) fn exec_spec() -> ExecSpec {
    ExecSpec {
        id: exec_id(),
        command: Command::Shell("true".to_owned()),
        cwd: "/".to_owned(),
        env: std::collections::BTreeMap::new(),
        stdin: Stdin::Empty,
        pty: None,
        timeout_ms: None,
        priority: 0,
        as_root: false,
        pace: hotcell_model::Pace::Free,
        bounds: hotcell_model::ExecBounds::default(),
        approval: None,
        checkpoint: None,
        code: hotcell_model::CodeTerms::default(),
    }
}

pub(crate) fn exec_end() -> ExecEnd {
    ExecEnd {
        cause: EndCause::Exited,
        exit_code: Some(0),
        signal: None,
        limit: None,
        limits_hit: Vec::new(),
        killed_descendants: 0,
        ended_at: Timestamp(9),
        usage: Usage::default(),
        session: None,
    }
}
