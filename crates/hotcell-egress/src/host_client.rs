//! HTTP towards hosts that the operator named: over TLS, or without it on this machine. One connection
//! a request; no redirect is followed.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::resolve::{HostLookup, is_loopback};
use crate::trust::Trust;

const CONNECTING: Duration = Duration::from_secs(10);
const PROGRAM: HeaderValue =
    HeaderValue::from_static(concat!("hotcell/", env!("CARGO_PKG_VERSION")));

/// Makes requests.
pub struct HostClient {
    lookup: HostLookup,
    tls: Result<TlsConnector, String>,
}

impl fmt::Debug for HostClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostClient").finish_non_exhaustive()
    }
}

/// An answer, and the connection that it comes over.
#[derive(Debug)]
pub struct HostAnswer {
    /// The answer, with its body still to come.
    pub response: Response<Incoming>,
    _driven: JoinSet<()>,
}

impl HostClient {
    /// One that asks these name servers, the host's where there are none, and trusts whom the host
    /// trusts and the certificates of a file besides.
    #[must_use]
    pub fn new(nameservers: &[SocketAddr], ca_file: Option<&Path>) -> Self {
        let tls = Trust::of_host(ca_file).client().map(TlsConnector::from);
        Self { lookup: HostLookup::new(nameservers), tls }
    }

    /// Sends a request to an address, and waits for the head of its answer.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn ask(
        &self,
        uri: &Uri,
        request: request::Builder,
        body: Bytes,
    ) -> Result<HostAnswer, String> {
        let host = uri.host().ok_or("it names no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if is_loopback(&host) => false,
            Some("http") => return Err("without TLS only this machine is asked".to_owned()),
            Some(_) | None => return Err("it is no address of HTTP".to_owned()),
        };
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = match timeout(CONNECTING, self.lookup.connect(&host, port)).await {
            Ok(stream) => stream.map_err(|why| format!("{host}:{port}: {why}"))?,
            Err(_) => return Err(format!("{host}:{port}: no connection in time")),
        };
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = request
            .uri(path)
            .header(HOST, authority)
            .header(USER_AGENT, PROGRAM)
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        if !is_tls {
            return converse(stream, request).await;
        }
        let tls = self.tls.as_ref().map_err(Clone::clone)?;
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        let stream = tls.connect(name, stream).await.map_err(|error| error.to_string())?;
        converse(stream, request).await
    }
}

async fn converse<T>(stream: T, request: Request<Full<Bytes>>) -> Result<HostAnswer, String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut driven = JoinSet::new();
    driven.spawn(async move {
        // How it ended is seen by whoever reads the answer.
        let _ = connection.await;
    });
    let response = sender.send_request(request).await.map_err(broken)?;
    Ok(HostAnswer { response, _driven: driven })
}
