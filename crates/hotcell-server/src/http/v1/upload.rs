//! Content that comes from a client, as fast as the cell takes it.

use std::time::Duration;

use axum::body::Body;
use hotcell_engine::{ContentReceiver, ContentSender, FileTransfer, Transferred};
use hotcell_model::{Error, FileOp, FileResult, FileStream};
use http::StatusCode;
use http::header::EXPECT;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::Call;
use crate::http::answer::Refusal;
use crate::http::settings::HttpLimits;

/// So much has to come within the time that other bodies have as a whole.
const PACE_BYTES: usize = 64 * 1024;

/// Sends a body to the files of a cell. If it breaks off, comes too slowly or is too long, nothing
/// is left of it.
pub(super) async fn send(call: &Call, op: FileOp, mut body: Body) -> Result<FileResult, Refusal> {
    let limits = &call.parts.limits;
    let sent = begin(call, op, &mut body).await;
    if sent.is_err() && !call.head.headers.contains_key(EXPECT) {
        // A client that sends it all reads no answer before; one that asked first does.
        let _ = timeout(limits.body_time, skip(&mut body, limits.body_bytes)).await;
    }
    sent
}

async fn begin(call: &Call, op: FileOp, body: &mut Body) -> Result<FileResult, Refusal> {
    let limits = &call.parts.limits;
    if http_body::Body::size_hint(body).lower() > limits.upload_bytes {
        return Err(too_long(limits));
    }
    let stream = FileStream { cell: call.cell()?, op };
    // Dropped before the result came, the transfer is undone.
    let FileTransfer { sender, mut receiver } = call.transfer(stream).await?;
    tokio::select! {
        biased;
        // Before all was sent, that is a refusal.
        done = result(&mut receiver) => return done,
        passed = pass_on(body, &sender, limits) => passed?,
    }
    result(&mut receiver).await
}

async fn pass_on(
    body: &mut Body,
    sender: &ContentSender,
    limits: &HttpLimits,
) -> Result<(), Refusal> {
    let mut length = 0u64;
    let mut came = 0;
    let mut deadline = Instant::now() + limits.body_time;
    loop {
        let Ok(frame) = timeout_at(deadline, body.frame()).await else {
            return Err(too_slow(limits.body_time));
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| {
            Refusal::from(Error::invalid(format!("the body of the request broke off: {error}")))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len() as u64);
        if length > limits.upload_bytes {
            return Err(too_long(limits));
        }
        let began = Instant::now();
        sender.send(&data).await?;
        came += data.len();
        if came >= PACE_BYTES {
            came = 0;
            deadline = Instant::now() + limits.body_time;
        } else {
            // What the cell takes its time for is not the client's.
            deadline += began.elapsed();
        }
    }
    Ok(sender.finish().await?)
}

async fn result(receiver: &mut ContentReceiver) -> Result<FileResult, Refusal> {
    loop {
        match receiver.next().await? {
            Transferred::Content(_) => {}
            Transferred::Done(result) => return Ok(*result),
        }
    }
}

async fn skip(body: &mut Body, most: usize) {
    let mut length = 0;
    while let Some(Ok(frame)) = body.frame().await {
        length += frame.data_ref().map_or(0, bytes::Bytes::len);
        if length > most {
            break;
        }
    }
}

fn too_long(limits: &HttpLimits) -> Refusal {
    let most = limits.upload_bytes;
    let error =
        Error::limit_exceeded(format!("the body of the request is longer than {most} bytes"))
            .hint("send it in parts, or raise http.max_upload_mb");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error)
}

fn too_slow(allowed: Duration) -> Refusal {
    let message =
        format!("{PACE_BYTES} bytes of the body took longer than {} s", allowed.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, Error::timeout(message))
}
