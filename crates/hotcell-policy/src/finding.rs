//! What was found in a text: the commands it runs, what they touch, and what cannot be known.

use serde::Serialize;

use crate::shell::Span;
use crate::steps;

/// Something that cannot be known before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dynamic {
    /// The name of a command is put together at run time.
    Name,
    /// The text of a script is put together at run time.
    Code,
    /// A shell or interpreter runs what it reads from its standard input.
    Input,
    /// What runs was just taken from the network.
    Network,
    /// A file is run as a script; what is in it was not looked at.
    Script,
    /// Code in a language that is not analysed.
    Language,
    /// A variable was set that changes which program a name means, or what it loads.
    Environment,
    /// The text could not be read.
    Unparsable,
}

impl Dynamic {
    /// All of them, with the names that rules use.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("name", Self::Name),
        ("code", Self::Code),
        ("input", Self::Input),
        ("network", Self::Network),
        ("script", Self::Script),
        ("language", Self::Language),
        ("environment", Self::Environment),
        ("unparsable", Self::Unparsable),
    ];

    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Name => "which command this is is only known when it runs",
            Self::Code => "the script is put together when it runs",
            Self::Input => "runs whatever comes on its standard input",
            Self::Network => "runs what it takes from the network",
            Self::Script => "runs a file that was not looked at",
            Self::Language => "runs code of another language",
            Self::Environment => "a variable decides what is run or loaded",
            Self::Unparsable => "could not be read",
        }
    }
}

/// How much of a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// All of it.
    Fully,
    /// Parts of it; `…` stands for the rest, and `*`, `?`, `[` for what the shell puts there.
    Partly,
    /// Nothing.
    Not,
}

/// An argument, a path or a host name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Value {
    pub text: String,
    pub known: Known,
}

/// What stands in a [`Value`] for what is not known.
pub(crate) const HOLE: char = '…';

impl Value {
    /// A value that is known.
    #[must_use]
    pub fn known(text: &str) -> Self {
        Self { text: text.to_owned(), known: Known::Fully }
    }

    pub(crate) fn unknown() -> Self {
        Self { text: HOLE.to_string(), known: Known::Not }
    }
}

/// What happens to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// It is removed.
    Remove,
    /// It is removed or changed with all that is below it.
    Tree,
    /// What was there is replaced.
    Overwrite,
    /// Something is made or added.
    Write,
}

/// A path that is written, absolute where the directory is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Touched {
    pub path: Value,
    pub how: Touch,
}

/// What kind of thing was found.
#[expect(clippy::derived_hash_with_manual_eq, reason = "it is equal as it would be by derive")]
#[derive(Debug, Clone, Copy, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A command is run.
    Command,
    /// A function that the text defines is called; its body is found by itself.
    Function,
    /// A file is opened by a redirection.
    Redirect,
    /// A text could not be read.
    Text,
    /// Python imports a module.
    Import,
    /// Python calls something.
    Call,
    /// A cell is made from an image.
    Image,
    /// A cell may reach a name.
    Egress,
    /// A cell is granted a secret.
    Secret,
    /// A tool is called.
    Tool,
    /// A file is written.
    File,
}

/// Counted: who compares findings begins with this.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        steps::count(1);
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Finding {
    pub kind: Kind,
    /// For a person: the command line, the module, the path.
    pub what: String,
    /// The name of the command, module, function, image, tool…; none if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path by which a command is called, if it is called by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Value>,
    /// Variables that are set for the command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
    /// Paths that are written or removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<Touched>,
    /// Hosts that are reached; none if the network is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dynamic: Vec<Dynamic>,
    /// Something is removed that was there.
    pub destructive: bool,
    /// Something may be replaced that was there.
    pub overwrites: bool,
    /// It runs as root of the cell.
    pub as_root: bool,
    /// A function that starts itself again and again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork_bomb: bool,
    /// The commands through which it is reached, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// Other names of the same thing.
    #[serde(skip)]
    pub(crate) same: Vec<String>,
    /// Names that include it or point to it. They count where a rule denies or asks.
    #[serde(skip)]
    pub(crate) related: Vec<String>,
    /// It is a bound of ours that was met, not text that a shell refuses.
    #[serde(skip)]
    pub(crate) bound: bool,
    /// Where it stands in the text that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// The line it begins on, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Finding {
    pub(crate) fn new(kind: Kind, what: String) -> Self {
        Self {
            kind,
            what,
            name: None,
            path: None,
            args: Vec::new(),
            sets: Vec::new(),
            touches: Vec::new(),
            network: None,
            dynamic: Vec::new(),
            destructive: false,
            overwrites: false,
            as_root: false,
            fork_bomb: false,
            via: Vec::new(),
            same: Vec::new(),
            related: Vec::new(),
            bound: false,
            span: None,
            line: None,
        }
    }

    /// One that has a name, which is also what a person is shown.
    pub(crate) fn named(kind: Kind, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::new(kind, name.to_owned()) }
    }

    pub(crate) fn is_dynamic(&mut self, what: Dynamic) {
        if !self.dynamic.contains(&what) {
            self.dynamic.push(what);
        }
    }

    pub(crate) fn touch(&mut self, path: Value, how: Touch) {
        match how {
            Touch::Remove | Touch::Tree => {}
            Touch::Overwrite => self.overwrites = true,
            Touch::Write => {}
        }
        self.touches.push(Touched { path, how });
    }
}
