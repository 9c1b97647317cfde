//! Python code in a command, or by itself, and the commands that it starts.

use super::field::Field;
use super::paths::resolved;
use super::state::State;
use super::{Place, Reach, Start, TOO_MANY_COMMANDS, Walker};
use crate::finding::{Dynamic, Finding};
use crate::python::{Analysis, Deed, Started, analyse};
use crate::shell::{Dialect, MAX_DEPTH, Span, TOO_DEEP};

/// Walks over Python code.
pub(crate) fn walk_python(code: &str, start: Start<'_>) -> Vec<Finding> {
    let mut walker = Walker::new(Dialect::Bash, code.len() + start.around.length());
    let mut state = State::new(start.directory);
    let reach = Reach::first(start);
    walker.surroundings(start.around, &mut state, &reach);
    let place = Place { span: Span::default(), state: &state, reach: &reach };
    walker.python_source(code, None, place);
    walker.finish(code)
}

impl Walker {
    /// Finds what code does; `within` is where it stands in the text that was given, if it is not that.
    pub(super) fn python_source(&mut self, code: &str, within: Option<Span>, place: Place<'_>) {
        if self.depth >= MAX_DEPTH || code.len() > self.fuel {
            self.unread(TOO_DEEP, within, place.reach);
            return;
        }
        self.fuel -= code.len();
        self.depth += 1;
        let origin = match within {
            Some(span) => self.origin.replace(self.place(span)),
            None => self.origin,
        };
        match analyse(code) {
            Ok(analysis) => self.deeds(analysis, place),
            Err(error) => {
                let span = Span { start: offset(code, error.line), end: offset(code, error.line) };
                self.unread(&format!("Python, {error}"), Some(span), place.reach);
            }
        }
        self.origin = origin;
        self.depth -= 1;
    }

    fn deeds(&mut self, analysis: Analysis, place: Place<'_>) {
        let mut state = place.state.clone();
        if analysis.moves {
            state.change_directory(None);
        }
        if analysis.more {
            self.unread(TOO_MANY_COMMANDS, None, place.reach);
        }
        for deed in analysis.deeds {
            match deed {
                Deed::Found(mut finding) => {
                    finding.as_root = place.reach.as_root;
                    finding.sets.extend(place.reach.sets.iter().map(|name| name.to_string()));
                    if state.environment {
                        finding.is_dynamic(Dynamic::Environment);
                    }
                    finding.via = place.reach.via.iter().map(|name| name.to_string()).collect();
                    finding.span = finding.span.map(|span| self.place(span));
                    for touch in &mut finding.touches {
                        let field = Field::of_value(&touch.path);
                        if let Some(path) = resolved(&field, &state).into_iter().next() {
                            touch.path = path;
                        }
                    }
                    self.push(*finding);
                }
                Deed::Starts(started, span, directory) => {
                    let mut inner = state.clone();
                    if let Some(directory) = directory {
                        inner.change_directory(directory.find());
                        inner = inner.succeeded();
                    }
                    let place = Place { span, state: &inner, reach: place.reach };
                    self.started(started, place);
                }
            }
        }
    }

    fn started(&mut self, started: Started, place: Place<'_>) {
        let reach = if place.reach.via.is_empty() {
            place.reach.through("python")
        } else {
            place.reach.clone()
        };
        let place = Place { reach: &reach, ..place };
        match started {
            Started::Text(text) if text.is_blank() => {}
            Started::Text(text) => self.any_shell_text(&text.text, place, None),
            Started::Program(argv) => {
                let mut state = place.state.clone();
                self.run_with(&argv, &[], place.span, &mut state, &reach);
            }
            Started::Code(code) => self.python_source(&code.text, Some(place.span), place),
        }
    }

    /// Code given to an interpreter by a command.
    pub(super) fn python_code(&mut self, code: &Field, place: Place<'_>) -> Vec<Dynamic> {
        let mut dynamic = Vec::new();
        if code.network {
            dynamic.push(Dynamic::Network);
        }
        match code.find() {
            Some(text) => {
                let text = text.to_owned();
                self.python_source(&text, Some(place.span), place);
            }
            None => dynamic.push(Dynamic::Code),
        }
        dynamic
    }
}

fn offset(code: &str, line: usize) -> usize {
    code.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
}
