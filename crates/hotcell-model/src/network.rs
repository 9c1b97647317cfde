//! What a cell can reach over the network: names that the operator allowed, and nothing else.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    CellId, CellRef, CellSpec, Error, HostName, Inspection, LentSecret, NamePattern, NetRule,
    Result, Timestamp,
};

/// The ports that a name stands for when none is written.
pub const USUAL_PORTS: [u16; 3] = [22, 80, 443];
/// The most rules of one cell.
const MOST_RULES: usize = 256;

/// What a cell can reach over the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// Its own loopback and nothing else.
    #[default]
    None,
    /// Some names.
    Names(NameRules),
}

/// Which names a cell can reach, at which ports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameRules {
    /// What is allowed; a name without a port stands for the ports 22, 80 and 443.
    pub allow: Vec<NetRule>,
    /// What is not, although it is allowed; a name without a port stands for all ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<NetRule>,
}

impl Network {
    /// The rules; those of a cell without a network allow nothing.
    #[must_use]
    pub fn rules(&self) -> NameRules {
        match self {
            Self::None => NameRules::default(),
            Self::Names(rules) => rules.clone(),
        }
    }
}

impl From<NameRules> for Network {
    fn from(rules: NameRules) -> Self {
        if rules.allow.is_empty() { Self::None } else { Self::Names(rules) }
    }
}

impl From<Vec<NetRule>> for Network {
    fn from(allow: Vec<NetRule>) -> Self {
        NameRules { allow, deny: Vec::new() }.into()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Names(rules) => {
                f.write_str(&join(&rules.allow))?;
                if rules.deny.is_empty() {
                    return Ok(());
                }
                write!(f, "; not {}", join(&rules.deny))
            }
        }
    }
}

fn join(rules: &[NetRule]) -> String {
    rules.iter().map(NetRule::to_string).collect::<Vec<_>>().join(", ")
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Names(rules) => rules.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Network;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\" or {\"allow\": [names]}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Network, E> {
                match text {
                    "none" => Ok(Network::None),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Network, M::Error> {
                NameRules::deserialize(MapAccessDeserializer::new(map)).map(Network::from)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl NameRules {
    /// Whether a connection to this name and port may be made.
    #[must_use]
    pub fn allows(&self, name: &HostName, port: u16) -> bool {
        let denied = |rule: &NetRule| {
            rule.pattern.matches(name) && rule.port.is_none_or(|denied| denied == port)
        };
        self.allow.iter().any(|rule| rule.pattern.matches(name) && has_port(rule, port))
            && !self.deny.iter().any(denied)
    }

    /// Whether connections to this name and port are carried without inspection.
    #[must_use]
    pub fn is_raw(&self, name: &HostName, port: u16) -> bool {
        let is_raw = |rule: &NetRule| {
            rule.inspection == Inspection::Raw && rule.pattern.matches(name) && has_port(rule, port)
        };
        self.allow.iter().any(is_raw) && self.allows(name, port)
    }

    /// The ports at which a name may be reached; none for one that may not.
    #[must_use]
    pub fn ports_of(&self, name: &HostName) -> BTreeSet<u16> {
        let rules = self.allow.iter().filter(|rule| rule.pattern.matches(name));
        rules.flat_map(ports).filter(|port| self.allows(name, *port)).collect()
    }

    /// The names that are written out.
    pub fn exact_names(&self) -> impl Iterator<Item = &HostName> {
        self.allow.iter().filter_map(|rule| match &rule.pattern {
            NamePattern::Exactly(name) => Some(name),
            NamePattern::Any | NamePattern::Below(_) => None,
        })
    }

    /// Whether all that a rule would allow is allowed by these.
    #[must_use]
    pub fn cover(&self, asked: &NetRule) -> bool {
        let is_covered = |port: &u16| {
            let covers = |rule: &NetRule| {
                rule.pattern.covers(&asked.pattern)
                    && has_port(rule, *port)
                    && rule.inspection >= asked.inspection
            };
            let denies = |rule: &NetRule| {
                rule.pattern.overlaps(&asked.pattern) && rule.port.is_none_or(|it| it == *port)
            };
            self.allow.iter().any(covers) && !self.deny.iter().any(denies)
        };
        ports(asked).iter().all(is_covered)
    }

    /// Allows something more.
    ///
    /// # Errors
    /// `conflict` when something wider is denied, which goes first; `limit_exceeded` for too many rules.
    pub fn allow(&mut self, rule: NetRule) -> Result<()> {
        // What is allowed now is denied no more, as far as that can be told.
        let asked = ports(&rule);
        let is_over = |denied: &NetRule| {
            rule.pattern.covers(&denied.pattern)
                && (rule.port.is_none() || denied.port == rule.port)
        };
        let kept: Vec<NetRule> = self.deny.iter().filter(|it| !is_over(it)).cloned().collect();
        let stands = |denied: &&NetRule| {
            denied.pattern.covers(&rule.pattern)
                && asked.iter().any(|port| denied.port.is_none_or(|it| it == *port))
        };
        if let Some(denied) = kept.iter().find(stands) {
            return Err(Error::conflict(format!("{rule} cannot be allowed: {denied} is denied"))
                .hint(format!("allow {denied} again, or name each that may be reached")));
        }
        self.deny = kept;
        // The newest word on inspection counts.
        self.allow.retain(|allowed| *allowed == rule || !allowed.names_the_same(&rule));
        if !self.allow.contains(&rule) {
            self.allow.push(rule);
        }
        self.check_size()
    }

    /// Denies something, whether or not it was allowed before.
    ///
    /// # Errors
    /// `limit_exceeded` for too many rules.
    pub fn deny(&mut self, mut rule: NetRule) -> Result<()> {
        rule.inspection = Inspection::Checked;
        let is_gone = |allowed: &NetRule| {
            rule.pattern.covers(&allowed.pattern)
                && (rule.port.is_none() || allowed.port == rule.port)
        };
        self.allow.retain(|allowed| !is_gone(allowed));
        let is_left = |allowed: &NetRule| {
            allowed.pattern.overlaps(&rule.pattern)
                && rule.port.is_none_or(|port| has_port(allowed, port))
        };
        if self.allow.iter().any(is_left) && !self.deny.contains(&rule) {
            self.deny.push(rule);
        }
        // What is denied of nothing needs no rule.
        let (allow, deny) = (&self.allow, &mut self.deny);
        deny.retain(|denied| allow.iter().any(|rule| rule.pattern.overlaps(&denied.pattern)));
        self.check_size()
    }

    /// Checks that there are not too many.
    ///
    /// # Errors
    /// `limit_exceeded` for too many rules.
    pub fn check_size(&self) -> Result<()> {
        let count = self.allow.len() + self.deny.len();
        if count <= MOST_RULES {
            return Ok(());
        }
        Err(Error::limit_exceeded(format!(
            "a cell has at most {MOST_RULES} rules for its network, not {count}"
        ))
        .hint("use *.suffix for many names"))
    }
}

fn ports(rule: &NetRule) -> Vec<u16> {
    rule.port.map_or_else(|| USUAL_PORTS.to_vec(), |port| vec![port])
}

fn has_port(rule: &NetRule, port: u16) -> bool {
    rule.port.map_or_else(|| USUAL_PORTS.contains(&port), |only| only == port)
}

/// What became of a connection, or of the wish for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetVerdict {
    /// It was made, and may still be open.
    Opened,
    /// It was made, and is over.
    Closed,
    /// It was not allowed.
    Denied,
    /// It was allowed and could not be made.
    Failed,
    /// It was made, and cut by a change of the rules or a limit.
    Cut,
}

/// One line about what a cell did over the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetRecord {
    /// When it was written.
    pub ts: Timestamp,
    /// What became of it.
    pub verdict: NetVerdict,
    /// The name that was asked for, as far as it is one.
    pub name: String,
    /// The port; none where only a name was looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The number of the connection, the same in what tells of its begin and its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// Where it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Bytes out of the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes into the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// How long it lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why, where it is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a cell used of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NetworkStats {
    /// Connections that are open.
    pub connections: u32,
    /// Bytes out of the cell since it was made.
    pub sent_bytes: u64,
    /// Bytes into the cell since it was made.
    pub received_bytes: u64,
}

/// Shows what a cell may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetShow {
    /// Which.
    pub cell: CellRef,
}

/// Changes what a cell may reach, for good. For the operator: nothing in a cell may ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetChange {
    /// Which.
    pub cell: CellRef,
    /// What it may reach from now on.
    pub allow: Vec<NetRule>,
    /// What it may reach no more; connections to it are cut.
    pub deny: Vec<NetRule>,
}

/// Reads what a cell did over the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetLog {
    /// Which.
    pub cell: CellRef,
    /// How many of the newest lines at most.
    pub limit: u32,
}

/// What a cell may reach, and what it used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkState {
    /// Which.
    pub cell: CellId,
    /// The rules in force.
    pub network: Network,
    /// What it used; none while nothing carries its connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<NetworkStats>,
}

/// What a cell did over the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetRecords {
    /// Which.
    pub cell: CellId,
    /// The newest last.
    pub records: Vec<NetRecord>,
}

/// How much of what a cell did over the network was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetCursor {
    /// Which file.
    pub file: u64,
    /// How much of it, in bytes.
    pub offset: u64,
    /// What stands right before that, as a hash: another file may have the name and the number of
    /// the one that was read.
    pub before: u64,
}

/// What came since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetTail {
    /// The newest last.
    pub records: Vec<NetRecord>,
    /// How much was read now.
    pub cursor: NetCursor,
    /// Whether something was thrown away before it was read.
    pub missed: bool,
}

/// What carries connections of cells to names that they may reach.
#[async_trait]
pub trait Networks: Send + Sync {
    /// The rules in force.
    async fn in_force(&self, spec: &CellSpec) -> Result<Network>;

    /// Puts other rules in force; what is not allowed any more is cut when this returns.
    async fn enforce(&self, spec: &CellSpec, network: &Network) -> Result<()>;

    /// The newest of what is in a cell's directory of records, the newest last.
    async fn log(&self, records: &Path, limit: u32) -> Result<Vec<NetRecord>>;

    /// Whether there is anything in a cell's directory of records. Cheap.
    fn has_log(&self, records: &Path) -> bool;

    /// What came since `cursor`, in the order in which it was written.
    async fn log_after(&self, records: &Path, cursor: &NetCursor) -> Result<NetTail>;

    /// What a cell used; `None` while nothing carries its connections.
    async fn stats(&self, cell: &CellId) -> Result<Option<NetworkStats>>;

    /// What the cell with these records has carried today (UTC), both ways, also one that has ended.
    async fn used_today(&self, records: &Path) -> Result<u64>;

    /// Hands over the values of the secrets that a cell uses as headers, in the place of those that
    /// were handed over before. They are kept in memory alone.
    async fn lend(&self, cell: &CellId, secrets: Vec<LentSecret>) -> Result<()>;
}
