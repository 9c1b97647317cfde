//! What shell text is made of once it is read.

use serde::Serialize;

/// Where something stands in the text: bytes from `start` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// A list of commands.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) items: Vec<Item>,
}

/// One entry of a list.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) list: AndOr,
    pub(crate) background: bool,
}

/// Pipelines held together by `&&` and `||`.
#[derive(Debug)]
pub(crate) struct AndOr {
    pub(crate) first: Pipeline,
    pub(crate) rest: Vec<(Link, Pipeline)>,
}

/// What stands between two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    And,
    Or,
}

/// Commands held together by `|`.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) commands: Vec<Command>,
}

/// One command.
#[derive(Debug)]
pub(crate) enum Command {
    Simple(Simple),
    Compound(Compound, Vec<Redirect>),
    Function {
        name: String,
        body: Box<Command>,
    },
    /// With the variable that is to hold its descriptors.
    Coproc(Option<String>, Box<Command>),
    /// `time` or `!` with nothing after it.
    Nothing,
}

/// Assignments, words and redirections.
#[derive(Debug)]
pub(crate) struct Simple {
    pub(crate) assigns: Vec<Assign>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) span: Span,
}

/// A command with commands in it.
#[derive(Debug)]
pub(crate) enum Compound {
    Brace(Script),
    Subshell(Script),
    For { name: String, words: Option<Vec<Word>>, body: Script },
    ArithFor { head: Word, body: Script },
    Case { subject: Word, arms: Vec<(Vec<Word>, Script)> },
    If { branches: Vec<(Script, Script)>, otherwise: Option<Script> },
    Loop { test: Script, body: Script },
    Arith(Word),
    Test(Vec<Word>),
}

/// `NAME=VALUE`, `NAME+=VALUE`, `NAME[INDEX]=VALUE`, `NAME=(…)`.
#[derive(Debug)]
pub(crate) struct Assign {
    pub(crate) name: String,
    pub(crate) index: Option<Word>,
    pub(crate) append: bool,
    pub(crate) value: Assigned,
}

/// What is assigned.
#[derive(Debug)]
pub(crate) enum Assigned {
    Word(Word),
    Array(Vec<Word>),
}

/// A redirection.
#[derive(Debug)]
pub(crate) struct Redirect {
    /// The descriptor written before it; `None` is the default of the operator.
    pub(crate) fd: Option<u32>,
    /// The variable that is to hold the descriptor: `{NAME}>`.
    pub(crate) variable: Option<String>,
    pub(crate) op: RedirectOp,
    pub(crate) target: Target,
    pub(crate) span: Span,
}

/// Which redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectOp {
    Read,
    Write,
    Append,
    Clobber,
    ReadWrite,
    DuplicateIn,
    DuplicateOut,
    Both,
    BothAppend,
    Heredoc,
    Herestring,
}

/// Where a redirection leads.
#[derive(Debug)]
pub(crate) enum Target {
    Word(Word),
    /// The n-th here-document of the text.
    Heredoc(usize),
}

/// A word: pieces without a blank between them.
#[derive(Debug, Default)]
pub(crate) struct Word {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) span: Span,
}

/// A piece of a word, and whether it stands in quotes.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) chunk: Chunk,
    pub(crate) quoted: bool,
}

/// What a piece is.
#[derive(Debug)]
pub(crate) enum Chunk {
    Text(String),
    Param(Param),
    /// `$(…)`, and `${ …; }` of newer shells.
    Command(Script),
    /// The text between backquotes, with one level of backslashes taken off.
    Backquote(String, Span),
    Arith(Word),
    /// `<(…)` or `>(…)`.
    Process(Script),
    /// `(…)` after `NAME=` where an argument stands.
    Array(Vec<Word>),
    /// Something that was not known when the text was put together.
    Hole,
}

/// `$NAME` or `${…}`.
#[derive(Debug, Default)]
pub(crate) struct Param {
    pub(crate) name: String,
    /// `#`, `!` before the name.
    pub(crate) prefix: Option<char>,
    pub(crate) index: Option<Word>,
    /// What follows the name: `:-`, `#`, `/`, `@P`… Empty if nothing does.
    pub(crate) op: String,
    /// What the operator works with.
    pub(crate) argument: Option<Word>,
}
