//! `/health` and `/ready`, for whatever watches over the server.

use axum::response::Response;
use hotcell_model::{Caller, Error, Probe};
use http::StatusCode;
use serde::Serialize;

use super::answer::json;
use crate::door::Door;

#[derive(Serialize)]
struct Health {
    status: &'static str,
    version: &'static str,
}

/// The server is alive: it answers.
pub(super) fn health() -> Response {
    json(StatusCode::OK, &Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

#[derive(Serialize)]
struct Readiness {
    ready: bool,
    reasons: Vec<Reason>,
}

#[derive(Serialize)]
struct Reason {
    part: String,
    #[serde(flatten)]
    error: Error,
}

/// Whether cells can be made and found here, and why not.
pub(super) async fn ready(door: &Door, caller: &Caller) -> Response {
    let mut reasons = Vec::new();
    if door.draining.is_cancelled() {
        let error = Error::unavailable("the server is about to end");
        reasons.push(Reason { part: "server".to_owned(), error });
    }
    match door.ask(caller, Probe).await {
        Ok(probed) => {
            if let Some(error) = probed.store {
                reasons.push(Reason { part: "store".to_owned(), error });
            }
            for driver in probed.drivers {
                if let Some(error) = driver.error {
                    reasons.push(Reason { part: format!("driver {}", driver.driver), error });
                }
            }
        }
        Err(error) => reasons.push(Reason { part: "engine".to_owned(), error }),
    }
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &Readiness { ready, reasons })
}
