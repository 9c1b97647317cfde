//! How tools show cells and execs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_dialects::{AWAITING_APPROVAL, StartingExec};
use hotcell_model::{
    Approval, Asked, Cell, Dropped, EndCause, Exec, ExecEnd, ExecPage, IsolationLevel, Limits,
    Network, Record, Stream, Timestamp, Usage, Workspace,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::code_tools::CodeView;
use super::mode_switches::without_mode_switches;
use super::schema::{Anything, Object};
use super::text::{end_line, path_in_line, shown_size};
use crate::file_shown::BASE64;
use crate::quoted::quoted;
use crate::screen_view::ScreenView;

/// Whether times, usage and other details are part of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Brief,
    Full,
}

impl Detail {
    pub(super) fn of(details: bool) -> Self {
        if details { Self::Full } else { Self::Brief }
    }

    /// A value that only belongs to a full result.
    pub(super) fn only_full<T>(self, value: impl FnOnce() -> T) -> Option<T> {
        (self == Self::Full).then(value)
    }
}

/// A cell.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CellView {
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    state: String,
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    persistent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    limits: Option<Limits>,
    #[schemars(with = "Anything")]
    network: Network,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    workspace: Option<Workspace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    isolation: Option<IsolationLevel>,
}

impl CellView {
    pub(super) fn new(cell: &Cell, detail: Detail) -> Self {
        Self {
            id: cell.id.to_string(),
            alias: cell.alias.as_ref().map(ToString::to_string),
            state: cell.state.as_str().to_owned(),
            image: cell.image.clone(),
            driver: detail.only_full(|| cell.driver.clone()),
            persistent: cell.persistent,
            expires_at: cell.expires_at,
            limits: detail.only_full(|| cell.limits),
            network: cell.network.clone(),
            workspace: cell.workspace.clone(),
            isolation: cell.isolation.as_ref().map(|isolation| isolation.level),
        }
    }

    /// The cell in one line.
    pub(super) fn line(&self) -> String {
        let alias = self.alias.as_deref().map(|alias| format!(" ({alias})")).unwrap_or_default();
        let kept = if self.persistent { "persistent" } else { "transient" };
        let mut line = format!("{}{alias} {} {kept} image {}", self.id, self.state, self.image);
        if let Some(driver) = &self.driver {
            line.push_str(&format!(" on {driver}"));
        }
        match &self.network {
            Network::None => line.push_str(", network none"),
            Network::Names(rules) => {
                let names: Vec<String> = rules.allow.iter().map(ToString::to_string).collect();
                line.push_str(&format!(", network {}", names.join(" ")));
            }
        }
        if let Some(workspace) = &self.workspace {
            let Workspace { dir, mode } = workspace;
            line.push_str(&format!(", workspace {} ({})", dir.display(), plain(mode)));
        }
        if let Some(at) = self.expires_at {
            line.push_str(&format!(", expires {at}"));
        }
        line
    }

    /// Details for readers, one per line.
    pub(super) fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(level) = &self.isolation {
            lines.push(format!("isolation: {}", plain(level)));
        }
        if let Some(limits) = &self.limits {
            lines.push(format!("limits: {}", plain(limits)));
        }
        lines
    }
}

/// A value of the model in one line: `name value, name value`, without what is not set.
pub(super) fn plain<T: Serialize>(value: &T) -> String {
    flat(&serde_json::to_value(value).unwrap_or_default())
}

fn flat(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            let parts: Vec<String> =
                set.map(|(name, value)| format!("{name} {}", flat(value))).collect();
            parts.join(", ")
        }
        Value::Array(values) => values.iter().map(flat).collect::<Vec<_>>().join(" "),
        Value::String(text) => path_in_line(text).into_owned(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other.to_string(),
    }
}

/// The output after what a result shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// There is none and will be none.
    None,
    /// There is none yet.
    MayCome,
    /// There is some.
    Unread,
}

/// The status of an exec.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Standing {
    pub(super) cell: String,
    pub(super) exec_id: String,
    /// starting, queued, running, awaiting_approval or ended
    pub(super) status: String,
    /// exited, signaled, timed_out, cancelled, oom_killed, lost, denied, not_started
    #[serde(skip_serializing_if = "Option::is_none")]
    end_cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits_hit: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
    /// blocked reading its input: the last line it printed
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for_input: Option<String>,
}

impl Standing {
    /// The status of an exec, some of whose tool calls may await approval.
    pub(super) fn new(exec: &Exec, awaiting: &[Asked]) -> Self {
        let end = exec.end.as_ref();
        let awaits = exec.awaits_approval() || !awaiting.is_empty();
        Self {
            cell: exec.cell.to_string(),
            exec_id: exec.id.to_string(),
            status: if awaits { AWAITING_APPROVAL } else { exec.state.as_str() }.to_owned(),
            end_cause: end.map(|end| end.cause.as_str().to_owned()),
            exit_code: end.and_then(|end| end.exit_code),
            signal: end.and_then(|end| end.signal).map(|signal| signal.to_string()),
            limits_hit: end.and_then(limits_hit),
            approval: approval_of(exec, awaiting),
            checkpoint: exec.checkpoint.as_ref().map(ToString::to_string),
            waiting_for_input: None,
        }
    }
}

/// That processes of a command were ended with it, and how to keep them running. Of a command that was
/// stopped, all of them were to end.
pub(super) fn ended_with(exec: &Exec) -> Option<String> {
    let end = exec.end.as_ref()?;
    if !matches!(end.cause, EndCause::Exited | EndCause::Signaled) {
        return None;
    }
    let left = match end.killed_descendants {
        0 => return None,
        1 => "1 process that the command left in the background was".to_owned(),
        many => format!("{many} processes that the command left in the background were"),
    };
    Some(format!(
        "{left} ended with it; to keep a program running, use exec_run without & and with a small \
         wait_s, then exec_poll"
    ))
}

/// What an exec awaits approval for and how to give it, or what was answered.
pub(super) fn approval_of(exec: &Exec, awaiting: &[Asked]) -> Option<String> {
    if let Some(asked) = awaiting.first() {
        let more = match awaiting.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let (what, id) = (&asked.what, asked.id.to_string());
        return Some(format!("{what}: {}{more}", how_to_approve(&asked.approval, &id)));
    }
    let approval = exec.approval.as_deref()?;
    Some(match &approval.answer {
        None => how_to_approve(approval, exec.id.as_str()),
        Some(answer) => {
            let Approval { rule, reason, .. } = approval;
            format!("{} by {}: {reason} (rule {rule})", answer.verdict.as_str(), answer.by)
        }
    })
}

fn how_to_approve(approval: &Approval, id: &str) -> String {
    let Approval { rule, reason, until, .. } = approval;
    format!(
        "{reason} (rule {rule}); ask the user to run `hotcell approve {id}` before \
         {until}"
    )
}

fn limits_hit(end: &ExecEnd) -> Option<Vec<String>> {
    let hit = end.limits_hit.iter().map(|limit| limit.as_str().to_owned()).collect::<Vec<_>>();
    (!hit.is_empty()).then_some(hit)
}

impl Standing {
    /// The status of an exec that the engine does not have yet.
    pub(super) fn of_starting(exec: &StartingExec) -> Self {
        Self {
            cell: exec.cell.to_string(),
            exec_id: exec.exec.to_string(),
            status: exec.status().to_owned(),
            end_cause: exec.end_cause().map(str::to_owned),
            exit_code: None,
            signal: None,
            limits_hit: None,
            approval: None,
            checkpoint: None,
            waiting_for_input: None,
        }
    }

    /// The same of an exec that may be blocked reading its input after this line.
    pub(super) fn asking(mut self, prompt: Option<String>) -> Self {
        self.waiting_for_input = prompt;
        self
    }

    /// The status in one line.
    pub(super) fn line(&self) -> String {
        format!("[{}]", self.words())
    }

    /// The same with how to read the output after a seq.
    pub(super) fn line_at(&self, next_seq: u64, rest: Rest) -> String {
        let words = self.words();
        let unread = format!("more output: exec_poll with after_seq {next_seq}");
        let waiting = self.waiting_for_input.as_deref().map(|prompt| match prompt.is_empty() {
            true => "waiting for input".to_owned(),
            false => format!("waiting for input: {}", quoted(prompt)),
        });
        match (waiting, rest) {
            (Some(waiting), Rest::Unread) => format!("[{words}, {waiting}; {unread}]"),
            (Some(waiting), Rest::None | Rest::MayCome) => {
                format!("[{words}, {waiting}; answer with exec_input; next_seq {next_seq}]")
            }
            (None, Rest::None) => format!("[{words}]"),
            (None, Rest::Unread) => format!("[{words}; {unread}]"),
            (None, Rest::MayCome) => {
                format!("[{words}; next_seq {next_seq}: continue with exec_poll]")
            }
        }
    }

    fn words(&self) -> String {
        let Self { exec_id, status, .. } = self;
        let mut words = match (&self.end_cause, self.exit_code, &self.signal) {
            (Some(_), Some(code), _) => format!("{exec_id} ended, exit code {code}"),
            (Some(cause), None, Some(signal)) => format!("{exec_id} ended: {cause} by {signal}"),
            (Some(cause), None, None) => format!("{exec_id} ended: {cause}"),
            (None, _, _) if status == StartingExec::STARTING => {
                format!("{exec_id} {status}: its cell is not ready yet")
            }
            (None, _, _) => format!("{exec_id} {status}"),
        };
        if let Some(hit) = &self.limits_hit {
            words.push_str(&format!("; limits hit: {}", hit.join(", ")));
        }
        if let Some(checkpoint) = &self.checkpoint {
            words.push_str(&format!("; checkpoint before it: {checkpoint}"));
        }
        // Of one that has ended, only a refusal is of interest.
        let shows_approval = self.end_cause.as_deref().is_none_or(|cause| cause == "denied");
        if let Some(approval) = self.approval.as_ref().filter(|_| shows_approval) {
            words.push_str(&format!(": {approval}"));
        }
        words
    }
}

/// An exec in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ExecView {
    #[serde(flatten)]
    standing: Standing,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    queued_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    usage: Option<Usage>,
}

fn shortened(mut command: String, detail: Detail) -> String {
    let most_chars = match detail {
        Detail::Brief => 100,
        Detail::Full => 400,
    };
    if let Some((end, _)) = command.char_indices().nth(most_chars) {
        command.truncate(end);
        command.push('…');
    }
    command
}

impl ExecView {
    /// An exec, with what of these tool calls is its own.
    pub(super) fn new(exec: &Exec, awaiting: &[Asked], detail: Detail) -> Self {
        let own = awaiting.iter().filter(|asked| asked.exec.as_ref() == Some(&exec.id));
        let own: Vec<Asked> = own.cloned().collect();
        Self {
            standing: Standing::new(exec, &own),
            command: shortened(exec.command.to_string(), detail),
            queued_at: detail.only_full(|| exec.queued_at),
            usage: exec.end.as_ref().and_then(|end| detail.only_full(|| end.usage)),
        }
    }

    /// An exec that the engine does not have yet.
    pub(super) fn of_starting(exec: &StartingExec, detail: Detail) -> Self {
        Self {
            standing: Standing::of_starting(exec),
            command: shortened(exec.command.clone(), detail),
            queued_at: detail.only_full(|| exec.queued_at),
            usage: None,
        }
    }

    /// The cell it runs in.
    pub(super) fn cell(&self) -> &str {
        &self.standing.cell
    }

    /// The exec in one line.
    pub(super) fn line(&self) -> String {
        let command = path_in_line(&self.command);
        let mut line = format!("{} {command}", self.standing.line());
        if let Some(at) = self.queued_at {
            line.push_str(&format!(" (queued {at})"));
        }
        if let Some(usage) = &self.usage {
            line.push_str(&format!(" ({})", plain(usage)));
        }
        line
    }
}

/// Adjacent output of one stream.
#[derive(Debug, Serialize)]
struct MessageView {
    /// Of its last record.
    seq: u64,
    stream: Stream,
    data: String,
    /// base64 for binary data; otherwise text
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<Timestamp>,
}

/// Binary output as base64: as text it would be several times as large, and not what was printed.
fn data_of(bytes: &[u8]) -> (String, Option<&'static str>) {
    let text = String::from_utf8_lossy(bytes);
    match shown_size(&text) > 2 * bytes.len() {
        true => (BASE64_STANDARD.encode(bytes), Some(BASE64)),
        false => (text.into_owned(), None),
    }
}

/// The records of a page: one message for each run of a stream, or one for each record with its
/// time.
fn messages(records: Vec<Record>, detail: Detail) -> Vec<MessageView> {
    let mut runs: Vec<(Record, Vec<u8>)> = Vec::new();
    for mut record in records {
        let bytes = std::mem::take(&mut record.bytes);
        match runs.last_mut() {
            Some((last, so_far)) if last.stream == record.stream && detail == Detail::Brief => {
                last.seq = record.seq;
                so_far.extend(bytes);
            }
            Some(_) | None => runs.push((record, bytes)),
        }
    }
    let view = |(record, bytes): (Record, Vec<u8>)| {
        let (data, encoding) = match record.stream {
            Stream::Pty => data_of(&without_mode_switches(&bytes)),
            Stream::Stdout | Stream::Stderr => data_of(&bytes),
        };
        let ts = detail.only_full(|| record.ts);
        MessageView { seq: record.seq, stream: record.stream, data, encoding, ts }
    };
    runs.into_iter().map(view).collect()
}

/// Part of an exec's output.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PageView {
    #[serde(flatten)]
    standing: Standing,
    /// seq, stream, data, encoding
    #[schemars(with = "Vec<Object>")]
    messages: Vec<MessageView>,
    /// pass it as after_seq to go on
    next_seq: u64,
    /// ended and nothing more to read
    complete: bool,
    /// unread output is there after next_seq
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    dropped: Option<Dropped>,
    /// what is missing
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Processes that were ended with it, and how to keep them running.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    ended_with: Option<String>,
    /// rows, highlighted, cursor, size, …
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    screen: Option<ScreenView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    code: Option<CodeView>,
}

/// What a page leaves out of the output that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    Nothing,
    /// The beginning of the last lines.
    Beginning,
}

impl PageView {
    /// The page of an exec that the engine does not have yet.
    pub(super) fn of_starting(exec: &StartingExec) -> Self {
        Self {
            standing: Standing::of_starting(exec),
            messages: Vec::new(),
            next_seq: 0,
            complete: exec.end_cause().is_some(),
            more: None,
            dropped: None,
            note: None,
            ended_with: None,
            screen: None,
            usage: None,
            code: None,
        }
    }

    pub(super) fn new(page: ExecPage, left_out: LeftOut, detail: Detail) -> Self {
        let end = page.exec.end.as_ref();
        let note = match (left_out, page.matched) {
            (LeftOut::Beginning, _) => {
                Some("the beginning did not fit: raise max_bytes or ask for fewer lines".to_owned())
            }
            (LeftOut::Nothing, Some(false)) => Some("the pattern was not printed".to_owned()),
            (LeftOut::Nothing, Some(true) | None) => None,
        };
        Self {
            note,
            ended_with: page.complete.then(|| ended_with(&page.exec)).flatten(),
            more: page.more.then_some(true),
            standing: Standing::new(&page.exec, &page.awaiting).asking(page.waiting_for_input),
            screen: page.screen.map(|screen| ScreenView::from(*screen)),
            usage: end.and_then(|end| detail.only_full(|| end.usage)),
            code: page.code.map(|code| CodeView::beside(*code, &page.exec, detail)),
            messages: messages(page.records, detail),
            next_seq: page.next_seq,
            complete: page.complete,
            dropped: page.dropped,
        }
    }

    /// The output, a note about what is missing, and the status of the exec.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(dropped) = &self.dropped {
            text.push_str(&format!("[{} bytes were not kept]\n", dropped.dropped_bytes));
        }
        if let Some(note) = &self.note {
            text.push_str(&format!("[{note}]\n"));
        }
        let mut current = Stream::Stdout;
        let mut is_within_line = false;
        for message in &self.messages {
            let name = message.stream.as_str();
            if let Some(ts) = message.ts {
                end_line(&mut text);
                text.push_str(&format!("[{name} {ts}]\n"));
            } else if let Some(encoding) = message.encoding {
                end_line(&mut text);
                text.push_str(&format!("[{name} as {encoding}]\n"));
            } else if message.stream != current && message.stream != Stream::Pty {
                end_line(&mut text);
                text.push_str(&format!("[{}]\n", message.stream.as_str()));
            }
            current = message.stream;
            text.push_str(&message.data);
            is_within_line = message.encoding.is_none() && !message.data.ends_with('\n');
        }
        if let Some(screen) = &self.screen {
            text.push_str(&screen.text());
        }
        if is_within_line && self.more == Some(true) && self.screen.is_none() {
            text.push('…');
        }
        end_line(&mut text);
        if let Some(code) = &self.code {
            code.add_to(&mut text);
            end_line(&mut text);
        }
        let rest = match (self.complete, self.more) {
            (true, _) => Rest::None,
            (false, Some(true)) => Rest::Unread,
            (false, Some(false) | None) => Rest::MayCome,
        };
        text.push_str(&self.standing.line_at(self.next_seq, rest));
        if let Some(ended_with) = &self.ended_with {
            text.push_str(&format!("\n[{ended_with}]"));
        }
        if let Some(usage) = &self.usage {
            text.push_str(&format!("\n[{}]", plain(usage)));
        }
        text
    }
}
