//! The format of a log's segment files: a header, then records with checksums.

use hotcell_model::{Record, Stream, Timestamp};

use crate::align::Held;

/// The version that this build writes, and the newest it reads.
pub(crate) const VERSION: u32 = 1;
const MAGIC: [u8; 4] = *b"HCLG";

/// What a segment's header takes.
pub(crate) const HEADER_BYTES: usize = 96;
/// What comes before a record's bytes: length, checksum, seq, time, stream.
pub(crate) const HEAD_BYTES: usize = 25;
/// The largest record on disk.
pub(crate) const MAX_RECORD_BYTES: usize = HEAD_BYTES + Record::MAX_BYTES;
/// What a statement of a gap takes.
pub(crate) const GAP_BYTES: usize = HEAD_BYTES + GAP_BODY_BYTES;
const GAP_BODY_BYTES: usize = 16;
const GAP_TAG: u8 = 255;

/// No log has so many records or bytes: a larger number is damage, and no sum of two overflows.
pub(crate) const MAX_NUMBER: u64 = 1 << 60;

/// A line longer than this is treated in pieces of this size.
pub(crate) const LINE_PIECE_BYTES: u64 = 64 * 1024;

/// All streams, in the order of their numbers on disk.
pub(crate) const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];

/// A stream's number on disk.
pub(crate) fn stream_index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Pty => 2,
    }
}

/// What is known at the beginning of a segment. It says enough about all that came before for a
/// reader to begin here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// The seq of its first record.
    pub(crate) first_seq: u64,
    /// A segment with so many bytes of output is full, and the next one follows.
    pub(crate) payload_bound: u64,
    /// A segment file of this size is full too, however little output the many records hold.
    pub(crate) file_bound: u64,
    /// Bytes of each stream before it, those that were not kept included.
    pub(crate) before: [u64; 3],
    /// Where in each stream the line (or piece of a line) began that is unfinished here.
    pub(crate) line_starts: [u64; 3],
    /// The character that is unfinished here.
    pub(crate) held: [Held; 3],
}

/// What the first bytes of a segment turned out to be.
#[derive(Debug)]
pub(crate) enum HeaderRead {
    /// A header.
    Known(SegmentHeader),
    /// The header of a version that this build cannot read.
    Newer(u32),
    /// Not written yet, or not wholly.
    Torn,
    /// Damaged.
    Bad,
}

impl SegmentHeader {
    /// Bytes of all streams before it.
    pub(crate) fn total_before(&self) -> u64 {
        self.before.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&self.first_seq.to_le_bytes());
        put(&self.payload_bound.to_le_bytes());
        put(&self.file_bound.to_le_bytes());
        self.before.iter().for_each(|bytes| put(&bytes.to_le_bytes()));
        self.line_starts.iter().for_each(|start| put(&start.to_le_bytes()));
        self.held.iter().for_each(|held| put(&held.encode()));
        let crc = crc32fast::hash(&out[..HEADER_BYTES - 4]);
        out[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> HeaderRead {
        if bytes.len() < HEADER_BYTES {
            return HeaderRead::Torn;
        }
        let (body, crc) = bytes[..HEADER_BYTES].split_at(HEADER_BYTES - 4);
        let mut fields = Fields(body);
        let (magic, version) = (fields.take::<4>(), fields.u32());
        if magic != MAGIC || u32_le(crc) != crc32fast::hash(body) {
            return HeaderRead::Bad;
        }
        if version > VERSION {
            return HeaderRead::Newer(version);
        }
        let header = Self {
            first_seq: fields.u64(),
            payload_bound: fields.u64(),
            file_bound: fields.u64(),
            before: [fields.u64(), fields.u64(), fields.u64()],
            line_starts: [fields.u64(), fields.u64(), fields.u64()],
            held: [fields.take(), fields.take(), fields.take()].map(Held::decode),
        };
        let mut counts = header.before.iter().chain(&header.line_starts);
        if header.first_seq > MAX_NUMBER || counts.any(|count| *count > MAX_NUMBER) {
            return HeaderRead::Bad;
        }
        HeaderRead::Known(header)
    }
}

/// The head of a record with these bytes.
pub(crate) fn record_head(
    stream: Stream,
    seq: u64,
    ts: Timestamp,
    bytes: &[u8],
) -> [u8; HEAD_BYTES] {
    head(stream_index(stream) as u8, seq, ts, bytes)
}

/// The statement that everything from `from_seq` to `to_seq` was not kept.
pub(crate) fn gap_record(from_seq: u64, to_seq: u64, dropped_bytes: u64) -> [u8; GAP_BYTES] {
    let mut out = [0; GAP_BYTES];
    out[HEAD_BYTES..HEAD_BYTES + 8].copy_from_slice(&from_seq.to_le_bytes());
    out[HEAD_BYTES + 8..].copy_from_slice(&dropped_bytes.to_le_bytes());
    let head = head(GAP_TAG, to_seq, Timestamp::default(), &out[HEAD_BYTES..]);
    out[..HEAD_BYTES].copy_from_slice(&head);
    out
}

fn head(tag: u8, seq: u64, ts: Timestamp, bytes: &[u8]) -> [u8; HEAD_BYTES] {
    let mut out = [0; HEAD_BYTES];
    // A record holds at most `Record::MAX_BYTES`.
    out[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    out[8..16].copy_from_slice(&seq.to_le_bytes());
    out[16..24].copy_from_slice(&ts.0.to_le_bytes());
    out[24] = tag;
    let crc = checksum(&out, bytes);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Over everything but the checksum itself.
fn checksum(head: &[u8], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..4]);
    hasher.update(&head[8..HEAD_BYTES]);
    hasher.update(bytes);
    hasher.finalize()
}

/// A record as it lies on disk.
#[derive(Debug)]
pub(crate) struct RawRecord {
    /// Its seq; of a gap the last that is missing.
    pub(crate) seq: u64,
    /// When it was read.
    pub(crate) ts: Timestamp,
    /// What it holds.
    pub(crate) body: Body,
    /// What it takes on disk.
    pub(crate) size: usize,
}

/// What a record holds.
#[derive(Debug)]
pub(crate) enum Body {
    /// Output; the bytes follow the head.
    Output(Stream),
    /// The statement of a gap.
    Gap {
        /// The first seq that is missing.
        from_seq: u64,
        /// How much is missing.
        dropped_bytes: u64,
    },
}

/// What the bytes at some place of a segment turned out to be.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A whole record.
    Whole(RawRecord),
    /// Too few bytes to tell.
    Torn,
    /// No record.
    Bad,
}

/// Reads the record at the start of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return Parsed::Torn };
    let mut fields = Fields(head);
    let (length, crc) = (fields.u32() as usize, fields.u32());
    let (seq, ts) = (fields.u64(), Timestamp(fields.u64()));
    let tag = head[HEAD_BYTES - 1];
    let stream = STREAMS.get(usize::from(tag));
    let sane = seq <= MAX_NUMBER
        && match stream {
            Some(_) => (1..=Record::MAX_BYTES).contains(&length),
            None => tag == GAP_TAG && length == GAP_BODY_BYTES,
        };
    if !sane {
        return Parsed::Bad;
    }
    let Some(body) = rest.get(..length) else { return Parsed::Torn };
    if checksum(head, body) != crc {
        return Parsed::Bad;
    }
    let body = match stream {
        Some(stream) => Body::Output(*stream),
        None => {
            let mut fields = Fields(body);
            let (from_seq, dropped_bytes) = (fields.u64(), fields.u64());
            if !(1..=seq).contains(&from_seq) || dropped_bytes > MAX_NUMBER {
                return Parsed::Bad;
            }
            Body::Gap { from_seq, dropped_bytes }
        }
    };
    Parsed::Whole(RawRecord { seq, ts, body, size: HEAD_BYTES + length })
}

/// The offset of the first record in `bytes` whose seq is past `last`, looking at no offset from
/// `limit` on.
pub(crate) fn find_record(bytes: &[u8], limit: usize, last: u64) -> Option<usize> {
    (0..limit.min(bytes.len())).find(|&at| {
        // The seq is compared first: it tells almost all places apart without a checksum.
        let ahead = bytes.get(at + 8..at + 16).is_some_and(|seq| Fields(seq).u64() > last);
        ahead && matches!(parse(&bytes[at..]), Parsed::Whole(_))
    })
}

/// Takes little-endian fields off the front; zeros where there are none.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *field
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

fn u32_le(bytes: &[u8]) -> u32 {
    Fields(bytes).u32()
}
