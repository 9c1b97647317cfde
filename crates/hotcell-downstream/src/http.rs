//! HTTP towards a server: over TLS, or on this machine. One connection a request, no redirects.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use hotcell_egress::{HostLookup, Trust};
use hotcell_model::{Error, Result};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ErrorData, JsonRpcError, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use rustls::pki_types::ServerName as TlsName;
use sse_stream::{Sse, SseStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::link::Link;
use crate::servers::Surroundings;
use crate::spec::{HttpLaunch, ServerSpec};

/// By these words an answer that is too long is known wherever its error comes out.
pub(crate) const TOO_LONG: &str = "it is longer than an answer may be";

const CONNECTING: Duration = Duration::from_secs(10);
const MOST_REFUSAL: usize = 4096;
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ONLY_EVENTS: HeaderValue = HeaderValue::from_static(EVENTS);
const PROGRAM: HeaderValue =
    HeaderValue::from_static(concat!("hotcell/", env!("CARGO_PKG_VERSION")));
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Why a server was not heard.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unheard(String);

impl Unheard {
    fn from(why: impl std::fmt::Display) -> Self {
        Self(why.to_string())
    }
}

type Failure = StreamableHttpError<Unheard>;

fn failed(why: impl std::fmt::Display) -> Failure {
    StreamableHttpError::Client(Unheard::from(why))
}

/// How a server is spoken to by HTTP.
///
/// # Errors
/// `invalid` for a header that cannot be sent.
pub(crate) fn transport(
    launch: &HttpLaunch,
    headers: BTreeMap<String, String>,
    bearer: Option<String>,
    spec: &ServerSpec,
    surroundings: &Surroundings,
    link: &Arc<Link>,
) -> Result<StreamableHttpClientTransport<Speaker>> {
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let parsed = (name.parse::<HeaderName>(), value.parse::<HeaderValue>());
        let (Ok(header), Ok(mut value)) = parsed else {
            return Err(Error::invalid(format!("the header {name:?} cannot be sent")));
        };
        value.set_sensitive(true);
        sent.insert(header, value);
    }
    let trust = Trust::of_host(surroundings.ca_file.as_deref());
    let speaker = Speaker(Arc::new(Reach {
        lookup: HostLookup::new(&surroundings.nameservers),
        tls: trust.client().map(TlsConnector::from),
        most_bytes: spec.most_bytes,
        link: Arc::clone(link),
    }));
    let mut config = StreamableHttpClientTransportConfig::with_uri(launch.url.as_str())
        .max_concurrent_requests(spec.parallel + 1);
    config.auth_header = bearer;
    config.custom_headers = sent;
    config.max_sse_event_size = spec.most_bytes;
    Ok(StreamableHttpClientTransport::with_client(speaker, config))
}

/// Makes requests.
#[derive(Clone)]
pub(crate) struct Speaker(Arc<Reach>);

struct Reach {
    lookup: HostLookup,
    tls: Result<TlsConnector, String>,
    most_bytes: usize,
    link: Arc<Link>,
}

/// An answer, and the connection that it comes over.
struct Answer {
    response: Response<Incoming>,
    driven: JoinSet<()>,
}

impl Reach {
    async fn ask(
        &self,
        uri: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let uri: Uri = uri.parse().map_err(failed)?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let connecting = self.lookup.connect(&host, port);
        let stream = match timeout(CONNECTING, connecting).await {
            Ok(stream) => stream.map_err(|why| failed(format!("{host}:{port}: {why}")))?,
            Err(_) => return Err(failed(format!("{host}:{port}: no connection in time"))),
        };
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = request
            .uri(path)
            .header(HOST, authority)
            .header(USER_AGENT, PROGRAM)
            .body(Full::new(body))
            .map_err(failed)?;
        if !is_tls {
            return converse(stream, request).await;
        }
        let tls = self.tls.as_ref().map_err(failed)?;
        let name = TlsName::try_from(host).map_err(failed)?;
        let handshake = timeout(CONNECTING, tls.connect(name, stream)).await;
        converse(handshake.map_err(failed)?.map_err(failed)?, request).await
    }
}

async fn converse<T>(stream: T, request: Request<Full<Bytes>>) -> Result<Answer, Failure>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut driven = JoinSet::new();
    driven.spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok(Answer { response, driven })
}

impl Answer {
    fn header(&self, name: &HeaderName) -> Option<String> {
        Some(self.response.headers().get(name)?.to_str().ok()?.to_owned())
    }

    fn is(&self, kind: &str) -> bool {
        self.header(&CONTENT_TYPE).is_some_and(|found| found.starts_with(kind))
    }

    /// All of the body, if it is not too long.
    async fn whole(self, most: usize) -> Result<Bytes, Failure> {
        let body = Limited::new(self.response.into_body(), most).collect().await;
        match body {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Err(failed(format!("{TOO_LONG} ({most} bytes)")))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The events of the body, which answer a request or nobody.
    fn events(
        self,
        reach: &Reach,
        asked: Option<RequestId>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let body = EventBytes {
            body: Some((self.response.into_body(), self.driven)),
            most: reach.most_bytes,
            taken: 0,
            ends: 0,
            asked,
            link: Arc::clone(&reach.link),
        };
        SseStream::from_bytes_stream(body).boxed()
    }

    /// What an answer that is none means.
    fn refusal(&self) -> Option<Failure> {
        let status = self.response.status();
        match status {
            StatusCode::UNAUTHORIZED => {
                let challenge = self.header(&http::header::WWW_AUTHENTICATE).unwrap_or_default();
                Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
            }
            status if status.is_redirection() => {
                Some(failed("it leads elsewhere, which is not followed: write the final address"))
            }
            _ => None,
        }
    }
}

/// The bytes of a stream of events, none of which may be too long.
struct EventBytes {
    /// The rest, and the connection that it comes over; nothing once an event was too long.
    body: Option<(Incoming, JoinSet<()>)>,
    most: usize,
    /// Bytes since the last empty line.
    taken: usize,
    /// Ends of lines in a row.
    ends: usize,
    asked: Option<RequestId>,
    link: Arc<Link>,
}

impl EventBytes {
    fn measure(&mut self, data: &[u8]) {
        for byte in data {
            match byte {
                b'\n' => self.ends += 1,
                b'\r' => {}
                _ => self.ends = 0,
            }
            self.taken = if self.ends >= 2 { 0 } else { self.taken + 1 };
        }
    }

    /// Lets go of the connection. Whoever asked is told so by an event of our own; where nobody did,
    /// it is the end of the session.
    fn give_up(&mut self) -> Option<Bytes> {
        self.body = None;
        let why = format!("{TOO_LONG} ({} bytes)", self.most);
        let Some(id) = self.asked.take() else {
            self.link.cut(Error::limit_exceeded(format!("it was cut off: {why}")));
            return None;
        };
        let told =
            ServerJsonRpcMessage::error(ErrorData::internal_error(why, None), Some(id.clone()));
        self.link.note_oversized(id);
        Some(Bytes::from(format!("\n\ndata: {}\n\n", serde_json::to_string(&told).ok()?)))
    }
}

impl Stream for EventBytes {
    type Item = Result<Bytes, Unheard>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some((body, _)) = &mut self.body else { return Poll::Ready(None) };
            let frame = match Pin::new(body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(Unheard::from(error))));
                }
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            self.measure(&data);
            // The name of the field and what is around the answer come on top.
            if self.taken > self.most.saturating_add(MOST_REFUSAL) {
                return Poll::Ready(self.give_up().map(Ok));
            }
            return Poll::Ready(Some(Ok(data)));
        }
    }
}

fn with_headers(
    method: Method,
    session: Option<&str>,
    bearer: Option<&str>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Result<http::request::Builder, Failure> {
    let mut request = Request::builder().method(method);
    if let Some(bearer) = bearer {
        let mut value = HeaderValue::from_str(&format!("Bearer {bearer}"))
            .map_err(|_| failed("the token cannot be sent in a header"))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    if let Some(session) = session {
        request = request.header(SESSION, session);
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    Ok(request)
}

/// The message in a body; the result of a call as it came.
fn read(body: &[u8], asked: &ClientJsonRpcMessage) -> serde_json::Result<ServerJsonRpcMessage> {
    #[derive(serde::Deserialize)]
    struct Called {
        id: RequestId,
        result: serde_json::Value,
    }
    if let JsonRpcMessage::Request(request) = asked
        && let ClientRequest::CallToolRequest(_) = &request.request
        && let Ok(called) = serde_json::from_slice::<Called>(body)
    {
        let result = ServerResult::CustomResult(CustomResult(called.result));
        return Ok(JsonRpcMessage::response(result, called.id));
    }
    serde_json::from_slice(body)
}

/// What a server that does not know the newest greeting says to it, in the words of the protocol.
fn unknown_greeting(
    asked: &ClientJsonRpcMessage,
    status: StatusCode,
    body: &[u8],
) -> Option<ServerJsonRpcMessage> {
    let JsonRpcMessage::Request(request) = asked else { return None };
    let ClientRequest::DiscoverRequest(_) = &request.request else { return None };
    if !status.is_client_error() || status == StatusCode::FORBIDDEN {
        return None;
    }
    let told: Option<JsonRpcError> = serde_json::from_slice(body).ok();
    let error = told
        .map_or_else(|| ErrorData::invalid_request(status.to_string(), None), |told| told.error);
    Some(JsonRpcMessage::error(error, Some(request.id.clone())))
}

impl StreamableHttpClient for Speaker {
    type Error = Unheard;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let request = with_headers(
            Method::POST,
            session_id.as_deref(),
            auth_header.as_deref(),
            custom_headers,
        )?
        .header(CONTENT_TYPE, JSON)
        .header(ACCEPT, BOTH);
        let answer = self.0.ask(&uri, request, body).await?;
        let status = answer.response.status();
        if let Some(refusal) = answer.refusal() {
            return Err(refusal);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            let body = answer.whole(MOST_REFUSAL).await.unwrap_or_default();
            if let Some(told) = unknown_greeting(&message, status, &body) {
                return Ok(StreamableHttpPostResponse::Json(told, None));
            }
            let words = String::from_utf8_lossy(&body).into_owned();
            return Err(StreamableHttpError::UnexpectedServerResponse(
                format!("{status}: {}", crate::listing::shortened(&words, 256)).into(),
            ));
        }
        let session = answer.header(&SESSION);
        if answer.is(EVENTS) {
            let asked = match &message {
                JsonRpcMessage::Request(request) => Some(request.id.clone()),
                JsonRpcMessage::Response(_)
                | JsonRpcMessage::Notification(_)
                | JsonRpcMessage::Error(_) => None,
            };
            let events = answer.events(&self.0, asked);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        if !answer.is(JSON) {
            return match is_request {
                true => {
                    let found = answer.header(&CONTENT_TYPE);
                    Err(StreamableHttpError::UnexpectedContentType(found))
                }
                false => Ok(StreamableHttpPostResponse::Accepted),
            };
        }
        let body = answer.whole(self.0.most_bytes.saturating_add(MOST_REFUSAL)).await?;
        match read(&body, &message) {
            Ok(told) => Ok(StreamableHttpPostResponse::Json(told, session)),
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let request = with_headers(
            Method::DELETE,
            Some(&session_id),
            auth_header.as_deref(),
            custom_headers,
        )?;
        let answer = self.0.ask(&uri, request, Bytes::new()).await?;
        let status = answer.response.status();
        if status.is_success() || status == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(());
        }
        Err(failed(format!("the session could not be ended: {status}")))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut request = with_headers(
            Method::GET,
            session_id.as_deref(),
            auth_header.as_deref(),
            custom_headers,
        )?
        .header(ACCEPT, ONLY_EVENTS);
        if let Some(last) = last_event_id {
            request = request.header(LAST_EVENT, last);
        }
        let answer = self.0.ask(&uri, request, Bytes::new()).await?;
        let status = answer.response.status();
        if let Some(refusal) = answer.refusal() {
            return Err(refusal);
        }
        if status == StatusCode::METHOD_NOT_ALLOWED
            || status == StatusCode::NOT_FOUND && session_id.is_none()
        {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if status == StatusCode::NOT_FOUND {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() || !answer.is(EVENTS) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(answer.events(&self.0, None))
    }
}
