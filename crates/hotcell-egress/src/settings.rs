//! What an operator can choose about the network of cells.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use hotcell_model::{Error, HostName, Result, Tenant};
use serde::{Deserialize, Serialize};

use crate::IpRange;

/// The choices of an operator, the same for every cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressSettings {
    /// Who is asked for addresses; those of the host when there are none.
    pub nameservers: Vec<SocketAddr>,
    /// Names whose addresses are known without asking.
    pub hosts: Vec<HostPin>,
    /// Addresses that are not public and may be reached all the same.
    pub private: Vec<IpRange>,
    /// Connections of one cell at once.
    pub max_connections: u32,
    /// Bytes in both directions in the life of one cell; no limit when left out.
    pub max_bytes: Option<u64>,
    /// Bytes a second in both directions of one cell; no limit when left out.
    pub bytes_per_s: Option<u64>,
    /// Certificates of authorities that are trusted besides those of the host, where a secret is
    /// added to requests.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The certificates that are trusted instead of all those, where this is not the host.
    #[serde(default)]
    pub trusted: Option<PathBuf>,
    /// Bytes in both directions that the cells of a tenant may carry together in a day of UTC.
    #[serde(default)]
    pub of_tenants: TenantBytes,
}

/// How many bytes the cells of each tenant may carry; no limit for one of which none is said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantBytes {
    /// Of those that are named.
    pub named: BTreeMap<Tenant, u64>,
    /// Of all others.
    pub others: Option<u64>,
    /// Those of all tenants together.
    #[serde(default)]
    pub all: Option<u64>,
}

impl TenantBytes {
    /// How many those of a tenant may.
    #[must_use]
    pub fn of(&self, tenant: &Tenant) -> Option<u64> {
        self.named.get(tenant).copied().or(self.others)
    }
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            nameservers: Vec::new(),
            hosts: Vec::new(),
            private: Vec::new(),
            max_connections: 256,
            max_bytes: None,
            bytes_per_s: None,
            ca_file: None,
            trusted: None,
            of_tenants: TenantBytes::default(),
        }
    }
}

/// A name and its address, written `name=address`. Whoever writes it allows the address for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPin {
    /// The name.
    pub name: HostName,
    /// Its address.
    pub address: IpAddr,
}

impl FromStr for HostPin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!("{text:?} is no name with its address"))
                .hint("write name=address, such as db.internal=10.1.2.3")
        };
        let (name, address) = text.split_once('=').ok_or_else(wrong)?;
        Ok(Self { name: name.parse()?, address: address.parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for HostPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.address)
    }
}
