//! Where traces are sent.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use hotcell_model::Error;

/// The port that collectors take OTLP over HTTP at.
const PORT: u16 = 4318;
/// What is behind the address of a collector.
const TRACES: &str = "/v1/traces";

/// A collector of OpenTelemetry, reached by plain HTTP: `http://127.0.0.1:4318`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What comes before `/v1/traces`.
    base: String,
}

impl Collector {
    /// Where it takes traces.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}{TRACES}", self.base)
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.base)
    }
}

impl FromStr for Collector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.starts_with("https://") {
            return Err(Error::unsupported("traces cannot be sent over https").hint(
                "send them to a collector on this machine over http, and let it send them on",
            ));
        }
        let wrong = || {
            Error::invalid("it is not the address of a collector")
                .hint("write http:// and an address, such as http://127.0.0.1:4318")
        };
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let base = path.trim_end_matches('/');
        let base = base.strip_suffix(TRACES).unwrap_or(base);
        if !base.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)) {
            return Err(wrong());
        }
        Ok(Self { address: address(authority).ok_or_else(wrong)?, base: base.to_owned() })
    }
}

/// Names are not looked up: a static program has no resolver.
fn address(authority: &str) -> Option<SocketAddr> {
    let named = match authority.strip_prefix("localhost") {
        Some(port) => format!("{}{port}", Ipv4Addr::LOCALHOST),
        None => authority.to_owned(),
    };
    let bare = named.strip_prefix('[').and_then(|bare| bare.strip_suffix(']')).unwrap_or(&named);
    let alone = || bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    named.parse().ok().or_else(alone)
}
