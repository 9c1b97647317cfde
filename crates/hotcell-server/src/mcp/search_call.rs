//! A search of which the caller wants to know early what it has found.

use std::time::Duration;

use hotcell_engine::{FileTransfer, Transferred};
use hotcell_model::{
    CellRef, FileDone, FileMatch, FileResult, FileSearch, FileStream, Reply, Result,
};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::time::{Instant, sleep_until};

use super::handler::McpHandler;

/// How often it is told what was found.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// How much of what was found one notification holds.
const PROGRESS_BYTES: usize = 2000;

/// Searches, and tells what was found while it does.
pub(super) async fn perform(
    handler: &McpHandler,
    cell: CellRef,
    search: FileSearch,
    token: ProgressToken,
    context: &RequestContext<RoleServer>,
) -> Result<Reply> {
    let op = FileSearch { early: true, ..search }.into();
    let transfer = handler.door.transfer(&handler.caller, FileStream { cell, op }).await?;
    let searched = follow(transfer, token, context).await;
    if let Err(error) = &searched {
        handler.door.refused(error);
    }
    let done = FileDone { result: searched?, content: Vec::new() };
    Ok(Reply::FileDone(done))
}

async fn follow(
    mut transfer: FileTransfer,
    token: ProgressToken,
    context: &RequestContext<RoleServer>,
) -> Result<FileResult> {
    transfer.sender.finish().await?;
    let mut found = Found::default();
    // What comes first is told at once.
    let mut tell_at = Instant::now();
    loop {
        if !found.fresh.is_empty() && tell_at <= Instant::now() {
            let count = found.count;
            let message = format!("{count} found so far:\n{}", std::mem::take(&mut found.fresh));
            #[expect(clippy::cast_precision_loss, reason = "there are no more than thousands")]
            let told =
                ProgressNotificationParam::new(token.clone(), count as f64).with_message(message);
            // A client that is gone is noticed elsewhere.
            let _ = context.peer.notify_progress(told).await;
            tell_at = Instant::now() + PROGRESS_PAUSE;
        }
        tokio::select! {
            next = transfer.receiver.next() => match next? {
                Transferred::Content(bytes) => found.take(&bytes),
                Transferred::Done(result) => return Ok(*result),
            },
            () = sleep_until(tell_at), if !found.fresh.is_empty() => {}
        }
    }
}

/// What was found so far.
#[derive(Default)]
struct Found {
    unread: Vec<u8>,
    count: usize,
    /// The first of what was not told yet.
    fresh: String,
}

impl Found {
    fn take(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.unread.split_off(end + 1);
        let lines = std::mem::replace(&mut self.unread, rest);
        for line in lines.split(|byte| *byte == b'\n') {
            let Ok(FileMatch { path, line, text, .. }) = serde_json::from_slice(line) else {
                continue;
            };
            self.count += 1;
            let shown = match (line, text) {
                (Some(line), Some(text)) => format!("{path}:{line}: {text}\n"),
                (_, _) => format!("{path}\n"),
            };
            if self.fresh.len() + shown.len() <= PROGRESS_BYTES {
                self.fresh.push_str(&shown);
            } else if self.fresh.is_empty() {
                self.fresh.push_str("…\n");
            }
        }
    }
}
