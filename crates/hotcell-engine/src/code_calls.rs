//! Answers the calls that code makes while it runs: each goes through the one door, on behalf of
//! whoever had the code run.

use std::pin::Pin;

use hotcell_link::{DataSender, EventReceiver, PortConnection, PortEvent};
use hotcell_model::{
    Caller, Error, ErrorCode, ExecId, Result, ToolDetail, ToolNames, ToolRun, ToolSearch,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Engine;

/// Calls of one run that are under way at once; more wait in the code.
const AT_ONCE: usize = 64;
/// Calls of one run in all.
const MOST_CALLS: u64 = 10_000;
/// The longest call.
const MOST_BYTES: usize = 16 << 20;
const LENGTH_BYTES: usize = 4;
const MOST_FOUND: u32 = 50;

/// What code asks for.
#[derive(Debug, Deserialize)]
struct Call {
    id: u64,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum What {
    Call {
        server: String,
        tool: String,
        #[serde(default)]
        arguments: Map<String, Value>,
    },
    List {
        server: Option<String>,
    },
    Search {
        query: String,
        #[serde(default)]
        detail: ToolDetail,
        server: Option<String>,
        #[serde(default = "few")]
        limit: u32,
    },
}

fn few() -> u32 {
    5
}

/// What it is told.
#[derive(Debug, Serialize)]
struct Told {
    id: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok(Value),
    Error { code: String, message: String, hint: Option<String> },
}

/// The code of a failure that is the tool's own.
const TOOL_FAILED: &str = "tool_failed";

/// Answers until the code makes no more calls. It is a box so that what code calls may run code.
pub(crate) fn serve_calls(
    engine: Engine,
    caller: Caller,
    exec: ExecId,
    connection: PortConnection,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let PortConnection { sender, receiver } = connection;
        let (answers, to_send) = mpsc::channel(AT_ONCE);
        let sending = send_all(sender, to_send);
        let taking = take_all(&engine, &caller, &exec, receiver, answers);
        let (taken, ()) = tokio::join!(taking, sending);
        if let Err(error) = taken {
            tracing::debug!(%exec, %error, "the calls of code are no longer answered");
        }
    })
}

async fn send_all(sender: DataSender, mut answers: mpsc::Receiver<Vec<u8>>) {
    while let Some(answer) = answers.recv().await {
        if sender.send(&answer).await.is_err() {
            return;
        }
    }
    let _ = sender.finish().await;
}

async fn take_all(
    engine: &Engine,
    caller: &Caller,
    exec: &ExecId,
    mut receiver: EventReceiver<PortEvent>,
    answers: mpsc::Sender<Vec<u8>>,
) -> Result<()> {
    let mut under_way = JoinSet::new();
    let mut unread = Vec::new();
    let mut calls = 0;
    loop {
        match receiver.next().await? {
            PortEvent::Data(bytes) => unread.extend_from_slice(&bytes),
            PortEvent::End | PortEvent::Closed => break,
            PortEvent::Failed(error) => return Err(error),
        }
        while let Some(frame) = next_frame(&mut unread)? {
            calls += 1;
            while under_way.len() >= AT_ONCE {
                under_way.join_next().await;
            }
            let (engine, answers) = (engine.beside_itself(), answers.clone());
            let (caller, exec) = (caller.clone(), exec.clone());
            under_way.spawn(async move {
                let told = answer(&engine, &caller, exec, &frame, calls).await;
                // Nobody to tell is the end of the code.
                let _ = answers.send(framed(&told)).await;
            });
        }
    }
    // What still waits for a person's word or a server is given up: there is nobody to tell.
    under_way.shutdown().await;
    Ok(())
}

/// Takes the first whole message out.
fn next_frame(unread: &mut Vec<u8>) -> Result<Option<Vec<u8>>> {
    let Some((length, _)) = unread.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MOST_BYTES {
        return Err(Error::limit_exceeded(format!("code made a call of {length} bytes"))
            .hint(format!("a call may have {MOST_BYTES} bytes")));
    }
    let end = LENGTH_BYTES + length;
    if unread.len() < end {
        return Ok(None);
    }
    let rest = unread.split_off(end);
    let mut frame = std::mem::replace(unread, rest);
    frame.drain(..LENGTH_BYTES);
    Ok(Some(frame))
}

fn framed(told: &Told) -> Vec<u8> {
    let mut bytes = vec![0; LENGTH_BYTES];
    if serde_json::to_writer(&mut bytes, told).is_err() {
        bytes.truncate(LENGTH_BYTES);
    }
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).unwrap_or(u32::MAX);
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    bytes
}

async fn answer(engine: &Engine, caller: &Caller, exec: ExecId, frame: &[u8], calls: u64) -> Told {
    let call: Call = match serde_json::from_slice(frame) {
        Ok(call) => call,
        Err(error) => {
            let id = serde_json::from_slice::<Value>(frame).ok();
            let id = id.and_then(|value| value.get("id")?.as_u64()).unwrap_or_default();
            let error = Error::invalid(format!("a call of code cannot be understood: {error}"));
            return Told { id, outcome: refused(error) };
        }
    };
    let outcome = if calls > MOST_CALLS {
        refused(
            Error::limit_exceeded(format!("the code made {MOST_CALLS} calls, which is the most"))
                .hint("make fewer calls, each for more; or go on in another run"),
        )
    } else {
        done(engine, caller, exec, call.what).await.unwrap_or_else(refused)
    };
    Told { id: call.id, outcome }
}

async fn done(engine: &Engine, caller: &Caller, exec: ExecId, what: What) -> Result<Outcome> {
    match what {
        What::Call { server, tool, arguments } => {
            let ran =
                engine.ask(caller, ToolRun { exec: Some(exec), server, tool, arguments }).await?;
            Ok(if ran.failed {
                let message = ran.value.as_str().map(str::to_owned);
                let message = message.unwrap_or_else(|| ran.value.to_string());
                Outcome::Error { code: TOOL_FAILED.to_owned(), message, hint: None }
            } else {
                Outcome::Ok(ran.value)
            })
        }
        What::List { server } => {
            let found = engine.ask(caller, ToolNames { server }).await?;
            Ok(Outcome::Ok(json!(found.names)))
        }
        What::Search { query, detail, server, limit } => {
            let limit = limit.min(MOST_FOUND);
            let found = engine.ask(caller, ToolSearch { query, detail, server, limit }).await?;
            Ok(Outcome::Ok(Value::String(found.tools.join("\n"))))
        }
    }
}

fn refused(error: Error) -> Outcome {
    if error.code == ErrorCode::Internal {
        tracing::error!(%error, "a call of code failed");
    }
    let code = error.code.as_str().to_owned();
    Outcome::Error { code, message: error.message, hint: error.hint }
}
