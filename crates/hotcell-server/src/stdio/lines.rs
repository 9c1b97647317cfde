//! One JSON-RPC message per line, both ways.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, JsonRpcNotification,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::pipes::{Reader, Writer};

/// A longer message is refused; what a client has to say in one is far shorter.
const MOST_LINE_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 64 * 1024;
/// Messages that wait for a client that does not read.
const UNSENT: usize = 256;

/// The server's end of a client's pipes.
pub(super) struct LineTransport {
    reader: BufReader<Reader>,
    line: Vec<u8>,
    too_long: bool,
    /// Whether a request has come: before that there is nothing that a notification could be about.
    opened: bool,
    unsent: mpsc::Sender<Vec<u8>>,
    awaited: Awaited,
    closing: CancellationToken,
}

/// The ids of requests that are not answered yet.
#[derive(Debug, Clone, Default)]
struct Awaited(Arc<Mutex<HashSet<RequestId>>>);

impl Awaited {
    fn with<T>(&self, change: impl FnOnce(&mut HashSet<RequestId>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LineTransport {
    /// A transport, and what is done once everything is written.
    pub(super) fn open(
        reader: Reader,
        writer: Writer,
        closing: CancellationToken,
    ) -> (Self, impl Future<Output = ()>) {
        let (unsent, queue) = mpsc::channel(UNSENT);
        let mut writing = JoinSet::new();
        writing.spawn(write(writer, queue, closing.clone()));
        let transport = Self {
            reader: BufReader::with_capacity(READ_BYTES, reader),
            line: Vec::new(),
            too_long: false,
            opened: false,
            unsent,
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
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |end| end + 1);
        if self.line.len() + taken > MOST_LINE_BYTES {
            self.too_long = true;
            self.line = Vec::new();
        } else if !self.too_long {
            self.line.extend_from_slice(&available[..taken]);
        }
        self.reader.consume(taken);
        Some(end.is_some())
    }

    /// The message in the line that is complete, if it is one to pass on.
    ///
    /// # Errors
    /// It is none; what the client is told has no id, since what it means is not known.
    fn take_message(&mut self) -> Result<Option<ClientJsonRpcMessage>, ErrorData> {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) {
            let message = format!("a message of more than {MOST_LINE_BYTES} bytes");
            return Err(ErrorData::invalid_request(message, None));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let message = serde_json::from_slice(&line).map_err(|error| match error.is_data() {
            true => ErrorData::invalid_request("not a single JSON-RPC 2.0 message", None),
            false => ErrorData::parse_error(format!("not valid JSON: {error}"), None),
        })?;
        match &message {
            JsonRpcMessage::Request(request) => {
                self.opened = true;
                if !self.awaited.with(|awaited| awaited.insert(request.id.clone())) {
                    let message = format!("request {} is under way already", request.id);
                    return Err(ErrorData::invalid_request(message, None));
                }
            }
            JsonRpcMessage::Notification(notification) => self.forget_cancelled(notification),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(self.opened.then_some(message))
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
        let line = encode(&message);
        let unsent = self.unsent.clone();
        async move { unsent.send(line?).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe)) }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            match self.read_on().await {
                Some(false) => {}
                Some(true) => match self.take_message() {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => {}
                    Err(error) => {
                        if let Ok(line) = encode(&ServerJsonRpcMessage::error(error, None)) {
                            // A client that is gone is noticed when its input ends.
                            let _ = self.unsent.send(line).await;
                        }
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

fn encode(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes what is queued, as much as there is at once.
async fn write(mut writer: Writer, mut queue: mpsc::Receiver<Vec<u8>>, closing: CancellationToken) {
    let mut lines = Vec::new();
    while let Some(line) = queue.recv().await {
        lines.clear();
        lines.extend(line);
        while let Ok(line) = queue.try_recv() {
            lines.extend(line);
        }
        if writer.write_all(&lines).await.is_err() || writer.flush().await.is_err() {
            // A client that reads no more is gone.
            closing.cancel();
            return;
        }
    }
}
