//! Walks over shell text and finds every command in it, wherever it stands.

mod assign;
mod by_option;
mod code;
mod effects;
mod expand;
mod fetched_files;
mod field;
mod flow;
mod git;
mod git_effects;
mod interpreters;
mod names;
mod options;
mod paths;
mod redirects;
mod run;
mod scheduled;
mod scripts;
mod start;
mod state;
mod tar;
mod variables;
mod wrapper_options;
mod wrappers;
mod zip;

use std::collections::HashSet;
use std::rc::Rc;

pub(crate) use self::code::walk_python;
use self::fetched_files::FetchedFiles;
pub(crate) use self::field::{Field, GAP};
pub(crate) use self::git::VALUES as GIT_VALUES;
pub(crate) use self::interpreters::takes_code;
pub use self::start::Around;
pub(crate) use self::start::{Start, walk_argv, walk_text, walk_variables};
use self::state::State;
pub(crate) use self::state::normal;
pub(crate) use self::variables::is_decisive;
use crate::finding::{Dynamic, Finding, Kind};
use crate::shell::{Dialect, MAX_DEPTH, Parsed, Span, TOO_DEEP, TOO_LONG, Word, parse};

/// So many bytes of text that stands in other text are read beyond the length of the whole.
const SPARE_FUEL: usize = 64 * 1024;
/// The text as a whole may be read so many times over.
const TIMES_READ: usize = 16;
/// No more than so many things are found.
const MOST_FINDINGS: usize = 20_000;
/// No more than so many arguments, variables and paths are told of all that is found.
const MOST_TOLD: usize = 400_000;
/// No more than so many arguments of a command are looked at.
const MOST_ARGUMENTS: usize = 16_384;
/// No more than so many commands stand in front of each other, as in `env nice sudo …`.
const MOST_WRAPPERS: usize = 16;

/// No more than so many variables that are set for a command are looked at.
const MOST_SETS: usize = 256;

/// So many turns of loops over known words are walked one by one.
const MOST_TURNS: usize = 32;

const TOO_MANY_COMMANDS: &str = "more commands than are looked at";
const TOO_MANY_ARGUMENTS: &str = "more arguments than are looked at";
const TOO_MANY_VARIABLES: &str = "more variables than are looked at";
/// What is said where a bound of ours is met.
const BOUNDS: &[&str] =
    &[TOO_LONG, TOO_DEEP, TOO_MANY_COMMANDS, TOO_MANY_ARGUMENTS, TOO_MANY_VARIABLES];

/// What a command reads from its standard input.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// Nobody knows.
    Unknown,
    /// What a command that uses the network prints.
    Network,
    /// This text.
    Text(Rc<str>),
}

/// How a command is reached.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    pub(crate) via: Vec<Rc<str>>,
    pub(crate) input: Input,
    pub(crate) as_root: bool,
    /// Whether functions of the text can be meant by a name.
    pub(crate) functions: bool,
    /// Whether it runs beside itself: in a pipeline, or in the background.
    pub(crate) beside: bool,
    /// Variables that are set for it, and for all that it runs.
    pub(crate) sets: Vec<Rc<str>>,
}

impl Reach {
    pub(crate) fn through(&self, name: &str) -> Self {
        let mut reach = self.clone();
        reach.via.push(Rc::from(name));
        reach.functions = false;
        reach
    }

    /// With more variables set.
    pub(crate) fn setting(&self, names: &[String]) -> Self {
        let mut reach = self.clone();
        for name in names {
            if reach.sets.len() < MOST_SETS && !reach.sets.iter().any(|known| **known == **name) {
                reach.sets.push(Rc::from(name.as_str()));
            }
        }
        reach
    }

    pub(crate) fn reading(&self, input: Input) -> Self {
        Self { input, ..self.clone() }
    }
}

/// Finds what a text runs.
#[derive(Debug)]
pub(crate) struct Walker {
    found: Vec<Finding>,
    dialect: Dialect,
    depth: u32,
    /// How much text may still be read.
    fuel: usize,
    /// Where the text that is walked stands in the text that was given; none if it is that text.
    origin: Option<Span>,
    /// Functions whose bodies are walked right now.
    inside: Vec<String>,
    /// Variables that are arrays somewhere in the text.
    arrays: HashSet<String>,
    /// Files that a command took from the network.
    fetched: FetchedFiles,
    /// So many turns of loops may still be walked one by one.
    turns: usize,
    /// So many arguments, variables and paths were told of what was found.
    told: usize,
    full: bool,
    dialect_matters: bool,
}

impl Walker {
    fn new(dialect: Dialect, length: usize) -> Self {
        Self {
            found: Vec::new(),
            dialect,
            depth: 0,
            fuel: length.saturating_mul(TIMES_READ).saturating_add(SPARE_FUEL),
            origin: None,
            inside: Vec::new(),
            arrays: HashSet::new(),
            fetched: FetchedFiles::default(),
            turns: MOST_TURNS,
            told: 0,
            full: false,
            dialect_matters: false,
        }
    }

    fn finish(mut self, text: &str) -> Vec<Finding> {
        let mut line = 1;
        let mut at = 0;
        let mut order: Vec<usize> = (0..self.found.len()).collect();
        order.sort_by_key(|index| self.found[*index].span.map_or(0, |span| span.start));
        for index in order {
            let Some(span) = self.found[index].span else {
                continue;
            };
            let start = span.start.min(text.len());
            let between = text.as_bytes().get(at..start).unwrap_or_default();
            line += between.iter().filter(|byte| **byte == b'\n').count();
            at = start.max(at);
            self.found[index].line = Some(line);
        }
        self.found
    }

    fn place(&self, span: Span) -> Span {
        self.origin.unwrap_or(span)
    }

    fn push(&mut self, finding: Finding) {
        let told = finding.args.len() + finding.sets.len() + finding.touches.len();
        self.told = self.told.saturating_add(told);
        if self.found.len() < MOST_FINDINGS && self.told <= MOST_TOLD {
            self.found.push(finding);
        } else if !self.full {
            self.full = true;
            let mut finding = Finding::new(Kind::Text, TOO_MANY_COMMANDS.to_owned());
            finding.bound = true;
            finding.is_dynamic(Dynamic::Unparsable);
            self.found.push(finding);
        }
    }

    /// Notes that something could not be read.
    fn unread(&mut self, what: &str, span: Option<Span>, reach: &Reach) {
        let mut finding = Finding::new(Kind::Text, what.to_owned());
        finding.is_dynamic(Dynamic::Unparsable);
        finding.via = reach.via.iter().map(|name| name.to_string()).collect();
        finding.as_root = reach.as_root;
        finding.span = span.map(|span| self.place(span));
        finding.bound = BOUNDS.contains(&what);
        self.push(finding);
    }

    /// Walks over text that stands in other text at `span`; `state` is that of the shell that runs it.
    pub(crate) fn inner_text(&mut self, text: &str, span: Span, state: &mut State, reach: &Reach) {
        let depth = self.depth + 1;
        if depth >= MAX_DEPTH || text.len() > self.fuel {
            self.unread(TOO_DEEP, Some(span), reach);
            state.forget();
            return;
        }
        self.fuel -= text.len();
        let Parsed { script, heredocs, error, dialect_matters } = parse(text, self.dialect, depth);
        self.dialect_matters |= dialect_matters;
        let origin = self.origin.replace(self.place(span));
        let before = std::mem::replace(&mut self.depth, depth);
        self.script(&script, &heredocs, state, reach);
        self.depth = before;
        if let Some(error) = error {
            self.unread(&error.to_string(), Some(span), reach);
            state.forget();
        }
        self.origin = origin;
    }

    /// Walks over text that a new shell runs. What was found by it changes nothing here.
    pub(crate) fn shell_text(
        &mut self,
        text: &str,
        place: Place<'_>,
        dialect: Dialect,
        positional: Option<Vec<String>>,
    ) {
        let before = std::mem::replace(&mut self.dialect, dialect);
        let mut state = place.state.new_shell();
        state.positional = positional.map(Rc::from);
        let mut reach = place.reach.clone();
        reach.functions = true;
        self.inner_text(text, place.span, &mut state, &reach);
        self.dialect = before;
    }

    fn heredoc(heredocs: &[Word], index: usize) -> Option<&Word> {
        heredocs.get(index)
    }

    /// Whether anything found since uses the network.
    fn used_network_since(&self, before: usize) -> bool {
        self.found.get(before..).unwrap_or_default().iter().any(|found| found.network.is_some())
    }
}

/// Where a command stands, for what it runs in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) span: Span,
    pub(crate) state: &'a State,
    pub(crate) reach: &'a Reach,
}
