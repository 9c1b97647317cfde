//! Connections that are carried: each end of one has a socket of its own machine.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::frame::{Frame, Head, PIECE_BYTES};
use crate::outbox::Outbox;

/// Frames that may be on their way in each direction: a socket that nobody reads from holds up no
/// other.
const WINDOW: usize = 64;
/// More connections than a machine has engine processes.
const MOST: usize = 4096;

/// The connections of one end.
#[derive(Debug)]
pub(crate) struct Channels {
    outbox: Arc<Outbox>,
    open: Arc<Mutex<HashMap<u32, Open>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// One of them.
#[derive(Debug)]
struct Open {
    /// Gone when the other end has no more to say.
    incoming: Option<mpsc::Sender<Bytes>>,
    credit: Arc<Semaphore>,
    /// Whether this end has no more to say.
    is_told: bool,
}

impl Channels {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, open: Arc::default(), tasks: Mutex::new(JoinSet::new()) }
    }

    /// Carries a connection.
    pub(crate) fn carry(&self, channel: u32, stream: UnixStream) -> io::Result<()> {
        let (reader, writer) = stream.into_split();
        let (incoming, arrived) = mpsc::channel(WINDOW);
        let credit = Arc::new(Semaphore::new(WINDOW));
        {
            let mut open = lock(&self.open);
            if open.len() >= MOST || open.contains_key(&channel) {
                return Err(io::Error::other("the other end opens too many connections"));
            }
            let one =
                Open { incoming: Some(incoming), credit: Arc::clone(&credit), is_told: false };
            open.insert(channel, one);
        }
        let (out, all) = (Arc::clone(&self.outbox), Arc::clone(&self.open));
        let leaving = async move {
            let _ = tell(&out, channel, reader, &credit).await;
            let _ = out.send(Frame::bare(Head::End { channel })).await;
            close(&all, channel, |one| one.is_told = true);
        };
        let out = Arc::clone(&self.outbox);
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(leaving);
        tasks.spawn(async move { hear(&out, channel, writer, arrived).await });
        Ok(())
    }

    /// Tells the other end, in its own time, that nobody is there.
    pub(crate) fn refuse(&self, channel: u32) {
        let out = Arc::clone(&self.outbox);
        lock(&self.tasks).spawn(async move {
            let _ = out.send(Frame::bare(Head::End { channel })).await;
        });
    }

    /// Takes bytes of a connection. Never waits: the other end sends no more than it was granted.
    pub(crate) fn take(&self, channel: u32, bytes: Bytes) -> io::Result<()> {
        let open = lock(&self.open);
        // Of one that has just ended here.
        let Some(incoming) = open.get(&channel).and_then(|one| one.incoming.as_ref()) else {
            return Ok(());
        };
        match incoming.try_send(bytes) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(io::Error::other("the other end sends more than can be taken"))
            }
        }
    }

    pub(crate) fn grant(&self, channel: u32) -> io::Result<()> {
        if let Some(one) = lock(&self.open).get(&channel) {
            if one.credit.available_permits() >= WINDOW {
                return Err(io::Error::other("the other end grants what was not used"));
            }
            one.credit.add_permits(1);
        }
        Ok(())
    }

    pub(crate) fn end(&self, channel: u32) {
        close(&self.open, channel, |one| {
            one.incoming = None;
        });
    }
}

/// Notes that one direction is done; with the second one the connection is forgotten.
fn close(open: &Mutex<HashMap<u32, Open>>, channel: u32, note: impl FnOnce(&mut Open)) {
    let mut open = lock(open);
    if let Some(one) = open.get_mut(&channel) {
        note(one);
        if one.is_told && one.incoming.is_none() {
            open.remove(&channel);
        }
    }
}

/// From the socket to the other end.
async fn tell(
    out: &Outbox,
    channel: u32,
    mut reader: OwnedReadHalf,
    credit: &Semaphore,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let Ok(permit) = credit.acquire().await else { return Ok(()) };
        permit.forget();
        let read = reader.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let bytes = Bytes::copy_from_slice(&buffer[..read]);
        out.send(Frame::new(Head::Data { channel }, bytes)).await?;
    }
}

/// From the other end to the socket.
async fn hear(
    out: &Outbox,
    channel: u32,
    mut writer: OwnedWriteHalf,
    mut arrived: mpsc::Receiver<Bytes>,
) {
    while let Some(bytes) = arrived.recv().await {
        // A socket that takes no more still lets the other end speak to its end.
        let _ = writer.write_all(&bytes).await;
        if out.send(Frame::bare(Head::Grant { channel })).await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
