//! Which headers a service in a cell gets, and which of its own go to a client.

use axum::extract::Request;
use hotcell_model::Error;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALT_SVC,
    AUTHORIZATION, CONNECTION, CONTENT_LOCATION, CONTENT_SECURITY_POLICY, COOKIE, EXPECT,
    FORWARDED, HOST, LOCATION, ORIGIN, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, REFERRER_POLICY,
    REFRESH, SET_COOKIE, STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::own_name::ReachedUnder;
use super::places::Home;

/// What is said from one neighbour to the next.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];

/// What proves to the server who calls, or belongs to whatever else this machine serves: the cookies
/// of a host are those of all its ports.
const NOT_FOR_SERVICES: [HeaderName; 7] = [
    AUTHORIZATION,
    COOKIE,
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    FORWARDED_HOST,
    FORWARDED_PROTO,
    FORWARDED_PREFIX,
];

/// What would hold for the whole origin of the server, not for the service alone, and what would
/// keep a page from saying that it is one of the service (`visitors.rs`).
const NOT_UNDER_A_PATH: [HeaderName; 8] = [
    REFERRER_POLICY,
    SET_COOKIE,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("origin-agent-cluster"),
];

/// What would let pages of others read what the service answers, or lead clients elsewhere.
const NOT_FOR_CLIENTS: [HeaderName; 8] = [
    STRICT_TRANSPORT_SECURITY,
    ALT_SVC,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
];

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

/// Without `allow-same-origin` a page has no origin, whatever else it may do.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads",
);

/// Where a service is, from both sides.
#[derive(Debug)]
pub(super) struct Address {
    /// What the path of the request begins with.
    prefix: String,
    /// The rest of it and the query, as the service gets them.
    pub(super) target: String,
    /// What the service is called in its cell.
    pub(super) host: HeaderValue,
    origin: HeaderValue,
    /// What the server was called by its client.
    asked_host: Option<HeaderValue>,
    port: u16,
    under: ReachedUnder,
}

impl Address {
    /// The address in a request, whose path is kept as it was written.
    pub(super) fn of(request: &Request, port: u16, under: ReachedUnder) -> Result<Self, Error> {
        let path = request.uri().path();
        let mut ends = path.match_indices('/').map(|(at, _)| at);
        // Before the rest there are `/cells`, the cell, `/ports` and the port.
        let end = ends.nth(4).unwrap_or(path.len());
        let (prefix, rest) = path.split_at(end);
        let rest = if rest.is_empty() { "/" } else { rest };
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let header = |text: String| {
            HeaderValue::from_str(&text).map_err(|error| Error::internal(error.to_string()))
        };
        let prefix = match under {
            ReachedUnder::Path => prefix,
            ReachedUnder::OwnName => "",
        };
        Ok(Self {
            prefix: prefix.to_owned(),
            target: format!("{rest}{query}"),
            host: header(format!("localhost:{port}"))?,
            origin: header(format!("http://localhost:{port}"))?,
            asked_host: request.headers().get(HOST).cloned(),
            port,
            under,
        })
    }

    fn home(&self) -> Home<'_> {
        Home {
            prefix: &self.prefix,
            target: &self.target,
            port: self.port,
            server: self.asked_host.as_ref().and_then(|host| host.to_str().ok()),
        }
    }
}

/// What a client wants to change the protocol to.
pub(super) fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let wanted = headers.get(UPGRADE)?;
    named_in_connection(headers).contains(&UPGRADE).then(|| wanted.clone())
}

/// Whether a browser asks for the script of a service worker.
pub(super) fn is_worker_script(headers: &HeaderMap) -> bool {
    headers.contains_key(SERVICE_WORKER)
}

/// Makes the headers of a client those that the service gets.
pub(super) fn to_service(
    headers: &mut HeaderMap,
    address: &Address,
    upgrade: Option<&HeaderValue>,
) {
    drop_hops(headers);
    for name in NOT_FOR_SERVICES {
        // The cookies of a name of its own are the service's.
        if name != COOKIE || address.under == ReachedUnder::Path {
            headers.remove(name);
        }
    }
    if headers.contains_key(ORIGIN) {
        // Who may ask was decided; the service knows itself by this name alone.
        headers.insert(ORIGIN, address.origin.clone());
    }
    if let Some(host) = &address.asked_host {
        headers.insert(FORWARDED_HOST, host.clone());
    }
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    match (address.under, HeaderValue::from_str(&address.prefix)) {
        (ReachedUnder::Path, Ok(prefix)) => {
            headers.insert(FORWARDED_PREFIX, prefix);
        }
        (ReachedUnder::Path | ReachedUnder::OwnName, _) => {}
    }
    keep_upgrade(headers, upgrade);
}

/// Makes the headers of a service those that the client gets.
pub(super) fn to_client(headers: &mut HeaderMap, address: &Address, upgrade: Option<&HeaderValue>) {
    let agreed = headers.get(UPGRADE).cloned();
    drop_hops(headers);
    NOT_FOR_CLIENTS.iter().for_each(|name| drop(headers.remove(name)));
    match address.under {
        ReachedUnder::Path => NOT_UNDER_A_PATH.iter().for_each(|name| drop(headers.remove(name))),
        ReachedUnder::OwnName => keep_own_cookies(headers),
    }
    let home = address.home();
    lead(headers, LOCATION, |said| home.place(said));
    lead(headers, CONTENT_LOCATION, |said| home.place(said));
    lead(headers, REFRESH, |said| home.refresh(said));
    if address.under == ReachedUnder::Path {
        // Beside what the service says of its own; a browser keeps to both.
        headers.append(CONTENT_SECURITY_POLICY, SANDBOX);
    }
    keep_upgrade(headers, upgrade.and(agreed.as_ref()));
}

/// Drops cookies that are meant for other names as well.
fn keep_own_cookies(headers: &mut HeaderMap) {
    let is_own = |cookie: &HeaderValue| {
        let parts = cookie.as_bytes().split(|byte| *byte == b';').skip(1);
        let name = |part: &[u8]| {
            let end = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
            part[..end].trim_ascii().to_ascii_lowercase()
        };
        parts.map(name).all(|name| name != b"domain")
    };
    let cookies: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    headers.remove(SET_COOKIE);
    for cookie in cookies.into_iter().filter(is_own) {
        headers.append(SET_COOKIE, cookie);
    }
}

/// Changes where a header leads, or drops it.
fn lead(headers: &mut HeaderMap, name: HeaderName, seen: impl Fn(&str) -> Option<String>) {
    let Some(said) = headers.remove(&name) else { return };
    let place = said.to_str().ok().and_then(seen);
    if let Some(Ok(place)) = place.map(|place| HeaderValue::from_str(&place)) {
        headers.insert(name, place);
    }
}

fn keep_upgrade(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, upgrade.clone());
    }
}

fn drop_hops(headers: &mut HeaderMap) {
    for name in named_in_connection(headers) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn named_in_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}
