//! `hotcell net`: what a cell may reach over the network, and what it did there.

use hotcell_model::{NetChange, NetLog, NetRecord, NetShow, NetVerdict, NetworkState};

use crate::errors::Failure;
use crate::net_args::{ChangeNet, LogNet, NetAction, ShowNet};
use crate::session::Session;
use crate::show::{print, print_json};
use crate::values::bytes;

pub(super) async fn net(session: &Session, action: NetAction) -> Result<u8, Failure> {
    match action {
        NetAction::Allow(ChangeNet { cell, names, json }) => {
            let change = NetChange { cell, allow: names, deny: Vec::new() };
            show(&session.ask(change).await?, json)?;
        }
        NetAction::Deny(ChangeNet { cell, names, json }) => {
            let change = NetChange { cell, allow: Vec::new(), deny: names };
            show(&session.ask(change).await?, json)?;
        }
        NetAction::Show(ShowNet { cell, json }) => {
            show(&session.ask(NetShow { cell }).await?, json)?;
        }
        NetAction::Log(LogNet { cell, limit, json }) => {
            for record in session.ask(NetLog { cell, limit }).await?.records {
                if json { print_json(&record)? } else { print(line(&record))? }
            }
        }
    }
    Ok(0)
}

fn show(state: &NetworkState, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(state);
    }
    let mut text = format!("{}\n", state.network);
    if let Some(used) = state.stats {
        let (sent, received) = (bytes(used.sent_bytes), bytes(used.received_bytes));
        text += &format!("{sent} out, {received} in, {} connections open\n", used.connections);
    }
    print(text)
}

fn line(record: &NetRecord) -> String {
    let verdict = match record.verdict {
        NetVerdict::Opened => "opened",
        NetVerdict::Closed => "closed",
        NetVerdict::Denied => "denied",
        NetVerdict::Failed => "failed",
        NetVerdict::Cut => "cut",
    };
    let port = record.port.map(|port| format!(":{port}")).unwrap_or_default();
    let mut text = format!("{}  {verdict:<6}  {}{port}", record.ts, record.name);
    if let Some(address) = record.address {
        text += &format!("  {address}");
    }
    if let (Some(sent), Some(received)) = (record.sent_bytes, record.received_bytes) {
        text += &format!("  {} out, {} in", bytes(sent), bytes(received));
    }
    if let Some(reason) = &record.reason {
        text += &format!("  {reason}");
    }
    // Names and reasons come from outside: nothing in them moves the cursor.
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(plain).chain(['\n']).collect()
}
