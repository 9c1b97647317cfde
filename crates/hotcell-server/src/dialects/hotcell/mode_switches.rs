//! Removes the sequences by which programs switch modes of their terminal, such as bracketed paste:
//! they come with every prompt and show nothing.

const START: &[u8] = b"\x1b[?";

/// The output of a terminal without `ESC [ ? … h` and `ESC [ ? … l`.
pub(super) fn without_mode_switches(output: &[u8]) -> Vec<u8> {
    let mut rest = output;
    let mut kept = Vec::with_capacity(output.len());
    while let Some(at) = rest.windows(START.len()).position(|window| window == START) {
        let (before, switch) = rest.split_at(at);
        kept.extend_from_slice(before);
        let parameters = &switch[START.len()..];
        let is_parameter = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
        let end = parameters.iter().position(|byte| !is_parameter(byte));
        rest = match end.map(|end| (parameters[end], &parameters[end + 1..])) {
            Some((b'h' | b'l', after)) => after,
            Some(_) | None => {
                kept.extend_from_slice(START);
                parameters
            }
        };
    }
    kept.extend_from_slice(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::without_mode_switches;

    #[test]
    fn only_mode_switches_are_removed() {
        let output =
            b"\x1b[?2004h$ ls\r\n\x1b[?2004l\r\x1b[1ma\x1b[m\x1b[?25;1049h\x1b[?1$p\x1b[?20";
        let kept = b"$ ls\r\n\r\x1b[1ma\x1b[m\x1b[?1$p\x1b[?20";
        assert_eq!(without_mode_switches(output), kept);
        assert_eq!(without_mode_switches(b"plain"), b"plain");
        assert_eq!(without_mode_switches(b""), b"");
    }
}
