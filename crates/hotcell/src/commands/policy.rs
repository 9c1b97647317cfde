//! `hotcell policy`: what the rules say of a command.

use hotcell_model::{Checked, CheckedLanguage, PolicyCheck, PolicyDecision};

use crate::errors::Failure;
use crate::policy_args::{CheckPolicy, PolicyAction};
use crate::session::Session;
use crate::show::{harmless, print, print_json};

/// Not allowed, as for every command.
const DENIED: u8 = 5;
/// Not now: somebody has to approve it first.
const ASKED: u8 = 10;

/// Explains.
pub(super) async fn policy(session: &Session, action: PolicyAction) -> Result<u8, Failure> {
    let PolicyAction::Check(CheckPolicy { profile, python, as_root, json, mut command }) = action;
    let checked = match (python, command.len()) {
        (true, _) => Checked::Text(CheckedLanguage::Python, command.join(" ")),
        (false, 1) => Checked::Text(CheckedLanguage::Shell, command.remove(0)),
        (false, _) => Checked::Argv(command),
    };
    let verdict = session.ask(PolicyCheck { checked, as_root, profile }).await?;
    if json {
        print_json(&verdict)?;
    } else {
        let lines = verdict.explanation.lines().map(|line| harmless(line) + "\n");
        print(lines.collect::<String>())?;
    }
    Ok(match verdict.decision {
        PolicyDecision::Allow => 0,
        PolicyDecision::Ask => ASKED,
        PolicyDecision::Deny => DENIED,
    })
}
