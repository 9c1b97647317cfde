//! Under which names the server may be reached, and from whose pages: a page that a name was bent
//! for must not reach a server on this machine.

use std::net::IpAddr;

use hotcell_model::{Error, Result};
use http::header::{HOST, HeaderName, HeaderValue, ORIGIN, REFERER};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Uri};

use super::ports::{ReachedUnder, is_port, is_same_port};

/// Names of this machine that no name server can bend.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// By which a browser says whose page it is that asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// By which it says how.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// And what for.
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The names and pages that are let in.
#[derive(Debug, Clone)]
pub(super) struct Visitors {
    bound: IpAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Visitors {
    /// For a server at this address, with what was configured.
    pub(super) fn new(bound: IpAddr, hosts: &[String], origins: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { bound, hosts: lower(hosts), origins: lower(origins) }
    }

    /// Checks under which name the server was reached, and whose page asks.
    ///
    /// # Errors
    /// `denied` for one that is not known.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<()> {
        let headers = request.headers();
        if ReachedUnder::of(request) == ReachedUnder::OwnName {
            return check_own_name(request);
        }
        self.check_host(headers)?;
        if headers.contains_key(ORIGIN) {
            return self.check_origin(headers);
        }
        let is_load = [Method::GET, Method::HEAD].contains(request.method());
        if is_load && may_load_from_port(headers, request.uri().path()) {
            return Ok(());
        }
        check_fetch(headers)
    }

    /// Checks the name under which the server was reached.
    ///
    /// # Errors
    /// `denied` for another one.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<()> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host,
            (None, _) => return Err(Error::invalid("the request has no Host header")),
            (Some(_), Some(_)) => return Err(Error::invalid("the request has two Host headers")),
        };
        let text = text(host)?;
        let authority: Authority = text
            .parse()
            .map_err(|_| Error::invalid(format!("the Host header {text:?} names no host")))?;
        let name = bare(authority.host());
        if LOOPBACK.contains(&name) || self.is_bound(name) || self.is_named(&text, name) {
            return Ok(());
        }
        Err(Error::denied(format!("this server is not known as {text:?}"))
            .hint("name it in http.allowed_hosts if it should be"))
    }

    /// An address needs no name server: nobody can bend it.
    fn is_bound(&self, name: &str) -> bool {
        name.parse::<IpAddr>().is_ok_and(|ip| ip == self.bound || self.bound.is_unspecified())
    }

    fn is_named(&self, authority: &str, name: &str) -> bool {
        self.hosts.iter().any(|known| known == authority || bare(known) == name)
    }

    /// Checks where the page comes from that asks; other programs have none. Of this machine only
    /// the server's own origin is let in: at another port there may be a service of a cell.
    ///
    /// # Errors
    /// `denied` for another one.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<()> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = text(origin)?;
        let own = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
        let host = headers.get(HOST).map(text).transpose()?;
        let is_own = own.is_some_and(|own| {
            let is_here = |own: &Authority| LOOPBACK.contains(&bare(own.host()));
            host.as_deref() == Some(own) && own.parse().as_ref().is_ok_and(is_here)
        });
        if is_own || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(Error::denied(format!("pages of {origin:?} may not call this server"))
            .hint("name it in http.allowed_origins if they should"))
    }

    /// The origin of a request, if its pages may read answers.
    pub(super) fn shared_with<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        text(origin).is_ok_and(|text| self.origins.contains(&text)).then_some(origin)
    }
}

/// Under a name of its own a service is for its own pages, for whoever goes there, and for programs.
fn check_own_name<B>(request: &Request<B>) -> Result<()> {
    let headers = request.headers();
    if let Some(origin) = headers.get(ORIGIN) {
        let (origin, host) = (text(origin)?, headers.get(HOST).map(text).transpose()?);
        let own = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
        return match own.is_some() && own == host.as_deref() {
            true => Ok(()),
            false => Err(Error::denied(format!("pages of {origin:?} may not call this service"))),
        };
    }
    let is_load = [Method::GET, Method::HEAD].contains(request.method());
    if is_load && says(headers, &FETCH_MODE, "navigate") && says(headers, &FETCH_DEST, "document") {
        return Ok(());
    }
    check_fetch(headers)
}

fn says(headers: &HeaderMap, name: &HeaderName, what: &str) -> bool {
    headers.get(name).is_some_and(|value| value == what)
}

/// Refuses what another page loads or sends without saying where it comes from.
fn check_fetch(headers: &HeaderMap) -> Result<()> {
    let Some(site) = headers.get(FETCH_SITE) else { return Ok(()) };
    match text(site)?.as_str() {
        "same-origin" | "none" => Ok(()),
        _ => Err(Error::denied("a page of another origin may not load this")
            .hint("open it by itself, or name the origin in http.allowed_origins and use fetch")),
    }
}

/// Whether a page that is not the server's own may load from a port of a cell: whoever goes there,
/// and a page of the same port for what it is made of. In its sandbox that has no origin, and says
/// where it is by the Referer alone, which no other page can choose.
fn may_load_from_port(headers: &HeaderMap, path: &str) -> bool {
    if !is_port(path) {
        return false;
    }
    if says(headers, &FETCH_MODE, "navigate") && says(headers, &FETCH_DEST, "document") {
        return true;
    }
    let referer = headers.get(REFERER).and_then(|value| value.to_str().ok()?.parse::<Uri>().ok());
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    referer.is_some_and(|page| {
        let is_here = page.authority().zip(host).is_some_and(|(page, host)| *page == host);
        is_here && is_same_port(path, page.path())
    })
}

fn text(value: &HeaderValue) -> Result<String> {
    let text =
        value.to_str().map_err(|_| Error::invalid("a header of the request is not ASCII"))?;
    Ok(text.to_ascii_lowercase())
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}
