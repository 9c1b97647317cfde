//! Text of programs within a line of a result.

use std::fmt::Write;

/// A text in quotes as it is: only control characters are escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character.is_control() {
            true => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "{}", character.escape_default());
            }
            false => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn only_control_characters_are_escaped() {
        assert_eq!(quoted("e\u{301}? \"y\\n\" 宽"), "\"e\u{301}? \"y\\n\" 宽\"");
        assert_eq!(quoted("a\u{1b}[m\n\u{9b}"), "\"a\\u{1b}[m\\n\\u{9b}\"");
    }
}
