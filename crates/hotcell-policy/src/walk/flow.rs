//! Lists, pipelines and compound commands: in what order, and whether at all, commands run.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use super::field::Field;
use super::names::uses_name;
use super::state::State;
use super::variables::{hides_command, is_decisive, sets_decisive};
use super::{Input, Reach, Walker};
use crate::finding::{Dynamic, Finding};
use crate::shell::{
    AndOr, Chunk, Command, Compound, Link, MAX_DEPTH, Pipeline, Redirect, Script, Simple, Span,
    TOO_DEEP, Word,
};
use crate::steps;

/// Findings of a loop, so that the same one of several turns counts once.
#[derive(Default)]
struct KnownFindings {
    hasher: RandomState,
    /// Where those with a hash are.
    places: HashMap<u64, Vec<usize>>,
}

impl KnownFindings {
    /// Whether a finding, which is about to be put at `place`, is not among those that are there.
    fn is_new(&mut self, finding: &Finding, place: usize, found: &[Finding]) -> bool {
        let same = self.places.entry(self.hasher.hash_one(finding)).or_default();
        steps::count(1 + same.len());
        if same.iter().any(|at| found.get(*at) == Some(finding)) {
            return false;
        }
        same.push(place);
        true
    }
}

/// What a command prints, if that is known.
pub(super) type Output = Option<Rc<str>>;

impl Walker {
    pub(super) fn script(
        &mut self,
        script: &Script,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        if self.depth >= MAX_DEPTH {
            self.unread(TOO_DEEP, None, reach);
            state.forget();
            return;
        }
        self.depth += 1;
        for item in &script.items {
            if self.full {
                break;
            }
            if item.background {
                let mut beside = state.clone();
                let reach = Reach { beside: true, input: Input::Unknown, ..reach.clone() };
                self.and_or(&item.list, heredocs, &mut beside, &reach);
            } else {
                self.and_or(&item.list, heredocs, state, reach);
            }
        }
        self.depth -= 1;
    }

    fn and_or(&mut self, list: &AndOr, heredocs: &[Word], state: &mut State, reach: &Reach) {
        self.pipeline(&list.first, heredocs, state, reach);
        if list.rest.is_empty() {
            return;
        }
        let mut succeeded = state.clone().succeeded();
        let mut failed = state.clone().failed();
        for (link, pipeline) in &list.rest {
            match link {
                Link::And => {
                    self.pipeline(pipeline, heredocs, &mut succeeded, reach);
                    failed.meet(&succeeded.clone().failed());
                    succeeded = succeeded.succeeded();
                }
                Link::Or => {
                    self.pipeline(pipeline, heredocs, &mut failed, reach);
                    if leaves(pipeline) {
                        failed = succeeded.clone();
                    } else {
                        succeeded.meet(&failed.clone().succeeded());
                        failed = failed.failed();
                    }
                }
            }
        }
        succeeded.meet(&failed);
        *state = succeeded;
    }

    fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        if let [only] = pipeline.commands.as_slice() {
            self.command(only, heredocs, state, reach);
            return;
        }
        let mut input = reach.input.clone();
        let mut network = false;
        for (index, command) in pipeline.commands.iter().enumerate() {
            let before = self.found.len();
            let mut part = state.clone();
            let reach = Reach { beside: true, input, ..reach.clone() };
            let output = self.command(command, heredocs, &mut part, &reach);
            network |= self.used_network_since(before);
            input = match output {
                Some(text) => Input::Text(text),
                None if network => Input::Network,
                None => Input::Unknown,
            };
            if index + 1 == pipeline.commands.len() {
                // Some shells run the last one themselves.
                state.meet(&part);
            }
        }
    }

    /// A loop over words. Where they are few and known, its body is walked with each.
    fn each(
        &mut self,
        name: &str,
        values: &[Field],
        body: &Script,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        let known: Option<Vec<&str>> =
            values.iter().map(|value| value.find().filter(|_| !value.splits)).collect();
        let turns: Vec<Option<&str>> = match known {
            Some(known) if !known.is_empty() && known.len() <= self.turns => {
                self.turns -= known.len();
                known.into_iter().map(Some).collect()
            }
            _ => vec![None],
        };
        for value in values.iter().filter(|value| hides_command(&value.text)) {
            self.subscript(&value.text, Span::default(), state, reach);
        }
        // Those of all turns, each once.
        let mut known = KnownFindings::default();
        let mut after = state.clone();
        for turn in turns {
            let mut within = again(state, &[body]);
            within.set_variable(name, turn);
            within.environment |= is_decisive(name);
            let start = self.found.len();
            self.script(body, heredocs, &mut within, reach);
            let added = self.found.split_off(start);
            for finding in added {
                if known.is_new(&finding, self.found.len(), &self.found) {
                    self.push(finding);
                }
            }
            after.meet(&within);
        }
        *state = after;
    }

    pub(super) fn command(
        &mut self,
        command: &Command,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) -> Output {
        match command {
            Command::Simple(simple) => self.simple(simple, heredocs, state, reach),
            Command::Compound(compound, redirects) => {
                self.enclosed(compound, redirects, heredocs, state, reach);
                None
            }
            Command::Function { name, body } => {
                self.function(name, body, heredocs, state, reach);
                None
            }
            Command::Coproc(variable, inner) => {
                let mut beside = state.clone();
                let reach = Reach { beside: true, input: Input::Unknown, ..reach.clone() };
                self.command(inner, heredocs, &mut beside, &reach);
                state.environment |= variable.as_deref().is_some_and(is_decisive);
                state.forget_variables();
                None
            }
            Command::Nothing => None,
        }
    }

    fn function(
        &mut self,
        name: &str,
        body: &Command,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        let mut within = state.elsewhere();
        within.define(name);
        self.inside.push(name.to_owned());
        let reach = Reach { input: Input::Unknown, beside: false, ..reach.clone() };
        self.command(body, heredocs, &mut within, &reach);
        self.inside.pop();
        state.keep_from(&within);
        state.define(name);
    }

    fn enclosed(
        &mut self,
        compound: &Compound,
        redirects: &[Redirect],
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        let redirected = self.redirects(redirects, heredocs, state, reach);
        let input = match redirected.unwrap_or_else(|| reach.input.clone()) {
            Input::Network => Input::Network,
            // Nobody knows which of the commands reads it.
            Input::Text(text) if lone(compound) => Input::Text(text),
            Input::Text(_) | Input::Unknown => Input::Unknown,
        };
        let reach = reach.reading(input);
        self.compound(compound, heredocs, state, &reach);
        state.went_on();
    }

    fn compound(
        &mut self,
        compound: &Compound,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        match compound {
            Compound::Brace(script) => self.script(script, heredocs, state, reach),
            Compound::Subshell(script) => {
                let mut inner = state.clone();
                self.script(script, heredocs, &mut inner, reach);
            }
            Compound::For { name, words, body } => {
                let mut values = Vec::new();
                for word in words.iter().flatten() {
                    values.extend(self.expand(word, heredocs, state, reach));
                }
                self.each(name, &values, body, heredocs, state, reach);
            }
            Compound::ArithFor { head, body } => {
                self.arithmetic(head, heredocs, state, reach);
                let mut within = again(state, &[body]);
                self.script(body, heredocs, &mut within, reach);
                state.meet(&within);
            }
            Compound::Loop { test, body } => {
                let mut within = again(state, &[test, body]);
                self.script(test, heredocs, &mut within, reach);
                self.script(body, heredocs, &mut within, reach);
                state.meet(&within);
            }
            Compound::Case { subject, arms } => {
                self.expand(subject, heredocs, state, reach);
                let mut after = state.clone();
                for (patterns, body) in arms {
                    for pattern in patterns {
                        self.expand(pattern, heredocs, &mut after, reach);
                    }
                    // With `;&` one arm goes on into the next.
                    let mut within = after.clone();
                    self.script(body, heredocs, &mut within, reach);
                    after.meet(&within);
                }
                *state = after;
            }
            Compound::If { branches, otherwise } => {
                let mut ends: Option<State> = None;
                let mut join = |end: State| match &mut ends {
                    Some(ends) => ends.meet(&end),
                    None => ends = Some(end),
                };
                for (test, body) in branches {
                    self.script(test, heredocs, state, reach);
                    let mut within = state.clone().succeeded();
                    self.script(body, heredocs, &mut within, reach);
                    join(within);
                    *state = state.clone().failed();
                }
                if let Some(otherwise) = otherwise {
                    self.script(otherwise, heredocs, state, reach);
                }
                if let Some(ends) = ends {
                    state.meet(&ends);
                }
            }
            Compound::Arith(inner) => self.arithmetic(inner, heredocs, state, reach),
            Compound::Test(words) => self.test(words, heredocs, state, reach),
        }
    }
}

impl Walker {
    /// `[[ … ]]`: `-eq` and the like take what stands beside them for numbers.
    fn test(&mut self, words: &[Word], heredocs: &[Word], state: &mut State, reach: &Reach) {
        let mut fields: Vec<Field> = Vec::with_capacity(words.len());
        for word in words {
            let field = self.expand_whole(word, heredocs, state, reach);
            if hides_command(&field.text) {
                self.subscript(&field.text, word.span, state, reach);
            }
            let named =
                fields.last().is_some_and(|before| matches!(before.find(), Some("-v" | "-R")));
            if named && uses_name(&field, state) {
                self.note_code(word, reach, Dynamic::Environment);
            }
            fields.push(field);
        }
        // `[[ PATH=1 -eq 1 ]]` sets it.
        let compares = |field: &Field| {
            matches!(field.find(), Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"))
        };
        if fields.iter().any(compares) {
            state.environment |= fields.iter().any(|field| sets_decisive(&field.text));
        }
    }
}

/// What is known when a loop comes to its start again: what it may have changed is not.
fn again(state: &State, scripts: &[&Script]) -> State {
    if scripts.iter().all(|script| keeps_state(script, state)) {
        state.clone()
    } else {
        state.elsewhere()
    }
}

/// Commands that leave variables, functions and the directory as they are, as far as a loop goes.
fn keeps_state(script: &Script, state: &State) -> bool {
    script.items.iter().all(|item| {
        let rest = item.list.rest.iter().map(|(_, pipeline)| pipeline);
        std::iter::once(&item.list.first).chain(rest).all(|pipeline| {
            pipeline.commands.iter().all(|command| match command {
                Command::Simple(simple) => keeps(simple, state),
                Command::Nothing => true,
                Command::Compound(..) | Command::Function { .. } | Command::Coproc(..) => false,
            })
        })
    })
}

const KEEPING: &[&str] = &[
    "echo", "rm", "cp", "mv", "cat", "mkdir", "touch", "ls", "grep", "sed", "true", "false", ":",
    "test", "[", "sleep", "chmod", "chown", "find", "tar", "gzip", "head", "tail", "sort", "wc",
    "break", "continue",
];

fn keeps(simple: &Simple, state: &State) -> bool {
    let plain = |word: &Word| {
        word.pieces.iter().all(|piece| match &piece.chunk {
            Chunk::Text(_) => true,
            Chunk::Param(param) => !param.op.contains('=') && param.index.is_none(),
            Chunk::Command(_)
            | Chunk::Backquote(..)
            | Chunk::Arith(_)
            | Chunk::Process(_)
            | Chunk::Array(_)
            | Chunk::Hole => false,
        })
    };
    let name = match simple.words.first().map(|word| word.pieces.as_slice()) {
        Some([piece]) => match &piece.chunk {
            Chunk::Text(name) => name.as_str(),
            Chunk::Param(_)
            | Chunk::Command(_)
            | Chunk::Backquote(..)
            | Chunk::Arith(_)
            | Chunk::Process(_)
            | Chunk::Array(_)
            | Chunk::Hole => "",
        },
        _ => "",
    };
    simple.assigns.is_empty()
        && KEEPING.contains(&name)
        && state.find_function(name).is_none()
        && simple.words.iter().all(plain)
}

/// Whether there is but one command in it that can read what the whole is given.
pub(super) fn is_sole_reader(script: &Script) -> bool {
    let [item] = script.items.as_slice() else {
        return false;
    };
    let plain = |word: &Word| {
        word.pieces.iter().all(|piece| matches!(&piece.chunk, Chunk::Text(_) | Chunk::Param(_)))
    };
    item.list.rest.is_empty()
        && item.list.first.commands.iter().all(|command| {
            matches!(command, Command::Simple(simple)
                if simple.words.iter().all(plain) && simple.redirects.is_empty())
        })
}

/// Whether there is one simple command in it, so that it is that one which reads the input.
fn lone(compound: &Compound) -> bool {
    let (Compound::Brace(script) | Compound::Subshell(script)) = compound else {
        return false;
    };
    let [item] = script.items.as_slice() else {
        return false;
    };
    item.list.rest.is_empty() && matches!(item.list.first.commands.as_slice(), [Command::Simple(_)])
}

/// Whether nothing that follows is run once this is.
fn leaves(pipeline: &Pipeline) -> bool {
    match pipeline.commands.as_slice() {
        [Command::Simple(simple)] => exits(simple),
        [Command::Compound(Compound::Brace(script), _)] => {
            script.items.last().is_some_and(|last| {
                !last.background && last.list.rest.is_empty() && leaves_plainly(&last.list.first)
            })
        }
        _ => false,
    }
}

fn leaves_plainly(pipeline: &Pipeline) -> bool {
    matches!(pipeline.commands.as_slice(), [Command::Simple(simple)] if exits(simple))
}

fn exits(simple: &Simple) -> bool {
    let Some(word) = simple.words.first() else {
        return false;
    };
    let [piece] = word.pieces.as_slice() else {
        return false;
    };
    matches!(&piece.chunk, Chunk::Text(text) if text == "exit" || text == "return")
}
