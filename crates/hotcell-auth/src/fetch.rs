//! Asks an issuer, over HTTPS, or over HTTP on this machine. No redirect is followed.

use std::time::Duration;

use bytes::Bytes;
use hotcell_egress::HostClient;
use http::header::ACCEPT;
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

use crate::settings::{OidcSettings, check_url};

/// How long an issuer may take for all of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_BYTES: usize = 512 * 1024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How issuers are reached.
#[derive(Debug)]
pub(crate) struct Fetcher(HostClient);

impl Fetcher {
    pub(crate) fn new(settings: &OidcSettings) -> Self {
        Self(HostClient::new(&settings.nameservers, settings.ca_file.as_deref()))
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
        let request = Request::get(&uri).header(ACCEPT, JSON);
        let answer = self.0.ask(&uri, request, Bytes::new()).await?;
        if answer.response.status() != StatusCode::OK {
            return Err(format!("it answers with {}", answer.response.status()));
        }
        let body = Limited::new(answer.response.into_body(), MOST_BYTES).collect().await;
        Ok(body.map_err(|error| error.to_string())?.to_bytes())
    }
}
