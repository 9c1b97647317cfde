//! Finding the segment from which a reader has to begin.

use std::io;
use std::os::fd::OwnedFd;

use hotcell_model::Stream;

use crate::log_place::{LogPlace, size_of};
use crate::scan::Scanner;
use crate::segment::{HEAD_BYTES, HEADER_BYTES, HeaderRead, SegmentHeader, stream_index};

/// From where a scan has to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Where the records after a seq begin.
    Record,
    /// Where the lines begin that are unfinished after a seq.
    Line,
    /// Where at least so many bytes of output are left before the segment with that record.
    Before(u64),
}

/// A scanner at or before the record after `after`.
pub(crate) fn seek(place: &LogPlace, after: u64, reach: Reach) -> io::Result<Scanner> {
    if after == 0 {
        return Ok(Scanner::default());
    }
    let mut wanted: Option<SegmentHeader> = None;
    begin(place, |Candidate { name, header, .. }| {
        if name > after + 1 || header.first_seq > after + 1 {
            return Verdict::Earlier;
        }
        let wanted = wanted.get_or_insert(*header);
        let begins_before =
            header.before.iter().zip(wanted.line_starts).all(|(b, start)| *b <= start);
        match reach {
            Reach::Record => Verdict::Here,
            Reach::Line if begins_before => Verdict::Here,
            Reach::Before(bytes)
                if header.total_before().saturating_add(bytes) <= wanted.total_before() =>
            {
                Verdict::Here
            }
            Reach::Line | Reach::Before(_) => Verdict::Earlier,
        }
    })
}

/// A scanner with at least `bytes` of output of a stream, or of all, before the last segment; or at
/// the beginning.
pub(crate) fn seek_tail(
    place: &LogPlace,
    stream: Option<Stream>,
    bytes: u64,
) -> io::Result<Scanner> {
    let before = |header: &SegmentHeader| match stream {
        Some(stream) => header.before[stream_index(stream)],
        None => header.total_before(),
    };
    let mut later: Option<(u64, SegmentHeader)> = None;
    let mut kept = 0_u64;
    begin(place, |Candidate { name, header, size }| {
        if let Some((later_name, later_header)) = later.replace((name, *header)) {
            let payload = later_header.total_before().saturating_sub(header.total_before());
            let heads = later_name.saturating_sub(name).saturating_mul(HEAD_BYTES as u64);
            // Otherwise something is missing between the two, and what is here is not known.
            if size == (HEADER_BYTES as u64).saturating_add(heads).saturating_add(payload) {
                kept = kept.saturating_add(before(&later_header).saturating_sub(before(header)));
            }
        }
        if kept >= bytes { Verdict::Here } else { Verdict::Earlier }
    })
}

/// Where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// Its last segment.
    pub(crate) name: u64,
    pub(crate) size: u64,
}

/// Where a log ends at this moment, if there is one.
pub(crate) fn find_end(place: &LogPlace) -> io::Result<Option<LogEnd>> {
    let Some((file, header)) = open(place, 1)? else { return Ok(None) };
    let size = size_of(&file)?;
    if header.is_some_and(|header| size < header.payload_bound) {
        return Ok(Some(LogEnd { name: 1, size }));
    }
    for name in place.list()?.into_iter().rev() {
        if let Some(file) = place.find(name)? {
            return Ok(Some(LogEnd { name, size: size_of(&file)? }));
        }
    }
    Ok(None)
}

/// A segment where a scan might begin.
struct Candidate<'a> {
    name: u64,
    header: &'a SegmentHeader,
    size: u64,
}

/// Whether a segment is where to begin.
enum Verdict {
    Here,
    Earlier,
}

/// Begins at the last segment that `judge` accepts, or at the beginning.
fn begin(place: &LogPlace, mut judge: impl FnMut(Candidate<'_>) -> Verdict) -> io::Result<Scanner> {
    let Some((file, Some(header))) = open(place, 1)? else { return Ok(Scanner::default()) };
    // Most logs are one small segment: no need to list the directory for those.
    if size_of(&file)? < header.payload_bound {
        return Ok(Scanner::default());
    }
    for name in place.list()?.into_iter().rev() {
        // From the first segment nothing has to be taken for passed.
        if name == 1 {
            break;
        }
        if let Some((file, Some(header))) = open(place, name)? {
            let size = size_of(&file)?;
            match judge(Candidate { name, header: &header, size }) {
                Verdict::Here => return Ok(Scanner::at_segment(name, file, header)),
                Verdict::Earlier => {}
            }
        }
    }
    Ok(Scanner::default())
}

fn open(place: &LogPlace, name: u64) -> io::Result<Option<(OwnedFd, Option<SegmentHeader>)>> {
    let Some(file) = place.find(name)? else { return Ok(None) };
    let header = match place.header(&file)? {
        HeaderRead::Known(header) => Some(header),
        HeaderRead::Torn | HeaderRead::Bad | HeaderRead::Newer(_) => None,
    };
    Ok(Some((file, header)))
}
