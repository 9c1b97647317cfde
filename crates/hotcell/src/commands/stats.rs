//! `hotcell stats`: what runs of code came to.

use hotcell_model::{CodeFigures, CodeStats};

use crate::audit_args::Stats;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{Table, harmless, print, print_json};

pub(super) async fn stats(session: &Session, args: Stats) -> Result<u8, Failure> {
    let Stats { since, until, tenant, json } = args;
    let tenant = tenant.map(|tenant| tenant.parse()).transpose()?;
    let figures = session.ask(CodeStats { since, until, tenant }).await?;
    if json {
        print_json(&figures)?;
    } else {
        print(told(&figures))?;
    }
    Ok(0)
}

fn told(figures: &CodeFigures) -> String {
    let mut text = match figures.success_rate {
        Some(rate) => format!(
            "{} runs, {} succeeded ({:.1} %)\n",
            figures.runs,
            figures.succeeded,
            rate * 100.0
        ),
        None => "no runs of code\n".to_owned(),
    };
    for end in figures.ends.iter().filter(|end| end.name != "ok") {
        text += &format!("  {:>8}  {}\n", end.count, harmless(&end.name));
    }
    if let (Some(p50), Some(p95)) = (figures.p50_ms, figures.p95_ms) {
        text += &format!("half took up to {p50} ms, 95 % up to {p95} ms\n");
    }
    let tokens = &figures.tokens;
    text += &format!(
        "about {} tokens shown, {} kept out; {} answers cut\n",
        tokens.shown, tokens.kept_out, figures.cut
    );
    if !figures.tools.is_empty() {
        let mut table = Table::new(["TOOL", "CALLS", "ERRORS", "TOKENS"]);
        for tool in &figures.tools {
            let numbers = [tool.calls, tool.errors, tool.tokens].map(|number| number.to_string());
            let [calls, errors, tokens] = numbers;
            table.row([harmless(&tool.tool), calls, errors, tokens]);
        }
        text += &format!("\n{table}");
    }
    if !figures.anomalies.is_empty() {
        text += "\nanomalies\n";
    }
    for anomaly in &figures.anomalies {
        let kind = anomaly.kind.as_str();
        text += &format!("  {}  {kind}  {}\n", anomaly.since, harmless(&anomaly.message));
    }
    text
}
