//! `http://{port}.{cell}.localhost/…`: a service in a cell under a name of its own.
//!
//! A page below a path of the server has to be kept from the server's own origin, and then a browser
//! loads nothing for it. Under a name of its own it has an origin of its own. Browsers look names
//! below `localhost` up nowhere: they are this machine, and nobody can bend them.

use axum::extract::Request;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

const LOCAL: &str = "localhost";
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// What a service is reached under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum ReachedUnder {
    /// A path of the server, whose origin it shares and must not have.
    Path,
    /// A name of its own.
    OwnName,
}

impl ReachedUnder {
    /// What a request was found to have.
    pub(in crate::http) fn of<B>(request: &http::Request<B>) -> Self {
        request.extensions().get().copied().unwrap_or(Self::Path)
    }
}

/// Gives a request for a name of a service the path that this stands for.
pub(in crate::http) fn lead_to_path(request: &mut Request) {
    let Some((port, cell)) = find(request.headers()) else { return };
    let rest = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let Ok(path) = format!("/cells/{cell}/ports/{port}{rest}").parse::<Uri>() else { return };
    *request.uri_mut() = path;
    request.extensions_mut().insert(ReachedUnder::OwnName);
}

/// The port and the cell that the Host of a request names.
fn find(headers: &HeaderMap) -> Option<(u16, String)> {
    let host: Authority = headers.get(HOST)?.to_str().ok()?.parse().ok()?;
    let name = host.host();
    let (service, local) = name.split_at_checked(name.len().checked_sub(LOCAL.len() + 1)?)?;
    if !local.strip_prefix('.')?.eq_ignore_ascii_case(LOCAL) {
        return None;
    }
    let (port, cell) = service.split_once('.')?;
    Some((port.parse().ok().filter(|port| *port > 0)?, cell.to_owned()))
}

/// Where somebody is led who goes to a path of a service with a browser on this machine: to the name of
/// that service. Nowhere if the name could not be written so.
pub(super) fn own_place(
    request: &Request,
    cell: &str,
    port: u16,
    target: &str,
) -> Option<HeaderValue> {
    let headers = request.headers();
    let says = |name, what| headers.get(name).is_some_and(|value: &HeaderValue| value == what);
    let goes_there = request.method() == Method::GET
        && says(FETCH_MODE, "navigate")
        && says(FETCH_DEST, "document");
    let host: Authority = headers.get(HOST)?.to_str().ok()?.parse().ok()?;
    let is_local = [LOCAL, "127.0.0.1", "[::1]"].contains(&host.host());
    let keeps_its_name = !cell.bytes().any(|byte| byte.is_ascii_uppercase());
    if !goes_there || !is_local || !keeps_its_name {
        return None;
    }
    let at = host.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    HeaderValue::from_str(&format!("http://{port}.{cell}.{LOCAL}{at}{target}")).ok()
}
