//! Redirections: what a command reads, and the files that are opened for writing.

use std::rc::Rc;

use super::expand::has_glob;
use super::field::Field;
use super::names::uses_name;
use super::paths::touched;
use super::state::State;
use super::variables::hides_command;
use super::{Input, Reach, Walker};
use crate::finding::{Finding, Kind, Touch, Value};
use crate::shell::{Redirect, RedirectOp, Target, Word};

/// Files that take whatever is written and keep nothing.
const SINKS: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/dev/random",
    "/dev/urandom",
    "/dev/ptmx",
];

/// Whether writing to a path changes no file.
pub(super) fn is_sink(path: &str) -> bool {
    SINKS.contains(&path) || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")
}

impl Walker {
    /// Finds what redirections write; tells what is read if they say.
    pub(super) fn redirects(
        &mut self,
        redirects: &[Redirect],
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) -> Option<Input> {
        let mut input = None;
        for redirect in redirects {
            let standard_input = redirect.fd.is_none_or(|fd| fd == 0);
            if let Some(variable) = &redirect.variable {
                if hides_command(variable) {
                    self.subscript(variable, redirect.span, state, reach);
                }
                uses_name(&Field::known(variable), state);
                state.set_variable(variable, None);
            }
            match (&redirect.target, redirect.op) {
                (Target::Heredoc(index), _) => {
                    if let Some(body) = Self::heredoc(heredocs, *index) {
                        let field = self.expand_whole(body, heredocs, state, reach);
                        if standard_input {
                            input = Some(read_text(&field));
                        }
                    }
                }
                (Target::Word(word), RedirectOp::Herestring) => {
                    let mut field = self.expand_whole(word, heredocs, state, reach);
                    field.text.push('\n');
                    if standard_input {
                        input = Some(read_text(&field));
                    }
                }
                (Target::Word(word), op) => {
                    let mut field = self.expand_whole(word, heredocs, state, reach);
                    let plain = word.pieces.iter().any(|piece| !piece.quoted);
                    field.glob |= plain && has_glob(&field.text);
                    if op == RedirectOp::Read && standard_input {
                        input = Some(self.read_file(&field));
                    }
                    if op == RedirectOp::DuplicateIn && standard_input {
                        input = Some(Input::Unknown);
                    }
                    self.opened(redirect, &field, state, reach);
                }
            }
        }
        input
    }

    fn read_file(&self, field: &Field) -> Input {
        let fetched = field.find().is_some_and(|path| self.fetched.has_path(path));
        if field.network || fetched { Input::Network } else { Input::Unknown }
    }

    fn opened(&mut self, redirect: &Redirect, field: &Field, state: &State, reach: &Reach) {
        let (sign, how) = match redirect.op {
            RedirectOp::Read => ("<", None),
            RedirectOp::ReadWrite => ("<>", Some(Touch::Write)),
            RedirectOp::Write | RedirectOp::Both => (">", Some(Touch::Overwrite)),
            RedirectOp::Clobber => (">|", Some(Touch::Overwrite)),
            RedirectOp::Append | RedirectOp::BothAppend => (">>", Some(Touch::Write)),
            RedirectOp::DuplicateOut => {
                // `>&2` and `>&-` open nothing, `>&FILE` does in bash.
                let digits = field.text.trim_end_matches('-');
                if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return;
                }
                (">&", Some(Touch::Overwrite))
            }
            RedirectOp::DuplicateIn | RedirectOp::Heredoc | RedirectOp::Herestring => return,
        };
        let host = network_file(&field.text);
        let touches = match how {
            Some(how) if host.is_none() => touched(field, how, state),
            Some(_) | None => Vec::new(),
        };
        if host.is_none() && touches.iter().all(|touch| is_sink(&touch.path.text)) {
            return;
        }
        let mut finding = Finding::new(Kind::Redirect, format!("{sign} {}", field.value().text));
        finding.as_root = reach.as_root;
        finding.via = reach.via.iter().map(|name| name.to_string()).collect();
        finding.span = Some(self.place(redirect.span));
        finding.network = host.map(|host| vec![host]);
        for touch in touches {
            finding.touch(touch.path, touch.how);
        }
        self.push(finding);
    }
}

/// The host of `/dev/tcp/HOST/PORT`, which bash opens as a connection.
fn network_file(path: &str) -> Option<Value> {
    let rest = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"))?;
    let host = rest.split('/').next().unwrap_or_default();
    Some(Field::known(host).value())
}

fn read_text(field: &Field) -> Input {
    if field.network {
        return Input::Network;
    }
    Input::Text(Rc::from(field.text.as_str()))
}
