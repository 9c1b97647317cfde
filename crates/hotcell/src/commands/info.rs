//! `hotcell info`: all that is known of a cell.

use std::fmt::Write;

use hotcell_model::{
    Cell, CellDetails, CellInfo, Isolation, Layer, SecretName, SessionInfo, Timestamp,
};

use crate::args::Info;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{Table, exec_table, or_dash, print, print_json};
use crate::values::{bytes, short};

/// Shows a cell.
pub(super) async fn info(session: &Session, args: Info) -> Result<u8, Failure> {
    let details = session.ask(CellInfo { cell: args.cell }).await?;
    match args.json {
        true => print_json(&details)?,
        false => print(text(&details, Timestamp::now()))?,
    }
    Ok(0)
}

fn text(details: &CellDetails, now: Timestamp) -> String {
    let cell = &details.cell;
    let mut text = String::new();
    for (name, value) in facts(cell, details) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<10} {value}");
    }
    if let Some(isolation) = &cell.isolation {
        text += &isolation_text(isolation);
    }
    if !details.execs.is_empty() {
        let _ = write!(text, "\n{}", exec_table(&details.execs, now));
    }
    if !details.attachments.is_empty() {
        let mut clients = Table::new(["CLIENT", "SESSION", "CALLER", "LAST SEEN"]);
        for it in &details.attachments {
            let said = |text: &String| or_dash(Some(text).filter(|text| !text.is_empty()));
            let seen = format!("{} ago", short(it.last_seen.until(now)));
            clients.row([said(&it.client_name), said(&it.session_id), it.principal.clone(), seen]);
        }
        let _ = write!(text, "\n{clients}");
    }
    text
}

fn facts(cell: &Cell, details: &CellDetails) -> Vec<(&'static str, String)> {
    let (limits, stats) = (&cell.limits, details.stats.as_ref());
    let image = match &details.image_digest {
        Some(digest) => format!("{} ({digest})", cell.image),
        None => cell.image.clone(),
    };
    let lasts = match (cell.persistent, cell.expires_at) {
        (_, Some(at)) => format!("until {at}"),
        (true, None) => "until it is killed".to_owned(),
        (false, None) => "as long as it is used".to_owned(),
    };
    let workspace = match &cell.workspace {
        Some(of_host) => format!("{} ({})", of_host.dir.display(), of_host.mode.as_str()),
        None => "its own".to_owned(),
    };
    let used = |amount: Option<String>, limit: String| match amount {
        Some(amount) => format!("{amount} of {limit}"),
        None => format!("at most {limit}"),
    };
    let memory = stats.and_then(|stats| stats.memory_bytes).map(bytes);
    let disk = stats.and_then(|stats| stats.disk_bytes).map(bytes);
    let files = stats.and_then(|stats| stats.disk_files).map(|files| files.to_string());
    let pids = stats.and_then(|stats| stats.pids).map(|pids| pids.to_string());
    let mut facts = vec![
        ("cell", cell.id.to_string()),
        ("name", or_dash(cell.alias.as_ref())),
        ("state", cell.state.as_str().to_owned()),
        ("image", image),
        ("driver", cell.driver.clone()),
        ("engine", details.engine.clone().unwrap_or_default()),
        ("created", cell.created_at.to_string()),
        ("lasts", lasts),
        ("network", cell.network.to_string()),
        ("workspace", workspace),
        ("memory", used(memory, bytes(limits.memory_mb << 20))),
        ("disk", used(disk, bytes(limits.disk_mb << 20))),
        ("files", used(files, limits.disk_files.to_string())),
        ("processes", used(pids, limits.pids.to_string())),
        ("cpus", limits.cpus.map_or("no limit".to_owned(), |cpus| format!("at most {cpus}"))),
    ];
    // Said only where there are several.
    facts.retain(|(name, value)| *name != "engine" || !value.is_empty());
    if !cell.secrets.is_empty() {
        let names: Vec<&str> = cell.secrets.iter().map(SecretName::as_str).collect();
        facts.push(("secrets", names.join(", ")));
    }
    if let Some(stats) = stats {
        let cpu = stats.cpu_ms.map(|ms| short(std::time::Duration::from_millis(ms)));
        facts.push(("cpu time", or_dash(cpu)));
        if let Some(used) = stats.network {
            let (sent, received) = (bytes(used.sent_bytes), bytes(used.received_bytes));
            let open = used.connections;
            facts.push(("carried", format!("{sent} out, {received} in, {open} connections open")));
        }
        facts.push(("execs", format!("{} running, {} queued", stats.running, stats.queued)));
        for session in &stats.sessions {
            facts.push(("session", told(session)));
        }
    }
    facts
}

/// The isolation of a cell, layer by layer.
pub(super) fn isolation_text(isolation: &Isolation) -> String {
    let shown = |layer: &Layer| match &layer.means {
        Some(means) => format!("{} ({means})", layer.name),
        None => layer.name.clone(),
    };
    let layers: Vec<String> = isolation.layers.iter().map(shown).collect();
    let mut text = format!(
        "{:<10} {}\n{:<10} {}\n",
        "isolation",
        isolation.level.as_str(),
        "layers",
        layers.join(", ")
    );
    for missing in &isolation.missing {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<10} {}: {}", "missing", missing.name, missing.reason);
        let _ = writeln!(text, "{:<10} hint: {}", "", missing.remedy);
    }
    text
}

/// A session of code in a line.
fn told(session: &SessionInfo) -> String {
    let standing = match session.idle_s {
        Some(idle) => format!("idle for {}", short(std::time::Duration::from_secs(idle))),
        None => "running".to_owned(),
    };
    let held = session.memory_bytes.map_or_else(String::new, |held| format!(", {}", bytes(held)));
    format!("{}: {} runs, {standing}{held}", session.name, session.runs)
}
