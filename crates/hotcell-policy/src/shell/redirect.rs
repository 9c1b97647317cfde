//! Redirections and here-documents.

use super::parser::{Parser, Read};
use super::syntax::{Chunk, Piece, Redirect, RedirectOp, Span, Target, Word};
use super::words::Context;

/// A here-document that was announced.
#[derive(Debug)]
pub(super) struct Heredoc {
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
    pub(super) body: Word,
}

impl Parser<'_> {
    pub(super) fn redirect(&mut self) -> Read<Option<Redirect>> {
        let start = self.pos;
        let mut fd = None;
        let mut variable = None;
        match self.peek() {
            Some(b'0'..=b'9') => {
                let mut number: u32 = 0;
                while let Some(digit @ b'0'..=b'9') = self.peek() {
                    number = number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
                    self.pos += 1;
                }
                fd = Some(number);
            }
            Some(b'{') => {
                variable = self.held_in();
                if variable.is_none() || !self.bash() {
                    self.pos = start;
                    return Ok(None);
                }
                fd = Some(u32::MAX);
            }
            Some(b'<' | b'>' | b'&') => {}
            _ => return Ok(None),
        }
        let Some(op) = self.redirect_operator(fd) else {
            self.pos = start;
            return Ok(None);
        };
        let strip_tabs = op == RedirectOp::Heredoc && self.take("-");
        self.skip_blanks();
        let Some(word) = self.find_word()? else {
            return self.fail("the target of a redirection is missing");
        };
        let target = if op == RedirectOp::Heredoc {
            let index = self.heredocs.len();
            let (delimiter, quoted) = self.delimiter(&word);
            self.heredocs.push(Heredoc { delimiter, quoted, strip_tabs, body: Word::default() });
            self.pending.push(index);
            Target::Heredoc(index)
        } else {
            Target::Word(word)
        };
        Ok(Some(Redirect { fd, variable, op, target, span: Span { start, end: self.pos } }))
    }

    /// The variable of `{NAME}>` or `{NAME[INDEX]}>`, if that is what stands here.
    fn held_in(&mut self) -> Option<String> {
        self.pos += 1;
        let mut name = self.plain_name();
        if !name.is_empty() && self.peek() == Some(b'[') {
            let rest = self.text.get(self.pos..)?;
            let end = rest.find(['\n', '}']).filter(|end| rest[..*end].ends_with(']'))?;
            name.push_str(&rest[..end]);
            self.pos += end;
        }
        let closed = !name.is_empty() && self.take("}");
        (closed && matches!(self.peek(), Some(b'<' | b'>'))).then_some(name)
    }

    fn redirect_operator(&mut self, fd: Option<u32>) -> Option<RedirectOp> {
        if matches!(self.peek(), Some(b'<' | b'>'))
            && self.peek_second() == Some(b'(')
            && self.bash()
        {
            return None;
        }
        if self.peek() == Some(b'&') {
            if fd.is_some() || self.peek_second() != Some(b'>') || !self.bash() {
                return None;
            }
            return Some(if self.take("&>>") {
                RedirectOp::BothAppend
            } else {
                self.take("&>");
                RedirectOp::Both
            });
        }
        if self.next_is("<<<") && self.bash() {
            self.take("<<<");
            return Some(RedirectOp::Herestring);
        }
        const OPERATORS: &[(&str, RedirectOp)] = &[
            ("<<", RedirectOp::Heredoc),
            ("<&", RedirectOp::DuplicateIn),
            ("<>", RedirectOp::ReadWrite),
            ("<", RedirectOp::Read),
            (">>", RedirectOp::Append),
            (">&", RedirectOp::DuplicateOut),
            (">|", RedirectOp::Clobber),
            (">", RedirectOp::Write),
        ];
        OPERATORS.iter().find(|(sign, _)| self.take(sign)).map(|(_, op)| *op)
    }

    /// What ends a here-document, and whether its body is taken as it stands.
    fn delimiter(&self, word: &Word) -> (String, bool) {
        let raw = self.text.get(word.span.start..word.span.end).unwrap_or_default();
        let quoted = raw.contains(['\\', '\'', '"']);
        if !quoted {
            return (raw.to_owned(), false);
        }
        let mut text = String::new();
        for piece in &word.pieces {
            match &piece.chunk {
                Chunk::Text(part) => text.push_str(part),
                // Such a delimiter is the raw text, quotes taken off: it is not told apart here.
                Chunk::Param(_)
                | Chunk::Command(_)
                | Chunk::Backquote(..)
                | Chunk::Arith(_)
                | Chunk::Process(_)
                | Chunk::Array(_)
                | Chunk::Hole => return (raw.replace(['\\', '\'', '"'], ""), true),
            }
        }
        (text, true)
    }

    pub(super) fn read_heredoc(&mut self, index: usize) -> Read<()> {
        let Some(heredoc) = self.heredocs.get(index) else {
            return Ok(());
        };
        let (quoted, strip_tabs) = (heredoc.quoted, heredoc.strip_tabs);
        let delimiter = heredoc.delimiter.clone();
        let start = self.pos;
        let mut stop = self.pos;
        let mut literal = String::new();
        while self.pos < self.end {
            stop = self.pos;
            let line = if quoted { self.plain_line() } else { self.logical_line() };
            let line = if strip_tabs { line.trim_start_matches('\t') } else { line.as_str() };
            if line == delimiter {
                break;
            }
            if quoted {
                literal.push_str(line);
                literal.push('\n');
            }
            stop = self.pos;
        }
        let after = self.pos;
        let body = if quoted {
            let span = Span { start, end: stop };
            let chunk = Chunk::Text(literal);
            Word { pieces: vec![Piece { chunk, quoted: true }], span }
        } else {
            let end = std::mem::replace(&mut self.end, stop);
            self.pos = start;
            let body = self.deeper(|parser| parser.word_in(Context::Heredoc));
            self.end = end;
            body?
        };
        self.pos = after;
        if let Some(heredoc) = self.heredocs.get_mut(index) {
            heredoc.body = body;
        }
        Ok(())
    }

    /// The rest of a line as it stands.
    fn plain_line(&mut self) -> String {
        let rest = self.text.get(self.pos..self.end).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        self.pos = (self.pos + line.len() + 1).min(self.end);
        line.to_owned()
    }

    /// The rest of a line; continued lines are one.
    fn logical_line(&mut self) -> String {
        let bytes = self.text.as_bytes();
        let mut line = String::new();
        let mut from = self.pos;
        let mut at = self.pos;
        while at < self.end {
            match bytes[at] {
                b'\n' => break,
                b'\\' if at + 1 < self.end => {
                    if bytes[at + 1] == b'\n' {
                        line.push_str(self.text.get(from..at).unwrap_or_default());
                        from = at + 2;
                    }
                    at += 2;
                }
                _ => at += 1,
            }
        }
        let at = at.min(self.end);
        line.push_str(self.text.get(from..at).unwrap_or_default());
        self.pos = (at + 1).min(self.end);
        line
    }
}
