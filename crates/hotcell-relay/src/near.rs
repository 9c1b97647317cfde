//! The near end, where whoever uses the cell is.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hotcell_place::listen_in;
use tokio::io::AsyncWrite;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use crate::channels::Channels;
use crate::copying::Copy;
use crate::far::{ALIVE_APART, SILENT_FOR};
use crate::frame::{Decoder, Frame, Head, HeldFile};
use crate::held;
use crate::outbox::Outbox;

/// Files that are told of in one frame.
const FILES_AT_ONCE: usize = 500;
/// How long apart the far end is told what was let go of here.
const FORGOTTEN_APART: Duration = Duration::from_secs(600);

/// What of the near machine it is shown at.
#[derive(Debug, Clone)]
pub struct NearPlace {
    /// The directory in which the sockets are, and files that either end tells of.
    pub directory: PathBuf,
    /// The directory with the copy of the journal and logs.
    pub records: PathBuf,
    /// Sockets of the far end that can be connected to here, while somebody listens there.
    pub doors: Vec<String>,
    /// Files that the far end tells of.
    pub hears: Vec<String>,
    /// The one of them that comes with a supervisor, which is when the doors are opened.
    pub ready: String,
    /// A file that is told to the far end before it is asked anything.
    pub tells: String,
}

/// A near end that knows what it has, and is to be told the rest.
#[derive(Debug)]
pub struct Near {
    place: NearPlace,
    copy: Copy,
    have: Vec<HeldFile>,
}

impl Near {
    /// Looks at what there is already. It may take a while: nobody waits at the other end yet.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn look(place: NearPlace) -> io::Result<Self> {
        let copy = Copy::open(&place.records, &place.directory)?;
        let have = held::describe(&place.records)?;
        Ok(Self { place, copy, have })
    }
}

/// What the near end says of its own accord: what it has, what is told beside that, and from time to
/// time that it is there.
async fn tell_own(outbox: &Outbox, place: &NearPlace, have: Vec<HeldFile>) -> io::Result<()> {
    for files in have.chunks(FILES_AT_ONCE) {
        outbox.send(Frame::new(Head::Have, serde_json::to_vec(files)?)).await?;
    }
    outbox.send(Frame::bare(Head::Begin)).await?;
    drop(have);
    tell_file(outbox, place).await?;
    let mut forgotten_at = Instant::now() + FORGOTTEN_APART;
    let mut ticks = interval(ALIVE_APART);
    loop {
        ticks.tick().await;
        outbox.send(Frame::bare(Head::Alive)).await?;
        if Instant::now() >= forgotten_at {
            forgotten_at = Instant::now() + FORGOTTEN_APART;
            for links in held::bare_links(&place.records)?.chunks(FILES_AT_ONCE) {
                outbox.send(Frame::new(Head::Forgotten, serde_json::to_vec(links)?)).await?;
            }
        }
    }
}

/// Tells the far end the file that it is to know.
async fn tell_file(outbox: &Outbox, place: &NearPlace) -> io::Result<()> {
    match std::fs::read(place.directory.join(&place.tells)) {
        Ok(bytes) => {
            let file = place.tells.clone();
            outbox.send(Frame::new(Head::Put { file }, bytes)).await
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Shows a cell here until it is over: nothing of it is missing then. Tells when it has caught up: the
/// copy is what the records were when it began.
///
/// # Errors
/// The stream broke, the other end does not speak as it should, or the copy cannot be written.
pub async fn relay(
    near: Near,
    input: impl Stream<Item = io::Result<Bytes>> + Send,
    output: impl AsyncWrite + Send + 'static,
    mut caught: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let Near { place, mut copy, have } = near;
    let outbox = Arc::new(Outbox::new(output));
    let channels = Arc::new(Channels::new(Arc::clone(&outbox)));
    let mut tasks: JoinSet<io::Result<()>> = JoinSet::new();
    let (out, own_place) = (Arc::clone(&outbox), place.clone());
    tasks.spawn(async move { tell_own(&out, &own_place, have).await });
    let mut doors = Doors { place: &place, outbox: &outbox, channels: &channels, open: None };
    let mut decoder = Decoder::default();
    let mut silent_at = Instant::now() + SILENT_FOR;
    let mut input = std::pin::pin!(input);
    loop {
        while let Some(Frame { head, payload }) = decoder.next()? {
            match head {
                Head::Caught => caught()?,
                Head::Data { channel } => channels.take(channel, payload)?,
                Head::Grant { channel } => channels.grant(channel)?,
                Head::End { channel } => channels.end(channel),
                Head::Write { file, offset } => copy.write(&file, offset, &payload)?,
                Head::Link { file, target } => copy.link(&file, &target)?,
                Head::Moved { from, to } => copy.rename(&from, &to)?,
                Head::Gone { file } => copy.remove(&file)?,
                Head::Put { file } if place.hears.contains(&file) => {
                    copy.put(&file, &payload)?;
                    if file == place.ready {
                        // Whoever comes after a loss of power has to know that something may run.
                        copy.sync(&file)?;
                        doors.open()?;
                    }
                }
                Head::Alive => {}
                Head::Over => return Ok(()),
                Head::Put { .. }
                | Head::Have
                | Head::Begin
                | Head::Forgotten
                | Head::Open { .. } => {
                    return Err(io::Error::other("the other end says what it cannot"));
                }
            }
        }
        tokio::select! {
            part = input.next() => match part {
                Some(part) => {
                    decoder.feed(&part?);
                    silent_at = Instant::now() + SILENT_FOR;
                }
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            },
            ended = tasks.join_next() => match ended {
                Some(Ok(ended)) => ended?,
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => {}
            },
            error = doors.broken() => return Err(error),
            () = outbox.broken.notified() => return Err(io::ErrorKind::BrokenPipe.into()),
            () = sleep_until(silent_at) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// The sockets at which the cell is shown; gone with this.
struct Doors<'a> {
    place: &'a NearPlace,
    outbox: &'a Arc<Outbox>,
    channels: &'a Arc<Channels>,
    open: Option<JoinSet<io::Result<()>>>,
}

impl Doors<'_> {
    fn open(&mut self) -> io::Result<()> {
        if self.open.is_some() {
            return Ok(());
        }
        let mut tasks = JoinSet::new();
        let next = Arc::new(AtomicU32::new(1));
        for door in &self.place.doors {
            let listener = listen_in(&self.place.directory, door)?;
            listener.set_nonblocking(true)?;
            let listener = UnixListener::from_std(listener)?;
            let (out, channels) = (Arc::clone(self.outbox), Arc::clone(self.channels));
            let (next, door) = (Arc::clone(&next), door.clone());
            let place = self.place.clone();
            tasks.spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await?;
                    let channel = next.fetch_add(1, Ordering::Relaxed);
                    tell_file(&out, &place).await?;
                    out.send(Frame::bare(Head::Open { channel, door: door.clone() })).await?;
                    channels.carry(channel, stream)?;
                }
            });
        }
        self.open = Some(tasks);
        Ok(())
    }
}

impl Doors<'_> {
    /// Why nobody listens any more.
    async fn broken(&mut self) -> io::Error {
        let ended = match &mut self.open {
            Some(tasks) => tasks.join_next().await,
            None => std::future::pending().await,
        };
        match ended {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) | None => io::Error::other("nobody listens for the cell any more"),
            Some(Err(error)) => io::Error::other(error),
        }
    }
}

impl Drop for Doors<'_> {
    fn drop(&mut self) {
        if self.open.take().is_some() {
            for door in &self.place.doors {
                // Nobody listens there any more, which is all that counts.
                let _ = std::fs::remove_file(self.place.directory.join(door));
            }
        }
    }
}
