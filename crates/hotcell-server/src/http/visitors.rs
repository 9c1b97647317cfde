//! Under which names the server may be reached, and from whose pages: a page that a name was bent
//! for must not reach a server on this machine.

use std::net::IpAddr;

use hotcell_model::{Error, Result};
use http::HeaderMap;
use http::header::{HOST, HeaderValue, ORIGIN};
use http::uri::Authority;

/// Names of this machine that no name server can bend.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

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

    /// Checks where the page comes from that asks; other programs have none.
    ///
    /// # Errors
    /// `denied` for another one.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<()> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = text(origin)?;
        let own = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
        let own = own.and_then(|rest| rest.parse::<Authority>().ok());
        let is_own = own.is_some_and(|authority| LOOPBACK.contains(&bare(authority.host())));
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

fn text(value: &HeaderValue) -> Result<String> {
    let text =
        value.to_str().map_err(|_| Error::invalid("a header of the request is not ASCII"))?;
    Ok(text.to_ascii_lowercase())
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}
