//! Addresses of names, as the host's side sees them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hotcell_model::HostName;

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
    pub(crate) async fn find(&self, name: &HostName) -> Result<Vec<IpAddr>, NoAddress> {
        let pinned = self.pins.iter().filter(|pin| pin.name == *name);
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
        self.check(&found)
    }

    fn check(&self, found: &[IpAddr]) -> Result<Vec<IpAddr>, NoAddress> {
        let why_not = |address: IpAddr| {
            let is_allowed = self.private.iter().any(|it| it.contains(address.to_canonical()));
            let own = (!is_allowed && is_own(address)).then_some("an address of this machine");
            refusal(address, &self.private).or(own)
        };
        let mut good = Vec::new();
        let mut refused = None;
        for address in found.iter().take(MOST_ADDRESSES) {
            match why_not(*address) {
                None => good.push(address.to_canonical()),
                Some(why) => refused = refused.or(Some(NoAddress::Refused(*address, why))),
            }
        }
        // What is refused is not dialled; what else there is may be.
        match refused {
            Some(refused) if good.is_empty() => Err(refused),
            None if good.is_empty() => Err(NoAddress::Unknown("it has no address".to_owned())),
            Some(_) | None => Ok(good),
        }
    }
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
