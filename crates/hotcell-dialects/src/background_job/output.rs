//! The output of a job as its caller sees it: text, in lines.

use hotcell_model::{Record, Stream};
use serde::Serialize;

/// Both streams of a job.
#[derive(Debug, Serialize)]
pub(super) struct Output {
    stdout: String,
    stderr: String,
}

/// Output that is put together: of each stream the end, within a bound.
#[derive(Debug)]
pub(super) struct Gathered {
    most: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Gathered {
    pub(super) fn new(most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { most, stdout: Vec::new(), stderr: Vec::new() }
    }

    pub(super) fn take(&mut self, records: Vec<Record>) {
        for record in records {
            let stream = match record.stream {
                Stream::Stdout | Stream::Pty => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            stream.extend_from_slice(&record.bytes);
            // Not at every record: what is cut has to be moved.
            if stream.len() > self.most.saturating_mul(2) {
                stream.drain(..stream.len() - self.most);
            }
        }
    }

    pub(super) fn shown(&self) -> Output {
        Output { stdout: text(&self.stdout, self.most), stderr: text(&self.stderr, self.most) }
    }
}

/// Lines with a newline between, however they ended, and none after the last.
fn text(bytes: &[u8], most: usize) -> String {
    let end = &bytes[bytes.len().saturating_sub(most)..];
    // A character that was cut in two is left out.
    let first = end.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let is_cut = end.len() < bytes.len();
    let text = String::from_utf8_lossy(&end[if is_cut { first } else { 0 }..]);
    let mut text = text.replace("\r\n", "\n").replace('\r', "\n");
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use hotcell_model::{Record, Stream, Timestamp};

    use super::Gathered;

    fn shown(most: u64, parts: &[(Stream, &[u8])]) -> (String, String) {
        let mut gathered = Gathered::new(most);
        for (stream, bytes) in parts {
            let record =
                Record { seq: 1, ts: Timestamp(0), stream: *stream, bytes: bytes.to_vec() };
            gathered.take(vec![record]);
        }
        let output = gathered.shown();
        (output.stdout, output.stderr)
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
}
