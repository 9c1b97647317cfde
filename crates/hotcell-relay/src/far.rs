//! The far end, where the cell is.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hotcell_place::{connect_in, write_whole};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until};

use crate::changes::Changes;
use crate::channels::Channels;
use crate::frame::{Decoder, Frame, Head, HeldFile};
use crate::outbox::Outbox;

/// How often each end says that it is there, and how long the other waits for it.
pub(crate) const ALIVE_APART: Duration = Duration::from_secs(5);
pub(crate) const SILENT_FOR: Duration = Duration::from_secs(25);

/// How long apart it is looked where the kernel does not tell.
const LOOK_APART: Duration = Duration::from_millis(100);

/// What of the far machine is carried.
#[derive(Debug, Clone)]
pub struct FarPlace {
    /// The cell's directory.
    pub directory: PathBuf,
    /// The directory with its journal and logs.
    pub records: PathBuf,
    /// Sockets in the cell's directory that may be dialled.
    pub doors: Vec<String>,
    /// Files in the cell's directory that are told to the near end.
    pub tells: Vec<String>,
    /// Files that the near end may replace.
    pub takes: Vec<String>,
    /// A file in the cell's directory that is there once nothing is written any more.
    pub over: String,
}

/// Serves the other end until the stream ends, or until the cell is over and the other end knows all
/// of it and has left.
///
/// # Errors
/// The stream broke, the other end does not speak as it should, or the records cannot be read.
pub async fn serve(
    place: FarPlace,
    input: impl Stream<Item = io::Result<Bytes>> + Send,
    output: impl AsyncWrite + Send + 'static,
) -> io::Result<()> {
    let outbox = Arc::new(Outbox::new(output));
    let channels = Channels::new(Arc::clone(&outbox));
    let mut tasks = JoinSet::new();
    let alive = Arc::clone(&outbox);
    tasks.spawn(async move { stay_alive(&alive).await });
    let mut have = Vec::new();
    let mut decoder = Decoder::default();
    let mut silent_at = Instant::now() + SILENT_FOR;
    let mut input = std::pin::pin!(input);
    loop {
        while let Some(Frame { head, payload }) = decoder.next()? {
            match head {
                Head::Have => have.extend(serde_json::from_slice::<Vec<HeldFile>>(&payload)?),
                Head::Begin => {
                    let (out, place) = (Arc::clone(&outbox), place.clone());
                    let have = std::mem::take(&mut have);
                    tasks.spawn(async move { tell_records(&out, place, have).await });
                }
                Head::Forgotten => {
                    let links = serde_json::from_slice::<Vec<HeldFile>>(&payload)?;
                    let out = Arc::clone(&outbox);
                    tasks.spawn(async move { out.forget(&links).await });
                }
                Head::Open { channel, door } => open(&place, &channels, channel, &door)?,
                Head::Data { channel } => channels.take(channel, payload)?,
                Head::Grant { channel } => channels.grant(channel)?,
                Head::End { channel } => channels.end(channel),
                Head::Put { file } if place.takes.contains(&file) => {
                    write_whole(&place.directory.join(&file), &payload)?;
                }
                Head::Alive => {}
                Head::Put { .. }
                | Head::Caught
                | Head::Write { .. }
                | Head::Link { .. }
                | Head::Moved { .. }
                | Head::Gone { .. }
                | Head::Over => return Err(io::Error::other("the other end says what it cannot")),
            }
        }
        tokio::select! {
            part = input.next() => match part {
                Some(part) => {
                    decoder.feed(&part?);
                    silent_at = Instant::now() + SILENT_FOR;
                }
                None => return Ok(()),
            },
            ended = tasks.join_next() => match ended {
                Some(Ok(ended)) => ended?,
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => {}
            },
            () = outbox.broken.notified() => return Err(io::ErrorKind::BrokenPipe.into()),
            () = sleep_until(silent_at) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Says from time to time that this end is there.
async fn stay_alive(outbox: &Outbox) -> io::Result<()> {
    let mut ticks = interval(ALIVE_APART);
    loop {
        ticks.tick().await;
        outbox.send(Frame::bare(Head::Alive)).await?;
    }
}

/// Tells what is written, from what the other end has until nothing is written any more.
async fn tell_records(outbox: &Outbox, place: FarPlace, have: Vec<HeldFile>) -> io::Result<()> {
    let FarPlace { directory, records, tells, over, .. } = place;
    let changes = Changes::begin(&records, &directory, tells, over, have)?;
    let events = changes.descriptor().map(|events| events.try_clone_to_owned()).transpose()?;
    outbox.tell_changes_first(changes).await;
    outbox.send(Frame::bare(Head::Caught)).await?;
    let events = events.map(watched).transpose()?;
    while !outbox.send_changes().await? {
        let is_told = outbox.is_told_of_changes().await;
        let changed = async {
            match events.as_ref().filter(|_| is_told) {
                Some(events) => events.readable().await.map(|mut ready| ready.clear_ready()),
                None => {
                    sleep(LOOK_APART).await;
                    Ok(())
                }
            }
        };
        tokio::select! {
            changed = changed => changed?,
            () = outbox.wake.notified() => {}
        }
    }
    // With what was written while that was found out.
    outbox.send(Frame::bare(Head::Over)).await
}

#[expect(deprecated, reason = "the other way is unsafe, and this descriptor is a copy of our own")]
fn watched(events: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(events, Interest::READABLE)
}

/// Dials a socket for the other end.
fn open(place: &FarPlace, channels: &Channels, channel: u32, door: &str) -> io::Result<()> {
    if !place.doors.iter().any(|known| known == door) {
        return Err(io::Error::other(format!(
            "the other end knocks at {door:?}, which is no door"
        )));
    }
    match connect_in(&place.directory, door)? {
        Some(stream) => {
            stream.set_nonblocking(true)?;
            channels.carry(channel, UnixStream::from_std(stream)?)
        }
        None => {
            channels.refuse(channel);
            Ok(())
        }
    }
}
