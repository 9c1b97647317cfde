//! Does something with the files of a cell.

use hotcell_link::{DataSender, EventReceiver, FileConversation, FileEvent, LinkError};
use hotcell_model::{
    CellRef, ErrorCode, FileCall, FileDone, FileOp, FileResult, FileStream, Result,
};

use crate::site::Site;

/// A supervisor can end between being found and being asked.
const ATTEMPTS: u32 = 3;

/// Does something with files, with all its content at once.
pub(crate) async fn file_call(site: &Site, request: FileCall) -> Result<FileDone> {
    match call_once(site, &request).await {
        // The process that serves them may have been ended by the cell's own; a second look harms
        // nothing.
        Err(error) if error.code == ErrorCode::Unavailable && request.op.only_reads() => {
            call_once(site, &request).await
        }
        called => called,
    }
}

async fn call_once(site: &Site, request: &FileCall) -> Result<FileDone> {
    let FileCall { cell, op, content, most_content } = request;
    let most_content = *most_content;
    let FileTransfer { sender, mut receiver } = begin(site, cell, op.clone()).await?;
    let send = async {
        sender.send(content).await?;
        sender.finish().await
    };
    let receive = async {
        let mut content = Vec::new();
        loop {
            match receiver.next().await? {
                Transferred::Content(piece) => {
                    if (content.len() + piece.len()) as u64 > most_content {
                        return Err(FileCall::too_much_content(most_content));
                    }
                    content.extend_from_slice(&piece);
                }
                Transferred::Done(result) => return Ok(FileDone { result: *result, content }),
            }
        }
    };
    tokio::pin!(receive);
    tokio::select! {
        biased;
        done = &mut receive => done,
        sent = send => {
            sent?;
            receive.await
        }
    }
}

/// Does something with files, with its content as it comes.
pub(crate) async fn file_stream(site: &Site, request: FileStream) -> Result<FileTransfer> {
    begin(site, &request.cell, request.op).await
}

async fn begin(site: &Site, cell: &CellRef, op: FileOp) -> Result<FileTransfer> {
    let mut lost = LinkError::Lost;
    for _ in 0..ATTEMPTS {
        let only_looks_on = matches!(op, FileOp::Watch(_));
        let ready = if only_looks_on { site.awake(cell).await? } else { site.ready(cell).await? };
        match ready.link.file(op.clone()).await {
            Ok(FileConversation { sender, receiver }) => {
                return Ok(FileTransfer {
                    sender: ContentSender(sender),
                    receiver: ContentReceiver(receiver),
                });
            }
            Err(LinkError::Lost) => lost = LinkError::Lost,
            Err(error) => return Err(error.into()),
        }
    }
    Err(lost.into())
}

/// What goes to and comes from the files of a cell; both can be used at the same time.
#[derive(Debug)]
pub struct FileTransfer {
    /// Where content goes.
    pub sender: ContentSender,
    /// Where content and the result come from. Dropped, what is not finished is undone.
    pub receiver: ContentReceiver,
}

/// Where content goes.
#[derive(Debug)]
pub struct ContentSender(DataSender);

/// Where content and the result come from.
#[derive(Debug)]
pub struct ContentReceiver(EventReceiver<FileEvent>);

/// What comes from the files of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transferred {
    /// Content.
    Content(Vec<u8>),
    /// What came of it; nothing comes after it.
    Done(Box<FileResult>),
}

impl ContentSender {
    /// Sends content, as fast as it is taken. If it is no longer wanted this returns at once; the
    /// receiver then has the reason.
    ///
    /// # Errors
    /// The cell is gone.
    pub async fn send(&self, content: &[u8]) -> Result<()> {
        Ok(self.0.send(content).await?)
    }

    /// Says that there is no more content.
    ///
    /// # Errors
    /// The cell is gone.
    pub async fn finish(&self) -> Result<()> {
        Ok(self.0.finish().await?)
    }
}

impl ContentReceiver {
    /// What comes next. Can be cancelled without losing anything.
    ///
    /// # Errors
    /// It could not be done, or the cell is gone.
    pub async fn next(&mut self) -> Result<Transferred> {
        match self.0.next().await? {
            FileEvent::Data(bytes) => Ok(Transferred::Content(bytes)),
            FileEvent::Done(result) => Ok(Transferred::Done(result)),
            FileEvent::Failed(error) => Err(error),
        }
    }
}
