//! Asks an issuer, over HTTPS, or over HTTP on this machine. No redirect is followed.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hotcell_egress::{HostLookup, Trust};
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::settings::{OidcSettings, check_url};

/// How long an issuer may take for all of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_BYTES: usize = 512 * 1024;
const PROGRAM: HeaderValue =
    HeaderValue::from_static(concat!("hotcell/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How issuers are reached.
pub(crate) struct Fetcher {
    lookup: HostLookup,
    tls: Result<TlsConnector, String>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").finish_non_exhaustive()
    }
}

impl Fetcher {
    pub(crate) fn new(settings: &OidcSettings) -> Self {
        let trust = Trust::of_host(settings.ca_file.as_deref());
        let tls = trust.client().map(TlsConnector::from);
        Self { lookup: HostLookup::new(&settings.nameservers), tls }
    }

    /// What there is at an address.
    pub(crate) async fn get(&self, url: &str) -> Result<Bytes, String> {
        match timeout(PATIENCE, self.ask(url)).await {
            Ok(answered) => answered.map_err(|why| format!("{url}: {why}")),
            Err(_) => Err(format!("{url}: no answer within {} s", PATIENCE.as_secs())),
        }
    }

    async fn ask(&self, url: &str) -> Result<Bytes, String> {
        check_url("the address", url).map_err(|error| error.message)?;
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let host = uri.host().ok_or("it names no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = self.lookup.connect(&host, port).await?;
        if !is_tls {
            return converse(stream, &uri).await;
        }
        let tls = self.tls.as_ref().map_err(Clone::clone)?;
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        let stream = tls.connect(name, stream).await.map_err(|error| error.to_string())?;
        converse(stream, &uri).await
    }
}

async fn converse<T>(stream: T, uri: &Uri) -> Result<Bytes, String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut driven = JoinSet::new();
    driven.spawn(connection);
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, JSON)
        .header(USER_AGENT, PROGRAM)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(broken)?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answers with {}", answer.status()));
    }
    let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
    Ok(body.map_err(|error| error.to_string())?.to_bytes())
}
