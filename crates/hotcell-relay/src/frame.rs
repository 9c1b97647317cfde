//! What is said over the stream: heads as JSON, what they are about as raw bytes.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::file_name::FileName;

/// What of a file goes into one frame, and of a socket.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// No frame has more; whoever sends more is not to be trusted with memory.
const MOST_BYTES: usize = 1 << 20;
const LENGTHS_BYTES: usize = 6;

/// What a frame is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Head {
    /// Near: what it has a copy of, in some frames.
    Have,
    /// Near: that was all of it.
    Begin,
    /// Far: the copy is what the records were when it was told to begin.
    Caught,
    /// Near: somebody connects to a socket.
    Open { channel: u32, door: String },
    /// Both: bytes of a connection.
    Data { channel: u32 },
    /// Both: one more frame of bytes can be taken.
    Grant { channel: u32 },
    /// Both: no more bytes come.
    End { channel: u32 },
    /// Far: a file of the records has these bytes at a place, and nothing after them yet.
    Write { file: FileName, offset: u64 },
    /// Far: a file of the records is a link.
    Link { file: FileName, target: String },
    /// Far: a file of the records is gone.
    Gone { file: FileName },
    /// Both: a file beside the records is this.
    Put { file: String },
    /// Both: so that the other one knows.
    Alive,
    /// Far: nothing will be written any more, and all of it was sent.
    Over,
}

/// A file of which there is a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldFile {
    pub(crate) file: FileName,
    pub(crate) held: Held,
}

/// What there is of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Held {
    /// So many bytes, with the sum of their end.
    Bytes {
        length: u64,
        sum: u32,
    },
    Link {
        target: String,
    },
}

/// One thing that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) head: Head,
    pub(crate) payload: Bytes,
}

impl Frame {
    pub(crate) fn new(head: Head, payload: impl Into<Bytes>) -> Self {
        Self { head, payload: payload.into() }
    }

    pub(crate) fn bare(head: Head) -> Self {
        Self { head, payload: Bytes::new() }
    }

    /// Appends it as it is sent.
    pub(crate) fn encode(&self, to: &mut BytesMut) -> io::Result<()> {
        let head = serde_json::to_vec(&self.head)?;
        let (Ok(head_bytes), Ok(bytes)) =
            (u16::try_from(head.len()), u32::try_from(head.len() + self.payload.len()))
        else {
            return Err(io::Error::other("a frame is too long to be sent"));
        };
        to.put_u32_le(bytes);
        to.put_u16_le(head_bytes);
        to.put_slice(&head);
        to.put_slice(&self.payload);
        Ok(())
    }
}

/// Takes frames from bytes as they come.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if it is whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some(mut lengths) = self.buffer.get(..LENGTHS_BYTES) else { return Ok(None) };
        let bytes = lengths.get_u32_le() as usize;
        let head_bytes = usize::from(lengths.get_u16_le());
        if bytes > MOST_BYTES || head_bytes > bytes {
            return Err(io::Error::other("the other end does not speak as it should"));
        }
        if self.buffer.len() < LENGTHS_BYTES + bytes {
            return Ok(None);
        }
        self.buffer.advance(LENGTHS_BYTES);
        let head = self.buffer.split_to(head_bytes);
        let payload = self.buffer.split_to(bytes - head_bytes).freeze();
        Ok(Some(Frame { head: serde_json::from_slice(&head)?, payload }))
    }
}
