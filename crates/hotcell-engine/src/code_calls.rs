//! Answers the calls that code and programs make while they run: each goes through the one door, on
//! behalf of whoever had them run.

use std::pin::Pin;
use std::sync::Arc;

use hotcell_link::{DataSender, EventReceiver, PortConnection, PortEvent};
use hotcell_model::{
    Caller, Error, ErrorCode, ExecId, Patience, Result, ToolDetail, ToolNames, ToolRun, ToolSearch,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::code_counts::RunCounts;
use crate::{CodeSettings, Engine};

const LENGTH_BYTES: usize = 4;
const MOST_FOUND: u32 = 50;
/// Arguments that are given as words; each is looked for among those of the tool.
const MOST_WORDS: usize = 1000;

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
        /// Arguments as words of a command line; the tool's schema says what they are.
        #[serde(default)]
        words: Vec<(String, Option<String>)>,
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
        let run = Run::of(engine, caller, exec.clone());
        let (answers, to_send) = mpsc::channel(run.limits.parallel_calls);
        let sending = send_all(sender, to_send);
        let taking = take_all(Arc::new(run), receiver, answers);
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

/// An exec that runs, and what it may call.
pub(crate) struct Run {
    engine: Engine,
    caller: Caller,
    exec: ExecId,
    pub(crate) counts: Arc<RunCounts>,
    pub(crate) limits: CodeSettings,
}

async fn take_all(
    run: Arc<Run>,
    mut receiver: EventReceiver<PortEvent>,
    answers: mpsc::Sender<Vec<u8>>,
) -> Result<()> {
    let mut under_way = JoinSet::new();
    let mut unread = Vec::new();
    let mut skipped = Skipped::default();
    loop {
        match receiver.next().await? {
            PortEvent::Data(bytes) => skipped.put(&bytes, &mut unread),
            PortEvent::End | PortEvent::Closed => break,
            PortEvent::Failed(error) => return Err(error),
        }
        loop {
            let frame = match next_frame(&mut unread, run.limits.call_bytes) {
                Frame::Whole(frame) => Ok(frame),
                Frame::TooLong { length, head } => {
                    skipped.skip(length, &mut unread);
                    Err((length, head))
                }
                Frame::Part => break,
            };
            let place = run.counts.place(run.limits.parallel_calls).await;
            while under_way.try_join_next().is_some() {}
            let (run, answers) = (Arc::clone(&run), answers.clone());
            under_way.spawn(async move {
                let told = match frame {
                    Ok(frame) => run.answer(&frame).await,
                    Err((length, head)) => run.too_long(length, &head),
                };
                // Nobody to tell is the end of the code.
                let _ = answers.send(told).await;
                drop(place);
            });
        }
    }
    // What still waits for a person's word or a server is given up: there is nobody to tell.
    under_way.shutdown().await;
    Ok(())
}

/// What is thrown away as it comes: the rest of a call that is too long.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    pub(crate) left: usize,
}

impl Skipped {
    /// Throws away a message of this length, of which a part has come.
    pub(crate) fn skip(&mut self, length: usize, unread: &mut Vec<u8>) {
        let whole = LENGTH_BYTES + length;
        self.left = whole.saturating_sub(unread.len());
        unread.drain(..unread.len().min(whole));
    }

    pub(crate) fn put(&mut self, bytes: &[u8], unread: &mut Vec<u8>) {
        let skipped = self.left.min(bytes.len());
        self.left -= skipped;
        unread.extend_from_slice(&bytes[skipped..]);
    }
}

/// What stands first among bytes that came.
pub(crate) enum Frame {
    /// A message, which was taken out.
    Whole(Vec<u8>),
    /// A message that is longer than it may be, with its beginning.
    TooLong { length: usize, head: Vec<u8> },
    /// Not enough to tell.
    Part,
}

/// Of a message that is too long, so much tells whose answer is awaited.
const HEAD_BYTES: usize = 32;

pub(crate) fn next_frame(unread: &mut Vec<u8>, most: usize) -> Frame {
    let Some((length, rest)) = unread.split_first_chunk::<LENGTH_BYTES>() else {
        return Frame::Part;
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > most {
        if rest.len() < HEAD_BYTES.min(length) {
            return Frame::Part;
        }
        return Frame::TooLong { length, head: rest[..HEAD_BYTES.min(length)].to_vec() };
    }
    let end = LENGTH_BYTES + length;
    if unread.len() < end {
        return Frame::Part;
    }
    let rest = unread.split_off(end);
    let mut frame = std::mem::replace(unread, rest);
    frame.drain(..LENGTH_BYTES);
    Frame::Whole(frame)
}

/// The id of a message by its beginning, where it stands first.
pub(crate) fn id_of(head: &[u8]) -> u64 {
    let digits = head.strip_prefix(br#"{"id":"#).unwrap_or_default();
    let digits = digits.iter().map_while(|byte| char::from(*byte).to_digit(10));
    digits.fold(0, |id: u64, digit| id.saturating_mul(10).saturating_add(digit.into()))
}

/// An answer as it is sent.
fn framed(told: &Told) -> Vec<u8> {
    let mut bytes = vec![0; LENGTH_BYTES];
    if serde_json::to_writer(&mut bytes, told).is_err() {
        bytes.truncate(LENGTH_BYTES);
    }
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).unwrap_or(u32::MAX);
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    bytes
}

impl Run {
    pub(crate) fn of(engine: Engine, caller: Caller, exec: ExecId) -> Self {
        let counts = engine.site().counts.begin(&exec);
        let limits = engine.site().settings.code.clone();
        // A process is there to wait, whoever had it run.
        let caller = Caller { patience: Patience::UntilAnswered, ..caller };
        Self { engine, caller, exec, counts, limits }
    }

    /// What is sent for a call that is too long, by its length and its beginning.
    pub(crate) fn too_long(&self, length: usize, head: &[u8]) -> Vec<u8> {
        let most = self.limits.call_bytes;
        let error = Error::limit_exceeded(format!("the code made a call of {length} bytes"))
            .hint(format!("a call may have {most} bytes; pass less, or in parts"));
        framed(&Told { id: id_of(head), outcome: refused(error) })
    }

    /// Does what a call asks for; what is sent for it.
    pub(crate) async fn answer(&self, frame: &[u8]) -> Vec<u8> {
        framed(&self.told(frame, self.counts.count_one()).await)
    }

    async fn told(&self, frame: &[u8], calls: u64) -> Told {
        let call: Call = match serde_json::from_slice(frame) {
            Ok(call) => call,
            Err(error) => {
                let id = serde_json::from_slice::<Value>(frame).ok();
                let id = id.and_then(|value| value.get("id")?.as_u64()).unwrap_or_default();
                let error = Error::invalid(format!("a call of code cannot be understood: {error}"));
                return Told { id, outcome: refused(error) };
            }
        };
        let most = self.limits.calls;
        let outcome = if calls > most {
            refused(
                Error::limit_exceeded(format!("the code made {most} calls, which is the most"))
                    .hint("make fewer calls, each for more; or go on in another run"),
            )
        } else {
            self.done(call.what).await.unwrap_or_else(refused)
        };
        Told { id: call.id, outcome }
    }

    async fn done(&self, what: What) -> Result<Outcome> {
        let (engine, caller) = (&self.engine, &self.caller);
        match what {
            What::Call { server, tool, mut arguments, words } => {
                if words.len() > MOST_WORDS {
                    return Err(Error::limit_exceeded(format!(
                        "{} arguments are more than a command line may have",
                        words.len()
                    ))
                    .hint(format!("give at most {MOST_WORDS}, or all as one --json")));
                }
                if !words.is_empty() {
                    let shelf = engine.site().toolbox()?.shelf_with(&server).await?;
                    arguments.extend(shelf.find(&server, &tool)?.of_words(words));
                }
                let call = ToolRun { exec: Some(self.exec.clone()), server, tool, arguments };
                let counted = self.counts.call(&call);
                let ran = engine.ask(caller, call).await?;
                counted.answered(&ran);
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
}

fn refused(error: Error) -> Outcome {
    if error.code == ErrorCode::Internal {
        tracing::error!(%error, "a call of code failed");
    }
    let code = error.code.as_str().to_owned();
    Outcome::Error { code, message: error.message, hint: error.hint }
}
