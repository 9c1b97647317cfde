//! The supervisor's and the keeper's end of a link: buffers without a runtime.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{Frame, FrameError, FrameKind, FrameView, decode, encode, encode_head};
use crate::{Hello, HelloError};

/// One connection's buffers. The owner moves bytes between them and the stream.
#[derive(Debug, Default)]
pub struct Peer {
    received: Vec<u8>,
    taken: usize,
    to_send: Vec<u8>,
    sent: usize,
    version: Option<u32>,
    features: Vec<String>,
}

impl Peer {
    /// A connection that starts with this build's greeting.
    #[must_use]
    pub fn new() -> Self {
        let mut peer = Self::default();
        peer.send(FrameKind::Hello, 0, &Hello::ours());
        peer
    }

    /// Adds bytes that came from the stream.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received().extend_from_slice(bytes);
    }

    /// What bytes that come from the stream are added to.
    pub(crate) fn received(&mut self) -> &mut Vec<u8> {
        if self.taken == self.received.len() {
            empty(&mut self.received);
            self.taken = 0;
        }
        &mut self.received
    }

    /// Whether the other end's greeting has come.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.version.is_some()
    }

    /// The protocol version that both ends speak, once the other end's greeting has come.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// What the other end can do beyond the version, once its greeting has come.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Takes the other end's greeting, if it is there, and nothing else.
    ///
    /// # Errors
    /// What came first is no greeting, or the versions do not meet.
    pub fn greet(&mut self) -> Result<(), PeerError> {
        while self.version.is_none() {
            let Some((length, frame)) = decode(&self.received[self.taken..])? else { break };
            self.taken += length;
            if let Some(frame) = frame {
                if frame.kind != FrameKind::Hello {
                    return Err(PeerError::NoHello);
                }
                let hello: Hello = parse(&frame)?;
                self.version = Some(Hello::ours().agree(&hello)?);
                self.features = hello.features;
            }
        }
        Ok(())
    }

    /// The next whole frame after the greeting; frames that may be skipped are.
    ///
    /// # Errors
    /// The stream cannot be understood, or the versions do not meet.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, PeerError> {
        self.greet()?;
        loop {
            let Some((length, frame)) = decode(&self.received[self.taken..])? else {
                self.received.drain(..self.taken);
                self.taken = 0;
                return Ok(None);
            };
            self.taken += length;
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }

    /// Adds a frame to what is to be sent.
    pub fn send<T: Serialize>(&mut self, kind: FrameKind, channel: u32, head: &T) {
        self.send_with_blob(kind, channel, head, &[]);
    }

    /// Adds a frame with a blob to what is to be sent.
    pub fn send_with_blob<T: Serialize>(
        &mut self,
        kind: FrameKind,
        channel: u32,
        head: &T,
        blob: &[u8],
    ) {
        encode_head(kind, channel, head, blob, &mut self.to_send);
    }

    /// Adds a frame that came from elsewhere, on a channel of this connection.
    pub fn pass_on(&mut self, frame: FrameView<'_>, channel: u32) {
        encode(frame.kind, channel, frame.head, frame.blob, &mut self.to_send);
    }

    /// What is to be written to the stream.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        &self.to_send[self.sent..]
    }

    /// Notes that the stream took this many bytes of [`Peer::unsent`].
    pub fn mark_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.to_send.len() {
            empty(&mut self.to_send);
            self.sent = 0;
        } else if self.sent > 64 * 1024 && self.sent > self.to_send.len() / 2 {
            // Never more moved than was sent, however long the queue is.
            self.to_send.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// Empties a buffer. What a large frame took is given back; a supervisor lives long.
fn empty(buffer: &mut Vec<u8>) {
    const KEPT_BYTES: usize = 256 * 1024;
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES);
}

/// Why a connection has to be given up.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Bytes that are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Versions that do not meet.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// A frame before the greeting.
    #[error("the other end of the link sent a frame before its greeting")]
    NoHello,
    /// A head that is not what its kind asks for.
    #[error("the head of a {kind:?} frame cannot be read")]
    Head {
        /// The frame's kind.
        kind: FrameKind,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Reads a frame's head.
pub(crate) fn parse<T: DeserializeOwned>(frame: &Frame) -> Result<T, PeerError> {
    serde_json::from_slice(&frame.head)
        .map_err(|source| PeerError::Head { kind: frame.kind, source })
}

impl Frame {
    /// Reads the frame's head.
    ///
    /// # Errors
    /// It is not a `T`.
    pub fn head<T: DeserializeOwned>(&self) -> Result<T, PeerError> {
        parse(self)
    }
}
