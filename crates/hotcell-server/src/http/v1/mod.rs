//! `/v1`: the engine's requests as a JSON API, for scripts and pages.

mod approvals;
mod archives;
mod asked;
mod audit;
mod cells;
mod checkpoint_table;
mod checkpoints;
mod download;
mod events;
mod execs;
mod file_table;
mod files;
mod openapi;
mod ranges;
mod shown;
mod table;
mod upkeep;
mod upload;

#[cfg(test)]
mod openapi_tests;
#[cfg(test)]
mod ranges_tests;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Query as QueryString, Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, get, on};
use bytes::Bytes;
use hotcell_engine::FileTransfer;
use hotcell_model::{CellRef, CheckpointId, Error, ExecId, FileStream, Query};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode, request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::table::operations;
use super::access::Admitted;
use super::answer::{Refusal, Shape, json};
use super::body;
use super::routes::{Parts, Server};

type Answer = Result<Response, Refusal>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Every path of the API.
pub(super) fn router() -> Router<Arc<Parts>> {
    let described = get(async || json(StatusCode::OK, &openapi::document()));
    let router = Router::new().route("/v1/openapi.json", described);
    operations().fold(router, |router, operation| {
        let method = match operation.method {
            Method::POST => MethodFilter::POST,
            Method::PUT => MethodFilter::PUT,
            Method::DELETE => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        let answer = async |State(parts): Server,
                            Extension(admitted): Extension<Admitted>,
                            named: Result<Path<Vec<(String, String)>>, PathRejection>,
                            request: Request| {
            let (head, body) = request.into_parts();
            let mut named = match named {
                Ok(Path(named)) => named.into_iter(),
                Err(PathRejection::MissingPathParams(_)) => Vec::new().into_iter(),
                Err(unread) => {
                    let error = Error::invalid(format!("the path cannot be read: {unread}"));
                    parts.door.refused(&error);
                    return Shape::Plain.refuse(error.into());
                }
            };
            let mut name = || named.next().map(|(_, value)| value).unwrap_or_default();
            let (named, path) = (name(), name());
            // Whoever may see everything asks for it.
            let mut admitted = admitted;
            admitted.caller = admitted.caller.masked();
            let door = parts.door.clone();
            // What is put is content, and taken as it comes.
            let taken = match operation.method {
                Method::PUT => Ok((Bytes::new(), body)),
                _ => {
                    let read = body::read(body, &admitted.room, &parts.limits).await;
                    read.map(|body| (body, Body::empty()))
                }
            };
            let answered = match taken {
                Ok((body, content)) => {
                    let content = Mutex::new(content);
                    let call = Call { parts, admitted, named, path, head, body, content };
                    (operation.answer)(call).await
                }
                Err(refusal) => Err(refusal),
            };
            answered.unwrap_or_else(|refusal| {
                door.refused(&refusal.error);
                let Refusal { status, error } = refusal;
                Shape::Plain.refuse(Refusal::new(status, door.covered(error)))
            })
        };
        router.route(operation.path, on(method, answer))
    })
}

/// One request.
struct Call {
    parts: Arc<Parts>,
    admitted: Admitted,
    /// What the path names.
    named: String,
    /// The path of a file, or the id of a checkpoint, that it names too.
    path: String,
    head: request::Parts,
    body: Bytes,
    /// What is put. Nobody waits for the lock: it only lets the call be shared.
    content: Mutex<Body>,
}

impl Call {
    /// The cell that the path names.
    fn cell(&self) -> Result<CellRef, Error> {
        self.named.parse()
    }

    /// The exec that the path names.
    fn exec(&self) -> Result<ExecId, Error> {
        self.named.parse()
    }

    /// The checkpoint that the path names.
    fn checkpoint(&self) -> Result<CheckpointId, Error> {
        self.path.parse()
    }

    /// Lets the caller see outputs as they are, if it may.
    fn see_raw(&mut self) -> Result<(), Error> {
        self.admitted.caller = self.admitted.caller.clone().raw()?;
        Ok(())
    }

    /// What is put; nothing the second time.
    fn take_content(&mut self) -> Body {
        std::mem::take(self.content.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// What stands behind the question mark.
    fn query<T: DeserializeOwned>(&self) -> Result<T, Error> {
        QueryString::try_from_uri(&self.head.uri)
            .map(|QueryString(query)| query)
            .map_err(|error| Error::invalid(error.body_text().replace('\n', " ")))
    }

    /// The body, which is JSON; an empty one is an empty object.
    fn body<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        if self.body.is_empty() {
            return read(b"{}");
        }
        let kind = self.head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
        if !kind.trim().eq_ignore_ascii_case("application/json") {
            let error = Error::invalid(format!("the body is {kind:?}"))
                .hint("send JSON with the header `Content-Type: application/json`");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
        }
        read(&self.body)
    }

    async fn ask<Q: Query>(&self, query: Q) -> Result<Q::Answer, Error> {
        let request = query.into();
        self.admitted.note(&request);
        self.parts.door.attempt::<Q>(&self.admitted.caller, request).await
    }

    async fn transfer(&self, stream: FileStream) -> Result<FileTransfer, Error> {
        self.admitted.note(&stream.clone().into());
        self.parts.door.transfer(&self.admitted.caller, stream).await
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Error::invalid(format!("the body is wrong: {error}")).into())
}

fn ok<T: Serialize>(value: &T) -> Answer {
    Ok(json(StatusCode::OK, value))
}
