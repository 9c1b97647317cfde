//! Connections to an engine that is reached over TCP, TLS or SSH, each for one request at a time; one
//! that the engine hands over, as for an attached exec, is the caller's.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use bytes::Bytes;
use hotcell_egress::HostLookup;
use hotcell_model::{Error, Result};
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::engine_address::{EngineAddress, EngineSettings, OverTcp, in_brackets};
use crate::engine_tls;
use crate::ssh_stream::{self, SshStream};

/// A machine that needs longer for a connection is not there.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// How many connections wait for the next request, and how long. Making one by `ssh` takes a while.
const IDLE: usize = 2;
const IDLE_FOR: Duration = Duration::from_secs(20);
/// How long apart a request is sent again, at first and at last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(6);
/// When a silent machine is asked whether it is there, how often, and how long it may not answer.
const SILENT_FOR: Duration = Duration::from_secs(20);
const ASKED_APART: Duration = Duration::from_secs(10);
const ASKED_TIMES: u32 = 3;
const UNANSWERED: u32 = 45_000;

/// A client of an engine that is not reached by a socket of this machine.
///
/// # Errors
/// What makes the address unusable as it is.
pub(crate) fn client(settings: &EngineSettings, timeout_s: u64) -> Result<Docker> {
    let dialer = Dialer(Arc::new(way(settings)?));
    let at = match &*dialer.0 {
        Way::Ssh { .. } => "http://docker".to_owned(),
        Way::Tcp(port) => format!("http://{}:{}", in_brackets(&port.host), port.port),
    };
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(IDLE)
        .pool_idle_timeout(IDLE_FOR)
        .pool_timer(TokioTimer::new())
        .build(dialer);
    let transport = move |request: BollardRequest| {
        let client = client.clone();
        async move { ask(&client, request).await.map_err(bollard::errors::Error::from) }
    };
    Docker::connect_with_custom_transport(transport, Some(at), timeout_s, API_DEFAULT_VERSION)
        .map_err(|error| Error::internal(format!("no client of a Docker engine: {error}")))
}

/// Sends a request; again where an sshd turned it away, which has too many at its door.
async fn ask<B>(
    client: &Client<Dialer, Either<Full<Bytes>, B>>,
    request: Request<Either<Full<Bytes>, B>>,
) -> Result<Response<Incoming>, legacy::Error>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut request = request;
    let mut pause = FIRST_PAUSE;
    loop {
        let again = copy_of(&request);
        match (client.request(request).await, again) {
            (Err(error), Some(again)) if pause < LAST_PAUSE && is_turned_away(&error) => {
                // Not all of those that were turned away at once.
                sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                pause *= 2;
                request = again;
            }
            (answered, _) => return answered,
        }
    }
}

/// The same request; none where its content cannot be had twice.
fn copy_of<B>(
    request: &Request<Either<Full<Bytes>, B>>,
) -> Option<Request<Either<Full<Bytes>, B>>> {
    let Either::Left(body) = request.body() else { return None };
    let mut copy = Request::new(Either::Left(body.clone()));
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    Some(copy)
}

/// Whether nobody has seen a request that failed.
fn is_turned_away(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(ssh_stream::is_turned_away) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// All that is needed for a connection.
enum Way {
    Tcp(Box<Port>),
    Ssh { arguments: Vec<String>, environment: Vec<(String, String)> },
}

struct Port {
    host: String,
    port: u16,
    lookup: HostLookup,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

fn way(settings: &EngineSettings) -> Result<Way> {
    let (host, port) = match &settings.address {
        EngineAddress::Tcp { host, port } | EngineAddress::Https { host, port } => (host, *port),
        EngineAddress::Ssh { .. } => {
            return Ok(Way::Ssh {
                arguments: ssh_stream::arguments(settings).unwrap_or_default(),
                environment: settings.ssh_environment.clone(),
            });
        }
        EngineAddress::Unix { .. } => {
            return Err(Error::internal("a socket of this machine is not dialled"));
        }
    };
    let config = match settings.over_tcp(host)? {
        OverTcp::Plain => None,
        OverTcp::Tls(directory) => Some(engine_tls::by_files(directory)?),
        OverTcp::TlsOfHost => Some(engine_tls::of_host()?),
    };
    let tls = match config {
        None => None,
        Some(config) => {
            let name = ServerName::try_from(host.clone()).map_err(|_| {
                Error::invalid(format!("{host:?} is no name that a certificate can be of"))
            })?;
            Some((TlsConnector::from(config), name))
        }
    };
    let lookup = HostLookup::new(&settings.nameservers);
    Ok(Way::Tcp(Box::new(Port { host: host.clone(), port, lookup, tls })))
}

impl Way {
    async fn dial(&self) -> io::Result<EngineStream> {
        match self {
            Self::Ssh { arguments, environment } => {
                Ok(EngineStream(Box::new(SshStream::start(arguments, environment)?)))
            }
            Self::Tcp(port) => timeout(CONNECTS_WITHIN, port.dial()).await.unwrap_or_else(|_| {
                let within = CONNECTS_WITHIN.as_secs();
                let why = format!("no connection within {within} s");
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }),
        }
    }
}

impl Port {
    async fn dial(&self) -> io::Result<EngineStream> {
        let connected = self.lookup.connect(&self.host, self.port).await;
        let stream = connected.map_err(io::Error::other)?;
        notice_silence(&stream)?;
        Ok(match &self.tls {
            None => EngineStream(Box::new(stream)),
            Some((tls, name)) => EngineStream(Box::new(tls.connect(name.clone(), stream).await?)),
        })
    }
}

/// Lets the kernel notice that the other machine is gone: what comes over a stream may be silent for
/// days.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT_FOR)?;
    sockopt::set_tcp_keepintvl(stream, ASKED_APART)?;
    sockopt::set_tcp_keepcnt(stream, ASKED_TIMES)?;
    sockopt::set_tcp_user_timeout(stream, UNANSWERED)?;
    Ok(())
}

/// Makes connections for a client.
#[derive(Clone)]
struct Dialer(Arc<Way>);

impl Service<Uri> for Dialer {
    type Response = TokioIo<EngineStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let way = Arc::clone(&self.0);
        Box::pin(async move { way.dial().await.map(TokioIo::new) })
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection, of whatever kind.
struct EngineStream(Box<dyn Duplex>);

impl fmt::Debug for EngineStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineStream")
    }
}

impl Connection for EngineStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for EngineStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for EngineStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}
