//! Which addresses may be dialled: public ones, and those that the operator allowed.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hotcell_model::{Error, Result};
use serde::{Deserialize, Serialize};

/// Addresses with the same beginning, written `10.1.2.0/24`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IpRange {
    address: IpAddr,
    bits: u8,
}

impl IpRange {
    /// Whether an address is one of them.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for IpRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!("{text:?} is no range of addresses"))
                .hint("write it as 10.1.2.0/24, fd00:1::/32 or a single address")
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
            None => most,
        };
        Ok(Self { address, bits })
    }
}

impl TryFrom<String> for IpRange {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<IpRange> for String {
    fn from(range: IpRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Why an address may not be dialled; none for one that may.
pub(crate) fn refusal(address: IpAddr, private: &[IpRange]) -> Option<&'static str> {
    let address = address.to_canonical();
    if private.iter().any(|range| range.contains(address)) {
        return None;
    }
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (0, _, _) => Some("an address of no host"),
        (10, _, _) | (192, 168, _) => Some("a private address"),
        (172, 16..=31, _) => Some("a private address"),
        (100, 64..=127, _) => Some("an address shared by a provider"),
        (127, _, _) => Some("a loopback address"),
        (169, 254, _) => Some("a link-local or metadata address"),
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => {
            Some("a reserved address")
        }
        (224..=239, _, _) => Some("a multicast address"),
        (240..=255, _, _) => Some("a reserved address"),
        (_, _, _) => None,
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        refusal_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, second, ..] if second < 0x0200 => Some("a reserved address"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("a reserved address"),
        [0x2000..=0x3fff, ..] => None,
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        [0xfc00..=0xfdff, ..] => Some("a private or metadata address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        _ => Some("a reserved address"),
    }
}

/// Whether an address is one of this machine: the kernel would send from it to itself. Nothing is
/// sent to find out.
///
/// # Errors
/// The kernel cannot tell, as where there is no way to the address.
pub(crate) fn is_own(address: IpAddr) -> io::Result<bool> {
    let address = address.to_canonical();
    let any: std::net::SocketAddr = match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect((address, 9))?;
    Ok(socket.local_addr()?.ip().to_canonical() == address)
}
