//! The near end, where whoever uses the cell is.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hotcell_place::listen_in;
use tokio::io::AsyncWrite;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::channels::Channels;
use crate::copying::Copy;
use crate::far::{SILENT_FOR, stay_alive};
use crate::frame::{Decoder, Frame, Head};
use crate::held;
use crate::outbox::Outbox;

/// Files that are told of in one frame.
const FILES_AT_ONCE: usize = 500;

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

/// What a near end says of its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The copy is what the records were when it began.
    Caught,
}

/// Shows a cell here until it is over: nothing of it is missing then.
///
/// # Errors
/// The stream broke, the other end does not speak as it should, or the copy cannot be written.
pub async fn relay(
    place: NearPlace,
    input: impl Stream<Item = io::Result<Bytes>> + Send,
    output: impl AsyncWrite + Send + 'static,
    mut tell: impl FnMut(Told) -> io::Result<()>,
) -> io::Result<()> {
    let outbox = Arc::new(Outbox::new(output));
    let channels = Arc::new(Channels::new(Arc::clone(&outbox)));
    let mut tasks: JoinSet<io::Result<()>> = JoinSet::new();
    let mut copy = Copy::open(&place.records, &place.directory)?;
    let have = held::describe(&place.records)?;
    let out = Arc::clone(&outbox);
    tasks.spawn(async move {
        for files in have.chunks(FILES_AT_ONCE) {
            out.send(Frame::new(Head::Have, serde_json::to_vec(files)?)).await?;
        }
        out.send(Frame::bare(Head::Begin)).await?;
        stay_alive(&out).await
    });
    let mut doors = Doors { place: &place, outbox: &outbox, channels: &channels, open: None };
    let mut decoder = Decoder::default();
    let mut silent_at = Instant::now() + SILENT_FOR;
    let mut input = std::pin::pin!(input);
    loop {
        while let Some(Frame { head, payload }) = decoder.next()? {
            match head {
                Head::Caught => tell(Told::Caught)?,
                Head::Data { channel } => channels.take(channel, payload)?,
                Head::Grant { channel } => channels.grant(channel)?,
                Head::End { channel } => channels.end(channel),
                Head::Write { file, offset } => copy.write(&file, offset, &payload)?,
                Head::Link { file, target } => copy.link(&file, &target)?,
                Head::Gone { file } => copy.remove(&file)?,
                Head::Put { file } if place.hears.contains(&file) => {
                    copy.put(&file, &payload)?;
                    if file == place.ready {
                        doors.open()?;
                    }
                }
                Head::Alive => {}
                Head::Over => return Ok(()),
                Head::Put { .. } | Head::Have | Head::Begin | Head::Open { .. } => {
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
            let (name, told) =
                (self.place.tells.clone(), self.place.directory.join(&self.place.tells));
            tasks.spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await?;
                    let channel = next.fetch_add(1, Ordering::Relaxed);
                    match std::fs::read(&told) {
                        Ok(bytes) => {
                            let file = name.clone();
                            out.send(Frame::new(Head::Put { file }, bytes)).await?;
                        }
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                    out.send(Frame::bare(Head::Open { channel, door: door.clone() })).await?;
                    channels.carry(channel, stream)?;
                }
            });
        }
        self.open = Some(tasks);
        Ok(())
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
