//! The output of a job as its caller sees it: text, in lines.

use hotcell_model::{Dropped, ExecEnd, Record, Stream};
use serde::Serialize;

/// What stands where output was not kept.
const GAP: &str = "[... more output than is kept was left out here ...]";

/// Both streams of a job.
#[derive(Debug, Serialize)]
pub(super) struct Output {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Output that is put together: of each stream the end, within a bound.
#[derive(Debug)]
pub(super) struct Gathered {
    stdout: Gathering,
    stderr: Gathering,
}

impl Gathered {
    pub(super) fn new(most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { stdout: Gathering::new(most), stderr: Gathering::new(most) }
    }

    pub(super) fn take(&mut self, records: Vec<Record>, dropped: Option<Dropped>) {
        let mut gap = dropped;
        for record in records {
            if gap.take_if(|gap| gap.from_seq < record.seq).is_some() {
                self.note_gap();
            }
            match record.stream {
                Stream::Stdout | Stream::Pty => self.stdout.take(&record.bytes),
                Stream::Stderr => self.stderr.take(&record.bytes),
            }
        }
        if gap.is_some() {
            self.note_gap();
        }
    }

    fn note_gap(&mut self) {
        self.stdout.has_gap = true;
        self.stderr.has_gap = true;
    }

    /// Nothing comes any more, and this much was printed.
    pub(super) fn finish(&mut self, end: &ExecEnd) {
        self.stdout.finish(end.usage.stdout_bytes);
        self.stderr.finish(end.usage.stderr_bytes);
    }

    pub(super) fn shown(&self) -> Output {
        Output { stdout: self.stdout.text(), stderr: self.stderr.text() }
    }

    /// So many lines of the end of each stream.
    pub(super) fn last(&self, lines: u64) -> Output {
        let Output { stdout, stderr } = self.shown();
        Output { stdout: last_lines(stdout, lines), stderr: last_lines(stderr, lines) }
    }
}

/// One stream of them.
#[derive(Debug)]
struct Gathering {
    most: usize,
    bytes: Vec<u8>,
    seen: u64,
    /// Whether what comes next may not follow what there is.
    has_gap: bool,
}

impl Gathering {
    fn new(most: usize) -> Self {
        Self { most, bytes: Vec::new(), seen: 0, has_gap: false }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.state_gap();
        self.seen += bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        // Not at every record: what is cut has to be moved.
        if self.bytes.len() > self.most.saturating_mul(2) {
            self.bytes.drain(..self.bytes.len() - self.most);
        }
    }

    fn finish(&mut self, printed: u64) {
        if self.seen < printed {
            self.state_gap();
        }
    }

    fn state_gap(&mut self) {
        if std::mem::take(&mut self.has_gap) && !self.bytes.is_empty() {
            let line = if self.bytes.ends_with(b"\n") { "" } else { "\n" };
            self.bytes.extend_from_slice(format!("{line}{GAP}\n").as_bytes());
        }
    }

    /// Lines with a newline between, however they ended, and none after the last.
    fn text(&self) -> String {
        let end = &self.bytes[self.bytes.len().saturating_sub(self.most)..];
        // A character that was cut in two is left out.
        let first = end.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let is_cut = end.len() < self.bytes.len();
        let text = String::from_utf8_lossy(&end[if is_cut { first } else { 0 }..]);
        let mut text = text.replace("\r\n", "\n").replace('\r', "\n");
        if text.ends_with('\n') {
            text.pop();
        }
        text
    }
}

fn last_lines(text: String, lines: u64) -> String {
    let Ok(before) = usize::try_from(lines.saturating_sub(1)) else { return text };
    match text.rmatch_indices('\n').nth(before) {
        Some((at, _)) => text[at + 1..].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use hotcell_model::Timestamp;

    use super::*;

    fn record(seq: u64, stream: Stream, bytes: &[u8]) -> Record {
        Record { seq, ts: Timestamp(0), stream, bytes: bytes.to_vec() }
    }

    fn gathered(most: u64, parts: &[(Stream, &[u8])]) -> Gathered {
        let mut gathered = Gathered::new(most);
        for (stream, bytes) in parts {
            gathered.take(vec![record(1, *stream, bytes)], None);
        }
        gathered
    }

    fn shown(most: u64, parts: &[(Stream, &[u8])]) -> (String, String) {
        let Output { stdout, stderr } = gathered(most, parts).shown();
        (stdout, stderr)
    }

    #[test]
    fn lines_have_newlines_between_them() {
        let parts: &[(Stream, &[u8])] =
            &[(Stream::Stdout, b"a\n\nb\r\n\n"), (Stream::Stderr, b"prompt> ")];
        assert_eq!(shown(100, parts), ("a\n\nb\n".to_owned(), "prompt> ".to_owned()));
        assert_eq!(shown(100, &[]), (String::new(), String::new()));
    }

    #[test]
    fn the_end_is_kept_and_characters_are_whole() {
        let parts: &[(Stream, &[u8])] =
            &[(Stream::Stdout, b"0123456789"), (Stream::Stdout, b"abc")];
        assert_eq!(shown(4, parts).0, "9abc");
        assert_eq!(shown(4, &[(Stream::Stdout, "äöü".as_bytes())]).0, "öü");
        assert_eq!(shown(3, &[(Stream::Stdout, "äöü".as_bytes())]).0, "ü");
        assert_eq!(shown(9, &[(Stream::Stdout, b"\xff\xfea")]).0, "\u{fffd}\u{fffd}a");
    }

    #[test]
    fn last_lines_are_counted_as_they_are_shown() {
        let last = |lines, text: &str| {
            gathered(100, &[(Stream::Stdout, text.as_bytes())]).last(lines).stdout
        };
        assert_eq!(last(2, "a\nb\nc\n"), "b\nc");
        assert_eq!(last(1, "a\nb\rc\rd\n"), "d");
        assert_eq!(last(1, "a\n\n"), "");
        assert_eq!(last(9, "a\nb"), "a\nb");
        assert_eq!(last(1, ""), "");
    }

    #[test]
    fn lines_on_both_sides_of_a_gap_are_told_apart() {
        let gap = || Some(Dropped { dropped_bytes: 9, from_seq: 3, to_seq: 4 });
        let before =
            || vec![record(1, Stream::Stdout, b"1\n2"), record(2, Stream::Stderr, b"whole\n")];
        let mut gathered = Gathered::new(1000);
        let after = record(5, Stream::Stdout, b"3\n4\n");
        gathered.take([before(), vec![after]].concat(), gap());
        let Output { stdout, stderr } = gathered.shown();
        assert_eq!(stdout, format!("1\n2\n{GAP}\n3\n4"));
        assert_eq!(stderr, "whole");
        assert_eq!(gathered.last(3).stdout, format!("{GAP}\n3\n4"));
        // Where nothing follows, what was printed tells.
        let mut gathered = Gathered::new(1000);
        gathered.take(before(), gap());
        gathered.stdout.finish(12);
        gathered.stderr.finish(6);
        let Output { stdout, stderr } = gathered.shown();
        assert_eq!((stdout, stderr.as_str()), (format!("1\n2\n{GAP}"), "whole"));
    }
}
