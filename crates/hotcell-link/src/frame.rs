//! How a frame lies on the stream.
//!
//! ```text
//! u32 length of all that follows │ u8 kind │ u8 flags │ u32 channel │ u32 head length │ head (JSON) │ blob
//! ```
//! All numbers are little-endian.

use serde::Serialize;

/// The largest frame either end accepts.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

const LENGTH_BYTES: usize = 4;
const FIXED_BYTES: usize = 1 + 1 + 4 + 4;
/// Set on frames without which the conversation makes no sense to the peer.
const FLAG_REQUIRED: u8 = 1;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The first frame of each side.
    Hello = 0,
    /// A question to the supervisor; its channel is new.
    Ask = 1,
    /// The answer to the question on this channel.
    Tell = 2,
    /// A record of output; the blob is its bytes.
    Record = 3,
    /// The exec followed on this channel has ended; nothing follows.
    Ended = 4,
    /// Something ran in the cell of late; sent to those that watch.
    Activity = 5,
    /// The receiver took this many bytes of what is sent on this channel; more may be sent.
    Credit = 6,
    /// The engine is no longer interested in this channel.
    Forget = 7,
    /// Something to do with files; its channel is new.
    File = 8,
    /// Content of files or bytes of a connection to a port, either way; the blob is them.
    Data = 9,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [FrameKind; 10] = [
            FrameKind::Hello,
            FrameKind::Ask,
            FrameKind::Tell,
            FrameKind::Record,
            FrameKind::Ended,
            FrameKind::Activity,
            FrameKind::Credit,
            FrameKind::Forget,
            FrameKind::File,
            FrameKind::Data,
        ];
        ALL.get(usize::from(byte)).copied()
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is for.
    pub kind: FrameKind,
    /// The conversation it belongs to.
    pub channel: u32,
    /// JSON.
    pub head: Vec<u8>,
    /// Bytes that are no text.
    pub blob: Vec<u8>,
}

/// A frame where it lies, for whoever only passes it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameView<'a> {
    /// What it is for.
    pub kind: FrameKind,
    /// The conversation it belongs to.
    pub channel: u32,
    /// JSON.
    pub head: &'a [u8],
    /// Bytes that are no text.
    pub blob: &'a [u8],
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is beyond the bound.
    #[error("a frame of {0} bytes is longer than the {MAX_FRAME_BYTES} that are accepted")]
    TooLong(usize),
    /// The head does not fit into the frame.
    #[error("a frame's head is longer than the frame")]
    Malformed,
    /// The peer insists on a kind that is not known here.
    #[error("the peer requires a frame of the unknown kind {0}")]
    UnknownRequired(u8),
}

/// Appends a frame to `out`.
pub fn encode(kind: FrameKind, channel: u32, head: &[u8], blob: &[u8], out: &mut Vec<u8>) {
    out.reserve(LENGTH_BYTES + FIXED_BYTES + head.len() + blob.len());
    out.extend_from_slice(&frame_start(kind, channel, head.len(), blob.len()));
    out.extend_from_slice(head);
    out.extend_from_slice(blob);
}

/// What comes before the head and the blob of a frame, for whoever writes them from where they lie.
#[must_use]
pub fn frame_start(
    kind: FrameKind,
    channel: u32,
    head_bytes: usize,
    blob_bytes: usize,
) -> [u8; LENGTH_BYTES + FIXED_BYTES] {
    let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    let mut start = [0; LENGTH_BYTES + FIXED_BYTES];
    start[..4].copy_from_slice(&number(FIXED_BYTES + head_bytes + blob_bytes));
    start[4] = kind as u8;
    start[6..10].copy_from_slice(&channel.to_le_bytes());
    start[10..].copy_from_slice(&number(head_bytes));
    start
}

/// A frame whose head is this.
pub(crate) fn frame_bytes<T: Serialize>(
    kind: FrameKind,
    channel: u32,
    head: &T,
    blob: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_head(kind, channel, head, blob, &mut bytes);
    bytes
}

/// Appends a frame whose head is this to `out`.
pub(crate) fn encode_head<T: Serialize>(
    kind: FrameKind,
    channel: u32,
    head: &T,
    blob: &[u8],
    out: &mut Vec<u8>,
) {
    // The heads are our own types, whose keys are strings: serialising cannot fail.
    let head = serde_json::to_vec(head).unwrap_or_default();
    encode(kind, channel, &head, blob, out);
}

/// Takes the next frame from the front of `bytes`: how many bytes it took, and the frame unless it
/// is of a kind that may be skipped. `None` when there is no whole frame yet.
///
/// # Errors
/// The stream cannot be understood any further.
pub fn decode(bytes: &[u8]) -> Result<Option<(usize, Option<Frame>)>, FrameError> {
    let own = |frame: FrameView<'_>| Frame {
        kind: frame.kind,
        channel: frame.channel,
        head: frame.head.to_vec(),
        blob: frame.blob.to_vec(),
    };
    Ok(view(bytes)?.map(|(length, frame)| (length, frame.map(own))))
}

/// The same without a copy.
///
/// # Errors
/// The stream cannot be understood any further.
pub fn view(bytes: &[u8]) -> Result<Option<(usize, Option<FrameView<'_>>)>, FrameError> {
    let Some(length) = read_u32(bytes, 0) else { return Ok(None) };
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong(length));
    }
    let end = LENGTH_BYTES + length;
    let Some(body) = bytes.get(LENGTH_BYTES..end) else { return Ok(None) };
    let (Some(kind), Some(flags)) = (body.first(), body.get(1)) else {
        return Err(FrameError::Malformed);
    };
    let (Some(channel), Some(head_length)) = (read_u32(body, 2), read_u32(body, 6)) else {
        return Err(FrameError::Malformed);
    };
    let Some(kind) = FrameKind::from_byte(*kind) else {
        return if flags & FLAG_REQUIRED == 0 {
            Ok(Some((end, None)))
        } else {
            Err(FrameError::UnknownRequired(*kind))
        };
    };
    let payload = &body[FIXED_BYTES..];
    if head_length > payload.len() {
        return Err(FrameError::Malformed);
    }
    let (head, blob) = payload.split_at(head_length);
    let channel = u32::try_from(channel).unwrap_or(u32::MAX);
    Ok(Some((end, Some(FrameView { kind, channel, head, blob }))))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at + 4)?;
    let value = u32::from_le_bytes(four.try_into().ok()?);
    usize::try_from(value).ok()
}
