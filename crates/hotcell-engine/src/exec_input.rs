//! Sends input, keys, end of file, a signal or a new size to an exec.

use std::sync::Arc;
use std::time::Duration;

use hotcell_link::{Ask, Link, LinkError};
use hotcell_model::{
    CellId, Error, ErrorCode, ExecId, ExecInput, ExecPoll, ExecState, InputAccepted, OutputFilter,
    Result, Until,
};

use crate::exec_find::has_ended;
use crate::exec_poll::poll_with;
use crate::input_echo::Reader;
use crate::key_names::{self, CursorKeys};
use crate::output_wait::{SentInput, last_output};
use crate::program_watch::ProgramWatch;
use crate::prompt::answer_to;
use crate::site::Site;
use crate::view::View;
use crate::{check, links};

/// How much input goes into one frame.
const PIECE_BYTES: usize = 1 << 20;
/// How long whoever waits for an answer waits at least until a piece is read.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);

/// Sends the new size, then the input, then the keys, then the signal. What was sent when a connection
/// broke is not sent again: whether it arrived is not known, and twice is worse.
pub(crate) async fn exec_input(
    site: &Site,
    mut request: ExecInput,
    view: &View,
) -> Result<InputAccepted> {
    if let Some(size) = request.size {
        check::terminal_size(size)?;
    }
    let id = request.exec.clone();
    let cell = site.get_cell_of(&id).await?;
    let keys = std::mem::take(&mut request.keys);
    if !keys.is_empty() {
        let mode = match key_names::depend_on_mode(&keys) {
            true => site.cursor_keys_of(&site.get_exec_in(&cell, &id).await?, view).await?,
            false => CursorKeys::Normal,
        };
        request.data.extend(key_names::bytes_of(&keys, mode)?);
    }
    let mut awaited = match request.wait_s {
        None => None,
        Some(wait_s) => {
            check::wait(wait_s)?;
            let exec = site.get_exec_in(&cell, &id).await?;
            let mut watch = ProgramWatch::new(&exec);
            let reader = match exec.pty || request.view.until.is_some() {
                true => watch.before_input(site).await,
                false => Reader::Ready,
            };
            let (after_seq, _) = last_output(site, &exec).await?;
            let sent = match (&request.view.until, exec.pty && !request.data.is_empty()) {
                (Some(Until::Match(_)), true) => {
                    let data = &request.data;
                    let answer = answer_to(site, &exec, data, reader, after_seq, view).await?;
                    Some(SentInput { answer, reader })
                }
                (_, _) => None,
            };
            let poll = ExecPoll {
                exec: id.clone(),
                after_seq,
                wait_s,
                filter: OutputFilter::default(),
                max_bytes: ANSWER_BYTES,
                view: std::mem::take(&mut request.view),
            };
            Some((poll, exec, watch, sent))
        }
    };
    let sent = match find_link_to(site, &cell).await? {
        Some(link) => {
            site.check_lent(&cell)?;
            // A line that is typed into a shell is a command like any other.
            if request.data.contains(&b'\n') || request.data.contains(&b'\r') {
                site.refresh_project(&cell).await;
            }
            let patience = request.wait_s.map(|wait_s| {
                TAKEN_WITHIN.max(Duration::try_from_secs_f64(wait_s).unwrap_or(TAKEN_WITHIN))
            });
            send(&link, &cell, request, patience).await
        }
        None => Err(LinkError::Lost),
    };
    match sent {
        Ok(()) => {
            let output = match awaited.take() {
                None => None,
                Some((poll, exec, mut watch, sent)) => {
                    watch.input_sent();
                    Some(Box::pin(poll_with(site, poll, exec, watch, sent, view)).await?)
                }
            };
            Ok(InputAccepted { exec: id, output })
        }
        Err(error) => Err(explain(site, &cell, &id, error).await?),
    }
}

/// How much of what comes upon input is given back at once; the rest can be polled.
const ANSWER_BYTES: u64 = 16 * 1024;

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

/// An exec that reads slowly may keep this waiting for as long as it likes, unless there is a limit to
/// patience: then what its supervisor keeps for it counts as sent.
async fn send(
    link: &Link,
    cell: &CellId,
    request: ExecInput,
    patience: Option<Duration>,
) -> Result<(), LinkError> {
    let exec = &request.exec;
    if let Some(size) = request.size {
        links::ask(link, cell, &Ask::Resize { exec: exec.clone(), size }).await?;
    }
    let mut pieces = request.data.chunks(PIECE_BYTES).peekable();
    if pieces.peek().is_none() && request.eof {
        link.ask(&Ask::Input { exec: exec.clone(), eof: true }, &[]).await?;
    }
    let mut sent = 0;
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        let ask = Ask::Input { exec: exec.clone(), eof: request.eof && is_last };
        sent += piece.len();
        let taken = match patience {
            None => Some(link.ask(&ask, piece).await?),
            Some(patience) => link.ask_within(&ask, piece, patience).await?,
        };
        if taken.is_none() && !is_last {
            return Err(LinkError::Failed(unread(exec, sent, request.data.len())));
        }
    }
    if let Some(signal) = request.signal {
        links::ask(link, cell, &Ask::Signal { exec: exec.clone(), signal }).await?;
    }
    Ok(())
}

fn unread(exec: &ExecId, sent: usize, all: usize) -> Error {
    Error::timeout(format!(
        "exec {exec} does not read its input: {sent} of {all} bytes wait for it"
    ))
    .hint("send the rest once it reads, in pieces of 1 MiB at most")
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
