//! Words of shell text: quotes, parameters, substitutions, arithmetic.

use super::characters::{ansi_c, ends_word, in_name, starts_name};
use super::parser::{MAX_DEPTH, Parser, Read, TOO_DEEP};
use super::syntax::{Chunk, Param, Piece, Span, Word};

/// Where a word stands, which says what ends it and what its quotes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Word,
    /// After `=~`: parentheses and bars belong to it.
    Regex,
    Double,
    Heredoc,
    /// In `${…}` outside of quotes, or with an operator whose argument is a pattern.
    Brace,
    /// In `"${…}"`, where single quotes are plain.
    QuotedBrace,
    /// In `((…))`.
    Arith,
    /// In `[…]` of an array, or `$[…]`.
    Bracket,
}

impl Context {
    fn quoted(self) -> bool {
        matches!(
            self,
            Self::Double | Self::Heredoc | Self::QuotedBrace | Self::Arith | Self::Bracket
        )
    }

    /// Whether single quotes and `$'…'` quote here.
    fn single_quotes(self) -> bool {
        matches!(self, Self::Word | Self::Regex | Self::Brace | Self::Bracket)
    }
}

/// Collects pieces, joining texts.
#[derive(Default)]
struct Pieces {
    list: Vec<Piece>,
    nesting: u32,
}

impl Pieces {
    fn text(&mut self, text: &str, quoted: bool) {
        if let Some(Piece { chunk: Chunk::Text(last), quoted: before }) = self.list.last_mut()
            && *before == quoted
        {
            last.push_str(text);
            return;
        }
        self.list.push(Piece { chunk: Chunk::Text(text.to_owned()), quoted });
    }

    fn chunk(&mut self, chunk: Chunk, quoted: bool) {
        self.list.push(Piece { chunk, quoted });
    }
}

impl Parser<'_> {
    /// The word that begins here, up to what ends it in this place; that is not passed over.
    pub(super) fn word_in(&mut self, context: Context) -> Read<Word> {
        let start = self.pos;
        let mut pieces = Pieces::default();
        self.pieces(context, &mut pieces)?;
        Ok(Word { pieces: pieces.list, span: Span { start, end: self.pos } })
    }

    /// The rest of a word that began with `name[inner]`.
    pub(super) fn rest_of_word(&mut self, start: usize, name: &str, inner: Word) -> Read<Word> {
        let mut pieces = Pieces::default();
        pieces.text(name, false);
        pieces.text("[", false);
        pieces.list.extend(inner.pieces);
        pieces.text("]", false);
        self.pieces(Context::Word, &mut pieces)?;
        Ok(Word { pieces: pieces.list, span: Span { start, end: self.pos } })
    }

    fn pieces(&mut self, context: Context, out: &mut Pieces) -> Read<()> {
        let quoted = context.quoted();
        while let Some(byte) = self.peek() {
            if self.ends(context, byte, out)? {
                return Ok(());
            }
            match byte {
                b'\\' => self.backslash(context, out),
                b'\'' if context.single_quotes() => self.single(out)?,
                b'\'' if context == Context::Arith => {
                    return self.fail("a single quote in arithmetic");
                }
                b'"' if context != Context::Heredoc => self.double(out)?,
                b'`' => self.backquote(context, out)?,
                b'$' => self.dollar(context, out)?,
                0 => {
                    self.pos += 1;
                    out.chunk(Chunk::Hole, quoted);
                }
                b'<' | b'>' if matches!(context, Context::Word | Context::Regex) => {
                    if self.peek_second() == Some(b'(') {
                        self.process(out)?;
                    } else {
                        self.plain_run(context, out);
                    }
                }
                b'(' if context == Context::Word => self.group(out)?,
                _ => self.plain_run(context, out),
            }
        }
        match context {
            Context::Double => self.fail("a double quote is not closed"),
            Context::Brace | Context::QuotedBrace => self.fail("`${` is not closed"),
            Context::Arith => self.fail("`((` is not closed"),
            Context::Bracket => self.fail("`[` is not closed"),
            Context::Word | Context::Regex | Context::Heredoc => Ok(()),
        }
    }

    /// Whether `byte`, unquoted, ends what is read; keeps count of brackets.
    fn ends(&mut self, context: Context, byte: u8, out: &mut Pieces) -> Read<bool> {
        let nested = out.nesting > 0;
        Ok(match context {
            Context::Word => {
                let process =
                    matches!(byte, b'<' | b'>') && self.peek_second() == Some(b'(') && self.bash();
                let group = byte == b'(' && self.opens_group(out);
                ends_word(byte) && !process && !group
            }
            Context::Regex => match byte {
                b'(' => {
                    out.nesting += 1;
                    false
                }
                b')' if nested => {
                    out.nesting -= 1;
                    false
                }
                b')' | b'\n' => true,
                b' ' | b'\t' => !nested,
                b'&' | b';' => !nested,
                _ => false,
            },
            Context::Double => byte == b'"',
            Context::Heredoc => false,
            Context::Brace | Context::QuotedBrace => byte == b'}',
            Context::Arith => match byte {
                b'(' => {
                    out.nesting += 1;
                    false
                }
                b')' if nested => {
                    out.nesting -= 1;
                    false
                }
                b')' => true,
                _ => false,
            },
            Context::Bracket => match byte {
                b'[' => {
                    out.nesting += 1;
                    false
                }
                b']' if nested => {
                    out.nesting -= 1;
                    false
                }
                b']' => true,
                _ => false,
            },
        })
    }

    /// Whether `(` goes on with the word: a pattern like `@(a|b)`, or `NAME=(…)`.
    fn opens_group(&mut self, out: &Pieces) -> bool {
        let Some(Piece { chunk: Chunk::Text(before), quoted: false }) = out.list.last() else {
            return false;
        };
        let pattern = before.ends_with(['?', '*', '+', '@', '!']);
        let array = out.list.len() == 1 && is_assignment_start(before);
        (pattern || array) && self.bash()
    }

    fn group(&mut self, out: &mut Pieces) -> Read<()> {
        if let Some(Piece { chunk: Chunk::Text(before), .. }) = out.list.last()
            && before.ends_with('=')
        {
            let words = self.deeper(Self::array)?;
            out.chunk(Chunk::Array(words), false);
            return Ok(());
        }
        self.pos += 1;
        out.text("(", false);
        self.deeper(|parser| {
            while let Some(byte) = parser.peek() {
                match byte {
                    b')' => {
                        parser.pos += 1;
                        out.text(")", false);
                        return Ok(());
                    }
                    b'\n' | b'&' | b';' | b'<' | b'>' => break,
                    b'|' | b' ' | b'\t' => {
                        parser.pos += 1;
                        out.text(if byte == b'|' { "|" } else { " " }, false);
                    }
                    b'(' if parser.opens_group(out) => parser.group(out)?,
                    b'(' => break,
                    _ => {
                        let inner = parser.word_in(Context::Word)?;
                        out.list.extend(inner.pieces);
                    }
                }
            }
            parser.fail("a pattern is not closed")
        })
    }

    /// Text up to the next byte that may mean something.
    fn plain_run(&mut self, context: Context, out: &mut Pieces) {
        let bytes = self.text.as_bytes();
        let start = self.pos;
        let mut at = start + 1;
        let stops = |byte: u8| {
            matches!(byte, b'\\' | b'\'' | b'"' | b'`' | b'$' | b'}' | b'[' | b']' | 0)
                || (context != Context::Double && context != Context::Heredoc && ends_word(byte))
        };
        while at < self.end && !stops(bytes[at]) {
            at += 1;
        }
        self.pos = at;
        out.text(self.text.get(start..at).unwrap_or_default(), context.quoted());
    }

    fn backslash(&mut self, context: Context, out: &mut Pieces) {
        let Some(next) = self.raw(self.pos + 1) else {
            self.pos += 1;
            out.text("\\", context.quoted());
            return;
        };
        let taken = match context {
            Context::Word | Context::Regex | Context::Brace => true,
            Context::Double | Context::Arith | Context::Bracket => {
                matches!(next, b'$' | b'`' | b'"' | b'\\')
            }
            Context::Heredoc => matches!(next, b'$' | b'`' | b'\\'),
            Context::QuotedBrace => matches!(next, b'$' | b'`' | b'"' | b'\\' | b'}'),
        };
        if !taken {
            self.pos += 1;
            out.text("\\", true);
            return;
        }
        let start = self.pos + 1;
        let length = self.text.get(start..).and_then(|rest| rest.chars().next());
        self.pos = start + length.map_or(1, char::len_utf8);
        if next == 0 {
            out.chunk(Chunk::Hole, true);
            return;
        }
        out.text(self.text.get(start..self.pos).unwrap_or_default(), true);
    }

    fn single(&mut self, out: &mut Pieces) -> Read<()> {
        let start = self.pos + 1;
        let rest = self.text.get(start..self.end).unwrap_or_default();
        let Some(length) = rest.find('\'') else {
            return self.fail("a single quote is not closed");
        };
        quoted_text(&rest[..length], out);
        self.pos = start + length + 1;
        Ok(())
    }

    fn double(&mut self, out: &mut Pieces) -> Read<()> {
        self.pos += 1;
        out.text("", true);
        let inner = self.deeper(|parser| parser.word_in(Context::Double))?;
        if !self.take("\"") {
            return self.fail("a double quote is not closed");
        }
        for piece in inner.pieces {
            match piece.chunk {
                Chunk::Text(text) => out.text(&text, true),
                chunk @ (Chunk::Param(_)
                | Chunk::Command(_)
                | Chunk::Backquote(..)
                | Chunk::Arith(_)
                | Chunk::Process(_)
                | Chunk::Array(_)
                | Chunk::Hole) => out.chunk(chunk, true),
            }
        }
        Ok(())
    }

    fn ansi(&mut self, out: &mut Pieces) -> Read<()> {
        let start = self.pos;
        let bytes = self.text.as_bytes();
        let mut at = start;
        while at < self.end && bytes[at] != b'\'' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        if at >= self.end {
            return self.fail("`$'` is not closed");
        }
        let raw = self.text.get(start..at).unwrap_or_default();
        if raw.contains('\0') {
            out.chunk(Chunk::Hole, true);
        }
        out.text(&ansi_c(raw), true);
        self.pos = at + 1;
        Ok(())
    }

    fn backquote(&mut self, context: Context, out: &mut Pieces) -> Read<()> {
        let start = self.pos + 1;
        let bytes = self.text.as_bytes();
        let mut text = String::new();
        let mut from = start;
        let mut at = start;
        let in_quotes = matches!(context, Context::Double | Context::QuotedBrace);
        loop {
            if at >= self.end {
                return self.fail("a backquote is not closed");
            }
            match bytes[at] {
                b'`' => break,
                b'\\' if at + 1 < self.end => {
                    let next = bytes[at + 1];
                    let taken = matches!(next, b'$' | b'`' | b'\\') || (in_quotes && next == b'"');
                    if taken {
                        text.push_str(self.text.get(from..at).unwrap_or_default());
                        from = at + 1;
                    }
                    at += 2;
                }
                _ => at += 1,
            }
        }
        text.push_str(self.text.get(from..at).unwrap_or_default());
        self.pos = at + 1;
        let span = Span { start: start - 1, end: self.pos };
        out.chunk(Chunk::Backquote(text, span), context.quoted());
        Ok(())
    }

    fn process(&mut self, out: &mut Pieces) -> Read<()> {
        self.pos += 1;
        self.take("(");
        let script = self.substituted(")")?;
        out.chunk(Chunk::Process(script), false);
        Ok(())
    }

    fn dollar(&mut self, context: Context, out: &mut Pieces) -> Read<()> {
        let quoted = context.quoted();
        let next = self.peek_second();
        match next {
            Some(b'(') => {
                if self.is_arithmetic("$((")? {
                    self.take("$((");
                    let inner = self.arithmetic()?;
                    out.chunk(Chunk::Arith(inner), quoted);
                } else {
                    self.take("$(");
                    let script = self.substituted(")")?;
                    out.chunk(Chunk::Command(script), quoted);
                }
            }
            Some(b'{') => {
                self.take("${");
                let chunk = self.deeper(|parser| parser.parameter(context))?;
                out.chunk(chunk, quoted);
            }
            Some(b'\'') if context.single_quotes() && self.bash() => {
                self.take("$'");
                self.ansi(out)?;
            }
            Some(b'"') if context.single_quotes() && self.bash() => {
                self.take("$");
                self.double(out)?;
            }
            Some(b'[') if self.bash() => {
                self.take("$[");
                let inner = self.deeper(|parser| parser.word_in(Context::Bracket))?;
                self.take("]");
                out.chunk(Chunk::Arith(inner), quoted);
            }
            Some(byte) if starts_name(byte) => {
                self.take("$");
                let mut name = String::new();
                while let Some(byte) = self.peek().filter(|byte| in_name(*byte)) {
                    name.push(char::from(byte));
                    self.pos += 1;
                }
                out.chunk(Chunk::Param(Param { name, ..Param::default() }), quoted);
            }
            Some(byte @ (b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')) => {
                self.take("$");
                self.peek();
                self.pos += 1;
                let name = char::from(byte).to_string();
                out.chunk(Chunk::Param(Param { name, ..Param::default() }), quoted);
            }
            _ => {
                self.pos += 1;
                out.text("$", quoted);
            }
        }
        Ok(())
    }

    /// What stands in `${…}`, whose start was passed over.
    fn parameter(&mut self, context: Context) -> Read<Chunk> {
        // bash 5.3 has commands here, other shells an error.
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|')) {
            if self.peek() == Some(b'|') {
                self.pos += 1;
            }
            return self.substituted("}").map(Chunk::Command);
        }
        let mut param = Param::default();
        if let Some(sign @ (b'#' | b'!')) = self.peek()
            && !matches!(self.peek_second(), Some(b'}' | b':' | b'=' | b'%' | b'+'))
            && !(sign == b'#' && matches!(self.peek_second(), Some(b'#' | b'/')))
            && !(matches!(self.peek_second(), Some(b'-' | b'?'))
                && self.raw(self.past_continuations(self.pos + 2)) != Some(b'}'))
        {
            param.prefix = Some(char::from(sign));
            self.pos += 1;
        }
        while let Some(byte) = self.peek().filter(|byte| in_name(*byte)) {
            param.name.push(char::from(byte));
            self.pos += 1;
        }
        if param.name.is_empty()
            && let Some(sign @ (b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')) = self.peek()
        {
            param.name.push(char::from(sign));
            self.pos += 1;
        }
        if param.name.is_empty() && self.peek() != Some(0) {
            return self.fail("a bad substitution");
        }
        if self.peek() == Some(b'[') && self.bash() {
            self.pos += 1;
            param.index = Some(self.deeper(|parser| parser.word_in(Context::Bracket))?);
            if !self.take("]") {
                return self.fail("`]` is missing");
            }
        }
        while let Some(sign) = self.peek() {
            let most = param.op.len() < 2;
            if !most
                || !matches!(
                    sign,
                    b':' | b'-' | b'=' | b'+' | b'?' | b'#' | b'%' | b'/' | b'^' | b',' | b'@'
                )
            {
                break;
            }
            param.op.push(char::from(sign));
            self.pos += 1;
            if !matches!(sign, b':' | b'#' | b'%' | b'/' | b'^' | b',') {
                break;
            }
        }
        if param.prefix == Some('!') && self.peek() == Some(b'*') {
            param.op.push('*');
            self.pos += 1;
        }
        let plain_quotes = param.op.trim_start_matches(':').starts_with(['-', '=', '+', '?']);
        let in_quotes = matches!(
            context,
            Context::Double | Context::Heredoc | Context::QuotedBrace | Context::Arith
        );
        let inner = if in_quotes && (plain_quotes || matches!(param.op.as_str(), "" | ":")) {
            Context::QuotedBrace
        } else {
            Context::Brace
        };
        let argument = self.word_in(inner)?;
        if !self.take("}") {
            return self.fail("`${` is not closed");
        }
        if !argument.pieces.is_empty() {
            if param.op.is_empty() {
                return self.fail("a bad substitution");
            }
            param.argument = Some(argument);
        }
        Ok(Chunk::Param(param))
    }

    /// The inside of `((…))`, whose start was passed over, and its end.
    pub(super) fn arithmetic(&mut self) -> Read<Word> {
        let inner = self.deeper(|parser| parser.word_in(Context::Arith))?;
        if self.take("))") { Ok(inner) } else { self.fail("`))` is missing") }
    }

    /// Whether what begins with `start` ends in `))`; otherwise it is a subshell in a bracket.
    pub(super) fn is_arithmetic(&mut self, start: &str) -> Read<bool> {
        let before = self.pos;
        let opens = self.take(start);
        let inside = std::mem::replace(&mut self.pos, before);
        if !opens {
            return Ok(false);
        }
        match self.past_pair(inside, b'(', b')', 0) {
            Pair::Ends(after) => Ok(self.raw(self.past_continuations(after)) == Some(b')')),
            Pair::Open => self.fail("`)` is missing"),
            Pair::TooDeep => self.fail(TOO_DEEP),
        }
    }

    /// Where the pair that is open at `at` is over, quotes and pairs in it left out.
    fn past_pair(&self, mut at: usize, open: u8, close: u8, depth: u32) -> Pair {
        if depth > MAX_DEPTH {
            return Pair::TooDeep;
        }
        let mut nesting = 0_u32;
        loop {
            let Some(byte) = self.raw(at) else {
                return Pair::Open;
            };
            let opens = |sign: u8| self.raw(at + 1) == Some(sign) && close != b'`';
            let inner = match byte {
                b'\\' => {
                    at += 2;
                    continue;
                }
                b'\'' if close != b'"' => {
                    let rest = self.text.as_bytes().get(at + 1..self.end).unwrap_or_default();
                    let Some(length) = rest.iter().position(|byte| *byte == b'\'') else {
                        return Pair::Open;
                    };
                    at += 2 + length;
                    continue;
                }
                _ if byte == close => {
                    if nesting == 0 {
                        return Pair::Ends(at + 1);
                    }
                    nesting -= 1;
                    at += 1;
                    continue;
                }
                b'"' => self.past_pair(at + 1, 0, b'"', depth + 1),
                b'`' => self.past_pair(at + 1, 0, b'`', depth + 1),
                b'$' if opens(b'(') => self.past_pair(at + 2, b'(', b')', depth + 1),
                b'$' if opens(b'{') => self.past_pair(at + 2, b'{', b'}', depth + 1),
                _ => {
                    if byte == open && open != 0 {
                        nesting += 1;
                    }
                    at += 1;
                    continue;
                }
            };
            match inner {
                Pair::Ends(after) => at = after,
                Pair::Open | Pair::TooDeep => return inner,
            }
        }
    }
}

/// How the search for the end of a pair went.
enum Pair {
    Ends(usize),
    Open,
    TooDeep,
}

/// Text in quotes, with what was unknown in it.
fn quoted_text(text: &str, out: &mut Pieces) {
    for (index, part) in text.split('\0').enumerate() {
        if index > 0 {
            out.chunk(Chunk::Hole, true);
        }
        out.text(part, true);
    }
}

fn is_assignment_start(text: &str) -> bool {
    let Some(name) = text.strip_suffix("+=").or_else(|| text.strip_suffix('=')) else {
        return false;
    };
    name.bytes().next().is_some_and(starts_name) && name.bytes().all(in_name)
}
