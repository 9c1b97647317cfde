//! What somebody is about to do, and what is found in it.

use std::collections::HashSet;

use crate::finding::{Dynamic, Finding, Kind, Touch, Value};
use crate::shell::Dialect;
use crate::walk::{Around, Start, normal, walk_argv, walk_python, walk_text, walk_variables};

/// The image that a cell is made from, by all its names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageNames {
    /// As it was asked for.
    pub name: String,
    /// Other spellings of it. A rule that names one of them names the image.
    pub same: Vec<String>,
    /// Names without its tag or digest, and other names of the same content. Rules that deny or ask
    /// hold for them too, rules that allow do not.
    pub related: Vec<String>,
}

impl From<&str> for ImageNames {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// Something that is about to be done.
#[derive(Debug, Clone, Copy)]
pub enum Act<'a> {
    /// Text that bash runs, in a directory.
    Shell { text: &'a str, as_root: bool, directory: Option<&'a str> },
    /// Text that bash or sh runs, whichever there is: what is decided holds for both.
    AnyShell { text: &'a str, as_root: bool, directory: Option<&'a str> },
    /// A program with its arguments, without a shell.
    Argv { argv: &'a [String], as_root: bool, directory: Option<&'a str> },
    /// Python code.
    Python { code: &'a str, as_root: bool, directory: Option<&'a str> },
    /// Code that node runs. It is not analysed: nobody knows what it does.
    Script { language: &'a str, as_root: bool, directory: Option<&'a str> },
    /// A cell is made.
    Spawn { image: &'a ImageNames, egress: &'a [String], secrets: &'a [String] },
    /// Names are allowed for a cell that is there.
    Egress { names: &'a [String] },
    /// A tool is called, by its full name.
    Tool { name: &'a str },
    /// A file is written in place of what was there, through the file tools.
    Write { path: &'a str },
    /// A file or directory is removed through the file tools.
    Remove { path: &'a str },
}

/// Finds all there is to be judged.
pub(crate) fn found_in(act: &Act<'_>, around: Around<'_>) -> Vec<Finding> {
    match *act {
        Act::Shell { text, as_root, directory } => {
            walk_text(text, Dialect::Bash, Start { as_root, directory, around }).found
        }
        Act::AnyShell { text, as_root, directory } => {
            in_any_shell(text, Start { as_root, directory, around })
        }
        Act::Argv { argv, as_root, directory } => {
            walk_argv(argv, Start { as_root, directory, around })
        }
        Act::Python { code, as_root, directory } => {
            walk_python(code, Start { as_root, directory, around })
        }
        Act::Script { language, as_root, directory } => {
            script(language, Start { as_root, directory, around })
        }
        Act::Spawn { image, egress, secrets } => {
            let mut made = Finding::named(Kind::Image, &image.name);
            made.same.clone_from(&image.same);
            made.related.clone_from(&image.related);
            let mut found = walk_variables(around, &mut made);
            found.insert(0, made);
            found.extend(egress.iter().map(|name| Finding::named(Kind::Egress, name)));
            found.extend(secrets.iter().map(|name| Finding::named(Kind::Secret, name)));
            found
        }
        Act::Egress { names } => {
            names.iter().map(|name| Finding::named(Kind::Egress, name)).collect()
        }
        Act::Tool { name } => vec![Finding::named(Kind::Tool, name)],
        Act::Write { path } => vec![file(path, Touch::Overwrite)],
        Act::Remove { path } => vec![file(path, Touch::Tree)],
    }
}

/// The command that runs a script, and the text that was not read.
fn script(language: &str, start: Start<'_>) -> Vec<Finding> {
    let argv = ["node", "-e", ""].map(str::to_owned);
    let mut found = walk_argv(&argv, start);
    let what = format!("{language}, which is not analysed");
    let mut text = Finding::new(Kind::Text, what);
    text.is_dynamic(Dynamic::Language);
    text.is_dynamic(Dynamic::Unparsable);
    text.as_root = start.as_root;
    found.push(text);
    found
}

fn file(path: &str, how: Touch) -> Finding {
    let path = normal(path);
    let mut finding = Finding::named(Kind::File, &path);
    finding.destructive = how == Touch::Tree;
    finding.touch(Value::known(&path), how);
    finding
}

fn in_any_shell(text: &str, start: Start<'_>) -> Vec<Finding> {
    let bash = walk_text(text, Dialect::Bash, start);
    if !bash.dialect_matters {
        return bash.found;
    }
    in_either(bash.found, walk_text(text, Dialect::Posix, start).found)
}

/// What one shell reads and the other refuses runs in the first alone: all that either may run is found,
/// and text is unreadable only if both say so.
pub(crate) fn in_either(bash: Vec<Finding>, posix: Vec<Finding>) -> Vec<Finding> {
    let unread = |found: &[Finding]| {
        found.iter().any(|finding| finding.dynamic.contains(&Dynamic::Unparsable))
    };
    let one_reads_it = !unread(&bash) || !unread(&posix);
    let counts = |finding: &Finding| {
        let refused = finding.kind == Kind::Text
            && finding.dynamic == [Dynamic::Unparsable]
            && !finding.bound;
        !(refused && one_reads_it)
    };
    let mut found: Vec<Finding> = bash.into_iter().filter(counts).collect();
    let known: HashSet<&Finding> = found.iter().collect();
    let more: Vec<Finding> =
        posix.into_iter().filter(|finding| counts(finding) && !known.contains(finding)).collect();
    found.extend(more);
    found
}
