//! `hotcell doctor`: what this machine can enforce, and what to do about the rest.

use std::fmt::Write;

use hotcell_model::{Check, CheckStatus, Diagnose, Diagnoses, Diagnosis, Result};
use serde::Serialize;

use super::info::isolation_text;
use crate::args::Doctor;
use crate::config::Config;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{Table, print, print_json};

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
        false => print(text(&report))?,
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

pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut checks: Vec<&Check> = vec![&report.state_dir];
    for driver in &report.diagnoses.drivers {
        checks.extend(&driver.checks);
    }
    let mut table = Table::new(["CHECK", "STATUS", "SEEN"]);
    for check in &checks {
        table.row([check.name.clone(), status(check.status).to_owned(), check.detail.clone()]);
    }
    // Writing to a string cannot fail.
    let _ = write!(text, "{table}");
    let mut remedies = checks
        .iter()
        .filter(|check| matches!(check.status, CheckStatus::Missing | CheckStatus::Fatal))
        .filter_map(|check| Some((&check.name, check.remedy.as_ref()?)))
        .peekable();
    if remedies.peek().is_some() {
        text.push_str("\nWhat to do:\n");
    }
    for (name, remedy) in remedies {
        let _ = writeln!(text, "  {name}: {remedy}");
    }
    for driver in &report.diagnoses.drivers {
        text.push('\n');
        text += &verdict(driver);
    }
    if report.diagnoses.drivers.is_empty() {
        text.push_str("\nNo cell can be made here.\n");
    }
    text
}

fn verdict(driver: &Diagnosis) -> String {
    match &driver.isolation {
        Some(isolation) => {
            format!("Cells of {} can be made here:\n{}", driver.driver, isolation_text(isolation))
        }
        None => format!("No cell of {} can be made here.\n", driver.driver),
    }
}

fn status(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Ok => "ok",
        CheckStatus::Missing => "missing",
        CheckStatus::Fatal => "fatal",
        CheckStatus::Info => "info",
    }
}
