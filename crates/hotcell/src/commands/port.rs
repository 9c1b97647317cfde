//! `hotcell port`: a service in a cell, reached from this machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hotcell_model::{CellInfo, Error, ErrorCode, PortDial, Result};
use hotcell_server::ClientWatch;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::args::Port;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{note, print, print_json};
use crate::signals::LocalSignals;

/// More wait to be taken; a cell has no more of them either.
const CONNECTIONS: usize = 256;
/// How long to leave a machine alone that gives no connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Passes connections on until a signal comes.
pub(super) async fn port(session: Session, args: Port) -> Result<u8, Failure> {
    let mut signals = LocalSignals::listen().map_err(Failure::Terminal)?;
    let info = session.ask(CellInfo { cell: args.cell.clone() }).await?;
    let listener = listen(args.listen).await?;
    let address = listener.local_addr().map_err(|error| cannot_listen(args.listen, &error))?;
    if !address.ip().is_loopback() {
        note(&format!(
            "whoever reaches {address} reaches port {} of the cell, and is not asked who they are",
            args.port
        ));
    }
    if args.json {
        let cell = info.cell.id.as_str();
        print_json(&json!({ "cell": cell, "port": args.port, "listen": address }))?;
    } else {
        print(format!("{address}\n"))?;
    }
    // By its id: an alias may become that of another cell.
    let dial = PortDial { cell: info.cell.id.into(), port: args.port };
    // Whoever is told to leave leaves, and with it what it carries.
    let _ = signals.unless_told_to_leave(pass_on(&listener, Arc::new(session), dial)).await;
    Ok(0)
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| cannot_listen(address, &error))
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::AddrInUse {
        return Error::conflict(format!("somebody else listens at {address}"))
            .hint("choose another port with --listen, or leave it out for a free one");
    }
    Error::unavailable(format!("cannot listen at {address}: {error}"))
        .hint("choose another address or port with --listen")
}

/// Takes connections for ever.
async fn pass_on(listener: &TcpListener, session: Arc<Session>, dial: PortDial) {
    let mut carried = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if carried.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    carried.spawn(carry(stream, Arc::clone(&session), dial.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be taken");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = carried.join_next() => {}
        }
    }
}

/// Carries one connection to its end. One that breaks in the cell breaks here too, so that nobody
/// takes half of something for all of it; and one that breaks here is closed in the cell, whether or
/// not the service reads.
async fn carry(mut stream: TcpStream, session: Arc<Session>, dial: PortDial) {
    // Small pieces are not held back: whoever sent them waits.
    let _ = stream.set_nodelay(true);
    let Ok(client) = ClientWatch::begin(&stream) else { return };
    let carried = match session.dial(dial).await {
        Ok(service) => tokio::select! {
            carried = service.carry(&mut stream) => carried,
            () = client.gone() => return,
        },
        Err(error) => Err(error),
    };
    if let Err(error) = carried {
        if error.code != ErrorCode::Cancelled {
            match &error.hint {
                Some(hint) => note(&format!("{error}; {hint}")),
                None => note(&error.to_string()),
            }
        }
        let _ = stream.set_zero_linger();
    }
}
