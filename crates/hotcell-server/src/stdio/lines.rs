//! One JSON-RPC message per line, both ways.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, ClientJsonRpcMessage, ClientNotification, ErrorData,
    JsonObject, JsonRpcMessage, JsonRpcNotification, JsonRpcVersion2_0, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::long_texts::{self, Piece};
use super::pipes::{self, Reader, Writer};
use super::request_id::IdFinder;

/// A longer message is refused; what a client has to say in one is far shorter.
const MOST_LINE_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 64 * 1024;
/// Messages that wait for a client that does not read.
const UNSENT: usize = 256;
/// How often it is looked whether such a client is still there.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How long a client that has ended its input may take to read what it was told.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The server's end of a client's pipes.
pub(super) struct LineTransport {
    reader: BufReader<Reader>,
    line: Vec<u8>,
    /// What a line that is too long is looked through for.
    too_long: Option<IdFinder>,
    begun: Begun,
    unsent: mpsc::Sender<Unsent>,
    /// What is to be said to the last line.
    refusal: Option<Unsent>,
    awaited: Awaited,
    closing: CancellationToken,
}

/// A line, and what it was made from: that is freed once the line is written, for the answer to a
/// large question takes as long to free as to write.
struct Unsent {
    line: Vec<u8>,
    _told: (ServerJsonRpcMessage, Vec<Piece>),
}

/// Whether client and server have agreed on how to speak. Before that there is nothing that a
/// notification could be about.
#[derive(Debug, Clone, Default)]
pub(super) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The ids of requests that are not answered yet.
#[derive(Debug, Clone, Default)]
struct Awaited(Arc<Mutex<HashSet<RequestId>>>);

impl Awaited {
    fn with<T>(&self, change: impl FnOnce(&mut HashSet<RequestId>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Why a line is not passed on, and whose request it was, as far as that is known.
struct Refusal {
    error: ErrorData,
    id: Option<RequestId>,
}

impl Refusal {
    fn of_nobody(error: ErrorData) -> Self {
        Self { error, id: None }
    }
}

impl LineTransport {
    /// A transport, and what is done once everything is written.
    pub(super) fn open(
        reader: Reader,
        writer: Writer,
        begun: Begun,
        closing: CancellationToken,
    ) -> (Self, impl Future<Output = ()>) {
        let (unsent, queue) = mpsc::channel(UNSENT);
        let mut writing = JoinSet::new();
        writing.spawn(write(writer, queue, closing.clone()));
        let transport = Self {
            reader: BufReader::with_capacity(READ_BYTES, reader),
            line: Vec::new(),
            too_long: None,
            begun,
            unsent,
            refusal: None,
            awaited: Awaited::default(),
            closing,
        };
        // The queue ends with the transport.
        (transport, async move { drop(writing.join_next().await) })
    }

    /// Takes what there is of the next line; `None` at the end of all, `Some(false)` while the line
    /// goes on. Nothing is lost if it is dropped while it waits.
    async fn read_on(&mut self) -> Option<bool> {
        let available = match self.reader.fill_buf().await {
            Ok(available) if !available.is_empty() => available,
            Ok(_) | Err(_) => return None,
        };
        let end = memchr::memchr(b'\n', available);
        let taken = end.map_or(available.len(), |end| end + 1);
        if let Some(finder) = &mut self.too_long {
            finder.feed(&available[..taken]);
        } else if self.line.len() + taken > MOST_LINE_BYTES {
            let finder = self.too_long.insert(IdFinder::default());
            finder.feed(&std::mem::take(&mut self.line));
            finder.feed(&available[..taken]);
        } else {
            self.line.extend_from_slice(&available[..taken]);
        }
        self.reader.consume(taken);
        Some(end.is_some())
    }

    /// Waits until the client reads: one that does not is not listened to. `None` when it has gone.
    async fn make_room(&mut self) -> Option<()> {
        loop {
            tokio::select! {
                biased;
                room = self.unsent.reserve() => match (room, self.refusal.take()) {
                    (Ok(room), Some(line)) => room.send(line),
                    (Ok(_), None) => return Some(()),
                    (Err(_), _) => return None,
                },
                () = sleep(LOOK_PAUSE) => if pipes::input_is_over() { return None },
            }
        }
    }

    /// The message in the line that is complete, if it is one to pass on.
    ///
    /// # Errors
    /// It is none.
    fn take_message(&mut self) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        let line = std::mem::take(&mut self.line);
        if let Some(finder) = self.too_long.take() {
            let message = format!("a message of more than {MOST_LINE_BYTES} bytes");
            let error = ErrorData::invalid_request(message, None);
            return Err(Refusal { error, id: self.unless_taken(finder.found()) });
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let message = read_message(&line).map_err(|error| match error.is_data() {
            true => Refusal {
                error: ErrorData::invalid_request("not a single JSON-RPC 2.0 message", None),
                id: self.unless_taken(IdFinder::find(&line)),
            },
            false => Refusal {
                error: ErrorData::parse_error(format!("not valid JSON: {error}"), None),
                id: self.unless_taken(IdFinder::find(&line)),
            },
        })?;
        match &message {
            JsonRpcMessage::Request(request) => {
                if !self.awaited.with(|awaited| awaited.insert(request.id.clone())) {
                    let message = format!("request {} is under way already", request.id);
                    return Err(Refusal::of_nobody(ErrorData::invalid_request(message, None)));
                }
                return Ok(Some(message));
            }
            JsonRpcMessage::Notification(notification) => self.forget_cancelled(notification),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(self.begun.is_set().then_some(message))
    }

    /// The id of a request that cannot be taken, unless one that was has it too.
    fn unless_taken(&self, id: Option<RequestId>) -> Option<RequestId> {
        id.filter(|id| !self.awaited.with(|awaited| awaited.contains(id)))
    }

    /// A request that was cancelled is not answered, and its id may come again.
    fn forget_cancelled(&self, notification: &JsonRpcNotification<ClientNotification>) {
        if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.awaited.with(|awaited| awaited.remove(id));
        }
    }
}

impl Transport<RoleServer> for LineTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(response) => {
                self.awaited.with(|awaited| awaited.remove(&response.id));
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.awaited.with(|awaited| awaited.remove(id));
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        // Encoded at once: messages go out in the order in which they were given.
        let line = encode(message);
        let unsent = self.unsent.clone();
        async move { unsent.send(line?).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe)) }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let more = match self.make_room().await {
                Some(()) => self.read_on().await,
                None => None,
            };
            match more {
                Some(false) => {}
                Some(true) => match self.take_message() {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => {}
                    Err(Refusal { error, id }) => {
                        self.refusal = encode(ServerJsonRpcMessage::error(error, id)).ok();
                    }
                },
                None => {
                    // Nobody waits for anything any more; what runs goes on.
                    self.closing.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

/// Reads a message. What calls a tool may be long and is read at once; by the SDK's own way it would
/// be kept and gone through once for every kind of message that there is.
fn read_message(line: &[u8]) -> serde_json::Result<ClientJsonRpcMessage> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ToolCall {
        #[serde(rename = "jsonrpc")]
        _version: JsonRpcVersion2_0,
        id: RequestId,
        method: CallToolRequestMethod,
        params: JsonObject,
    }
    let called = serde_json::from_slice(line).and_then(|call: ToolCall| {
        let ToolCall { id, method, params, .. } = call;
        let mut call = JsonObject::new();
        call.insert("method".to_owned(), serde_json::to_value(method)?);
        call.insert("params".to_owned(), params.into());
        let request: CallToolRequest = serde_json::from_value(call.into())?;
        Ok(ClientJsonRpcMessage::request(request.into(), id))
    });
    called.or_else(|_| serde_json::from_slice(line))
}

fn encode(mut message: ServerJsonRpcMessage) -> io::Result<Unsent> {
    let (mut line, texts) = long_texts::encode(&mut message)?;
    line.push(b'\n');
    Ok(Unsent { line, _told: (message, texts) })
}

/// Writes what is queued, as much as there is at once.
async fn write(mut writer: Writer, mut queue: mpsc::Receiver<Unsent>, closing: CancellationToken) {
    while let Some(Unsent { line: mut lines, _told }) = queue.recv().await {
        while let Ok(more) = queue.try_recv() {
            lines.extend(more.line);
        }
        let written = tokio::select! {
            written = write_out(&mut writer, &lines) => written,
            () = last_words(&closing) => return,
        };
        if written.is_err() {
            // A client that reads no more is gone.
            closing.cancel();
            return;
        }
    }
}

async fn write_out(writer: &mut Writer, bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// Until nobody can be expected to read any more.
async fn last_words(closing: &CancellationToken) {
    closing.cancelled().await;
    sleep(LAST_WORDS).await;
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod lines_tests;
