//! Answers that are made here: JSON, and errors in the shape that their reader expects.

use axum::body::Body;
use axum::response::Response;
use hotcell_model::{Error, ErrorCode};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use rmcp::model::{ErrorCode as RpcCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde::Serialize;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A value as JSON.
pub(super) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        Err(error) => {
            tracing::error!(%error, "an answer cannot be encoded");
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// Why a request was not done.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) error: Error,
}

impl Refusal {
    /// With another status than the one that its code has.
    pub(super) fn new(status: StatusCode, error: Error) -> Self {
        Self { status, error }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = StatusCode::from_u16(error.code.http_status());
        Self { status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error }
    }
}

/// In which shape the reader of an answer expects an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `{code, message, hint}`.
    Plain,
    /// A message of JSON-RPC, with the former as its data.
    JsonRpc,
}

impl Shape {
    /// The shape for whoever asks for this path.
    pub(super) fn of_path(path: &str) -> Self {
        if path == super::routes::MCP { Self::JsonRpc } else { Self::Plain }
    }

    /// The refusal in this shape.
    pub(super) fn refuse(self, refusal: Refusal) -> Response {
        let number = refusal.error.code.json_rpc();
        self.refuse_by(refusal, number)
    }

    /// The same, by another number.
    pub(super) fn refuse_by(self, refusal: Refusal, number: i32) -> Response {
        let Refusal { status, error } = refusal;
        let (code, retry_after) = (error.code, error.retry_after_s);
        let mut response = match self {
            Self::Plain => json(status, &error),
            Self::JsonRpc => {
                let data = serde_json::to_value(&error).ok();
                rpc(status, ErrorData::new(RpcCode(number), error.message, data), None)
            }
        };
        let retry_after = retry_after.or((code == ErrorCode::Unavailable).then_some(1));
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An error of JSON-RPC.
pub(super) fn rpc(status: StatusCode, error: ErrorData, id: Option<RequestId>) -> Response {
    json(status, &ServerJsonRpcMessage::error(error, id))
}
