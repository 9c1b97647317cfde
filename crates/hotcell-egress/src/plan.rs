//! What a carrier is told when it starts.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use hotcell_model::NameRules;

use crate::{EgressSettings, HeaderPlan};

/// All that a carrier needs; it inherits nothing else.
#[derive(Debug)]
pub struct CarryPlan {
    /// The choices of the operator.
    pub settings: EgressSettings,
    /// The rules in force.
    pub rules: NameRules,
    /// The headers that it adds to requests.
    pub headers: HeaderPlan,
    /// The directory for records, and for what was used.
    pub records: OwnedFd,
    /// To a process that opens sockets in the cell's network namespace.
    pub sockets: UnixStream,
    /// Readable once the cell has ended.
    pub cell: OwnedFd,
    /// Where it is asked.
    pub control: UnixListener,
    /// Takes a byte once the cell can be served.
    pub ready: OwnedFd,
}

/// Where programs that insist on a proxy find one, and where lookups are answered.
pub(crate) const SERVICES: std::net::Ipv4Addr = std::net::Ipv4Addr::new(127, 64, 0, 1);
/// The port of the proxy.
pub(crate) const PROXY_PORT: u16 = 3128;

/// Listens for lookups and for the proxy.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) dns: std::net::UdpSocket,
    pub(crate) dns_streams: TcpListener,
    pub(crate) proxy: TcpListener,
}
