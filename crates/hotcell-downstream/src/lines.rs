//! One JSON-RPC message per line, both ways, and no line longer than an answer may be.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use hotcell_model::Error;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, CustomResult, ErrorData,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::link::Link;

const READ_BYTES: usize = 64 * 1024;
/// Messages that wait for a server that does not read.
const UNSENT: usize = 64;
/// What is around a result in its message.
const AROUND: usize = 64 * 1024;
/// Of a line that is too long so much of its beginning and its end is kept, to find its id.
const EDGE: usize = 256;
/// A line this many times longer than an answer may be is not waited for.
const MOST_TIMES: usize = 16;

/// The client's end of a server's pipes.
pub(crate) struct LineTransport<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    most: usize,
    /// What is left of a line that is too long.
    overlong: Option<Overlong>,
    unsent: mpsc::Sender<Vec<u8>>,
    /// Requests whose results are passed on as they came.
    raw: HashSet<RequestId>,
    link: Arc<Link>,
    _writing: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Overlong {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: usize,
}

impl Overlong {
    fn begin(line: &[u8]) -> Self {
        let mut overlong = Self { head: line[..line.len().min(EDGE)].to_vec(), ..Self::default() };
        overlong.take(line);
        overlong
    }

    fn take(&mut self, more: &[u8]) {
        self.bytes += more.len();
        self.tail.extend_from_slice(&more[more.len().saturating_sub(EDGE)..]);
        self.tail.drain(..self.tail.len().saturating_sub(EDGE));
    }

    /// The id of the answer: it comes before its result, or after it.
    fn id(&self) -> Option<RequestId> {
        let head = self.head.as_slice();
        let before = memchr::memmem::find(head, b"\"result\"").unwrap_or(head.len());
        number_after_id(&head[..before]).or_else(|| number_after_id(&self.tail))
    }
}

/// The number after the last `"id":` of some bytes.
fn number_after_id(bytes: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = b"\"id\"";
    let after = memchr::memmem::rfind(bytes, KEY)? + KEY.len();
    let rest = bytes[after..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some(RequestId::Number(number))
}

/// The parts of a message by which its kind is known.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<ErrorData>,
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    pub(crate) fn new<W>(reader: R, writer: W, most_bytes: usize, link: Arc<Link>) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (unsent, queue) = mpsc::channel(UNSENT);
        let mut writing = JoinSet::new();
        writing.spawn(write(writer, queue));
        Self {
            reader: BufReader::with_capacity(READ_BYTES, reader),
            line: Vec::new(),
            most: most_bytes.saturating_add(AROUND),
            overlong: None,
            unsent,
            raw: HashSet::new(),
            link,
            _writing: writing,
        }
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
        let piece = &available[..taken];
        match &mut self.overlong {
            Some(overlong) => overlong.take(piece),
            None => {
                self.line.extend_from_slice(piece);
                if self.line.len() > self.most {
                    self.overlong = Some(Overlong::begin(&std::mem::take(&mut self.line)));
                }
            }
        }
        self.reader.consume(taken);
        let most = self.most.saturating_mul(MOST_TIMES);
        if self.overlong.as_ref().is_some_and(|overlong| overlong.bytes > most) {
            self.link.cut(Error::limit_exceeded(format!(
                "it was cut off: it sent more than {most} bytes without an end"
            )));
            self.overlong = None;
            return None;
        }
        Some(end.is_some())
    }

    /// The message in the line that is complete, if it is one.
    fn take_message(&mut self) -> Option<ServerJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        if let Some(overlong) = self.overlong.take() {
            return self.refuse(&overlong);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let Ok(envelope) = serde_json::from_slice::<Envelope>(&line) else {
            // Programs print to the wrong stream; one line of it does no harm.
            self.link.count_unasked();
            return None;
        };
        match envelope {
            Envelope { method: None, id: Some(id), error: Some(error), .. } => {
                self.raw.remove(&id);
                Some(JsonRpcMessage::error(error, Some(id)))
            }
            Envelope { method: None, id: Some(id), result, error: None }
                if self.raw.remove(&id) =>
            {
                let result = CustomResult(result.unwrap_or_default());
                Some(JsonRpcMessage::response(ServerResult::CustomResult(result), id))
            }
            Envelope { .. } => {
                let message = serde_json::from_slice(&line).ok();
                if message.is_none() {
                    self.link.count_unasked();
                }
                message
            }
        }
    }

    /// What is said in the place of a line that was too long.
    fn refuse(&mut self, overlong: &Overlong) -> Option<ServerJsonRpcMessage> {
        let Some(id) = overlong.id().filter(|id| self.raw.remove(id)) else {
            self.link.count_unasked();
            return None;
        };
        self.link.note_oversized(id.clone());
        let why = format!("the answer has {} bytes", overlong.bytes);
        Some(JsonRpcMessage::error(ErrorData::internal_error(why, None), Some(id)))
    }

    fn encode(&mut self, message: &ClientJsonRpcMessage) -> io::Result<Vec<u8>> {
        match message {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::CallToolRequest(_) | ClientRequest::ListToolsRequest(_) =
                    &request.request
                {
                    self.raw.insert(request.id.clone());
                }
            }
            JsonRpcMessage::Notification(told) => {
                if let ClientNotification::CancelledNotification(cancelled) = &told.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.raw.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(line)
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        // Encoded at once: messages go out in the order in which they were given.
        let line = self.encode(&message);
        let unsent = self.unsent.clone();
        async move { unsent.send(line?).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe)) }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            // A server that does not read is not listened to: its questions would pile up here.
            drop(self.unsent.reserve().await.ok()?);
            if self.read_on().await?
                && let Some(message) = self.take_message()
            {
                return Some(message);
            }
            if self.link.is_gone() {
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

async fn write<W: AsyncWrite + Unpin>(mut writer: W, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = queue.recv().await {
        let written = async {
            writer.write_all(&line).await?;
            writer.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}
