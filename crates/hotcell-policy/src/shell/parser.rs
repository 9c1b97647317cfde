//! A recursive descent over shell text, in time linear in its length and no deeper than [`MAX_DEPTH`].

use std::fmt;

use super::characters::{ends_word, starts_name};
use super::redirect::Heredoc;
use super::syntax::{
    AndOr, Assign, Assigned, Command, Item, Link, Pipeline, Script, Simple, Span, Word,
};
use super::words::Context;

/// So deep may commands and words lie in each other; what lies deeper is not read.
pub(crate) const MAX_DEPTH: u32 = 64;

/// What is said of text that is nested deeper.
pub(crate) const TOO_DEEP: &str = "nested too deep";

/// So many bytes of text are read.
pub(crate) const LONGEST: usize = 1 << 20;
/// So many commands and words are read.
const MOST_PARTS: usize = 200_000;

/// What is said of text that is longer, or made of more.
pub(crate) const TOO_LONG: &str = "longer than what is read";

/// Which shell is going to run the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Bash,
    /// What POSIX says and dash does.
    Posix,
}

/// Why text could not be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            TOO_DEEP | TOO_LONG => f.write_str(self.what),
            what => write!(f, "shell, {what}"),
        }
    }
}

/// Text as far as it could be read.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) script: Script,
    pub(crate) heredocs: Vec<Word>,
    pub(crate) error: Option<SyntaxError>,
    /// Whether another shell would read the text in another way.
    pub(crate) dialect_matters: bool,
}

/// Reads text that stands `depth` levels deep in other text.
pub(crate) fn parse(text: &str, dialect: Dialect, depth: u32) -> Parsed {
    let mut parser = Parser::new(text, dialect, depth);
    let mut script = Script::default();
    let error = parser.top(&mut script).err();
    let dialect_matters = parser.dialect_matters;
    let heredocs = parser.heredocs.into_iter().map(|heredoc| heredoc.body).collect();
    Parsed { script, heredocs, error, dialect_matters }
}

pub(super) type Read<T> = Result<T, SyntaxError>;

pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) pos: usize,
    pub(super) end: usize,
    depth: u32,
    dialect: Dialect,
    pub(super) heredocs: Vec<Heredoc>,
    pub(super) pending: Vec<usize>,
    pub(super) dialect_matters: bool,
    /// So many commands and words were read.
    parts: usize,
}

const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "{",
    "}", "!", "in",
];
const BASH_KEYWORDS: &[&str] = &["[[", "function", "select", "coproc", "time"];
const LIST_ENDS: &[&str] = &["then", "else", "elif", "fi", "do", "done", "esac", "}"];
const LONGEST_KEYWORD: usize = 8;

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, dialect: Dialect, depth: u32) -> Self {
        Self {
            text,
            pos: 0,
            end: text.len(),
            depth,
            dialect,
            heredocs: Vec::new(),
            pending: Vec::new(),
            dialect_matters: false,
            parts: 0,
        }
    }

    /// One more command or word.
    pub(super) fn part(&mut self) -> Read<()> {
        self.parts += 1;
        if self.parts > MOST_PARTS { self.fail(TOO_LONG) } else { Ok(()) }
    }

    pub(super) fn fail<T>(&self, what: &'static str) -> Read<T> {
        Err(SyntaxError { at: self.pos, what })
    }

    /// One level deeper for the time of `inner`.
    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= MAX_DEPTH {
            return self.fail(TOO_DEEP);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Whether bash is meant, where the shells differ.
    pub(super) fn bash(&mut self) -> bool {
        self.dialect_matters = true;
        self.dialect == Dialect::Bash
    }

    /// Where the next byte is once line continuations from `at` on are left out.
    pub(super) fn past_continuations(&self, mut at: usize) -> usize {
        let bytes = self.text.as_bytes();
        while at + 1 < self.end && bytes[at] == b'\\' && bytes[at + 1] == b'\n' {
            at += 2;
        }
        at
    }

    /// The next byte; line continuations before it are passed over.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.pos = self.past_continuations(self.pos);
        self.raw(self.pos)
    }

    pub(super) fn raw(&self, at: usize) -> Option<u8> {
        if at < self.end { self.text.as_bytes().get(at).copied() } else { None }
    }

    /// The byte after the next one.
    pub(super) fn peek_second(&mut self) -> Option<u8> {
        self.peek()?;
        self.raw(self.past_continuations(self.pos + 1))
    }

    /// Passes over `operator` if it is next.
    pub(super) fn take(&mut self, operator: &str) -> bool {
        let mut at = self.pos;
        for byte in operator.bytes() {
            at = self.past_continuations(at);
            if self.raw(at) != Some(byte) {
                return false;
            }
            at += 1;
        }
        self.pos = at;
        true
    }

    pub(super) fn next_is(&mut self, operator: &str) -> bool {
        let before = self.pos;
        let found = self.take(operator);
        self.pos = before;
        found
    }

    /// Passes over blanks and a comment, up to the end of the line.
    pub(super) fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.pos += 1,
                b'#' => {
                    let rest = &self.text.as_bytes()[self.pos..self.end];
                    self.pos += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
    }

    /// Passes over blanks, comments and ends of lines.
    pub(super) fn skip_lines(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.end_of_line()?;
        }
    }

    fn end_of_line(&mut self) -> Read<()> {
        self.pos += 1;
        for index in std::mem::take(&mut self.pending) {
            self.read_heredoc(index)?;
        }
        Ok(())
    }

    pub(super) fn keyword(&mut self) -> Option<(&'static str, usize)> {
        let mut letters = [0_u8; LONGEST_KEYWORD];
        let mut length = 0;
        let mut at = self.past_continuations(self.pos);
        while let Some(byte) = self.raw(at) {
            if ends_word(byte) {
                break;
            }
            *letters.get_mut(length)? = byte;
            length += 1;
            at = self.past_continuations(at + 1);
        }
        let found = &letters[..length];
        if let Some(word) = KEYWORDS.iter().find(|word| word.as_bytes() == found) {
            return Some((word, at));
        }
        let word = BASH_KEYWORDS.iter().find(|word| word.as_bytes() == found)?;
        self.bash().then_some((*word, at))
    }

    pub(super) fn take_keyword(&mut self, wanted: &str) -> bool {
        match self.keyword() {
            Some((word, end)) if word == wanted => {
                self.pos = end;
                true
            }
            _ => false,
        }
    }

    pub(super) fn expect_keyword(&mut self, wanted: &str, what: &'static str) -> Read<()> {
        self.skip_lines()?;
        if self.take_keyword(wanted) { Ok(()) } else { self.fail(what) }
    }

    fn top(&mut self, script: &mut Script) -> Read<()> {
        if self.text.len() > LONGEST {
            return self.fail(TOO_LONG);
        }
        if let Some(at) = self.text.find('\0').filter(|_| self.depth == 0) {
            self.pos = at;
            return self.fail("a zero byte");
        }
        self.list_into(script)?;
        if self.peek().is_some() {
            return self.fail("unexpected word or sign");
        }
        for index in std::mem::take(&mut self.pending) {
            self.read_heredoc(index)?;
        }
        Ok(())
    }

    pub(super) fn list(&mut self) -> Read<Script> {
        self.deeper(|parser| {
            let mut script = Script::default();
            parser.list_into(&mut script)?;
            Ok(script)
        })
    }

    /// A list that must have a command in it.
    pub(super) fn body(&mut self) -> Read<Script> {
        let script = self.list()?;
        if script.items.is_empty() { self.fail("a command is missing") } else { Ok(script) }
    }

    fn list_into(&mut self, script: &mut Script) -> Read<()> {
        loop {
            self.skip_lines()?;
            if self.at_list_end() {
                return Ok(());
            }
            let list = self.and_or()?;
            self.skip_blanks();
            let background = self.peek() == Some(b'&');
            script.items.push(Item { list, background });
            match self.peek() {
                Some(b';') if !matches!(self.peek_second(), Some(b';' | b'&')) => self.pos += 1,
                Some(b'&') => {
                    self.pos += 1;
                    if self.peek() == Some(b'&') {
                        return self.fail("unexpected `&`");
                    }
                }
                Some(b'\n') => {}
                _ => return Ok(()),
            }
        }
    }

    fn at_list_end(&mut self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => true,
            _ => self.keyword().is_some_and(|(word, _)| LIST_ENDS.contains(&word)),
        }
    }

    fn and_or(&mut self) -> Read<AndOr> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            let link = if self.take("&&") {
                Link::And
            } else if self.take("||") {
                Link::Or
            } else {
                return Ok(AndOr { first, rest });
            };
            self.skip_lines()?;
            rest.push((link, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Read<Pipeline> {
        let mut commands = Vec::new();
        let mut prefixed = false;
        loop {
            self.skip_blanks();
            if self.take_keyword("!") {
                prefixed = true;
            } else if self.take_keyword("time") {
                prefixed = true;
                self.skip_blanks();
                for option in ["-p", "--"] {
                    if self.next_is(option) && self.word_ends_after(option) {
                        self.take(option);
                        self.skip_blanks();
                    }
                }
            } else {
                break;
            }
        }
        let empty = matches!(self.peek(), None | Some(b';' | b'\n' | b'&' | b'|' | b')'));
        if prefixed && empty {
            return Ok(Pipeline { commands: vec![Command::Nothing] });
        }
        commands.push(self.command()?);
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.peek_second() == Some(b'|') {
                return Ok(Pipeline { commands });
            }
            self.take("|");
            if self.peek() == Some(b'&') {
                if !self.bash() {
                    return self.fail("unexpected `&`");
                }
                self.pos += 1;
            }
            self.skip_lines()?;
            commands.push(self.command()?);
        }
    }

    pub(super) fn word_ends_after(&self, operator: &str) -> bool {
        self.raw(self.pos + operator.len()).is_none_or(ends_word)
    }

    pub(super) fn command(&mut self) -> Read<Command> {
        self.part()?;
        self.skip_blanks();
        if self.peek() == Some(b'(') {
            return self.deeper(Self::parenthesis);
        }
        let Some((word, end)) = self.keyword() else {
            return self.simple();
        };
        match word {
            "if" | "while" | "until" | "for" | "select" | "case" | "{" | "[[" => {
                self.pos = end;
                self.deeper(|parser| parser.compound(word))
            }
            "function" => {
                self.pos = end;
                self.deeper(Self::function_keyword)
            }
            "coproc" => {
                self.pos = end;
                self.deeper(Self::coproc)
            }
            "in" => self.simple(),
            _ => self.fail("unexpected keyword"),
        }
    }

    fn simple(&mut self) -> Read<Command> {
        let start = self.pos;
        let mut simple = Simple {
            assigns: Vec::new(),
            words: Vec::new(),
            redirects: Vec::new(),
            span: Span::default(),
        };
        let mut end = start;
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
            } else if simple.words.is_empty()
                && let Some(assigned) = self.assignment()?
            {
                match assigned {
                    Ok(assign) => simple.assigns.push(assign),
                    Err(word) => simple.words.push(word),
                }
            } else if let Some(word) = self.find_word()? {
                simple.words.push(word);
            } else {
                break;
            }
            end = self.pos;
            if simple.words.len() == 1
                && simple.assigns.is_empty()
                && simple.redirects.is_empty()
                && let Some(function) = self.function_after(&simple.words[0])?
            {
                return Ok(function);
            }
        }
        if end == start {
            return self.fail("a command is missing");
        }
        simple.span = Span { start, end };
        Ok(Command::Simple(simple))
    }

    fn function_after(&mut self, name: &Word) -> Read<Option<Command>> {
        self.skip_blanks();
        if self.peek() != Some(b'(') {
            return Ok(None);
        }
        self.pos += 1;
        self.skip_blanks();
        if !self.take(")") {
            return self.fail("unexpected `(`");
        }
        let name = self.text.get(name.span.start..name.span.end).unwrap_or_default().to_owned();
        self.deeper(|parser| parser.function_body(name)).map(Some)
    }

    /// An assignment if one is next; `Err` holds a word that only began like one.
    fn assignment(&mut self) -> Read<Option<Result<Assign, Word>>> {
        let start = self.pos;
        if !self.peek().is_some_and(starts_name) {
            return Ok(None);
        }
        let name = self.plain_name();
        let mut index = None;
        if self.peek() == Some(b'[') && self.bash() {
            self.pos += 1;
            let inner = self.deeper(|parser| parser.word_in(Context::Bracket))?;
            if !self.take("]") {
                return self.fail("`]` is missing");
            }
            index = Some(inner);
        }
        let append = self.next_is("+=") && self.bash();
        if append {
            self.take("+=");
        } else if !self.take("=") {
            let Some(inner) = index else {
                self.pos = start;
                return Ok(None);
            };
            return self.rest_of_word(start, &name, inner).map(|word| Some(Err(word)));
        }
        let value = if self.peek() == Some(b'(') {
            if !self.bash() {
                return self.fail("unexpected `(`");
            }
            Assigned::Array(self.deeper(Self::array)?)
        } else {
            Assigned::Word(self.find_word()?.unwrap_or_default())
        };
        Ok(Some(Ok(Assign { name, index, append, value })))
    }

    /// The words between the parentheses of `NAME=(…)`.
    pub(super) fn array(&mut self) -> Read<Vec<Word>> {
        self.take("(");
        let mut words = Vec::new();
        loop {
            self.skip_lines()?;
            if self.take(")") {
                return Ok(words);
            }
            match self.find_word()? {
                Some(word) => words.push(word),
                None => return self.fail("`)` is missing"),
            }
        }
    }

    /// A word if one is next.
    pub(super) fn find_word(&mut self) -> Read<Option<Word>> {
        let Some(byte) = self.peek() else {
            return Ok(None);
        };
        if ends_word(byte) {
            let process = matches!(byte, b'<' | b'>') && self.peek_second() == Some(b'(');
            if !process || !self.bash() {
                return Ok(None);
            }
        }
        self.part()?;
        self.word_in(Context::Word).map(Some)
    }

    /// Reads `inner` with no here-document waiting, as commands in a substitution are read.
    pub(super) fn substituted(&mut self, close: &str) -> Read<Script> {
        let waiting = std::mem::take(&mut self.pending);
        let script = self.list()?;
        if !self.pending.is_empty() {
            return self.fail("a here-document without its text in a substitution");
        }
        self.pending = waiting;
        let closed = if close == "}" { self.take_keyword_sign("}") } else { self.take(close) };
        if closed { Ok(script) } else { self.fail("a substitution is not closed") }
    }

    fn take_keyword_sign(&mut self, sign: &str) -> bool {
        self.peek() == sign.bytes().next() && self.take(sign)
    }
}
