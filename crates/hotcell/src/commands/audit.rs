//! `hotcell audit`: what was done here, and whether the record of it is as it was written.

use hotcell_model::{
    AuditQuery, AuditSummary, Ledger, LedgerCheck, LedgerRecord, LedgerReport, LedgerState,
    LedgerSummary, Tally,
};

use crate::audit_args::{ExportAudit, ShowAudit, SummaryAudit, VerifyAudit};
use crate::config::Config;
use crate::errors::Failure;
use crate::session::{Session, ledger};
use crate::show::{Table, harmless, note, or_dash, print, print_json};

/// How many entries are fetched at once.
const PAGE: u32 = 1000;
/// The ledger is not as it was written.
const DAMAGED: u8 = 1;

pub(super) async fn show(session: &Session, args: ShowAudit) -> Result<u8, Failure> {
    let json = args.json;
    let query = AuditQuery {
        after: None,
        since: args.since,
        until: args.until,
        cell: args.cell,
        exec: args.exec,
        principal: args.principal,
        tenant: args.tenant.map(|tenant| tenant.parse()).transpose()?,
        verdict: args.verdict,
        kind: args.kind,
        outcome: args.outcome,
        call_id: args.call,
        limit: args.limit,
    };
    let entries = session.ask(query).await?.entries;
    if json {
        entries.iter().try_for_each(print_json)?;
        return Ok(0);
    }
    let mut table = Table::new([
        "N", "TIME", "KIND", "WHO", "WHAT", "CELL", "EXEC", "VERDICT", "OUTCOME", "MORE",
    ]);
    for entry in &entries {
        table.row([
            entry.n.to_string(),
            entry.time.to_string(),
            entry.kind.to_string(),
            harmless(&entry.principal),
            harmless(&entry.what),
            harmless(&or_dash(entry.cell.as_ref())),
            or_dash(entry.exec.as_ref()),
            or_dash(entry.verdict),
            harmless(&or_dash(entry.outcome.as_ref())),
            harmless(&more(entry)),
        ]);
    }
    print(table.to_string())?;
    Ok(0)
}

/// What else an entry tells.
fn more(entry: &LedgerRecord) -> String {
    let mut told: Vec<String> = Vec::new();
    told.extend(entry.rule.as_ref().map(|rule| format!("rule={rule}")));
    told.extend(entry.took_ms.map(|took| format!("took_ms={took}")));
    told.extend(entry.details.iter().map(|(name, detail)| format!("{name}={detail}")));
    told.join(" ")
}

pub(super) fn verify(config: &Config, args: VerifyAudit) -> Result<u8, Failure> {
    let check = LedgerCheck { known: args.expect, after: args.after };
    let report = ledger(config).verify(&check)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(told(&report))?;
    }
    Ok(match report.state {
        LedgerState::Intact => 0,
        LedgerState::Damaged => DAMAGED,
    })
}

fn told(report: &LedgerReport) -> String {
    let mut text = String::new();
    for fault in &report.faults {
        let file = fault.file.as_ref().map(|file| format!(" ({file})")).unwrap_or_default();
        text += &format!("{}: {}{file}\n", fault.kind.as_str(), harmless(&fault.message));
    }
    if report.more_faults > 0 {
        text += &format!("and {} more\n", report.more_faults);
    }
    for note in &report.notes {
        text += &format!("note: {}\n", harmless(note));
    }
    let entries =
        format!("{} entries verified, {} to {}", report.verified, report.first, report.last);
    text += &match report.state {
        LedgerState::Intact => format!("intact: {entries}\n"),
        LedgerState::Damaged => format!("damaged: {entries}\n"),
    };
    if let (LedgerState::Intact, Some(mac)) = (report.state, &report.mac) {
        text += &format!("the newest entry is {}:{mac}\n", report.last);
    }
    if let Some(ledger) = &report.ledger {
        text += &format!("the ledger is {ledger}\n");
    }
    text
}

pub(super) async fn summary(session: &Session, args: SummaryAudit) -> Result<u8, Failure> {
    let SummaryAudit { since, until, tenant, json } = args;
    let tenant = tenant.map(|tenant| tenant.parse()).transpose()?;
    let summary = session.ask(AuditSummary { since, until, tenant }).await?;
    if json {
        print_json(&summary)?;
    } else {
        print(summed(&summary))?;
    }
    Ok(0)
}

fn summed(summary: &LedgerSummary) -> String {
    let mut text = match (summary.since, summary.until) {
        (Some(since), Some(until)) => {
            format!("{} entries from {since} to {until}\n", summary.entries)
        }
        (_, _) => "no entries\n".to_owned(),
    };
    let parts: [(&str, &[Tally]); 4] = [
        ("entries by kind", &summary.kinds),
        ("violations", &summary.violations),
        ("rules that refused", &summary.rules),
        ("refused most often", &summary.refused),
    ];
    for (title, tallies) in parts {
        if !tallies.is_empty() {
            text += &format!("\n{title}\n");
        }
        for Tally { name, count } in tallies {
            text += &format!("  {count:>8}  {}\n", harmless(name));
        }
    }
    if !summary.anomalies.is_empty() {
        text += "\nanomalies\n";
    }
    for anomaly in &summary.anomalies {
        let kind = anomaly.kind.as_str();
        text += &format!("  {}  {kind}  {}\n", anomaly.since, harmless(&anomaly.message));
    }
    text
}

pub(super) async fn export(session: &Session, args: ExportAudit) -> Result<u8, Failure> {
    let mut after = args.after;
    // What is written down meanwhile, this very export too, is for the next one.
    let newest = session.ask(AuditQuery { limit: 1, ..AuditQuery::default() }).await?;
    let last = newest.entries.last().map_or(0, |entry| entry.n);
    while after < last {
        let query = AuditQuery { after: Some(after), limit: PAGE, ..AuditQuery::default() };
        let page = session.ask(query).await?.entries;
        let Some(end) = page.last().map(|entry| entry.n) else { break };
        for entry in page.iter().filter(|entry| entry.n <= last) {
            if entry.n != after + 1 && after > 0 {
                note(&format!("entries {} to {} are not there", after + 1, entry.n - 1));
            }
            print_json(entry)?;
            after = entry.n;
        }
        after = after.max(end.min(last));
    }
    Ok(0)
}
