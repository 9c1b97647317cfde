//! What one end sends: one frame after the other, whoever it is from.

use std::io;
use std::pin::Pin;

use bytes::BytesMut;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, Notify};

use crate::changes::Changes;
use crate::frame::{Frame, Head, HeldFile};

/// The way out of an end.
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    /// Told when nothing can be sent any more.
    pub(crate) broken: Notify,
    /// Told when there is more to tell than was told before a frame, or nothing will be written any
    /// more: whoever sends something may be the one who sees it.
    pub(crate) wake: Notify,
}

struct Inner {
    writer: Pin<Box<dyn AsyncWrite + Send>>,
    /// What is told before anything else, at the far end.
    changes: Option<Changes>,
    buffer: BytesMut,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    pub(crate) fn new(writer: impl AsyncWrite + Send + 'static) -> Self {
        let inner = Inner {
            writer: Box::pin(writer),
            changes: None,
            buffer: BytesMut::with_capacity(4096),
        };
        Self { inner: Mutex::new(inner), broken: Notify::new(), wake: Notify::new() }
    }

    /// From now on these changes are told before everything else.
    pub(crate) async fn tell_changes_first(&self, changes: Changes) {
        self.inner.lock().await.changes = Some(changes);
    }

    /// Sends a frame, and before it whatever was written by the time this was called.
    pub(crate) async fn send(&self, frame: Frame) -> io::Result<()> {
        self.send_all(Some(frame)).await
    }

    /// Whether the kernel tells what changes; otherwise one has to look.
    pub(crate) async fn is_told_of_changes(&self) -> bool {
        let inner = self.inner.lock().await;
        inner.changes.as_ref().is_some_and(|changes| changes.descriptor().is_some())
    }

    /// Lets go of output that the other end has let go of.
    pub(crate) async fn forget(&self, links: &[HeldFile]) -> io::Result<()> {
        match &self.inner.lock().await.changes {
            Some(changes) => changes.forget_forgotten(links),
            None => Ok(()),
        }
    }

    /// Sends what was written; whether nothing will be any more.
    pub(crate) async fn send_changes(&self) -> io::Result<bool> {
        self.send_all(None).await?;
        Ok(self.inner.lock().await.is_over())
    }

    async fn send_all(&self, frame: Option<Frame>) -> io::Result<()> {
        let mut inner = self.inner.lock().await;
        let sent = inner.send(frame).await;
        if sent.is_err() {
            self.broken.notify_one();
        }
        if inner.is_over() || inner.has_more() {
            self.wake.notify_one();
        }
        sent
    }
}

impl Inner {
    /// Whether something is known that was not told yet.
    fn has_more(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| !changes.is_quiet())
    }

    fn is_over(&self) -> bool {
        self.changes.as_ref().is_some_and(Changes::is_over)
    }

    async fn send(&mut self, frame: Option<Frame>) -> io::Result<()> {
        // One that says nothing of the cell waits for nothing.
        let is_about_cell = frame.as_ref().is_none_or(|frame| frame.head != Head::Alive);
        if let Some(mut changes) = self.changes.take_if(|_| is_about_cell) {
            // What is written while that goes on is later than what is to be sent after it.
            let until_quiet = frame.is_none();
            let told = self.tell(&mut changes, until_quiet).await;
            self.changes = Some(changes);
            told?;
        }
        if let Some(frame) = frame {
            self.write(&frame).await?;
        }
        self.writer.flush().await
    }

    async fn tell(&mut self, changes: &mut Changes, until_quiet: bool) -> io::Result<()> {
        loop {
            while let Some(change) = changes.next()? {
                self.write(&change).await?;
            }
            if !until_quiet || changes.is_quiet() {
                return Ok(());
            }
        }
    }

    async fn write(&mut self, frame: &Frame) -> io::Result<()> {
        self.buffer.clear();
        frame.encode(&mut self.buffer)?;
        self.writer.write_all(&self.buffer).await
    }
}
