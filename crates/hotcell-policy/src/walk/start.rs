//! Where a walk starts: the text or program, and what is known of its surroundings.

use std::rc::Rc;

use super::field::Field;
use super::flow::is_sole_reader;
use super::interpreters::is_python;
use super::state::State;
use super::variables::is_decisive;
use super::{Input, MOST_SETS, Place, Reach, TOO_MANY_VARIABLES, Walker};
use crate::finding::{Dynamic, Finding};
use crate::shell::{Dialect, Span, parse};

/// What a walk starts with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start<'a> {
    pub(crate) as_root: bool,
    pub(crate) directory: Option<&'a str>,
    pub(crate) around: Around<'a>,
}

/// What is known of the surroundings that something starts in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around<'a> {
    /// Variables that are set for it.
    pub variables: &'a [(&'a str, &'a str)],
    /// All that it reads from its standard input, where that is known.
    pub input: Option<&'a str>,
}

impl Around<'_> {
    pub(super) fn length(&self) -> usize {
        let variables = self.variables.iter().map(|(name, value)| name.len() + value.len());
        variables.sum::<usize>() + self.input.map_or(0, str::len)
    }
}

/// What was found in a text.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) found: Vec<Finding>,
    pub(crate) dialect_matters: bool,
}

/// Walks over the text of a script.
pub(crate) fn walk_text(text: &str, dialect: Dialect, start: Start<'_>) -> Walked {
    let mut walker = Walker::new(dialect, text.len() + start.around.length());
    let parsed = parse(text, dialect, 0);
    let mut state = State::new(start.directory);
    let mut reach = Reach::first(start);
    walker.surroundings(start.around, &mut state, &reach);
    if let Some(input) = start.around.input.filter(|_| is_sole_reader(&parsed.script)) {
        reach.input = Input::Text(Rc::from(input));
    }
    walker.script(&parsed.script, &parsed.heredocs, &mut state, &reach);
    walker.dialect_matters |= parsed.dialect_matters;
    if let Some(error) = &parsed.error {
        walker.unread(&error.to_string(), Some(Span { start: error.at, end: error.at }), &reach);
    }
    if let Some(input) = start.around.input {
        walker.read_by_somebody(input, &state, &reach);
    }
    let dialect_matters = walker.dialect_matters;
    Walked { found: walker.finish(text), dialect_matters }
}

/// Walks over a command that is started without a shell.
pub(crate) fn walk_argv(argv: &[String], start: Start<'_>) -> Vec<Finding> {
    let length: usize = argv.iter().map(String::len).sum();
    let mut walker = Walker::new(Dialect::Bash, length + start.around.length());
    let fields: Vec<Field> =
        argv.iter().map(|word| Field::known(&word.replace('\0', ""))).collect();
    let mut state = State::new(start.directory);
    let mut reach = Reach { functions: false, ..Reach::first(start) };
    walker.surroundings(start.around, &mut state, &reach);
    if let Some(input) = start.around.input {
        reach.input = Input::Text(Rc::from(input));
    }
    walker.program(&fields, None, &mut state, &reach);
    if let Some(input) = start.around.input {
        walker.read_by_somebody(input, &state, &reach);
    }
    walker.finish("")
}

/// Walks over the variables that everything in a new cell has; `made` is the cell.
pub(crate) fn walk_variables(around: Around<'_>, made: &mut Finding) -> Vec<Finding> {
    let mut walker = Walker::new(Dialect::Bash, around.length());
    let start = Start { around, ..Start::default() };
    let (mut state, reach) = (State::new(None), Reach::first(start));
    walker.surroundings(around, &mut state, &reach);
    made.sets = reach.sets.iter().map(|name| name.to_string()).collect();
    if state.environment {
        made.is_dynamic(Dynamic::Environment);
    }
    walker.finish("")
}

impl Reach {
    pub(super) fn first(start: Start<'_>) -> Self {
        let names = start.around.variables.iter().take(MOST_SETS);
        Self {
            via: Vec::new(),
            input: Input::Unknown,
            as_root: start.as_root,
            functions: true,
            beside: false,
            sets: names.map(|(name, _)| Rc::from(*name)).collect(),
        }
    }
}

impl Walker {
    /// Variables that are set before anything runs are seen as assignments are.
    pub(super) fn surroundings(&mut self, around: Around<'_>, state: &mut State, reach: &Reach) {
        if around.variables.len() > MOST_SETS {
            self.unread(TOO_MANY_VARIABLES, None, reach);
        }
        for (name, value) in around.variables {
            self.value_of(name, value, Span::default(), state, reach);
            state.environment |= is_decisive(name);
            // Shells do not take this one from their environment.
            if *name != "IFS" {
                state.set_variable(name, Some(value));
            }
        }
    }

    /// What one of several commands may read from where it finds the input is walked as a whole.
    fn read_by_somebody(&mut self, input: &str, state: &State, reach: &Reach) {
        let mut readers: Vec<(String, bool)> = Vec::new();
        for finding in &self.found {
            let runs_it = finding.dynamic.contains(&Dynamic::Input)
                && !finding.dynamic.contains(&Dynamic::Language);
            if let Some(name) = finding.name.as_ref().filter(|_| runs_it)
                && !readers.iter().any(|(known, _)| known == name)
                && readers.len() < 4
            {
                readers.push((name.clone(), finding.as_root));
            }
        }
        for (name, as_root) in readers {
            let reach = Reach { as_root, ..reach.through(&name).reading(Input::Unknown) };
            let place = Place { span: Span::default(), state, reach: &reach };
            if is_python(&name) {
                self.python_code(&Field::known(input), place);
            } else {
                self.any_shell_text(input, place, None);
            }
        }
    }
}
