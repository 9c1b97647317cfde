//! What a person is told of a request that has to be approved.

use hotcell_model::{
    AskedFact, CellId, CellRef, ExecRun, FileCall, FileOp, FileStream, Request, Result, Stdin,
};
use serde_json::Value;

use crate::digest;
use crate::glass::Glass;
use crate::recorded::cell_of;
use crate::site::Site;
use crate::view::View;

/// How much of a fact a person is told.
const FACT_CHARS: usize = 2000;
/// How much of a content is looked at for that.
const LOOKED_BYTES: usize = 64 * 1024;
/// How much of its name.
const NAME_CHARS: usize = 200;
/// How much of all of them together: they stand in the journal and in the index.
const ALL_CHARS: usize = 32_000;
/// How many facts.
const MOST_FACTS: usize = 200;
/// The facts from which a command is judged again.
pub(crate) const CWD: &str = "cwd";
pub(crate) const STDIN: &str = "stdin";
/// Before the name of a variable.
pub(crate) const ENV: &str = "env ";

/// A request in a few words.
pub(crate) fn what(request: &Request) -> String {
    if let Request::FileCall(FileCall { op, .. }) | Request::FileStream(FileStream { op, .. }) =
        request
    {
        return what_file(op);
    }
    match request {
        Request::ExecRun(it) => it.command.to_string(),
        Request::CellSpawn(it) => match &it.alias {
            Some(alias) => format!("make the cell {alias} from the image {}", it.image),
            None => format!("make a cell from the image {}", it.image),
        },
        Request::CellKill(it) if it.volumes => "end the cell and remove its files".to_owned(),
        Request::CellKill(_) => "end the cell".to_owned(),
        Request::VolumeRestore(_) => "bring the cell back with its files".to_owned(),
        Request::VolumeRemove(_) => "remove the files that the cell left".to_owned(),
        Request::Reconcile(_) => "bring the index and what drivers have together".to_owned(),
        Request::Collect(_) => "remove what is over or that nobody needs".to_owned(),
        Request::CellFork(it) => format!("make {} cells with the files of this one", it.count),
        Request::CheckpointRestore(it) => format!("bring the files back to {}", it.checkpoint),
        Request::CheckpointDelete(it) => format!("forget the checkpoint {}", it.checkpoint),
        Request::NetChange(_) => "change what the cell may reach over the network".to_owned(),
        Request::ProjectApply(_) => "apply the cell's changes to the real files".to_owned(),
        Request::ProjectDiscard(_) => "discard the cell's changes to the project".to_owned(),
        Request::ExecInput(it) => format!("send input or a signal to {}", it.exec),
        Request::ExecCancel(it) => format!("end {}", it.exec),
        Request::ToolRun(it) => format!("call the tool {}", it.full_name()),
        Request::PortDial(it) => format!("connect to port {} in the cell", it.port),
        Request::SecretSet(it) => format!("keep the secret {}", it.name),
        Request::SecretRemove(it) => format!("forget the secret {}", it.name),
        Request::ImageImport(it) => format!("take the image {}", it.path.display()),
        Request::ImagePull(it) => format!("pull the image {}", it.name),
        Request::ImageRemove(it) => format!("forget the image {}", it.name),
        Request::CellList(_)
        | Request::CellAttach(_)
        | Request::VolumesList(_)
        | Request::ImagesList(_)
        | Request::CellInfo(_)
        | Request::CellAdopt(_)
        | Request::CheckpointCreate(_)
        | Request::CheckpointList(_)
        | Request::CheckpointCompare(_)
        | Request::NetShow(_)
        | Request::NetLog(_)
        | Request::ProjectDiff(_)
        | Request::ExecWait(_)
        | Request::ToolSearch(_)
        | Request::ToolNames(_)
        | Request::ToolList(_)
        | Request::ExecGet(_)
        | Request::ExecPoll(_)
        | Request::ExecList(_)
        | Request::ExecFollow(_)
        | Request::FileCall(_)
        | Request::FileStream(_)
        | Request::ApprovalList(_)
        | Request::ApprovalGive(_)
        | Request::PolicyCheck(_)
        | Request::SecretsList(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::AuditQuery(_)
        | Request::AuditSummary(_)
        | Request::CodeStats(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => request.name().replace('_', " "),
    }
}

fn what_file(op: &FileOp) -> String {
    match op {
        FileOp::Read(it) => format!("read {}", it.path),
        FileOp::Write(it) => format!("write {}", it.path),
        FileOp::Edit(it) => format!("edit {}", it.path),
        FileOp::List(it) => format!("list {}", it.path),
        FileOp::Stat(it) => format!("look at {}", it.path),
        FileOp::Delete(it) if it.recursive => format!("delete {} and all below it", it.path),
        FileOp::Delete(it) => format!("delete {}", it.path),
        FileOp::MakeDirectory(it) => format!("make the directory {}", it.path),
        FileOp::Move(it) => format!("move {} to {}", it.from, it.to),
        FileOp::Copy(it) => format!("copy {} to {}", it.from, it.to),
        FileOp::Search(it) => format!("search {}", it.path),
        FileOp::Export(it) => format!("pack {}", it.path),
        FileOp::Import(it) => format!("unpack an archive into {}", it.path),
        FileOp::Watch(it) => format!("watch {}", it.path),
        FileOp::Batch(it) => {
            let parts: Vec<String> = it.operations.iter().map(|part| what_file(&part.op)).collect();
            parts.join("; ")
        }
    }
}

/// All else that matters of a request, without secrets.
pub(crate) async fn facts(site: &Site, request: &Request) -> Result<Vec<AskedFact>> {
    covered(site, cell_of(request), raw_facts(request)).await
}

/// Facts for an approval question: bounded, and without secrets.
pub(crate) async fn covered(
    site: &Site,
    cell: Option<&CellRef>,
    mut facts: Vec<AskedFact>,
) -> Result<Vec<AskedFact>> {
    let glass = glass_for(site, cell).await?;
    let covered = |text: &str| glass.as_ref().map_or_else(|| text.to_owned(), |it| it.text(text));
    let left_out = facts.len().saturating_sub(MOST_FACTS);
    facts.truncate(MOST_FACTS);
    let mut room = ALL_CHARS;
    for fact in &mut facts {
        // A name may be what tells that a value is a secret.
        let named = match fact.name.strip_prefix(ENV) {
            Some(variable) => format!("{variable}="),
            None => String::new(),
        };
        let shown = covered(&format!("{named}{}", fact.value));
        let most = room.min(FACT_CHARS);
        fact.value = bounded(shown.strip_prefix(&named).unwrap_or(&shown), most);
        fact.name = bounded(&covered(&fact.name), NAME_CHARS);
        room = room.saturating_sub(fact.value.chars().count());
    }
    if left_out > 0 {
        facts.push(fact("and", format!("{left_out} more that are not told")));
    }
    Ok(facts)
}

/// How texts about a cell are shown to whoever is asked; about none, without what has the form of a
/// secret.
pub(crate) async fn glass_for(site: &Site, cell: Option<&CellRef>) -> Result<Option<Glass>> {
    let view = View::Masked(site.find_shapes());
    let id: Option<CellId> = match cell {
        Some(CellRef::Id(id)) => Some(id.clone()),
        Some(CellRef::Alias(_) | CellRef::Default) | None => None,
    };
    match id {
        Some(id) => view.glass(site, &id).await,
        None => Ok(Some(Glass::new(site.find_shapes(), Vec::new())).filter(|it| !it.is_clear())),
    }
}

fn raw_facts(request: &Request) -> Vec<AskedFact> {
    if let Request::ExecRun(run) = request {
        return of_run(run);
    }
    if let Request::FileCall(FileCall { op, content, .. }) = request {
        let mut facts = of_op(op);
        if !content.is_empty() {
            facts.push(of_content(content));
        }
        return facts;
    }
    if let Request::FileStream(FileStream { op, .. }) = request {
        let mut facts = of_op(op);
        if !op.only_reads() {
            let unknown = "comes with the call, and is not known before it is let through";
            facts.push(fact("content", unknown.to_owned()));
        }
        return facts;
    }
    if let Request::ExecInput(input) = request {
        let mut facts = vec![of_content(&input.data), fact("eof", input.eof.to_string())];
        facts.extend(input.signal.map(|signal| fact("signal", signal.to_string())));
        if !input.keys.is_empty() {
            facts.push(fact("keys", input.keys.join(" ")));
        }
        return facts;
    }
    fields(serde_json::from_slice(&digest::arguments(request)).unwrap_or_default())
}

fn of_run(run: &ExecRun) -> Vec<AskedFact> {
    let mut facts = vec![fact(CWD, run.cwd.clone()), fact("as_root", run.as_root.to_string())];
    facts.extend(run.env.iter().map(|(name, value)| fact(&format!("{ENV}{name}"), value.clone())));
    match &run.stdin {
        Stdin::Empty => {}
        Stdin::Text(text) => facts.push(fact(STDIN, text.clone())),
        Stdin::Open => facts.push(fact("stdin_open", "what is sent later".to_owned())),
    }
    facts
}

/// The arguments of an operation on files; of a batch those of each part.
fn of_op(op: &FileOp) -> Vec<AskedFact> {
    if let FileOp::Batch(batch) = op {
        let parts = batch.operations.iter().enumerate();
        return parts
            .flat_map(|(place, part)| {
                of_op(&part.op)
                    .into_iter()
                    .map(move |told| fact(&format!("{}. {}", place + 1, told.name), told.value))
            })
            .collect();
    }
    match serde_json::to_value(op) {
        Ok(Value::Object(named)) => named.into_iter().flat_map(|(_, told)| fields(told)).collect(),
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn of_content(content: &[u8]) -> AskedFact {
    let looked = &content[..content.len().min(LOOKED_BYTES)];
    fact(&format!("content, {} bytes", content.len()), String::from_utf8_lossy(looked).into_owned())
}

/// One fact for each field that says something.
fn fields(arguments: Value) -> Vec<AskedFact> {
    let Value::Object(fields) = arguments else { return Vec::new() };
    let mut facts = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Array(values) if values.is_empty() => {}
            Value::Object(fields) if fields.values().all(Value::is_null) => {}
            // It is told beside them.
            Value::String(_) if name == "cell" => {}
            Value::Object(variables) if name == "env" => {
                facts.extend(variables.into_iter().map(|(name, value)| {
                    let value = value.as_str().unwrap_or_default().to_owned();
                    fact(&format!("{ENV}{name}"), value)
                }));
            }
            Value::String(text) => facts.push(fact(&name, text)),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                facts.push(fact(&name, other.to_string()));
            }
        }
    }
    facts
}

fn fact(name: &str, value: String) -> AskedFact {
    AskedFact { name: name.to_owned(), value }
}

/// The beginning of a text, and how much more there is.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    let more = text.chars().count().saturating_sub(most);
    let mut shown: String = text.chars().take(most).collect();
    if more > 0 {
        shown.push_str(&format!("… and {more} more characters"));
    }
    shown
}
