//! What is printed to a terminal, without its escape sequences.

use vte::{Parser, Perform};

/// Leaves escape sequences out of output that may be split anywhere.
#[derive(Default)]
pub(crate) struct PlainText {
    parser: Parser,
}

struct Printed<'a>(&'a mut Vec<u8>);

impl Perform for Printed<'_> {
    fn print(&mut self, character: char) {
        self.0.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn execute(&mut self, control: u8) {
        if matches!(control, b'\t' | b'\n' | b'\r') {
            self.0.push(control);
        }
    }
}

impl PlainText {
    /// Appends the text of some more output.
    pub(crate) fn append_to(&mut self, text: &mut Vec<u8>, output: &[u8]) {
        self.parser.advance(&mut Printed(text), output);
    }
}

#[cfg(test)]
mod tests {
    use super::PlainText;

    #[test]
    fn escape_sequences_are_left_out_wherever_output_is_split() {
        let output = "\u{1b}[1;32mré\u{1b}[0mady\r\n\u{1b}]0;title\u{7}> \u{1b}[K".as_bytes();
        for split in 0..=output.len() {
            let mut plain = PlainText::default();
            let mut text = Vec::new();
            plain.append_to(&mut text, &output[..split]);
            plain.append_to(&mut text, &output[split..]);
            assert_eq!(String::from_utf8_lossy(&text), "réady\r\n> ", "split at {split}");
        }
    }
}
