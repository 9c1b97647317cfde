//! The arguments of `hotcell policy`, `hotcell approvals` and `hotcell approve`.

use clap::{Args, Subcommand};
use hotcell_model::ApprovalId;

use crate::values;

/// Explain what the policy says of a command.
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    pub(crate) action: PolicyAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyAction {
    Check(CheckPolicy),
}

/// Show the commands that a text runs, the rule that decides each, and the verdict.
///
/// Nothing is run. Text is read as the cell's shell reads it; several words are a program and its
/// arguments. The exit code is 0 for allow, 5 for deny, and 10 for ask.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell policy check --profile careful 'cd /tmp && rm -rf *'
  hotcell policy check --python 'import os; os.system(\"id\")'")]
pub(crate) struct CheckPolicy {
    /// Decide by this profile instead of the configured one: open, careful, blocklist, dangerous, allowlist, vibesbox.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Read it as Python.
    #[arg(long)]
    pub(crate) python: bool,
    /// As if it were to run as root of the cell.
    #[arg(long)]
    pub(crate) as_root: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

/// List the commands and calls that wait for approval, the oldest first, or show one in full.
#[derive(Debug, Args)]
pub(crate) struct Approvals {
    /// Show this one with all that a person has to know of it, also once it is answered.
    #[arg(value_parser = values::word::<ApprovalId>)]
    pub(crate) id: Option<ApprovalId>,
    /// Show those of every tenant.
    #[arg(long)]
    pub(crate) all_tenants: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Let what waits for approval be done, or with --refuse not.
///
/// An approval counts once, for the very request that is shown and until its deadline.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// The exec or the call, of any tenant.
    #[arg(value_parser = values::word::<ApprovalId>)]
    pub(crate) id: ApprovalId,
    /// Let it not be done.
    #[arg(long)]
    pub(crate) refuse: bool,
    /// Neither show it nor ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
