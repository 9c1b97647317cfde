//! `hotcell doctor`: what this machine can enforce, and what to do about the rest.

use std::fmt::Write;

use hotcell_model::{Check, CheckStatus, Diagnose, Diagnoses, Diagnosis, Result};
use serde::Serialize;

use crate::args::Doctor;
use crate::config::Config;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{print, print_json};
use crate::terminal;

/// Everything that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) state_dir: Check,
    #[serde(flatten)]
    pub(super) diagnoses: Diagnoses,
}

/// Looks at the machine.
pub(super) async fn doctor(
    config: &Config,
    session: Result<Session>,
    args: Doctor,
) -> Result<u8, Failure> {
    let report = match session {
        Ok(session) => Report {
            state_dir: state_dir(config, CheckStatus::Ok, "private and writable", None),
            diagnoses: session.ask(Diagnose).await?,
        },
        Err(error) => Report {
            state_dir: state_dir(config, CheckStatus::Fatal, &error.message, error.hint.clone()),
            diagnoses: Diagnoses { drivers: Vec::new() },
        },
    };
    match args.json {
        true => print_json(&report)?,
        false => print(text(&report, terminal::columns()))?,
    }
    Ok(match can_make_cells(&report) {
        true => 0,
        false => 1,
    })
}

fn state_dir(config: &Config, status: CheckStatus, seen: &str, remedy: Option<String>) -> Check {
    let dir = config.state_dir.display().to_string();
    let detail = match seen.contains(&dir) {
        true => seen.to_owned(),
        false => format!("{dir}: {seen}"),
    };
    Check { name: "state_dir".to_owned(), status, detail, remedy }
}

fn can_make_cells(report: &Report) -> bool {
    report.diagnoses.drivers.iter().any(|driver| driver.isolation.is_some())
}

/// The report for a person whose lines have this many columns, if they have an end at all.
pub(super) fn text(report: &Report, columns: Option<usize>) -> String {
    let checks = || {
        let drivers = report.diagnoses.drivers.iter();
        std::iter::once(&report.state_dir).chain(drivers.flat_map(|driver| &driver.checks))
    };
    let mut text = table(checks(), columns);
    let remedies = remedies(checks(), &report.diagnoses.drivers);
    if !remedies.is_empty() {
        text.push_str("\nWhat to do:\n");
    }
    for (names, remedy) in remedies {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", names.join(", "));
        for line in wrap(&remedy, columns.map(|columns| columns.saturating_sub(REMEDY.len()))) {
            let _ = writeln!(text, "{}", format!("{REMEDY}{line}").trim_end());
        }
    }
    text.push('\n');
    for driver in &report.diagnoses.drivers {
        for line in wrap(&verdict(driver), columns) {
            let _ = writeln!(text, "{line}");
        }
    }
    if report.diagnoses.drivers.is_empty() {
        text.push_str("No cell can be made here.\n");
    }
    text
}

/// What stands before each line of a remedy.
const REMEDY: &str = "      ";
/// Columns that a wrapped text needs at least to be readable.
const READABLE: usize = 24;

fn table<'a>(checks: impl Iterator<Item = &'a Check>, columns: Option<usize>) -> String {
    let rows: Vec<[&str; 3]> = std::iter::once(["CHECK", "STATUS", "SEEN"])
        .chain(checks.map(|check| [check.name.as_str(), status(check.status), &check.detail]))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (name_width, status_width) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
    let before = name_width + status_width + 4;
    let mut text = String::new();
    for [name, status, detail] in rows {
        let lines = wrap(detail, columns.map(|columns| columns.saturating_sub(before)));
        for (at, line) in lines.iter().enumerate() {
            let (name, status) = if at == 0 { (name, status) } else { ("", "") };
            let row = format!("{name:<name_width$}  {status:<status_width$}  {line}");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", row.trim_end());
        }
    }
    text
}

/// What to do about what, each remedy once.
fn remedies<'a>(
    checks: impl Iterator<Item = &'a Check>,
    drivers: &'a [Diagnosis],
) -> Vec<(Vec<&'a str>, String)> {
    let of_checks = checks
        .filter(|check| matches!(check.status, CheckStatus::Missing | CheckStatus::Fatal))
        .filter_map(|check| Some((check.name.as_str(), check.remedy.as_deref()?)));
    let of_layers = drivers
        .iter()
        .filter_map(|driver| driver.isolation.as_ref())
        .flat_map(|isolation| &isolation.missing)
        .map(|missing| (missing.name.as_str(), missing.remedy.as_str()));
    let mut found: Vec<(Vec<&str>, String)> = Vec::new();
    for (name, remedy) in of_checks.chain(of_layers) {
        match found.iter_mut().find(|(_, known)| known == remedy) {
            Some((names, _)) if names.contains(&name) => {}
            Some((names, _)) => names.push(name),
            None => found.push((vec![name], remedy.to_owned())),
        }
    }
    found
}

fn verdict(driver: &Diagnosis) -> String {
    let name = &driver.driver;
    let Some(isolation) = &driver.isolation else {
        return format!("No cell of {name} can be made here.");
    };
    let missing: Vec<&str> = isolation.missing.iter().map(|layer| layer.name.as_str()).collect();
    let without = match missing.is_empty() {
        true => String::new(),
        false => format!(": without {}", missing.join(", ")),
    };
    let level = isolation.level.as_str();
    format!("Cells of {name} can be made here. Their isolation is {level}{without}.")
}

/// Breaks lines between words so that they fit, where they can.
fn wrap(text: &str, columns: Option<usize>) -> Vec<String> {
    let columns = columns.filter(|columns| *columns >= READABLE).unwrap_or(usize::MAX);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        // What is to be copied keeps its form.
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut current = indent.to_owned();
        for word in line.split_whitespace() {
            let used = current.chars().count();
            if used > indent.len() && used + 1 + word.chars().count() > columns {
                lines.push(std::mem::replace(&mut current, indent.to_owned()));
            }
            if current.len() > indent.len() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

fn status(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Ok => "ok",
        CheckStatus::Missing => "missing",
        CheckStatus::Fatal => "fatal",
        CheckStatus::Info => "info",
    }
}
