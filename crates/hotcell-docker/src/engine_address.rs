//! Where a Docker engine is, as `DOCKER_HOST` has it, and what else is said of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hotcell_egress::is_loopback;
use hotcell_model::{Error, Result};
use serde::{Deserialize, Serialize};

/// Where an engine listens unless something else is said.
const USUAL: &str = "/var/run/docker.sock";
/// What an address may look like.
const FORMS: &str = "write unix:///PATH/TO/docker.sock, tcp://HOST:2376, https://HOST:PORT or \
                     ssh://USER@HOST";

/// The address of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EngineAddress {
    /// A socket of this machine.
    Unix {
        /// Its path.
        path: PathBuf,
    },
    /// A port, over TLS where there are certificates for it.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A port, over TLS in any case.
    Https {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A machine whose own `docker` leads on to its engine.
    Ssh {
        /// As whom; else as the configuration of `ssh` has it.
        user: Option<String>,
        /// A name or an address, without brackets.
        host: String,
        /// The port; else as the configuration of `ssh` has it.
        port: Option<u16>,
        /// The engine's socket there; else the usual one there.
        socket: Option<String>,
    },
}

impl EngineAddress {
    /// The socket where an engine listens unless something else is said.
    #[must_use]
    pub fn usual() -> Self {
        Self::Unix { path: PathBuf::from(USUAL) }
    }

    /// Whether the engine may be on another machine, and its files not to be seen from here.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Unix { .. } => false,
            Self::Tcp { .. } | Self::Https { .. } | Self::Ssh { .. } => true,
        }
    }
}

impl Default for EngineAddress {
    fn default() -> Self {
        Self::usual()
    }
}

impl FromStr for EngineAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(format!("{text:?} is no address of a Docker engine: {why}")).hint(FORMS)
        };
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| wrong("it does not say how it is reached"))?;
        match scheme {
            "unix" if rest.starts_with('/') => Ok(Self::Unix { path: rest.into() }),
            "unix" => Err(wrong("the path of its socket begins with no /")),
            "tcp" => {
                let (host, port) = host_and_port(rest).map_err(|why| wrong(&why))?;
                Ok(Self::Tcp { host, port: port.ok_or_else(|| wrong("it names no port"))? })
            }
            "https" => {
                let (host, port) = host_and_port(rest).map_err(|why| wrong(&why))?;
                Ok(Self::Https { host, port: port.unwrap_or(443) })
            }
            "ssh" => by_ssh(rest).map_err(|why| wrong(&why)),
            _ => Err(wrong(&format!("engines are not reached by {scheme:?}"))),
        }
    }
}

fn by_ssh(rest: &str) -> Result<EngineAddress, String> {
    let (rest, socket) = match rest.split_once('/') {
        Some((rest, "")) => (rest, None),
        Some((rest, path)) => (rest, Some(format!("/{path}"))),
        None => (rest, None),
    };
    // A shell of the other side reads it.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if socket.as_ref().is_some_and(|path| !path.bytes().all(is_plain)) {
        return Err("the path of its socket has other characters than a-z, 0-9 and /._-".to_owned());
    }
    let (user, rest) = match rest.split_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    if let Some(user) = user {
        check_name("user", user)?;
    }
    let (host, port) = host_and_port(rest)?;
    Ok(EngineAddress::Ssh { user: user.map(str::to_owned), host, port, socket })
}

/// A host and its port; an IPv6 address stands in brackets.
fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => {
            host.parse::<Ipv6Addr>().map_err(|_| format!("{host:?} is no IPv6 address"))?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return Err(format!("{rest:?} is no port"));
            }
            (host, port)
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            check_name("host", host)?;
            (host, port)
        }
    };
    let number = |port: &str| match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(format!("{port:?} is no port")),
    };
    Ok((host.to_owned(), port.map(number).transpose()?))
}

/// What begins with a hyphen is an option to `ssh`, and some of those run programs.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a {what}")),
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { path } => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } => write!(f, "tcp://{}:{port}", in_brackets(host)),
            Self::Https { host, port } => write!(f, "https://{}:{port}", in_brackets(host)),
            Self::Ssh { user, host, port, socket } => {
                f.write_str("ssh://")?;
                if let Some(user) = user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&in_brackets(host))?;
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                f.write_str(socket.as_deref().unwrap_or_default())
            }
        }
    }
}

/// A host as it stands before a port.
pub(crate) fn in_brackets(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

impl TryFrom<String> for EngineAddress {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<EngineAddress> for String {
    fn from(address: EngineAddress) -> Self {
        address.to_string()
    }
}

/// Whether an engine may be spoken to without TLS over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlainTcp {
    /// Only on this machine.
    #[default]
    Refused,
    /// The operator has said so: whoever reaches that port is root there.
    Allowed,
}

/// What is said of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSettings {
    /// What the configuration calls it.
    pub name: String,
    /// Where it is.
    pub address: EngineAddress,
    /// How much of the cells it gets, beside the others.
    pub weight: u32,
    /// What spawns choose it by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Where `ca.pem`, `cert.pem` and `key.pem` lie, for one that is reached over TLS.
    #[serde(default)]
    pub tls_dir: Option<PathBuf>,
    /// Whether it may be reached over a network without TLS.
    #[serde(default)]
    pub plain_tcp: PlainTcp,
    /// What `ssh` is to read instead of the user's configuration.
    #[serde(default)]
    pub ssh_config: Option<PathBuf>,
    /// The variables that `ssh` has: what it finds its home and its agent by.
    #[serde(default)]
    pub ssh_environment: Vec<(String, String)>,
    /// The network of an engine on another machine by which connections of its cells are carried.
    #[serde(default = "usual_network")]
    pub network: String,
    /// Who is asked for the addresses of names; the host's servers where there are none.
    #[serde(default)]
    pub nameservers: Vec<SocketAddr>,
}

fn usual_network() -> String {
    EngineSettings::USUAL_NETWORK.to_owned()
}

/// How a port of an engine is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverTcp<'a> {
    /// As it is.
    Plain,
    /// By these certificates.
    Tls(&'a Path),
    /// As any site, by what this machine trusts.
    TlsOfHost,
}

impl EngineSettings {
    /// The name of the one engine of a configuration that names none.
    pub const DEFAULT: &'static str = "default";

    /// The network that engines have of their own accord.
    pub const USUAL_NETWORK: &'static str = "bridge";

    /// One with nothing said besides.
    #[must_use]
    pub fn new(name: &str, address: EngineAddress) -> Self {
        Self {
            name: name.to_owned(),
            address,
            weight: 1,
            labels: BTreeMap::new(),
            tls_dir: None,
            plain_tcp: PlainTcp::default(),
            ssh_config: None,
            ssh_environment: Vec::new(),
            network: usual_network(),
            nameservers: Vec::new(),
        }
    }

    /// The engine, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.name == Self::DEFAULT {
            true => self.address.to_string(),
            false => format!("{} at {}", self.name, self.address),
        }
    }

    /// How its port is spoken to.
    ///
    /// # Errors
    /// `denied` for one that is reached over a network and does not know who speaks to it.
    pub(crate) fn over_tcp(&self, host: &str) -> Result<OverTcp<'_>> {
        if let Some(directory) = &self.tls_dir {
            return Ok(OverTcp::Tls(directory));
        }
        let is_https = matches!(self.address, EngineAddress::Https { .. });
        match (is_https, self.plain_tcp) {
            (true, _) => Ok(OverTcp::TlsOfHost),
            (false, PlainTcp::Allowed) => Ok(OverTcp::Plain),
            (false, PlainTcp::Refused) if is_loopback(host) => Ok(OverTcp::Plain),
            (false, PlainTcp::Refused) => Err(Error::denied(format!(
                "the Docker engine {} is reached over a network without TLS, and whoever reaches it \
                 is root there",
                self.shown()
            ))
            .hint(
                "say where ca.pem, cert.pem and key.pem are with tls_dir or DOCKER_CERT_PATH, or use \
                 ssh://; where the network itself is safe, insecure = true",
            )),
        }
    }
}
