//! What callers of the tools see of cells and execs.

use hotcell_model::{
    Approval, Cell, Dropped, Exec, ExecEnd, ExecPage, ExecState, IsolationLevel, Limits, Message,
    Network, Timestamp, Usage, Workspace,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::code_tools::CodeView;
use super::schema::Object;

/// A cell in short.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CellView {
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    state: String,
    image: String,
    driver: String,
    persistent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    expires_at: Option<Timestamp>,
    #[schemars(with = "Object")]
    limits: Limits,
    #[schemars(with = "String")]
    network: Network,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    workspace: Option<Workspace>,
    /// full, or limited: cell_info says what is missing
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    isolation: Option<IsolationLevel>,
}

impl From<&Cell> for CellView {
    fn from(cell: &Cell) -> Self {
        Self {
            id: cell.id.to_string(),
            alias: cell.alias.as_ref().map(ToString::to_string),
            state: cell.state.as_str().to_owned(),
            image: cell.image.clone(),
            driver: cell.driver.clone(),
            persistent: cell.persistent,
            expires_at: cell.expires_at,
            limits: cell.limits,
            network: cell.network.clone(),
            workspace: cell.workspace.clone(),
            isolation: cell.isolation.as_ref().map(|isolation| isolation.level),
        }
    }
}

impl CellView {
    /// In one line.
    pub(super) fn line(&self) -> String {
        let alias = self.alias.as_deref().map(|alias| format!(" ({alias})")).unwrap_or_default();
        let kept = if self.persistent { "persistent" } else { "transient" };
        format!("{}{alias} {} {kept} {} on {}", self.id, self.state, self.image, self.driver)
    }
}

/// Where an exec stands.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Standing {
    pub(super) cell: String,
    pub(super) exec_id: String,
    /// queued, running or ended
    pub(super) status: String,
    /// exited, signaled, timed_out, cancelled, oom_killed, lost, denied
    #[serde(skip_serializing_if = "Option::is_none")]
    end_cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// memory, pids, disk, disk_files, output
    #[serde(skip_serializing_if = "Option::is_none")]
    limits_hit: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
}

impl From<&Exec> for Standing {
    fn from(exec: &Exec) -> Self {
        let end = exec.end.as_ref();
        Self {
            cell: exec.cell.to_string(),
            exec_id: exec.id.to_string(),
            status: exec.state.as_str().to_owned(),
            end_cause: end.map(|end| end.cause.as_str().to_owned()),
            exit_code: end.and_then(|end| end.exit_code),
            signal: end.and_then(|end| end.signal).map(|signal| signal.to_string()),
            limits_hit: end.and_then(limits_hit),
            approval: exec.approval.as_deref().map(told),
            checkpoint: exec.checkpoint.as_ref().map(ToString::to_string),
        }
    }
}

/// What asks, and what came of it.
pub(super) fn told(approval: &Approval) -> String {
    let Approval { rule, reason, until, answer, .. } = approval;
    match answer {
        None => format!("waits until {until} for a person: {reason} (rule {rule})"),
        Some(answer) => {
            let (verdict, by) = (answer.verdict.as_str(), &answer.by);
            format!("{verdict} by {by}: {reason} (rule {rule})")
        }
    }
}

fn limits_hit(end: &ExecEnd) -> Option<Vec<String>> {
    let hit = end.limits_hit.iter().map(|limit| limit.as_str().to_owned()).collect::<Vec<_>>();
    (!hit.is_empty()).then_some(hit)
}

impl Standing {
    /// In one line.
    pub(super) fn line(&self) -> String {
        let hit = self.limits_hit.as_ref().map(|hit| format!("; limits hit: {}", hit.join(", ")));
        let hit = hit.unwrap_or_default();
        let kept = self.checkpoint.as_ref().map(|id| format!("; checkpoint before it: {id}"));
        let hit = hit + &kept.unwrap_or_default();
        match (&self.end_cause, self.exit_code) {
            (Some(_), Some(code)) => format!("[{} ended, exit code {code}{hit}]", self.exec_id),
            (Some(cause), None) if self.approval.is_some() => {
                let why = self.approval.as_deref().unwrap_or_default();
                format!("[{} ended: {cause}: {why}]", self.exec_id)
            }
            (Some(cause), None) => match &self.signal {
                Some(signal) => format!("[{} ended: {cause} by {signal}{hit}]", self.exec_id),
                None => format!("[{} ended: {cause}{hit}]", self.exec_id),
            },
            (None, _) if self.status == ExecState::Queued.as_str() && self.approval.is_some() => {
                let why = self.approval.as_deref().unwrap_or_default();
                format!("[{} {}: {why}; follow it with exec_poll]", self.exec_id, self.status)
            }
            (None, _) => {
                format!("[{} {}: follow it with exec_poll]", self.exec_id, self.status)
            }
        }
    }
}

/// An exec in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ExecView {
    #[serde(flatten)]
    standing: Standing,
    command: String,
    #[schemars(with = "String")]
    queued_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    usage: Option<Usage>,
}

impl From<&Exec> for ExecView {
    fn from(exec: &Exec) -> Self {
        const COMMAND_CHARS: usize = 200;
        let mut command: String = exec.command.to_string();
        if let Some((end, _)) = command.char_indices().nth(COMMAND_CHARS) {
            command.truncate(end);
            command.push('…');
        }
        Self {
            standing: exec.into(),
            command,
            queued_at: exec.queued_at,
            usage: exec.end.as_ref().map(|end| end.usage),
        }
    }
}

impl ExecView {
    /// In one line.
    pub(super) fn line(&self) -> String {
        format!("{} in {}: {}", self.standing.line(), self.standing.cell, self.command)
    }
}

/// Part of an exec's output.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PageView {
    #[serde(flatten)]
    standing: Standing,
    #[schemars(with = "Vec<Object>")]
    messages: Vec<Message>,
    /// pass it as after_seq to go on
    next_seq: u64,
    /// ended and nothing more to read
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    dropped: Option<Dropped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    code: Option<CodeView>,
}

impl From<ExecPage> for PageView {
    fn from(page: ExecPage) -> Self {
        let messages = page.records.into_iter().map(|record| Message {
            seq: record.seq,
            stream: record.stream,
            data: String::from_utf8_lossy(&record.bytes).into_owned(),
            ts: record.ts,
        });
        let code = page.code.map(|code| CodeView::beside(*code, &page.exec));
        Self {
            standing: (&page.exec).into(),
            messages: messages.collect(),
            next_seq: page.next_seq,
            complete: page.complete,
            dropped: page.dropped,
            code,
        }
    }
}

impl PageView {
    /// The output, what is missing of it, and where the exec stands.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(dropped) = &self.dropped {
            text.push_str(&format!("[{} bytes were not kept]\n", dropped.dropped_bytes));
        }
        for message in &self.messages {
            text.push_str(&message.data);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if let Some(code) = &self.code {
            code.add_to(&mut text);
            text.push('\n');
        }
        text.push_str(&self.standing.line());
        if !self.complete && self.standing.status == ExecState::Ended.as_str() {
            text.push_str(&format!(" [more: after_seq {}]", self.next_seq));
        }
        text
    }
}
