//! Carries frames between the stream and those who wait for them.

use std::io;

use hotcell_model::Record;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use crate::client::LinkError;
use crate::following::FollowEvent;
use crate::frame::{Frame, FrameKind};
use crate::peer::{Peer, PeerError};
use crate::waiters::Waiters;
use crate::{RecordHead, Tell};

/// The most that is read at once.
const READ_BYTES: usize = 128 * 1024;
/// What most messages fit into; to get and to give back room for more takes longer than to read them.
const FEW_BYTES: usize = 8 * 1024;

/// A stream whose ends have greeted each other.
pub(crate) struct Carrier {
    peer: Peer,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
}

impl Carrier {
    /// Exchanges greetings.
    pub(crate) async fn greet(stream: UnixStream) -> Result<Self, LinkError> {
        let (reader, mut writer) = stream.into_split();
        let mut peer = Peer::new();
        writer.write_all(peer.unsent()).await.map_err(|_| LinkError::Lost)?;
        peer.mark_sent(peer.unsent().len());
        let mut carrier = Self { peer, reader, writer };
        while !carrier.peer.is_greeted() {
            read(&mut carrier.reader, &mut carrier.peer, FEW_BYTES)
                .await
                .map_err(|_| LinkError::Lost)?;
            carrier.peer.greet().map_err(|error| LinkError::Refused(error.to_string()))?;
        }
        Ok(carrier)
    }

    /// The protocol version that both ends speak.
    pub(crate) fn version(&self) -> u32 {
        self.peer.version().unwrap_or_default()
    }

    /// What the other end can do beyond the version.
    pub(crate) fn features(&self) -> Vec<String> {
        self.peer.features().to_vec()
    }

    /// Moves frames both ways until nothing more can come. Then the stream is closed in both
    /// directions: the other end must not go on counting on this one.
    pub(crate) async fn run(self, to_write: mpsc::Receiver<Vec<u8>>, waiters: Waiters) {
        let closing = Closing(waiters);
        let Self { peer, reader, writer } = self;
        let read = read_frames(peer, reader, &closing.0);
        let write = write_frames(writer, to_write);
        tokio::pin!(read, write);
        let reason = tokio::select! {
            reason = &mut read => reason,
            // What the other end said before it stopped listening still counts.
            () = write => read.await,
        };
        closing.0.close(reason);
    }
}

/// Ends every wait when the connection does, also when the task that serves it is dropped.
struct Closing(Waiters);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(LinkError::Lost);
    }
}

/// Reads once, into this much room or more; how much came.
async fn read(reader: &mut OwnedReadHalf, peer: &mut Peer, room: usize) -> io::Result<usize> {
    // An idle connection, of which a server has many, keeps no room.
    reader.readable().await?;
    let received = peer.received();
    received.reserve(room);
    match reader.read_buf(received).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        length => Ok(length),
    }
}

async fn write_frames(mut writer: OwnedWriteHalf, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut bytes) = frames.recv().await {
        while let Ok(more) = frames.try_recv() {
            bytes.extend_from_slice(&more);
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read_frames(mut peer: Peer, mut reader: OwnedReadHalf, waiters: &Waiters) -> LinkError {
    let mut room = FEW_BYTES;
    loop {
        match peer.next_frame() {
            Ok(Some(frame)) => {
                let channel = frame.channel;
                if dispatch(waiters, frame).is_err() {
                    // A head of a later version: this conversation ends, the others go on.
                    waiters.break_off(channel);
                }
            }
            Ok(None) => {
                room = match read(&mut reader, &mut peer, room).await {
                    Ok(length) if length < room => FEW_BYTES,
                    Ok(_) => READ_BYTES,
                    Err(_) => return LinkError::Lost,
                };
            }
            Err(error) => return LinkError::Refused(error.to_string()),
        }
    }
}

fn dispatch(waiters: &Waiters, frame: Frame) -> Result<(), PeerError> {
    match frame.kind {
        FrameKind::Tell => {
            let tell: Tell = frame.head()?;
            waiters.answer(frame.channel, tell);
        }
        FrameKind::Data => waiters.deliver_data(frame)?,
        FrameKind::Credit => waiters.add_credit(frame.channel, frame.head()?),
        FrameKind::Record => {
            let RecordHead { seq, ts, stream } = frame.head()?;
            let record = Record { seq, ts, stream, bytes: frame.blob };
            waiters.deliver(frame.channel, FollowEvent::Record(record));
        }
        FrameKind::Ended => waiters.deliver(frame.channel, FollowEvent::Ended(frame.head()?)),
        FrameKind::Hello
        | FrameKind::Ask
        | FrameKind::Activity
        | FrameKind::File
        | FrameKind::Forget => {}
    }
    Ok(())
}
