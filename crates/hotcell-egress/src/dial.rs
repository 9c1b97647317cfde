//! Connections out of the host, to addresses that were checked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;

/// How long an address has before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// Connects to the first address that answers, one family after the other.
pub(crate) async fn dial(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut waiting = in_turn(addresses, port).into_iter();
    let mut trying = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let race = async {
        loop {
            match waiting.next() {
                Some(address) => trying.push(TcpStream::connect(address)),
                None if trying.is_empty() => return Err(last),
                None => {}
            }
            tokio::select! {
                Some(tried) = trying.next() => match tried {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                },
                () = tokio::time::sleep(HEAD_START) => {}
            }
        }
    };
    match tokio::time::timeout(CONNECT_WITHIN, race).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answered in 15 s")),
    }
}

/// One of each family after the other.
fn in_turn(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let (fours, sixes): (Vec<IpAddr>, Vec<IpAddr>) =
        addresses.iter().partition(|address| address.is_ipv4());
    let mut turns = Vec::with_capacity(addresses.len());
    for at in 0..fours.len().max(sixes.len()) {
        let both = [sixes.get(at), fours.get(at)];
        turns.extend(both.into_iter().flatten().map(|address| SocketAddr::new(*address, port)));
    }
    turns
}
