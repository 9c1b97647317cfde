//! What is left where no namespaces can be made: cells of level `process`, if the operator wants them.

use hotcell_model::{Check, CheckStatus, Error, IsolationLevel, RequiredIsolation};

use crate::on_host;

const NAME: &str = "process_level";
const MEANS: &str = "commands are processes of the user, kept by Landlock and a filter from all files \
                     but their own, from other processes and from every network";

/// Whether cells of that level can be made, and are wanted.
#[derive(Debug)]
pub(super) struct ProcessLevel {
    wanted: bool,
    refused: Option<Error>,
}

impl ProcessLevel {
    pub(super) fn look(required: &RequiredIsolation) -> Self {
        let wanted = required.level == IsolationLevel::Process;
        Self { wanted, refused: on_host::check().err() }
    }

    /// Whether new cells are of that level.
    pub(super) fn is_used(&self) -> bool {
        self.wanted && self.refused.is_none()
    }

    /// The checks of a machine without namespaces, and one of what is possible all the same.
    pub(super) fn without_namespaces(&self, mut checks: Vec<Check>) -> Vec<Check> {
        if self.is_used() {
            for check in &mut checks {
                if check.status == CheckStatus::Fatal {
                    check.status = CheckStatus::Missing;
                }
            }
        }
        let (status, detail, remedy) = match (&self.refused, self.wanted) {
            (None, true) => (CheckStatus::Ok, format!("in use: {MEANS}"), None),
            (None, false) => (
                CheckStatus::Info,
                format!("possible with native.level = \"process\": {MEANS}"),
                None,
            ),
            (Some(refused), true) => {
                (CheckStatus::Fatal, refused.message.clone(), refused.hint.clone())
            }
            (Some(refused), false) => {
                (CheckStatus::Info, refused.message.clone(), refused.hint.clone())
            }
        };
        checks.push(Check { name: NAME.to_owned(), status, detail, remedy });
        checks
    }
}

#[cfg(test)]
#[path = "process_level_tests.rs"]
mod process_level_tests;
