//! Tests that the structured results of every tool fit the output schema that is stated for it.

use hotcell_model::{
    BatchOutcome, BatchResult, CancelStatus, Cell, CellDetails, CellKilled, Cells, Checkpoint,
    CheckpointDiff, Checkpoints, Collected, Error, Exec, ExecCancelled, ExecPage, ExecResult,
    Execs, FileContent, FileDone, FileEntries, FileEntry, FileKind, FileMatch, FileMatches,
    FileResult, FilesPacked, HeldId, InputAccepted, PolicyVerdict, ProjectApplied, ProjectChanges,
    ProjectDiscarded, Reconciled, Record, Reply, Stream, Timestamp, ToolsFound,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::dialects::hotcell::{HotcellDialect, Reach, ToolBounds};
use crate::project_offer::ProjectOffer;
use hotcell_dialects::{Dialect, Outcome, StartPhase, StartingExec, ToolCall};

const ETAG: &str = "0123456789abcdef0123456789abcdef";
const EXEC: &str = "e_0000000001";
const CELL: &str = "c_0000000002";

fn dialect() -> HotcellDialect {
    let toolsets = "cell,exec,fs,code,admin".parse().unwrap();
    HotcellDialect::new(&toolsets, ToolBounds::default(), Reach::default())
        .with_project(&ProjectOffer::Allowed)
}

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// What of a value does not fit a schema.
fn fault(schema: &Value, path: &str, value: &Value) -> Option<String> {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let expected = schema["type"].as_str().unwrap_or(name);
    if expected != name && (expected, name) != ("number", "integer") {
        return Some(format!("{path} is {name}, not {expected}"));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|_| value.is_object()).find(|name| value.get(name).is_none());
    if let Some(missing) = missing {
        return Some(format!("{path}.{missing} is required"));
    }
    let fields = value.as_object().into_iter().flatten();
    let in_field = |(name, value): (&String, &Value)| {
        fault(&schema["properties"][name], &format!("{path}.{name}"), value)
    };
    let items = value.as_array().into_iter().flatten();
    let mut in_item = items.map(|item| fault(&schema["items"], &format!("{path}[]"), item));
    fields.map(in_field).find_map(|fault| fault).or_else(|| in_item.find_map(|fault| fault))
}

fn cell(is_full: bool) -> Cell {
    let mut cell = json!({
        "id": CELL, "state": "ready", "driver": "native", "image": "host", "persistent": true,
        "created_at": Timestamp(0), "network": "none",
        "limits": { "memory_mb": 1, "pids": 1, "disk_mb": 1, "disk_files": 1 },
    });
    if is_full {
        cell["alias"] = json!("a");
        cell["expires_at"] = json!(Timestamp(1));
        cell["network"] = json!({ "allow": ["pypi.org"] });
        cell["workspace"] = json!({ "dir": "/a", "mode": "cow" });
        cell["isolation"] = json!({ "level": "full", "layers": [], "missing": [] });
    }
    of(cell)
}

fn exec(is_full: bool) -> Exec {
    let mut exec = json!({
        "id": EXEC, "cell": CELL, "state": "queued", "command": { "shell": "ls" },
        "pty": false, "as_root": false, "queued_at": Timestamp(0),
    });
    if is_full {
        exec["state"] = json!("ended");
        exec["end"] = json!({
            "cause": "signaled", "signal": "KILL", "ended_at": Timestamp(1),
            "limits_hit": ["memory"],
            "usage": { "wall_ms": 1, "cpu_ms": 1, "max_rss_kb": 1, "stdout_bytes": 1,
                       "stderr_bytes": 1 },
        });
    }
    of(exec)
}

fn records(is_full: bool) -> Vec<Record> {
    let record = |seq, bytes: &[u8]| Record {
        seq,
        ts: Timestamp(seq),
        stream: Stream::Stderr,
        bytes: bytes.to_vec(),
    };
    if is_full { vec![record(1, b"a\n"), record(2, &[0xff; 100])] } else { Vec::new() }
}

fn page(is_full: bool) -> ExecPage {
    ExecPage {
        exec: exec(is_full),
        records: records(is_full),
        next_seq: 0,
        complete: is_full,
        more: is_full,
        dropped: is_full.then_some(of(json!({ "dropped_bytes": 1, "from_seq": 1, "to_seq": 2 }))),
        waiting_for_input: is_full.then(|| "? ".to_owned()),
        matched: is_full.then_some(false),
        screen: None,
        code: None,
        awaiting: Vec::new(),
    }
}

fn ran(is_full: bool) -> Reply {
    Reply::ExecResult(ExecResult {
        exec: exec(is_full),
        records: records(is_full),
        truncated: is_full,
        next_seq: 0,
        waiting_for_input: is_full.then(|| "? ".to_owned()),
        code: None,
        awaiting: Vec::new(),
    })
}

fn change() -> Value {
    json!({ "path": "a", "change": "added", "directory": false, "guarded": "why", "drifted": true })
}

fn entry(is_full: bool) -> FileEntry {
    FileEntry {
        path: "/workspace/a".to_owned(),
        kind: if is_full { FileKind::Symlink } else { FileKind::File },
        size: 1,
        mode: 0o644,
        modified: Timestamp(0),
        etag: is_full.then(|| ETAG.parse().unwrap()),
        mime_type: is_full.then(|| "text/plain".to_owned()),
        target: is_full.then(|| "b".to_owned()),
    }
}

fn done(result: FileResult) -> Reply {
    Reply::FileDone(FileDone { result, content: b"text".to_vec() })
}

/// A reply to each tool: with as little as there can be, or with everything.
#[expect(clippy::too_many_lines, reason = "one reply for each tool")]
fn reply(tool: &str, is_full: bool) -> Vec<Reply> {
    let some = |value: Value| if is_full { json!([value]) } else { json!([]) };
    let checkpoint = json!({
        "id": "k_0000000003", "cell": CELL, "created_at": Timestamp(0), "means": "copied",
    });
    let packed = FilesPacked::default();
    vec![match tool {
        "cell_spawn" => Reply::Cell(cell(is_full)),
        "cell_list" | "cell_fork" => {
            Reply::Cells(Cells { cells: if is_full { vec![cell(true)] } else { Vec::new() } })
        }
        "cell_attach" | "cell_info" => Reply::CellDetails(Box::new(CellDetails {
            cell: cell(is_full),
            stats: is_full.then(Default::default),
            execs: if is_full { vec![exec(true)] } else { Vec::new() },
            awaiting: Vec::new(),
            image_digest: None,
            engine: None,
            attachments: Vec::new(),
        })),
        "cell_kill" => {
            Reply::CellKilled(of::<CellKilled>(json!({ "cell": CELL, "status": "killed" })))
        }
        "cell_checkpoint" => {
            let diff = json!({
                "checkpoint": "k_0000000003",
                "changes": some(json!({ "path": "a", "change": "added", "directory": true })),
                "truncated": is_full,
                "patch": is_full.then(|| json!({ "text": "x", "truncated": true })),
            });
            return vec![
                Reply::Checkpoint(of::<Checkpoint>(checkpoint.clone())),
                Reply::Checkpoints(of::<Checkpoints>(json!({ "checkpoints": some(checkpoint) }))),
                Reply::CheckpointDiff(of::<CheckpointDiff>(diff)),
            ];
        }
        "exec_run" | "code_run" => ran(is_full),
        "exec_poll" => Reply::ExecPage(page(is_full)),
        "exec_input" => Reply::InputAccepted(InputAccepted {
            exec: EXEC.parse().unwrap(),
            output: Some(page(is_full)),
        }),
        "exec_cancel" => Reply::ExecCancelled(ExecCancelled {
            exec: EXEC.parse().unwrap(),
            status: CancelStatus::NotFound,
        }),
        "exec_list" => Reply::Execs(of::<Execs>(json!({
            "execs": some(json!(exec(true))), "next_cursor": is_full.then_some("x"),
        }))),
        "tool_search" => Reply::ToolsFound(ToolsFound {
            tools: Vec::new(),
            of: 0,
            faults: if is_full { vec!["x".to_owned()] } else { Vec::new() },
            approval: if is_full { vec!["x".to_owned()] } else { Vec::new() },
            hint: is_full.then(|| "x".to_owned()),
        }),
        "fs_read" => done(FileResult::Content(FileContent {
            path: "/workspace/a".to_owned(),
            etag: ETAG.parse().unwrap(),
            size: 1000,
            mime_type: "text/plain".to_owned(),
            modified: Timestamp(0),
            offset: 0,
            bytes: 4,
            first_line: is_full.then_some(1),
            last_line: is_full.then_some(1),
            truncated: is_full,
        })),
        "fs_write" => done(FileResult::Written(of(
            json!({ "path": "a", "etag": ETAG, "size": 1, "created": true }),
        ))),
        "fs_edit" => done(FileResult::Edited(of(json!({
            "path": "a", "etag": ETAG, "size": 1, "replaced": 1,
            "diff": if is_full { "+a\n".repeat(20_000) } else { String::new() },
        })))),
        "fs_list" => done(FileResult::Entries(FileEntries {
            entries: if is_full { vec![entry(true), entry(false)] } else { Vec::new() },
            next_cursor: is_full.then(|| "61".to_owned()),
        })),
        "fs_stat" => done(FileResult::Entry(entry(is_full))),
        "fs_delete" => done(FileResult::Deleted(of(json!({ "path": "a", "removed": 1 })))),
        "fs_search" => {
            let one = FileMatch {
                path: "a".to_owned(),
                line: Some(1),
                text: Some("x".repeat(400)),
                before: Vec::new(),
                after: Vec::new(),
            };
            let matches = if is_full { vec![one; 500] } else { Vec::new() };
            let found = FileMatches { matches, files: 0, truncated: is_full, next_cursor: None };
            done(FileResult::Matches(found))
        }
        "fs_batch" => {
            let failed = BatchOutcome::Failed(Error::not_found("there is no a"));
            let outcomes = if is_full { vec![failed, BatchOutcome::NotDone] } else { Vec::new() };
            done(FileResult::Batch(BatchResult { outcomes, rolled_back: is_full }))
        }
        "fs_export" => done(FileResult::Exported(packed)),
        "fs_import" => done(FileResult::Imported(packed)),
        "workspace_diff" => Reply::ProjectChanges(of::<ProjectChanges>(json!({
            "dir": "/a", "changes": some(change()), "truncated": is_full,
            "patch": if is_full { "x" } else { "" }, "patch_truncated": is_full,
        }))),
        "workspace_apply" => Reply::ProjectApplied(of::<ProjectApplied>(json!({
            "dir": "/a", "applied": some(change()), "held_back": some(change()),
            "conflicts": some(change()),
        }))),
        "workspace_discard" => Reply::ProjectDiscarded(of::<ProjectDiscarded>(
            json!({ "dir": "/a", "discarded": some(change()) }),
        )),
        "policy_check" => Reply::PolicyVerdict(of::<PolicyVerdict>(json!({
            "profile": "default", "decision": "allow", "rule": is_full.then_some("r"),
            "reason": "r", "destructive": false, "overwrites": false, "dynamic": false,
            "parts": [], "explanation": "x",
        }))),
        "reconcile" => Reply::Reconciled(Reconciled {
            errors: if is_full { vec!["x".to_owned()] } else { Vec::new() },
            ..Reconciled::default()
        }),
        "garbage_collect" => Reply::Collected(Collected {
            disk_pressure: is_full,
            removed: Vec::new(),
            ..Collected::default()
        }),
        other => panic!("there is no reply for {other}"),
    }]
}

fn check(dialect: &HotcellDialect, tool: &str, asked: &str, reply: hotcell_model::Result<Reply>) {
    let call = dialect.call(tool, serde_json::from_str(asked).unwrap()).unwrap();
    let ToolCall::Asks(question) = call else { panic!("{call:?}") };
    let show = question.show.unwrap();
    let mut shown = show(Outcome { reply, site: None, starting: Vec::new() }).unwrap();
    crate::encoded::decode(&mut shown);
    let value = shown.structured_content.unwrap();
    let schema = dialect.find(tool).unwrap().output_schema.clone().unwrap();
    let fault = fault(&Value::Object((*schema).clone()), tool, &value);
    assert_eq!(fault, None, "{value}");
}

#[test]
fn every_result_fits_the_schema_of_its_tool() {
    let dialect = dialect();
    for kind in &dialect.kinds {
        let mut calls = vec![kind.example.to_owned()];
        if let Some(property) = (kind.input)().get("properties").and_then(|it| it.get("details")) {
            assert_eq!(property["type"], "boolean");
            calls.push(dialect.example(kind.name, "details: x").unwrap());
        }
        for asked in calls {
            for reply in [false, true].into_iter().flat_map(|is_full| reply(kind.name, is_full)) {
                check(&dialect, kind.name, &asked, Ok(reply));
            }
        }
    }
    for tool in ["workspace_diff", "workspace_apply", "workspace_discard"] {
        check(&dialect, tool, "{}", Err(Error::not_found("there is no default cell")));
    }
    let held: HeldId = "h_0000000004".parse().unwrap();
    for tool in ["workspace_apply", "workspace_discard"] {
        check(&dialect, tool, "{}", Err(Error::denied("real files: ask").held(held.clone())));
    }
}

#[test]
fn execs_whose_cell_is_starting_are_shown_in_the_form_of_each_tool() {
    let dialect = dialect();
    let of_phase = |phase: StartPhase| StartingExec {
        exec: EXEC.parse().unwrap(),
        cell: "default".parse().unwrap(),
        command: "make".to_owned(),
        queued_at: Timestamp(0),
        phase,
    };
    for tool in ["exec_run", "code_run", "exec_poll"] {
        let schema =
            Value::Object((*dialect.find(tool).unwrap().output_schema.clone().unwrap()).clone());
        for (phase, status) in
            [(StartPhase::Starting, "starting"), (StartPhase::Cancelled, "cancelled")]
        {
            let shown = dialect.starting(tool, &of_phase(phase));
            let value = shown.structured_content.clone().unwrap();
            assert_eq!(fault(&schema, tool, &value), None, "{value}");
            let text = serde_json::to_string(&shown.content).unwrap();
            assert!(text.contains(status) && text.contains(EXEC), "{text}");
        }
        let failed =
            dialect.starting(tool, &of_phase(StartPhase::Failed(Error::unavailable("no room"))));
        let text = serde_json::to_string(&failed.content).unwrap();
        assert!(failed.is_error == Some(true) && text.contains("did not start: no room"), "{text}");
    }
}
