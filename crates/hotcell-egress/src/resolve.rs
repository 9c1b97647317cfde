//! Addresses of names, as the host's side sees them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hotcell_model::{HostName, NamePattern, NameRules, NetRule};
use tokio::net::TcpStream;

use crate::address::{is_own, refusal};
use crate::{EgressSettings, HostPin, IpRange};

/// Addresses of one name that are tried at most.
const MOST_ADDRESSES: usize = 8;

/// Why a name has no address to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoAddress {
    /// Where it is may not be reached.
    Refused(IpAddr, &'static str),
    /// It could not be found out.
    Unknown(String),
}

/// By what kind of rule a cell reaches a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedBy {
    /// One that writes it out.
    Name,
    /// One that stands for many names.
    Pattern,
}

impl AskedBy {
    pub(crate) fn of(rules: &NameRules, name: &HostName, port: u16) -> Self {
        let is_name = |rule: &&NetRule| match rule.pattern {
            NamePattern::Exactly(_) => true,
            NamePattern::Any | NamePattern::Below(_) => false,
        };
        let allow = rules.allow.iter().filter(is_name).cloned().collect();
        let written_out = NameRules { allow, deny: rules.deny.clone() };
        if written_out.allows(name, port) { Self::Name } else { Self::Pattern }
    }
}

/// Finds addresses.
#[derive(Debug)]
pub(crate) struct HostResolver {
    resolver: Result<TokioResolver, String>,
    pins: Vec<HostPin>,
    private: Vec<IpRange>,
}

impl HostResolver {
    pub(crate) fn new(settings: &EgressSettings) -> Self {
        Self {
            resolver: resolver(&settings.nameservers),
            pins: settings.hosts.clone(),
            private: settings.private.clone(),
        }
    }

    /// The addresses at which a name may be dialled: what is checked here is what is dialled.
    /// Choices of the operator about addresses that are not public are for names that the cell's
    /// rules write out.
    pub(crate) async fn find(
        &self,
        name: &HostName,
        asked: AskedBy,
    ) -> Result<Vec<IpAddr>, NoAddress> {
        let private: &[IpRange] = match asked {
            AskedBy::Name => &self.private,
            AskedBy::Pattern => &[],
        };
        let pinned = self.pins.iter().filter(|pin| asked == AskedBy::Name && pin.name == *name);
        let pinned: Vec<IpAddr> = pinned.map(|pin| pin.address).collect();
        if !pinned.is_empty() {
            return Ok(pinned);
        }
        let resolver = self.resolver.as_ref().map_err(|why| NoAddress::Unknown(why.clone()))?;
        // With a dot at its end it is looked up as it is, without the host's search list.
        let found = resolver
            .lookup_ip(format!("{name}."))
            .await
            .map_err(|error| NoAddress::Unknown(error.to_string()))?;
        let found: Vec<IpAddr> = found.iter().collect();
        check(&found, private)
    }
}

/// Finds addresses of names that the operator wrote down for hotcell itself: what cells may not
/// reach is not refused here.
#[derive(Debug)]
pub struct HostLookup(Result<TokioResolver, String>);

impl HostLookup {
    /// Asks these name servers; those of the host where there are none.
    #[must_use]
    pub fn new(nameservers: &[SocketAddr]) -> Self {
        Self(resolver(nameservers))
    }

    /// The addresses of a name.
    ///
    /// # Errors
    /// Why they could not be found out.
    pub async fn find(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let resolver = self.0.as_ref().map_err(Clone::clone)?;
        let name = format!("{}.", name.trim_end_matches('.'));
        let found = resolver.lookup_ip(name).await.map_err(|error| error.to_string())?;
        Ok(found.iter().take(MOST_ADDRESSES).collect())
    }

    /// Connects to a host, by name or address.
    ///
    /// # Errors
    /// Why that could not be done.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let addresses: Vec<IpAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) if is_loopback(host) => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Err(_) => self.find(host).await?,
        };
        let mut why = "it has no address".to_owned();
        for address in addresses {
            match TcpStream::connect(SocketAddr::new(address, port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }
}

/// Whether a host is this machine by a name that nobody can bend.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Those of these addresses that may be dialled.
fn check(found: &[IpAddr], private: &[IpRange]) -> Result<Vec<IpAddr>, NoAddress> {
    let mut good = Vec::new();
    let mut refused = None;
    for address in found.iter().take(MOST_ADDRESSES).map(IpAddr::to_canonical) {
        match why_not(address, private, is_own) {
            None => good.push(address),
            Some(why) => refused = refused.or(Some(NoAddress::Refused(address, why))),
        }
    }
    // What is refused is not dialled; what else there is may be.
    match refused {
        Some(refused) if good.is_empty() => Err(refused),
        None if good.is_empty() => Err(NoAddress::Unknown("it has no address".to_owned())),
        Some(_) | None => Ok(good),
    }
}

/// Why an address may not be dialled; none for one that may. What cannot be told is refused.
pub(crate) fn why_not(
    address: IpAddr,
    private: &[IpRange],
    is_own: impl FnOnce(IpAddr) -> io::Result<bool>,
) -> Option<&'static str> {
    let address = address.to_canonical();
    if private.iter().any(|range| range.contains(address)) {
        return None;
    }
    refusal(address, private).or_else(|| match is_own(address) {
        Ok(false) => None,
        Ok(true) => Some("an address of this machine"),
        Err(_) => Some("an address to which this machine has no way"),
    })
}

fn resolver(nameservers: &[SocketAddr]) -> Result<TokioResolver, String> {
    let built = if nameservers.is_empty() {
        TokioResolver::builder_tokio()
            .map_err(|error| format!("the host's /etc/resolv.conf names nobody to ask: {error}"))?
    } else {
        let config = ResolverConfig::from_parts(None, Vec::new(), servers(nameservers));
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let mut built = built;
    choose(built.options_mut());
    built.build().map_err(|error| error.to_string())
}

fn servers(addresses: &[SocketAddr]) -> Vec<NameServerConfig> {
    let server = |address: &SocketAddr| {
        let with_port = |mut connection: ConnectionConfig| {
            connection.port = address.port();
            connection
        };
        let connections =
            vec![with_port(ConnectionConfig::udp()), with_port(ConnectionConfig::tcp())];
        NameServerConfig::new(address.ip(), true, connections)
    };
    addresses.iter().map(server).collect()
}

fn choose(options: &mut ResolverOpts) {
    options.timeout = Duration::from_secs(3);
    options.attempts = 2;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Always;
    options.cache_size = 256;
    options.positive_max_ttl = Some(Duration::from_secs(300));
    options.negative_max_ttl = Some(Duration::from_secs(5));
}
