//! Reads one page of an exec's output from its files.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use hotcell_journal::{Align, Batch, Ended, LogReader};
use hotcell_model::{Dropped, Error, ExecId, ExecPoll, OutputFilter, Record, Result, Stream};
use regex::bytes::{Regex, RegexBuilder};

/// The most that one page holds, whatever is asked for.
pub(crate) const MAX_PAGE_BYTES: u64 = 4 << 20;
/// A pattern whose automaton grows beyond this is refused.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// An exec that prints faster than it is searched does not keep a caller for ever.
pub(crate) const MAX_BATCHES: u32 = 10_000;

/// Which part of the output is wanted, checked.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) tail_lines: Option<u64>,
    pub(crate) grep: Option<Regex>,
    pub(crate) stream: Option<Stream>,
    pub(crate) max_bytes: u64,
}

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) records: Vec<Record>,
    pub(crate) dropped: Option<Dropped>,
    /// The last seq that was looked at.
    pub(crate) next_seq: u64,
    /// Whether nothing comes after it for the time being.
    pub(crate) at_end: bool,
    /// For how long something is held back that comes after it, if something is.
    pub(crate) waits: Option<Duration>,
    pub(crate) after_seq: u64,
}

impl Page {
    /// Whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.dropped.is_none()
    }

    pub(crate) fn after(seq: u64) -> Self {
        Self {
            records: Vec::new(),
            dropped: None,
            next_seq: seq,
            at_end: false,
            waits: None,
            after_seq: seq,
        }
    }

    /// Moves on to where a batch ended, and takes over its gaps; its records are the caller's.
    pub(crate) fn advance(&mut self, batch: &mut Batch) {
        self.next_seq = self.next_seq.max(batch.next_seq);
        self.at_end = batch.at_end;
        for gap in batch.dropped.drain(..).filter(|gap| gap.to_seq > self.after_seq) {
            self.dropped = Some(match self.dropped {
                None => gap,
                Some(all) => Dropped {
                    dropped_bytes: all.dropped_bytes.saturating_add(gap.dropped_bytes),
                    from_seq: all.from_seq.min(gap.from_seq),
                    to_seq: all.to_seq.max(gap.to_seq),
                },
            });
        }
    }
}

impl Wanted {
    /// Checks what a poll asks for.
    pub(crate) fn check(request: &ExecPoll) -> Result<Self> {
        let OutputFilter { tail_lines, grep, stream } = &request.filter;
        let grep = match grep {
            None => None,
            Some(pattern) => Some(compile("grep", pattern)?),
        };
        let max_bytes = request.max_bytes.clamp(1, MAX_PAGE_BYTES);
        Ok(Self { tail_lines: *tail_lines, grep, stream: *stream, max_bytes })
    }

    /// Reads the page after a seq.
    pub(crate) fn read(
        &self,
        records: &Path,
        exec: &ExecId,
        after_seq: u64,
        ended: Ended,
    ) -> io::Result<Page> {
        let mut reader = LogReader::at(records, exec)?;
        match (self.tail_lines, &self.grep) {
            (None, None) => self.read_on(&mut reader, after_seq, ended),
            (None, Some(pattern)) => self.grep(&mut reader, pattern, after_seq, ended),
            (Some(lines), None) => self.tail(&mut reader, lines, after_seq),
            (Some(lines), Some(pattern)) => {
                self.grep_tail(&mut reader, pattern, lines, after_seq, ended)
            }
        }
    }

    /// Reads until there is something of the wanted stream or nothing more at all.
    fn read_on(&self, reader: &mut LogReader, after_seq: u64, ended: Ended) -> io::Result<Page> {
        let mut page = Page::after(after_seq);
        let mut bytes = 0;
        for _ in 0..MAX_BATCHES {
            let left = self.max_bytes - bytes;
            let mut batch = reader.read_after(page.next_seq, left, Align::Utf8, ended)?;
            page.advance(&mut batch);
            for record in batch.records {
                if self.stream.is_none_or(|stream| stream == record.stream) {
                    bytes += record.bytes.len() as u64;
                    page.records.push(record);
                }
            }
            if page.at_end || self.stream.is_none() || bytes >= self.max_bytes {
                break;
            }
        }
        Ok(page)
    }

    fn grep(
        &self,
        reader: &mut LogReader,
        pattern: &Regex,
        after_seq: u64,
        ended: Ended,
    ) -> io::Result<Page> {
        let mut page = Page::after(after_seq);
        let mut batch = reader.grep(pattern, self.stream, after_seq, self.max_bytes, ended)?;
        page.advance(&mut batch);
        page.records = batch.records;
        Ok(page)
    }

    fn tail(&self, reader: &mut LogReader, lines: u64, after_seq: u64) -> io::Result<Page> {
        let mut page = Page::after(after_seq);
        let mut batch = reader.tail_lines(lines, self.stream, self.max_bytes)?;
        page.advance(&mut batch);
        page.records = batch.records;
        page.records.retain(|record| record.seq > after_seq);
        Ok(page)
    }

    /// The last lines among those that match.
    fn grep_tail(
        &self,
        reader: &mut LogReader,
        pattern: &Regex,
        lines: u64,
        after_seq: u64,
        ended: Ended,
    ) -> io::Result<Page> {
        let mut page = Page::after(after_seq);
        let mut last = VecDeque::new();
        let mut bytes = 0;
        for _ in 0..MAX_BATCHES {
            let mut batch =
                reader.grep(pattern, self.stream, page.next_seq, MAX_PAGE_BYTES, ended)?;
            page.advance(&mut batch);
            for record in batch.records {
                bytes += record.bytes.len() as u64;
                last.push_back(record);
                while (last.len() as u64 > lines || (bytes > self.max_bytes && last.len() > 1))
                    && let Some(oldest) = last.pop_front()
                {
                    bytes -= oldest.bytes.len() as u64;
                }
            }
            if page.at_end {
                break;
            }
        }
        page.records = last.into();
        Ok(page)
    }
}

/// The pattern of an argument that output is searched for.
pub(crate) fn compile(argument: &str, pattern: &str) -> Result<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    // Patterns are about lines, and those of terminals end in \r\n.
    builder.size_limit(MAX_PATTERN_BYTES).multi_line(true).crlf(true);
    builder.build().map_err(|error| {
        // The error comes with lines that point into the pattern.
        let error = error.to_string();
        let reason = error.lines().next_back().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        let value = format_args!("{pattern:?}: {reason}");
        Error::argument(argument, "a regular expression", value)
            .hint("write \\ before characters that stand for themselves, for example \\(")
    })
}
