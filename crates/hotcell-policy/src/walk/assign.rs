//! Simple commands: what is assigned before them, and the words they are made of.

use super::field::Field;
use super::flow::Output;
use super::state::State;
use super::{Reach, Walker};
use crate::shell::{Assign, Assigned, Simple, Word};

/// Variables that change which program a name means, or what a program loads or starts.
const DECISIVE: &[&str] = &[
    "PATH",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "GLOBIGNORE",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PAGER",
    "GIT_EDITOR",
    "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_CONFIG_COUNT",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "PAGER",
    "MANPAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "SUDO_ASKPASS",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "GCONV_PATH",
    "RUSTC_WRAPPER",
    "MAKEFLAGS",
    "TAR_OPTIONS",
    "RSYNC_RSH",
    "SHELL",
    "CDPATH",
];

/// Whether setting a variable makes it uncertain what is run.
pub(super) fn is_decisive(name: &str) -> bool {
    DECISIVE.contains(&name)
        || name.starts_with("LD_")
        || name.starts_with("BASH_FUNC_")
        || name.starts_with("DYLD_")
}

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
            fields.extend(self.expand(word, heredocs, state, reach));
        }
        let redirected = self.redirects(&simple.redirects, heredocs, state, reach);
        let mut sets = Vec::new();
        for assign in &simple.assigns {
            let value = self.assigned(assign, heredocs, state, reach);
            if fields.is_empty() {
                let known = value.as_ref().and_then(Field::find);
                state.set_variable(&assign.name, known);
                if is_decisive(&assign.name) {
                    state.environment = true;
                }
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
                    self.fetched.push(path.to_owned());
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
        }
        match &assign.value {
            Assigned::Word(word) => {
                let field = self.expand_whole(word, heredocs, state, reach);
                (assign.index.is_none() && !assign.append).then_some(field)
            }
            Assigned::Array(words) => {
                for word in words {
                    self.expand(word, heredocs, state, reach);
                }
                None
            }
        }
    }
}
