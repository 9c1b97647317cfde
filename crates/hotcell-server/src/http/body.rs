//! Reading the body of a request: not for ever, and not without end.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use hotcell_model::Error;
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::answer::Refusal;
use super::body_room::BodyRoom;
use super::settings::HttpLimits;

/// How much of a body that is too long is still taken, in lengths of the longest one: a client that
/// sends it reads no answer before.
const PATIENCE: usize = 4;

/// All of a body, for which there has to be room.
///
/// # Errors
/// It is too long, comes too slowly, breaks off, or there is no room for it.
pub(super) async fn read(
    body: Body,
    room: &BodyRoom,
    limits: &HttpLimits,
) -> Result<Bytes, Refusal> {
    match timeout(limits.body_time, collect(body, room, limits.body_bytes)).await {
        Ok(read) => read,
        Err(_) => Err(too_slow(limits.body_time)),
    }
}

async fn collect(mut body: Body, room: &BodyRoom, most: usize) -> Result<Bytes, Refusal> {
    let mut read = BytesMut::new();
    let mut length = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Refusal::from(Error::invalid(format!("the body of the request broke off: {error}")))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length <= most {
            room.take(data.len())?;
            read.extend_from_slice(&data);
        } else if length > most.saturating_mul(PATIENCE) {
            break;
        } else {
            read = BytesMut::new();
        }
    }
    if length > most {
        return Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Error::limit_exceeded(format!("the body of the request is longer than {most} bytes")),
        ));
    }
    Ok(read.freeze())
}

fn too_slow(allowed: Duration) -> Refusal {
    let message = format!("the body of the request took longer than {} s", allowed.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, Error::timeout(message))
}
