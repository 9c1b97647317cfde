//! Names of others as identifiers of Python and TypeScript, one for both.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_model::stable_hash;

/// The longest identifier that is made of a name.
const LONGEST: usize = 64;

/// Words that are no identifiers in Python.
const PYTHON_WORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Words that cannot be the name of a function in a module of TypeScript.
const TYPESCRIPT_WORDS: &[&str] = &[
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Functions and types of Python that an import of the same name would hide, and names of files.
const TAKEN: &[&str] = &[
    "Any",
    "abs",
    "all",
    "any",
    "bool",
    "bytes",
    "callable",
    "compile",
    "dict",
    "dir",
    "exec",
    "exit",
    "filter",
    "float",
    "format",
    "getattr",
    "globals",
    "hash",
    "help",
    "id",
    "index",
    "input",
    "int",
    "isinstance",
    "iter",
    "len",
    "list",
    "locals",
    "map",
    "max",
    "min",
    "next",
    "object",
    "open",
    "print",
    "property",
    "quit",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "str",
    "sum",
    "super",
    "tuple",
    "type",
    "vars",
    "zip",
];

/// What the package `tools` has beside the servers.
const OF_THE_PACKAGE: &[&str] =
    &["Call", "ToolError", "call", "gather", "search", "tool_search", "tools"];

/// What a name is for: that decides which identifiers are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Server,
    Tool,
    Argument,
}

impl Use {
    fn stem(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Tool => "tool",
            Self::Argument => "arg",
        }
    }

    fn is_taken(self, name: &str) -> bool {
        let word = PYTHON_WORDS.contains(&name);
        let both = || TYPESCRIPT_WORDS.contains(&name) || TAKEN.contains(&name);
        match self {
            Self::Argument => word,
            Self::Tool => word || both(),
            Self::Server => word || both() || OF_THE_PACKAGE.contains(&name),
        }
    }
}

/// Whether a text is an identifier of both languages as it stands.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Whether a text can be a key in a class of Python, which changes names with two leading underscores.
pub(crate) fn is_class_key(text: &str) -> bool {
    is_plain(text) && !text.starts_with("__") && !PYTHON_WORDS.contains(&text)
}

/// The identifier of every name. One that two names could claim is nobody's, except that of the name
/// which is spelled like it: with a new name on a list no other one gets its calls.
pub(crate) fn identifiers<'a>(
    names: impl IntoIterator<Item = &'a str>,
    purpose: Use,
) -> BTreeMap<String, String> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let mut claims: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in &names {
        claims.entry(spelled(name, purpose)).or_default().push(name);
    }
    let mut given = BTreeMap::new();
    let mut used = BTreeSet::new();
    let mut contested = Vec::new();
    for (wanted, by) in claims {
        let owner = match by.as_slice() {
            [only] => Some(*only),
            several => several.iter().find(|name| **name == wanted).copied(),
        };
        contested.extend(by.iter().filter(|name| Some(**name) != owner).copied());
        if let Some(owner) = owner {
            given.insert(owner.to_owned(), wanted.clone());
            used.insert(wanted);
        }
    }
    for name in contested {
        let mut salted = name.to_owned();
        let identifier = loop {
            let marked = with_mark(&spelled(name, purpose), &salted);
            if used.insert(marked.clone()) {
                break marked;
            }
            salted.push('+');
        };
        given.insert(name.to_owned(), identifier);
    }
    given
}

/// A name with every character that an identifier may not have replaced.
fn spelled(name: &str, purpose: Use) -> String {
    let mut spelled = String::new();
    for letter in name.chars().take(4 * LONGEST) {
        if letter.is_ascii_alphanumeric() {
            spelled.push(letter);
        } else if !spelled.ends_with('_') {
            spelled.push('_');
        }
    }
    let spelled = spelled.trim_matches('_');
    let unreadable =
        !spelled.chars().any(|letter| letter.is_ascii_alphabetic()) && !name.is_ascii();
    if spelled.is_empty() || unreadable {
        return with_mark(purpose.stem(), name);
    }
    if spelled.len() > LONGEST {
        return with_mark(spelled, name);
    }
    if spelled.starts_with(|first: char| first.is_ascii_digit()) {
        return format!("_{spelled}");
    }
    if purpose.is_taken(spelled) {
        return format!("{spelled}_");
    }
    spelled.to_owned()
}

fn with_mark(stem: &str, name: &str) -> String {
    let digit = stem.starts_with(|first: char| first.is_ascii_digit());
    let room = LONGEST - 8;
    let stem = stem.get(..room).unwrap_or(stem).trim_end_matches('_');
    let mark = stable_hash(name.as_bytes()) & 0xff_ffff;
    format!("{}{stem}_{mark:06x}", if digit { "_" } else { "" })
}

/// A name in the form of types, such as `CreateIssue`.
pub(crate) fn type_name(name: &str) -> String {
    let mut made = String::new();
    let mut upper = true;
    for letter in name.chars().take(LONGEST) {
        if !letter.is_ascii_alphanumeric() {
            upper = true;
        } else if upper {
            made.push(letter.to_ascii_uppercase());
            upper = false;
        } else {
            made.push(letter);
        }
    }
    if made.is_empty() {
        return "Value".to_owned();
    }
    if made.starts_with(|first: char| first.is_ascii_digit()) {
        made.insert(0, 'T');
    }
    made
}

/// Names of types that mean something already.
pub(crate) const TYPES_TAKEN: &[&str] = &[
    "Any",
    "Array",
    "Boolean",
    "Date",
    "False",
    "Function",
    "Literal",
    "Never",
    "None",
    "NotRequired",
    "Number",
    "Object",
    "Promise",
    "Record",
    "String",
    "Symbol",
    "T",
    "ToolError",
    "True",
    "TypeAlias",
    "TypedDict",
    "Union",
];
