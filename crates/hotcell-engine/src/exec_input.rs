//! Sends input, end of file, a signal or a new size to an exec.

use std::sync::Arc;

use hotcell_journal::LogReader;
use hotcell_link::{Ask, Link, LinkError};
use hotcell_model::{
    CellId, Error, ErrorCode, ExecId, ExecInput, ExecPage, ExecPoll, ExecState, InputAccepted,
    OutputFilter, Result,
};

use crate::exec_find::has_ended;
use crate::exec_poll::exec_poll;
use crate::site::Site;
use crate::view::View;
use crate::{check, fault, links};

/// How much input goes into one frame.
const PIECE_BYTES: usize = 1 << 20;

/// Sends the new size, then the input, then the signal. What was sent when a connection broke is
/// not sent again: whether it arrived is not known, and twice is worse.
pub(crate) async fn exec_input(
    site: &Site,
    request: ExecInput,
    view: &View,
) -> Result<InputAccepted> {
    if let Some(size) = request.size {
        check::terminal_size(size)?;
    }
    let exec = request.exec.clone();
    let cell = site.get_cell_of(&exec).await?;
    let awaited = match request.wait_s {
        None => None,
        Some(wait_s) => {
            check::wait(wait_s)?;
            Some((wait_s, last_seq(site, &cell, &exec).await?))
        }
    };
    let sent = match find_link_to(site, &cell).await? {
        Some(link) => {
            site.check_lent(&cell)?;
            send(&link, &cell, request).await
        }
        None => Err(LinkError::Lost),
    };
    match sent {
        Ok(()) => {
            let output = match awaited {
                None => None,
                Some((wait_s, after_seq)) => {
                    Some(answer(site, &exec, wait_s, after_seq, view).await?)
                }
            };
            Ok(InputAccepted { exec, output })
        }
        Err(error) => Err(explain(site, &cell, &exec, error).await?),
    }
}

/// How much of what comes upon input is given back at once; the rest can be polled.
const ANSWER_BYTES: u64 = 16 * 1024;

/// What an exec prints after a seq.
async fn answer(
    site: &Site,
    exec: &ExecId,
    wait_s: f64,
    after_seq: u64,
    view: &View,
) -> Result<ExecPage> {
    let poll = ExecPoll {
        exec: exec.clone(),
        after_seq,
        wait_s,
        filter: OutputFilter::default(),
        max_bytes: ANSWER_BYTES,
    };
    exec_poll(site, poll, view).await
}

/// The seq of the last output so far.
async fn last_seq(site: &Site, cell: &CellId, exec: &ExecId) -> Result<u64> {
    let (records, exec) = (site.records(cell), exec.clone());
    fault::blocking(move || {
        LogReader::at(&records, &exec)
            .and_then(|mut reader| reader.tail_lines(1, None, 1))
            .map(|batch| batch.next_seq)
            .map_err(|error| fault::io(format_args!("read the output of exec {exec}"), &error))
    })
    .await
}

/// The link to the cell of an exec; `None` when it has no supervisor.
pub(crate) async fn find_link_to(site: &Site, cell: &CellId) -> Result<Option<Arc<Link>>> {
    if let Some((_, link)) = site.links.find_open(&cell.clone().into()) {
        return Ok(Some(link));
    }
    match site.find_stored(cell).await? {
        Some(stored) if stored.ended_at.is_none() => site.find_link(&stored.spec).await,
        Some(_) | None => Ok(None),
    }
}

async fn send(link: &Link, cell: &CellId, request: ExecInput) -> Result<(), LinkError> {
    let exec = &request.exec;
    if let Some(size) = request.size {
        links::ask(link, cell, &Ask::Resize { exec: exec.clone(), size }).await?;
    }
    let mut pieces = request.data.chunks(PIECE_BYTES).peekable();
    if pieces.peek().is_none() && request.eof {
        link.ask(&Ask::Input { exec: exec.clone(), eof: true }, &[]).await?;
    }
    while let Some(piece) = pieces.next() {
        let eof = request.eof && pieces.peek().is_none();
        // An exec that reads slowly may keep this waiting for as long as it likes.
        link.ask(&Ask::Input { exec: exec.clone(), eof }, piece).await?;
    }
    if let Some(signal) = request.signal {
        links::ask(link, cell, &Ask::Signal { exec: exec.clone(), signal }).await?;
    }
    Ok(())
}

/// Why nothing could be sent.
async fn explain(site: &Site, cell: &CellId, exec: &ExecId, error: LinkError) -> Result<Error> {
    let may_be_over = match &error {
        LinkError::Lost => true,
        LinkError::Failed(error) => {
            matches!(error.code, ErrorCode::NotFound | ErrorCode::Conflict)
        }
        LinkError::Refused(_) | LinkError::Confused => false,
    };
    if may_be_over && site.get_exec_in(cell, exec).await?.state == ExecState::Ended {
        return Ok(has_ended(exec));
    }
    Ok(error.into())
}
