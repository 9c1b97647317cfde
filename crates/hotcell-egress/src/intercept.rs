//! A connection to a host that gets a secret: requests are read on the host's side, each gets its
//! header, and answers are masked on their way back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hotcell_model::{HostName, Scheme};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body as _;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::carrier::Carrier;
use crate::connection::Target;
use crate::lending::{Lending, Treatment};
use crate::masked_body::{MaskedBody, mask_headers};

/// The longest head: each side of each connection may keep as much.
const HEAD_BYTES: usize = 64 << 10;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(30);
/// What belongs to one connection and not to the request.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
    "expect",
];
/// Of a part of an answer it could not be told what is a secret.
const PARTS: [header::HeaderName; 2] = [header::RANGE, header::IF_RANGE];

type Answer = Response<Either<MaskedBody<Incoming>, Full<Bytes>>>;

/// How it ended: what is worth telling, and whether that was for want of trust.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// As such connections do.
    Ended(Option<String>),
    /// It was refused, by one side or here.
    Refused(String),
}

/// Speaks with both sides until one of them ends.
pub(crate) async fn speak(
    carrier: &Carrier,
    target: &Target,
    lending: &Lending,
    inside: impl AsyncRead + AsyncWrite + Unpin + Send,
    outside: impl AsyncRead + AsyncWrite + Unpin + Send,
    requests: &AtomicU64,
) -> Spoken {
    match lending.scheme {
        Scheme::Http => pass_requests(carrier, target, inside, Ok(outside), requests).await,
        Scheme::Https => {
            let config = match carrier.lent.stand_for(&target.name) {
                Ok(config) => config,
                Err(why) => return Spoken::Refused(why),
            };
            let accepting = TlsAcceptor::from(config).accept(inside);
            let inside = match tokio::time::timeout(HANDSHAKE_WITHIN, accepting).await {
                Ok(Ok(inside)) => inside,
                Ok(Err(error)) => return Spoken::Refused(why_not_inside(&error, &target.name)),
                Err(_) => {
                    return Spoken::Refused("the client did not finish its handshake".to_owned());
                }
            };
            // Whoever asks is told why there is nobody, in words.
            let outside = connect_outside(carrier, target, outside).await;
            pass_requests(carrier, target, inside, outside, requests).await
        }
    }
}

async fn connect_outside<T: AsyncRead + AsyncWrite + Unpin>(
    carrier: &Carrier,
    target: &Target,
    outside: T,
) -> Result<tokio_rustls::client::TlsStream<T>, String> {
    let name = &target.name;
    let config = carrier.lent.client()?;
    let server = ServerName::try_from(name.to_string())
        .map_err(|error| format!("{name} cannot stand in a certificate: {error}"))?;
    let connecting = TlsConnector::from(config).connect(server, outside);
    match tokio::time::timeout(HANDSHAKE_WITHIN, connecting).await {
        Ok(Ok(outside)) => Ok(outside),
        Ok(Err(error)) => Err(match tls_error(&error) {
            Some(rustls::Error::InvalidCertificate(why)) => {
                format!(
                    "the certificate of {name} is not to be trusted, and no secret was sent: {why}"
                )
            }
            Some(_) | None => format!("{name} does not speak TLS as it should: {error}"),
        }),
        Err(_) => Err(format!("{name} did not finish its handshake")),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Why the cell's side of a handshake failed.
pub(crate) fn why_not_inside(error: &io::Error, name: &HostName) -> String {
    let refused = |how: &str| {
        format!(
            "the client refused the certificate that the cell's authority made for {name} ({how}): it \
             pins another one, or does not read SSL_CERT_FILE and its like"
        )
    };
    match tls_error(error) {
        Some(rustls::Error::AlertReceived(alert)) => refused(&format!("{alert:?}")),
        Some(rustls::Error::NoApplicationProtocol) => format!(
            "the client does not speak HTTP/1.1, which is all that is spoken with {name}: it gets a \
             secret"
        ),
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("the client does not speak TLS, and {name} gets a secret over HTTPS alone")
        }
        Some(rustls::Error::General(why)) if why.contains("no server certificate chain") => {
            format!("the client asked at the address of {name} for another name")
        }
        None if error.kind() == io::ErrorKind::UnexpectedEof => refused("it went away"),
        None if error.kind() == io::ErrorKind::ConnectionReset => refused("it broke off"),
        Some(_) | None => format!("the client's handshake failed: {error}"),
    }
}

async fn pass_requests<I, O>(
    carrier: &Carrier,
    target: &Target,
    inside: I,
    outside: Result<O, String>,
    requests: &AtomicU64,
) -> Spoken
where
    I: AsyncRead + AsyncWrite + Unpin + Send,
    O: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (client, connection, refused) = match outside {
        Err(why) => (Err(why.clone()), None, Some(why)),
        Ok(outside) => {
            let mut builder = hyper::client::conn::http1::Builder::new();
            builder.preserve_header_case(true).max_buf_size(HEAD_BYTES);
            match builder.handshake(TokioIo::new(outside)).await {
                Ok((client, connection)) => (Ok(client), Some(connection), None),
                Err(error) => {
                    let why = format!("{} does not speak HTTP: {error}", target.name);
                    (Err(why.clone()), None, Some(why))
                }
            }
        }
    };
    let passing = Passing { carrier, target, client: Mutex::new(client), requests };
    let passing = &passing;
    let service = hyper::service::service_fn(move |request| async move {
        Ok::<Answer, std::convert::Infallible>(passing.pass(request).await)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.preserve_header_case(true).auto_date_header(false).max_buf_size(HEAD_BYTES);
    let serving = builder.serve_connection(TokioIo::new(inside), service);
    let mut serving = std::pin::pin!(serving);
    let served = match connection {
        None => serving.await,
        Some(connection) => {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                served = serving.as_mut() => served,
                _ = connection.as_mut() => {
                    // Nothing more can be asked: what is under way is finished, and no more begun.
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            }
        }
    };
    match (refused, served) {
        (Some(why), _) => Spoken::Refused(why),
        (None, Ok(())) => Spoken::Ended(None),
        (None, Err(error)) => Spoken::Ended(Some(error.to_string())),
    }
}

struct Passing<'a> {
    carrier: &'a Carrier,
    target: &'a Target,
    client: Mutex<Result<SendRequest<Incoming>, String>>,
    requests: &'a AtomicU64,
}

impl Passing<'_> {
    async fn pass(&self, request: Request<Incoming>) -> Answer {
        let lending = match self.carrier.lent.treatment(self.target) {
            Treatment::Lending(lending) => lending,
            Treatment::AsItIs => return self.refuse(StatusCode::BAD_GATEWAY, "the grant is gone"),
            Treatment::NotHeld(name) => {
                return self.refuse(StatusCode::BAD_GATEWAY, &not_held(&name));
            }
        };
        let request = match prepared(request, self.target, &lending) {
            Ok(request) => request,
            Err((code, why)) => return self.refuse(code, &why),
        };
        let mut client = self.client.lock().await;
        let client = match &mut *client {
            Ok(client) => client,
            Err(why) => return told(StatusCode::BAD_GATEWAY, why),
        };
        if let Err(error) = client.ready().await {
            return self.refuse(StatusCode::BAD_GATEWAY, &format!("the host broke off: {error}"));
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        match client.send_request(request).await {
            Ok(response) => match masked(response, &lending) {
                Ok(answer) => answer,
                Err(why) => self.refuse(StatusCode::BAD_GATEWAY, why),
            },
            Err(error) => {
                self.refuse(StatusCode::BAD_GATEWAY, &format!("the host did not answer: {error}"))
            }
        }
    }

    /// Says no, and writes it down.
    fn refuse(&self, code: StatusCode, why: &str) -> Answer {
        self.carrier.record_refused(self.target, why);
        told(code, why)
    }
}

/// Why nothing goes to a host whose secret is not here.
pub(crate) fn not_held(name: &hotcell_model::SecretName) -> String {
    format!(
        "the value of the secret {name}, which requests to it get, is not here: it comes with the \
         next exec"
    )
}

fn told(code: StatusCode, why: &str) -> Answer {
    let mut response = Response::new(Either::Right(Full::from(format!("hotcell: {why}\n"))));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A request as the host is to see it.
pub(crate) fn prepared<B>(
    mut request: Request<B>,
    target: &Target,
    lending: &Lending,
) -> Result<Request<B>, (StatusCode, String)> {
    if [Method::CONNECT, Method::TRACE].contains(request.method()) {
        let why = format!("{} is not passed on to a host that gets a secret", request.method());
        return Err((StatusCode::METHOD_NOT_ALLOWED, why));
    }
    check_host(&request, target, lending.scheme)
        .map_err(|why| (StatusCode::MISDIRECTED_REQUEST, why))?;
    let upgrade = request.headers().get(header::UPGRADE).map(HeaderValue::as_bytes);
    if upgrade.is_some_and(|it| it.to_ascii_lowercase().starts_with(b"websocket")) {
        let why = "WebSockets are not carried to a host that gets a secret".to_owned();
        return Err((StatusCode::NOT_IMPLEMENTED, why));
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = path.parse::<Uri>().map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    *request.uri_mut() = path;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    remove_hop_by_hop(headers);
    for name in PARTS {
        headers.remove(name);
    }
    let host = match target.port {
        port if port == lending.scheme.port() => target.name.to_string(),
        port => format!("{}:{port}", target.name),
    };
    let host = HeaderValue::try_from(host)
        .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    headers.insert(header::HOST, host);
    // What is packed could not be masked.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for (name, value) in &lending.headers {
        headers.insert(name.clone(), value.clone());
    }
    Ok(request)
}

/// Whatever name a request says it is for, it is the host's own: behind one address there may be
/// others, and the secret is not theirs.
fn check_host<B>(request: &Request<B>, target: &Target, scheme: Scheme) -> Result<(), String> {
    let asked = |text: &str| {
        let shown: String = text.chars().take(80).collect();
        format!("the request is for {shown:?}, and the secret is for {}", target.name)
    };
    let is_meant = |text: &str| {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        let is_port = port.is_none_or(|port| port == target.port.to_string());
        is_port && name.parse::<HostName>().is_ok_and(|name| name == target.name)
    };
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            let host = host.to_str().unwrap_or_default();
            if !is_meant(host) {
                return Err(asked(host));
            }
        }
        (Some(_), Some(_)) => return Err("the request names two hosts".to_owned()),
        (None, _) => return Err("the request names no host".to_owned()),
    }
    if let Some(authority) = request.uri().authority()
        && !is_meant(authority.as_str())
    {
        return Err(asked(authority.as_str()));
    }
    let own = match scheme {
        Scheme::Https => "https",
        Scheme::Http => "http",
    };
    match request.uri().scheme_str() {
        Some(other) if !other.eq_ignore_ascii_case(own) => Err(asked(&format!("{other}://"))),
        Some(_) | None => Ok(()),
    }
}

fn remove_hop_by_hop(headers: &mut http::HeaderMap) {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// An answer as the cell is to see it.
fn masked(response: Response<Incoming>, lending: &Arc<Lending>) -> Result<Answer, &'static str> {
    let (mut parts, body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("the host changed to another protocol, in which nothing can be masked");
    }
    let packed = |name, plain: &[u8]| {
        parts.headers.get_all(name).iter().any(|it| !it.as_bytes().eq_ignore_ascii_case(plain))
    };
    let is_packed = packed(header::CONTENT_ENCODING, b"identity")
        || packed(header::TRANSFER_ENCODING, b"chunked");
    if is_packed && !body.is_end_stream() {
        return Err(
            "the host packed its answer, which was not asked for, so that it cannot be masked",
        );
    }
    let closes = parts.headers.get_all(header::CONNECTION).iter().any(|value| {
        let text = value.to_str().unwrap_or_default();
        text.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"))
    });
    remove_hop_by_hop(&mut parts.headers);
    if closes || parts.version == Version::HTTP_10 {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    parts.version = Version::HTTP_11;
    parts.extensions.remove::<hyper::ext::ReasonPhrase>();
    mask_headers(&lending.masks, &mut parts.headers);
    let body = MaskedBody::new(body, Arc::clone(&lending.masks));
    Ok(Response::from_parts(parts, Either::Left(body)))
}

#[cfg(test)]
#[path = "intercept_tests.rs"]
mod tests;
