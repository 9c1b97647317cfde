//! Output as text for a model: valid, bounded, and honest about what is left out.

use hotcell_model::{Record, Stream};

/// What a model gets of one stream at once: about 2,000 tokens.
pub(super) const STREAM_BYTES: usize = 8000;

/// One stream of an exec as far as it was kept.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) cut: bool,
}

/// The text of one stream. `gap` tells that output is missing between the records of a result.
pub(super) fn of_stream(records: &[Record], wanted: &[Stream], gap: bool) -> Shown {
    let mut bytes = Vec::new();
    let mut gap_at = None;
    let mut last_seq = None;
    for record in records {
        if gap && last_seq.is_some_and(|last: u64| record.seq > last + 1) {
            gap_at.get_or_insert(bytes.len());
        }
        last_seq = Some(record.seq);
        if wanted.contains(&record.stream) {
            bytes.extend_from_slice(&record.bytes);
        }
    }
    if bytes.len() <= STREAM_BYTES && gap_at.is_none() {
        return Shown { text: valid(&bytes), cut: false };
    }
    let middle = gap_at.unwrap_or(bytes.len() / 2);
    let head = &bytes[..middle.min(STREAM_BYTES / 2)];
    let tail_bytes = (STREAM_BYTES - head.len()).min(bytes.len() - middle);
    let tail = &bytes[bytes.len() - tail_bytes..];
    let text =
        format!("{}\n[cut: read the rest with exec_poll]\n{}", valid(head), valid(skip_cut(tail)));
    Shown { text, cut: true }
}

/// The bytes after what is left of a character that was cut.
fn skip_cut(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
    &bytes[cut..]
}

/// Valid text: what is none is replaced, and a character that is cut at the end is left out.
fn valid(bytes: &[u8]) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Ok(_) | Err(_) => bytes,
    };
    String::from_utf8_lossy(whole).into_owned()
}
