//! Content that comes or goes piece by piece: from and to a file, by a thread, and a cell.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;

use hotcell_engine::{FileTransfer, Transferred};
use hotcell_model::{Error, FileResult, FileStream};
use tokio::sync::{mpsc, oneshot};

use crate::errors::Failure;
use crate::session::Session;
use crate::signals::LocalSignals;

const PIECE_BYTES: usize = 64 * 1024;
/// Pieces between a thread and us.
const IN_FLIGHT: usize = 8;

/// What a thread reads or makes; after an error comes nothing.
pub(crate) type Pieces = mpsc::Receiver<io::Result<Vec<u8>>>;

/// Starts a thread that makes content.
pub(crate) fn made_by(
    make: impl FnOnce(&mut PieceWriter) -> io::Result<()> + Send + 'static,
) -> io::Result<Pieces> {
    let (sender, pieces) = mpsc::channel(IN_FLIGHT);
    thread::Builder::new().spawn(move || {
        let mut writer = PieceWriter { sender, piece: Vec::with_capacity(PIECE_BYTES) };
        let made = make(&mut writer).and_then(|()| writer.flush());
        if let Err(error) = made {
            // Nobody waits for it when the transfer has failed.
            let _ = writer.sender.blocking_send(Err(error));
        }
    })?;
    Ok(pieces)
}

/// Starts a thread that reads a file to its end.
pub(crate) fn read_from(mut file: File) -> io::Result<Pieces> {
    made_by(move |writer| io::copy(&mut file, writer).map(drop))
}

/// Passes on what is written to it.
pub(crate) struct PieceWriter {
    sender: mpsc::Sender<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE_BYTES - self.piece.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.piece.extend_from_slice(taken);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.sender.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// A thread that takes content.
#[derive(Debug)]
pub(crate) struct Taker<T> {
    pieces: mpsc::Sender<Vec<u8>>,
    done: oneshot::Receiver<io::Result<T>>,
}

impl<T: Send + 'static> Taker<T> {
    /// Starts a thread that reads content to its end. Content that breaks off is an error to it.
    pub(crate) fn start(
        take: impl FnOnce(PieceReader) -> io::Result<T> + Send + 'static,
    ) -> io::Result<Self> {
        let (pieces, incoming) = mpsc::channel(IN_FLIGHT);
        let (finished, done) = oneshot::channel();
        thread::Builder::new().spawn(move || {
            let reader = PieceReader { incoming, piece: Vec::new(), at: 0, complete: false };
            let _ = finished.send(take(reader));
        })?;
        Ok(Self { pieces, done })
    }

    /// Gives it a piece; `false` when it takes no more.
    pub(crate) async fn give(&self, piece: Vec<u8>) -> bool {
        // An empty piece stands for the end.
        piece.is_empty() || self.pieces.send(piece).await.is_ok()
    }

    /// Says that all was given, or that no more comes, and waits for what became of it.
    pub(crate) async fn finish(self, all: Given) -> io::Result<T> {
        if all == Given::All {
            let _ = self.pieces.send(Vec::new()).await;
        }
        drop(self.pieces);
        self.done.await.unwrap_or_else(|_| Err(io::Error::other("a thread broke off")))
    }
}

/// How much of the content there was to give was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    All,
    Part,
}

/// Reads what is given to a [`Taker`].
pub(crate) struct PieceReader {
    incoming: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
    complete: bool,
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() && !self.complete {
            let piece = self.incoming.blocking_recv();
            (self.piece, self.at) = (piece.ok_or(io::ErrorKind::UnexpectedEof)?, 0);
            self.complete = self.piece.is_empty();
        }
        let length = buffer.len().min(self.piece.len() - self.at);
        buffer[..length].copy_from_slice(&self.piece[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

/// Sends content to the files of a cell; what came of it. When the content breaks off, nothing is
/// left of it there.
pub(crate) async fn send(
    session: &Session,
    stream: FileStream,
    mut pieces: Pieces,
    what: &str,
) -> Result<FileResult, Failure> {
    let FileTransfer { sender, mut receiver } = session.transfer(stream).await?;
    let pass_on = async {
        while let Some(piece) = pieces.recv().await {
            let piece = piece.map_err(|error| local_fault("read", what, &error))?;
            sender.send(&piece).await?;
        }
        sender.finish().await
    };
    let mut result = async || loop {
        if let Transferred::Done(result) = receiver.next().await? {
            return Ok(*result);
        }
    };
    tokio::select! {
        biased;
        // Before all was sent, that is a refusal.
        done = result() => return done,
        passed = pass_on => passed?,
    }
    result().await
}

/// Fetches content from the files of a cell, piece by piece; what came of it.
pub(crate) async fn receive(
    session: &Session,
    stream: FileStream,
    mut take: impl AsyncFnMut(Vec<u8>) -> Result<(), Failure>,
) -> Result<FileResult, Failure> {
    let FileTransfer { sender, mut receiver } = session.transfer(stream).await?;
    sender.finish().await?;
    loop {
        match receiver.next().await? {
            Transferred::Content(piece) => take(piece).await?,
            Transferred::Done(result) => return Ok(*result),
        }
    }
}

/// Fetches content for a thread that takes it; what came of both. A signal ends it, but not before
/// the thread has ended.
pub(crate) async fn fetch<T: Send + 'static>(
    (session, signals): (&Session, &mut LocalSignals),
    stream: FileStream,
    taker: Taker<T>,
    what: &Path,
) -> Result<(FileResult, T), Failure> {
    let stopped = || Failure::from(Error::unavailable("the content was not taken"));
    let received = signals
        .unless_told_to_leave(receive(session, stream, async |piece| {
            if taker.give(piece).await { Ok(()) } else { Err(stopped()) }
        }))
        .await
        .unwrap_or_else(|signal| Err(Failure::ToldToLeave(signal)));
    let given = if received.is_ok() { Given::All } else { Given::Part };
    match (received, taker.finish(given).await) {
        (Ok(result), Ok(taken)) => Ok((result, taken)),
        (Ok(_), Err(error)) => Err(local_fault("write", what, &error).into()),
        (Err(Failure::Refused(_)), Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Err(local_fault("write", what, &error).into())
        }
        (Err(failure), _) => Err(failure),
    }
}

/// Passes content on from one cell to another; what came of it there.
pub(crate) async fn pass(
    session: &Session,
    from: FileStream,
    to: FileStream,
) -> Result<FileResult, Failure> {
    let FileTransfer { sender, mut receiver } = session.transfer(to).await?;
    let read = receive(session, from, async |piece| Ok(sender.send(&piece).await?));
    tokio::select! {
        biased;
        read = read => read?,
        done = async { loop {
            if let Transferred::Done(result) = receiver.next().await? {
                return Ok::<_, Failure>(*result);
            }
        } } => return done,
    };
    sender.finish().await?;
    loop {
        if let Transferred::Done(result) = receiver.next().await? {
            return Ok(*result);
        }
    }
}

/// What the kernel says about a file of this machine.
pub(crate) fn local_fault(verb: &str, what: impl AsRef<Path>, error: &io::Error) -> Error {
    use io::ErrorKind::{
        AlreadyExists, DirectoryNotEmpty, InvalidData, IsADirectory, NotADirectory, NotFound,
        PermissionDenied, QuotaExceeded, StorageFull,
    };
    let message = format!("cannot {verb} {}: {error}", what.as_ref().display());
    let kind = error.kind();
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&kind);
    if is(&[NotFound]) && verb == "write" {
        Error::not_found(message).hint("make the directory first")
    } else if is(&[NotFound]) {
        Error::not_found(message)
    } else if is(&[PermissionDenied]) {
        Error::denied(message)
    } else if is(&[AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory]) {
        Error::conflict(message)
    } else if is(&[StorageFull, QuotaExceeded]) {
        Error::limit_exceeded(message)
    } else if is(&[InvalidData]) {
        Error::invalid(message)
    } else {
        Error::unavailable(message)
    }
}
