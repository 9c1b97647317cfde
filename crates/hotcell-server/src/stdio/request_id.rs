//! The id of a request that cannot be read, found as it goes by: whoever sent it waits for an answer.

use rmcp::model::RequestId;
use serde::Deserialize;

/// The longest member of a message that is looked at.
const MOST_MEMBER_BYTES: usize = 1024;

/// Looks at the outermost members of an object, whatever is wrong further inside.
#[derive(Debug, Default)]
pub(super) struct IdFinder {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The member that is being read, unless it is longer than what is looked for.
    member: Vec<u8>,
    id: Option<RequestId>,
    has_method: bool,
}

#[derive(Deserialize)]
struct Member {
    id: Option<RequestId>,
    method: Option<String>,
}

impl IdFinder {
    /// The id of the request in a line.
    pub(super) fn find(line: &[u8]) -> Option<RequestId> {
        let mut finder = Self::default();
        finder.feed(line);
        finder.found()
    }

    /// Takes the next bytes of the message.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_string {
                self.in_string = self.is_escaped || *byte != b'"';
                self.is_escaped = !self.is_escaped && *byte == b'\\';
                self.keep(*byte);
                continue;
            }
            match byte {
                b'{' | b'[' => {
                    self.keep(*byte);
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.end_member();
                    }
                    self.keep(*byte);
                }
                b',' if self.depth == 1 => self.end_member(),
                byte => {
                    self.in_string = *byte == b'"';
                    self.keep(*byte);
                }
            }
        }
    }

    /// The id, if the message is a request.
    pub(super) fn found(self) -> Option<RequestId> {
        self.id.filter(|_| self.has_method)
    }

    fn keep(&mut self, byte: u8) {
        if self.depth > 0 && self.member.len() <= MOST_MEMBER_BYTES {
            self.member.push(byte);
        }
    }

    fn end_member(&mut self) {
        let member = std::mem::take(&mut self.member);
        let object = [b"{", member.as_slice(), b"}"].concat();
        if let Ok(Member { id, method }) = serde_json::from_slice(&object) {
            self.has_method |= method.is_some();
            self.id = id.or(self.id.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<String> {
        let whole = IdFinder::find(line.as_bytes()).map(|id| id.to_string());
        let mut finder = IdFinder::default();
        line.as_bytes().chunks(1).for_each(|byte| finder.feed(byte));
        assert_eq!(finder.found().map(|id| id.to_string()), whole, "{line}");
        whole
    }

    #[test]
    fn the_id_of_a_request_is_found_wherever_it_stands() {
        let long = "x".repeat(10_000);
        for params in [
            format!(r#"{{"a":"{long}","id":9}}"#),
            format!(r#"["{long}",{{"id":9}},{{"method":"y"}}]"#),
            r#"{"text":"\ud800 \" , }] {"}"#.to_owned(),
            "1e400".to_owned(),
        ] {
            let lines = [
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{params}}}"#),
                format!(r#"{{"method":"m","params":{params}, "jsonrpc":"2.0", "id": 7 }}"#),
            ];
            for line in lines {
                assert_eq!(found(&line).as_deref(), Some("7"), "{line}");
            }
        }
        assert_eq!(found(r#"{"id":"a,b","method":"m"}"#).as_deref(), Some("a,b"));
    }

    #[test]
    fn nothing_else_has_one() {
        for line in [
            "",
            "{",
            "]]]}",
            r#"{"id":7}"#,
            r#"{"method":"m"}"#,
            r#"{"id":7,"result":{"method":"m"}}"#,
            r#"{"method":"m","params":{"id":7}}"#,
            r#"{"id":null,"method":"m"}"#,
            r#"{"id":[7],"method":"m"}"#,
            r#"[{"id":7,"method":"m"}]"#,
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
