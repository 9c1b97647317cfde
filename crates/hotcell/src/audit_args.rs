//! The arguments of `hotcell audit`.

use std::time::Duration;

use clap::{Args, Subcommand};
use hotcell_model::{CellRef, EntryKind, ExecId, KnownEntry, Timestamp, Verdict};

use crate::values;

/// Show what was done here, by whom, and what came of it.
///
/// Every call is written down in the ledger, by whatever way it came: with who asked, the cell, a
/// digest of the arguments, what was decided and the outcome. So are starts and ends of execs and
/// connections of cells. The newest entries are shown, the newest last.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  hotcell audit --since 1h
  hotcell audit --cell work --verdict denied
  hotcell audit --exec e_0123456789 --json
  hotcell audit verify
  hotcell audit summary --since 1d
  hotcell audit export > ledger.jsonl"
)]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) action: Option<AuditAction>,
    #[command(flatten)]
    pub(crate) show: ShowAudit,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditAction {
    /// Look whether every entry is as it was written; exits with 1 if not.
    Verify(VerifyAudit),
    /// Tell what was refused, by which rules, and what stands out.
    Summary(SummaryAudit),
    /// Print all entries as they were written, one JSON object a line.
    Export(ExportAudit),
}

/// Which entries.
#[derive(Debug, Args)]
pub(crate) struct ShowAudit {
    /// Show entries of the last while (1h, 2d), or since a time (2026-01-31T12:00:00Z).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Show entries from before a while ago, or before a time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Timestamp>,
    /// Show entries about this cell.
    #[arg(long, value_name = "CELL", value_parser = values::word::<CellRef>)]
    pub(crate) cell: Option<CellRef>,
    /// Show entries about this exec.
    #[arg(long, value_name = "EXEC", value_parser = values::word::<ExecId>)]
    pub(crate) exec: Option<ExecId>,
    /// Show what was asked for by this principal.
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: Option<String>,
    /// Show entries of this tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Show entries with this verdict: allowed, asked, denied.
    #[arg(long, value_name = "VERDICT", value_parser = values::word::<Verdict>)]
    pub(crate) verdict: Option<Verdict>,
    /// Show entries of this kind: call, admin, exec_start, exec_end, egress, decision, approval,
    /// recovered, broken, missed, retention.
    #[arg(long, value_name = "KIND", value_parser = values::word::<EntryKind>)]
    pub(crate) kind: Option<EntryKind>,
    /// Show entries with this outcome: ok, the code of an error, or how an exec ended.
    #[arg(long, value_name = "OUTCOME")]
    pub(crate) outcome: Option<String>,
    /// Show what belongs to this call.
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    /// Show so many entries at most.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
    /// Print one JSON object a line, as it was written.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyAudit {
    /// An entry has to be there as it is known from elsewhere: its number, a colon and its mac.
    #[arg(long, value_name = "N:MAC", value_parser = values::word::<KnownEntry>)]
    pub(crate) expect: Option<KnownEntry>,
    /// Leave out what is wrong with entries up to this number, because it is known.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) after: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SummaryAudit {
    /// Count entries of the last while (1h, 2d), or since a time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Count entries from before a while ago, or before a time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Timestamp>,
    /// Count entries of this tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tell what runs of code came to, and what they kept out of the context of models.
///
/// Counted from the ledger, as far back as it goes: runs of all processes on the state directory, how
/// they ended, how long they took, which tools they called, and estimates of the tokens that were
/// shown and kept out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell stats
  hotcell stats --since 1d --json")]
pub(crate) struct Stats {
    /// Count what happened in the last while (1h, 2d), or since a time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Count what happened before a while ago, or before a time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Timestamp>,
    /// Count runs of this tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportAudit {
    /// Begin after this entry.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) after: u64,
}

/// A time, or how long ago it was.
fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let ago: Duration = values::duration(text)
        .map_err(|problem| format!("{problem}, or a time such as 2026-01-31T12:00:00Z"))?;
    let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
    Ok(Timestamp(Timestamp::now().0.saturating_sub(ago)))
}
