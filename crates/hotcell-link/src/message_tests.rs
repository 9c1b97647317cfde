//! Tests of what stands on the wire: it may grow, and what is there never changes.

use std::collections::BTreeMap;

use hotcell_model::{
    CancelStatus, CellStats, CloseReason, Command, EndCause, Error, ExecEnd, ExecId, ExecSpec,
    ExecState, LimitHit, Pace, Signal, Stdin, Stream, TerminalSize, Timestamp, Usage,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Ask, DiskState, Hello, RecordHead, Started, Tell, Versions, record_cost};

const EXEC: &str = "e_1000000000";

fn exec() -> ExecId {
    EXEC.parse().unwrap()
}

fn end() -> ExecEnd {
    ExecEnd {
        cause: EndCause::Exited,
        exit_code: Some(3),
        signal: None,
        limit: Some(LimitHit::Disk),
        limits_hit: Vec::new(),
        killed_descendants: 1,
        ended_at: Timestamp(1),
        usage: Usage { wall_ms: 1, cpu_ms: 2, max_rss_kb: 3, stdout_bytes: 4, stderr_bytes: 5 },
        session: None,
    }
}

/// Adds a field that a later version might have to every object in it.
fn grown(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: serde_json::Map<_, _> =
                fields.iter().map(|(name, value)| (name.clone(), grown(value))).collect();
            // An enum is an object with its variant as the only field; that stays as it is.
            if fields.len() > 1 {
                fields.insert("from_a_later_version".to_owned(), json!({ "x": [1, 2] }));
            }
            Value::Object(fields)
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            value.clone()
        }
    }
}

#[track_caller]
fn assert_wire<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    message: &T,
    wire: &Value,
) {
    assert_eq!(&serde_json::to_value(message).unwrap(), wire);
    assert_eq!(&serde_json::from_value::<T>(wire.clone()).unwrap(), message);
    assert_eq!(&serde_json::from_value::<T>(grown(wire)).unwrap(), message, "{}", grown(wire));
}

#[test]
fn a_start_on_the_wire() {
    let spec = ExecSpec {
        id: exec(),
        command: Command::Shell("true".to_owned()),
        cwd: "/workspace".to_owned(),
        env: BTreeMap::new(),
        stdin: Stdin::Text("in".to_owned()),
        pty: Some(TerminalSize::default()),
        timeout_ms: Some(5),
        priority: -1,
        as_root: true,
        pace: Pace::Follower,
        bounds: hotcell_model::ExecBounds::default(),
        approval: None,
        checkpoint: None,
        code: hotcell_model::CodeTerms::default(),
    };
    let wire = json!({ "start": {
        "spec": {
            "id": EXEC, "command": { "shell": "true" }, "cwd": "/workspace", "env": {},
            "stdin": { "text": "in" }, "pty": { "rows": 24, "cols": 80 }, "timeout_ms": 5,
            "priority": -1, "as_root": true, "pace": "follower",
        },
        "window": 7,
    }});
    assert_wire(&Ask::Start { spec: Box::new(spec), window: Some(7), secrets: Vec::new() }, &wire);
}

#[test]
fn questions_on_the_wire() {
    let size = TerminalSize { rows: 1, cols: 2 };
    let disk = DiskState {
        used_bytes: 9,
        used_files: 2,
        over: Some(LimitHit::DiskFiles),
        end_execs: true,
    };
    let (signal, grace_ms) = (Signal::TERM, 5000);
    let cases = [
        (
            Ask::Follow { exec: exec(), after_seq: 4, window: 8 },
            json!({ "follow": { "exec": EXEC, "after_seq": 4, "window": 8 } }),
        ),
        (Ask::Input { exec: exec(), eof: true }, json!({ "input": { "exec": EXEC, "eof": true } })),
        (
            Ask::Resize { exec: exec(), size },
            json!({ "resize": { "exec": EXEC, "size": { "rows": 1, "cols": 2 } } }),
        ),
        (
            Ask::Signal { exec: exec(), signal },
            json!({ "signal": { "exec": EXEC, "signal": "TERM" } }),
        ),
        (
            Ask::Cancel { exec: exec(), signal, grace_ms },
            json!({ "cancel": { "exec": EXEC, "signal": "TERM", "grace_ms": 5000 } }),
        ),
        (Ask::InputState { exec: exec() }, json!({ "input_state": { "exec": EXEC } })),
        (Ask::Hold, json!("hold")),
        (Ask::Watch, json!("watch")),
        (
            Ask::Disk(disk),
            json!({ "disk": { "used_bytes": 9, "used_files": 2, "over": "disk_files", "end_execs": true } }),
        ),
        (Ask::Stats, json!("stats")),
        (
            Ask::Close { reason: CloseReason::Killed, force: true },
            json!({ "close": { "reason": "killed", "force": true } }),
        ),
    ];
    for (ask, wire) in cases {
        assert_wire(&ask, &wire);
    }
}

#[test]
fn answers_on_the_wire() {
    let started = Started {
        state: ExecState::Ended,
        queued_at: Timestamp(0),
        started_at: Some(Timestamp(1)),
        pid: None,
        approval: None,
        end: Some(end()),
    };
    let wire_end = json!({
        "cause": "exited", "exit_code": 3, "limit": "disk", "killed_descendants": 1,
        "ended_at": "1970-01-01T00:00:00.001Z",
        "usage": {
            "wall_ms": 1, "cpu_ms": 2, "max_rss_kb": 3, "stdout_bytes": 4, "stderr_bytes": 5,
        },
    });
    let stats = CellStats { running: 1, queued: 2, cpu_ms: Some(3), ..CellStats::default() };
    let cases = [
        (Tell::Done, json!("done")),
        (
            Tell::Started(started),
            json!({ "started": {
                "state": "ended", "queued_at": "1970-01-01T00:00:00.000Z",
                "started_at": "1970-01-01T00:00:00.001Z", "end": wire_end,
            }}),
        ),
        (Tell::Cancelled(CancelStatus::AlreadyEnded), json!({ "cancelled": "already_ended" })),
        (Tell::Stats(stats), json!({ "stats": { "running": 1, "queued": 2, "cpu_ms": 3 } })),
        (
            Tell::Failed(Error::not_found("no exec").hint("look")),
            json!({ "failed": { "code": "not_found", "message": "no exec", "hint": "look" } }),
        ),
    ];
    for (tell, wire) in cases {
        assert_wire(&tell, &wire);
    }
    assert_wire(&end(), &wire_end);
}

#[test]
fn greetings_and_records_on_the_wire() {
    let hello = Hello {
        versions: Versions { min: 1, max: 2 },
        features: vec!["f".to_owned()],
        software: "s".to_owned(),
    };
    let wire = json!({ "versions": { "min": 1, "max": 2 }, "features": ["f"], "software": "s" });
    let grown = json!({
        "versions": { "min": 1, "max": 2, "best": 2 },
        "features": ["f"], "software": "s", "later": true,
    });
    assert_eq!(serde_json::to_value(&hello).unwrap(), wire);
    assert_eq!(serde_json::from_value::<Hello>(grown).unwrap(), hello);
    let bare: Hello =
        serde_json::from_value(json!({ "versions": { "min": 1, "max": 1 } })).unwrap();
    assert_eq!((bare.features, bare.software), (Vec::new(), String::new()));

    let head = RecordHead { seq: 5, ts: Timestamp(0), stream: Stream::Pty };
    let wire = json!({ "seq": 5, "ts": "1970-01-01T00:00:00.000Z", "stream": "pty" });
    assert_wire(&head, &wire);
}

#[test]
fn a_record_costs_its_bytes_and_its_frame() {
    assert_eq!(record_cost(0), 64);
    assert_eq!(record_cost(16 * 1024), 16 * 1024 + 64);
    assert_eq!(record_cost(usize::MAX - 64), u32::MAX);
}
