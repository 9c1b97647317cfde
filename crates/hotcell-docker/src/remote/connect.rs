//! `hotcell connect`: the far end of a relay, run in an outpost with its standard streams as the way.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use bytes::Bytes;
use futures_util::stream;
use hotcell_keeper::{CARRIER_SOCKET, DISK_USED, KEEPER_SOCKET, NETWORK};
use hotcell_relay::{FarPlace, serve};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::{FAILED, OVER, PLACE, READY, RECORDS, WAITING};
use crate::paths::LINK_SOCKET;

/// What is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Sockets of a cell's place that are shown on the other side.
pub(super) const DOORS: [&str; 3] = [LINK_SOCKET, KEEPER_SOCKET, CARRIER_SOCKET];
/// Files of it that are told to the other side.
pub(super) const TELLS: [&str; 4] = [WAITING, READY, FAILED, DISK_USED];
/// The file that the other side tells.
pub(super) const TAKES: &str = NETWORK;

/// Serves the other end of the standard streams for as long as it is there.
#[must_use]
pub fn connect() -> ExitCode {
    let place = FarPlace {
        directory: PLACE.into(),
        records: RECORDS.into(),
        doors: DOORS.map(str::to_owned).to_vec(),
        tells: TELLS.map(str::to_owned).to_vec(),
        takes: vec![TAKES.to_owned()],
        over: OVER.to_owned(),
    };
    match serve_streams(place) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The other side shows it to whoever wanted the cell.
            let _ = io::Write::write_all(&mut io::stderr(), error.to_string().as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn serve_streams(place: FarPlace) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let own =
            |stream: &dyn AsFd| -> io::Result<OwnedFd> { stream.as_fd().try_clone_to_owned() };
        let input = pipe::Receiver::from_owned_fd(own(&io::stdin())?)?;
        let output = pipe::Sender::from_owned_fd(own(&io::stdout())?)?;
        let input = stream::unfold(input, |mut input| async move {
            let mut piece = vec![0; PIECE_BYTES];
            match input.read(&mut piece).await {
                Ok(0) => None,
                Ok(read) => {
                    piece.truncate(read);
                    Some((Ok(Bytes::from(piece)), input))
                }
                Err(error) => Some((Err(error), input)),
            }
        });
        Box::pin(serve(place, input, output)).await
    })
}
