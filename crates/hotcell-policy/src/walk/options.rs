//! Options of commands that run others, read as those commands read them.

use super::field::{Field, GAP};
use crate::finding::Dynamic;

/// Which options a command has: short ones as getopt names them (`ab:c::`), long ones with `=` if they take
/// a value and `?` if they may.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    pub(super) short: &'static str,
    pub(super) long: &'static str,
}

/// Options up to the first argument that is none.
#[derive(Debug)]
pub(super) struct Options<'a> {
    /// Names without dashes, and the values given with them.
    given: Vec<(String, Option<Field>)>,
    pub(super) rest: &'a [Field],
    /// They ended with `--`.
    ended: bool,
    /// There was an option that is not known, so that the rest may mean something else.
    pub(super) unsure: bool,
}

impl Options<'_> {
    /// What is not known because of an option that is not.
    pub(super) fn dynamic(&self) -> Vec<Dynamic> {
        if self.unsure { vec![Dynamic::Name] } else { Vec::new() }
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(given, _)| names.contains(&given.as_str()))
    }

    pub(super) fn find(&self, names: &[&str]) -> Option<&Field> {
        let found = self.given.iter().rev().find(|(given, _)| names.contains(&given.as_str()))?;
        found.1.as_ref()
    }

    pub(super) fn all<'n>(&'n self, names: &'n [&str]) -> impl Iterator<Item = &'n Field> {
        let found = self.given.iter().filter(|(given, _)| names.contains(&given.as_str()));
        found.filter_map(|(_, value)| value.as_ref())
    }
}

/// Whether and how an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    Perhaps,
}

/// Reads options from the start of `args`.
pub(super) fn options(spec: Spec, args: &[Field]) -> Options<'_> {
    let mut given = Vec::new();
    let mut unsure = false;
    let mut rest = args;
    let mut ended = false;
    while let [first, after @ ..] = rest {
        if first.splits || first.text.starts_with(GAP) {
            unsure = true;
        }
        let text = first.text.as_str();
        if text == "--" {
            rest = after;
            ended = true;
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => {
                    (name, Some(Field { text: value.to_owned(), ..first.clone() }))
                }
                None => (long, None),
            };
            rest = after;
            match find_long(spec.long, name) {
                Some((full, Takes::Value)) if value.is_none() => {
                    given.push((full.to_owned(), after.first().cloned()));
                    rest = after.get(1..).unwrap_or_default();
                }
                Some((full, _)) => given.push((full.to_owned(), value)),
                None => unsure = true,
            }
            continue;
        }
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            break;
        };
        rest = after;
        for (at, letter) in letters.char_indices() {
            let following = &letters[at + letter.len_utf8()..];
            let attached = || Field { text: following.to_owned(), ..first.clone() };
            match find_short(spec.short, letter) {
                Some(Takes::Nothing) => given.push((letter.to_string(), None)),
                Some(Takes::Perhaps) => {
                    given.push((letter.to_string(), Some(attached())));
                    break;
                }
                Some(Takes::Value) if following.is_empty() => {
                    given.push((letter.to_string(), after.first().cloned()));
                    rest = after.get(1..).unwrap_or_default();
                    break;
                }
                Some(Takes::Value) => {
                    given.push((letter.to_string(), Some(attached())));
                    break;
                }
                None => {
                    unsure = true;
                    break;
                }
            }
        }
    }
    Options { given, rest, ended, unsure }
}

/// Options and operands in any order, as GNU programs take them.
pub(super) fn permuted(spec: Spec, args: &[Field]) -> (Options<'_>, Vec<&Field>) {
    let mut all = options(spec, args);
    let mut operands = Vec::new();
    while let [first, after @ ..] = all.rest {
        if all.ended {
            operands.extend(all.rest);
            break;
        }
        operands.push(first);
        let mut more = options(spec, after);
        all.given.append(&mut more.given);
        all.unsure |= more.unsure;
        all.ended = more.ended;
        all.rest = more.rest;
    }
    (all, operands)
}

fn find_short(short: &str, wanted: char) -> Option<Takes> {
    let at = short.find(wanted).filter(|_| wanted != ':')?;
    let after = &short[at + wanted.len_utf8()..];
    Some(if after.starts_with("::") {
        Takes::Perhaps
    } else if after.starts_with(':') {
        Takes::Value
    } else {
        Takes::Nothing
    })
}

/// A long option by its name or a beginning of it that no other has.
fn find_long<'s>(long: &'s str, wanted: &str) -> Option<(&'s str, Takes)> {
    let mut found = None;
    for entry in long.split_whitespace() {
        let (name, takes) = match (entry.strip_suffix('='), entry.strip_suffix('?')) {
            (Some(name), _) => (name, Takes::Value),
            (None, Some(name)) => (name, Takes::Perhaps),
            (None, None) => (entry, Takes::Nothing),
        };
        if name == wanted {
            return Some((name, takes));
        }
        if !wanted.is_empty() && name.starts_with(wanted) {
            if found.is_some_and(|(_, before)| before != takes) {
                return None;
            }
            found = Some((name, takes));
        }
    }
    found
}
