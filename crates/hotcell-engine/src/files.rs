//! Does something with the files of a cell.

use std::sync::Arc;

use hotcell_link::{DataSender, EventReceiver, FileConversation, FileEvent, LinkError};
use hotcell_model::{
    CellRef, ErrorCode, FileCall, FileDone, FileMatch, FileOp, FileResult, FileScope, FileStream,
    Result,
};

use crate::glass::Glass;
use crate::marker_guard::MarkerGuard;
use crate::site::Site;
use crate::view::View;
use crate::{marker_guard, masked_files};

/// A supervisor can end between being found and being asked.
const ATTEMPTS: u32 = 3;

/// Does something with files, with all its content at once.
pub(crate) async fn file_call(site: &Site, request: FileCall, view: &View) -> Result<FileDone> {
    Box::pin(marker_guard::check(site, &request)).await?;
    let called = match call_once(site, &request).await {
        // The process that serves them may have been ended by the cell's own; a second look harms
        // nothing.
        Err(error) if error.code == ErrorCode::Unavailable && request.op.only_reads() => {
            call_once(site, &request).await
        }
        called => called,
    };
    let mut done = called?;
    if let Some(glass) = glass(site, &request.cell, view).await? {
        let cover = masked_files::cover(site, &request.cell, &glass, &request.op, &mut done);
        Box::pin(cover).await?;
    }
    Ok(done)
}

/// How the texts of a cell that was just used are shown.
async fn glass(site: &Site, cell: &CellRef, view: &View) -> Result<Option<Glass>> {
    let cell = match (view, cell) {
        (View::Raw, _) => return Ok(None),
        (View::Masked(_), CellRef::Id(id)) => id.clone(),
        (View::Masked(_), CellRef::Alias(_) | CellRef::Default) => {
            match site.links.find_open(cell) {
                Some((id, _)) => id,
                None => site.get_cell(cell).await?.spec.id,
            }
        }
    };
    view.glass(site, &cell).await
}

pub(crate) async fn call_once(site: &Site, request: &FileCall) -> Result<FileDone> {
    let FileCall { cell, op, scope, content, most_content } = request;
    let most_content = *most_content;
    let FileTransfer { sender, mut receiver } = begin(site, cell, op.clone(), *scope).await?;
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

/// Does something with files, with its content as it comes. Content that is read and archives are
/// data, and come as they are.
pub(crate) async fn file_stream(
    site: &Arc<Site>,
    request: FileStream,
    view: &View,
) -> Result<FileTransfer> {
    let FileStream { cell, op } = request;
    let mut guard = None;
    if let (FileOp::Write(write), View::Masked(_)) = (&op, view) {
        guard = Some(MarkerGuard::new(site, &cell, &write.path));
    }
    let is_search = matches!(op, FileOp::Search(_));
    let mut transfer = begin(site, &cell, op, FileScope::Cell).await?;
    transfer.sender.guard = guard;
    if is_search {
        transfer.receiver.glass = glass(site, &cell, view).await?;
    }
    Ok(transfer)
}

async fn begin(site: &Site, cell: &CellRef, op: FileOp, scope: FileScope) -> Result<FileTransfer> {
    let mut lost = LinkError::Lost;
    if op.lets_grow() {
        site.check_disk(&site.tenant_of(cell).await?).await?;
    }
    for _ in 0..ATTEMPTS {
        let only_looks_on = matches!(op, FileOp::Watch(_));
        let ready = if only_looks_on { site.awake(cell).await? } else { site.ready(cell).await? };
        match ready.link.file(op.clone(), scope).await {
            Ok(FileConversation { sender, receiver }) => {
                return Ok(FileTransfer {
                    sender: ContentSender { sender, guard: None },
                    receiver: ContentReceiver { receiver, glass: None, line: Vec::new() },
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
pub struct ContentSender {
    sender: DataSender,
    guard: Option<MarkerGuard>,
}

/// Where content and the result come from.
#[derive(Debug)]
pub struct ContentReceiver {
    receiver: EventReceiver<FileEvent>,
    /// How what a search finds is shown, and what came of the next line of it.
    glass: Option<Glass>,
    line: Vec<u8>,
}

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
    /// The cell is gone, or content has what stands for a secret in its place.
    pub async fn send(&self, content: &[u8]) -> Result<()> {
        if let Some(guard) = &self.guard {
            Box::pin(guard.check(content)).await?;
        }
        Ok(self.sender.send(content).await?)
    }

    /// Says that there is no more content.
    ///
    /// # Errors
    /// The cell is gone.
    pub async fn finish(&self) -> Result<()> {
        Ok(self.sender.finish().await?)
    }
}

impl ContentReceiver {
    /// What comes next. Can be cancelled without losing anything.
    ///
    /// # Errors
    /// It could not be done, or the cell is gone.
    pub async fn next(&mut self) -> Result<Transferred> {
        match self.receiver.next().await? {
            FileEvent::Data(bytes) => Ok(Transferred::Content(match &self.glass {
                None => bytes,
                Some(glass) => found_early(glass, &mut self.line, &bytes),
            })),
            FileEvent::Done(mut result) => {
                if let (Some(glass), FileResult::Matches(found)) = (&self.glass, &mut *result) {
                    found.matches.iter_mut().for_each(|one| glass.found(one));
                }
                Ok(Transferred::Done(result))
            }
            FileEvent::Failed(error) => Err(error),
        }
    }
}

/// The lines that are whole by now of what a search tells early, as they are shown.
fn found_early(glass: &Glass, line: &mut Vec<u8>, bytes: &[u8]) -> Vec<u8> {
    line.extend_from_slice(bytes);
    let Some(end) = line.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let rest = line.split_off(end + 1);
    let lines = std::mem::replace(line, rest);
    let mut shown = Vec::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // What cannot be read cannot be shown.
        let Ok(mut found) = serde_json::from_slice::<FileMatch>(line) else { continue };
        glass.found(&mut found);
        shown.extend(serde_json::to_vec(&found).unwrap_or_default());
        shown.push(b'\n');
    }
    shown
}
