//! Output that came since it was last passed on as progress: the end of it, in whole characters.

/// How much of the newest output one notification holds.
const MOST_BYTES: usize = 8 << 10;

/// What is still to be passed on.
#[derive(Debug, Default)]
pub(super) struct ProgressText {
    bytes: Vec<u8>,
    left_out: usize,
}

impl ProgressText {
    /// Takes what came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let beyond = self.bytes.len().saturating_sub(MOST_BYTES);
        self.bytes.drain(..beyond);
        self.left_out += beyond;
    }

    /// What can be passed on, if there is something.
    pub(super) fn take(&mut self) -> Option<String> {
        let whole = whole_characters(&self.bytes);
        if whole == 0 {
            return None;
        }
        let rest = self.bytes.split_off(whole);
        let bytes = std::mem::replace(&mut self.bytes, rest);
        match std::mem::take(&mut self.left_out) {
            0 => Some(String::from_utf8_lossy(&bytes).into_owned()),
            left_out => {
                let cut = bytes.iter().take(3).take_while(|byte| is_inside(**byte)).count();
                let text = String::from_utf8_lossy(&bytes[cut..]);
                Some(format!("[... {} bytes left out ...]\n{text}", left_out + cut))
            }
        }
    }
}

/// Whether a byte is inside of a character.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// The length without a character at the end that is not there as a whole.
fn whole_characters(bytes: &[u8]) -> usize {
    let inside = bytes.iter().rev().take(3).take_while(|byte| is_inside(**byte)).count();
    let Some(first) = bytes.len().checked_sub(inside + 1) else { return bytes.len() };
    let length = match bytes[first] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if length > inside + 1 { first } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_whole_however_they_are_printed() {
        let text = "a€𝄞ü\n";
        for piece in 1..text.len() {
            let mut progress = ProgressText::default();
            let mut told = String::new();
            for bytes in text.as_bytes().chunks(piece) {
                progress.push(bytes);
                told.extend(progress.take());
            }
            assert_eq!(told, text, "{piece}");
        }
        let mut progress = ProgressText::default();
        assert_eq!(progress.take(), None);
        progress.push(b"\xe2\x82");
        assert_eq!(progress.take(), None);
        progress.push(b"x\xff\x80\x80\x80\x80");
        assert_eq!(progress.take().unwrap().chars().filter(|c| *c == 'x').count(), 1);
    }

    #[test]
    fn what_is_left_out_is_told() {
        let mut progress = ProgressText::default();
        progress.push(b"ab");
        progress.push("€".repeat(MOST_BYTES).as_bytes());
        let told = progress.take().unwrap();
        let (note, text) = told.split_once('\n').unwrap();
        assert!(text.len() <= MOST_BYTES && text.chars().all(|c| c == '€'), "{told}");
        let left_out = 2 + 3 * MOST_BYTES - text.len();
        assert_eq!(note, format!("[... {left_out} bytes left out ...]"));
        progress.push(b"c");
        assert_eq!(progress.take().as_deref(), Some("c"));
    }
}
