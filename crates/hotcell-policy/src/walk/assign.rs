//! Simple commands: what is assigned before them, and the words they are made of.

use super::field::Field;
use super::flow::Output;
use super::state::State;
use super::variables::{hides_command, is_decisive, sets_decisive};
use super::{MOST_ARGUMENTS, Reach, Walker};
use crate::shell::{Assign, Assigned, Simple, Word};

impl Walker {
    pub(super) fn simple(
        &mut self,
        simple: &Simple,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) -> Output {
        let mut fields: Vec<Field> = Vec::with_capacity(simple.words.len());
        for word in &simple.words {
            let more = self.expand(word, heredocs, state, reach);
            // One more tells that there are too many.
            if fields.len() <= MOST_ARGUMENTS {
                fields.extend(more);
            }
        }
        let redirected = self.redirects(&simple.redirects, heredocs, state, reach);
        let mut sets = Vec::new();
        for assign in &simple.assigns {
            let value = self.assigned(assign, heredocs, state, reach);
            let known = value.as_ref().and_then(Field::find);
            if let Some(text) = known {
                self.value_of(&assign.name, text, simple.span, state, reach);
            }
            if fields.is_empty() {
                state.environment |= is_decisive(&assign.name);
                // A variable that was declared to be a number takes its value for arithmetic.
                state.environment |= state.is_distrusted() && known.is_some_and(sets_decisive);
                state.set_variable(&assign.name, known);
            }
            sets.push(assign.name.clone());
        }
        if fields.is_empty() {
            state.went_on();
            return None;
        }
        let reach = match redirected {
            Some(input) => reach.reading(input),
            None => reach.clone(),
        };
        let written = simple.redirects.iter().any(|redirect| {
            redirect.fd.is_none_or(|fd| fd == 1)
                && !matches!(
                    redirect.op,
                    crate::shell::RedirectOp::Read
                        | crate::shell::RedirectOp::Heredoc
                        | crate::shell::RedirectOp::Herestring
                )
        });
        let before = self.found.len();
        let output = self.run_with(&fields, &sets, simple.span, state, &reach);
        if written && self.used_network_since(before) {
            self.note_fetched(simple, heredocs, state, &reach);
        }
        for name in &sets {
            // Whether it stays after the command depends on the command and the shell.
            state.set_variable(name, None);
        }
        output.filter(|_| !written)
    }

    fn note_fetched(
        &mut self,
        simple: &Simple,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) {
        let found = self.found.len();
        for redirect in &simple.redirects {
            if let crate::shell::Target::Word(word) = &redirect.target {
                let field = self.expand_whole(word, heredocs, &mut state.clone(), reach);
                if let Some(path) = field.find() {
                    self.fetched.add(path);
                }
            }
        }
        // Looked at before: what is in it was found then.
        self.found.truncate(found);
    }

    fn assigned(
        &mut self,
        assign: &Assign,
        heredocs: &[Word],
        state: &mut State,
        reach: &Reach,
    ) -> Option<Field> {
        if let Some(index) = &assign.index {
            self.arithmetic(index, heredocs, state, reach);
            self.arrays.insert(assign.name.clone());
        }
        match &assign.value {
            Assigned::Word(word) => {
                let field = self.expand_whole(word, heredocs, state, reach);
                (assign.index.is_none() && !assign.append).then_some(field)
            }
            Assigned::Array(words) => {
                self.arrays.insert(assign.name.clone());
                for word in words {
                    for field in self.expand(word, heredocs, state, reach) {
                        if hides_command(&field.text) {
                            self.subscript(&field.text, word.span, state, reach);
                        }
                    }
                }
                None
            }
        }
    }
}
