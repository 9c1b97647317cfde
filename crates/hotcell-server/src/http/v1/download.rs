//! Content that goes to a client as fast as it takes it.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use hotcell_engine::{ContentReceiver, ContentSender, FileTransfer, Transferred};
use hotcell_model::{Error, Etag, FileContent, FileOp, FileRead, FileResult, FileStream};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};

use super::files::set_etag;
use super::ranges::{Wanted, wanted};
use super::{Answer, Call};
use crate::http::answer::{Refusal, Shape};

const BYTES: HeaderValue = HeaderValue::from_static("bytes");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// A page that lies in a cell is not the server's own.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// A file or a part of it.
pub(super) async fn file(call: Call) -> Answer {
    let path = call.path.clone();
    // All about it but its content. It follows links, as reading does.
    let about = FileRead { path: path.clone(), limit: Some(0), ..FileRead::default() };
    let about: FileContent = call.files(about).await?.result.try_into()?;
    if about.size == 0 && about.truncated {
        return of_unknown_length(call, about).await;
    }
    let size = about.size;
    let (status, offset, length) = match wanted(&call.head.headers, about.etag.as_str(), size) {
        Wanted::Whole => (StatusCode::OK, 0, size),
        Wanted::Part { offset, length } => (StatusCode::PARTIAL_CONTENT, offset, length),
        Wanted::Unchanged => return Ok(described(StatusCode::NOT_MODIFIED, Body::empty(), &about)),
        Wanted::Changed => {
            let error = Error::conflict(format!("{} has etag {} now", about.path, about.etag));
            return Err(Refusal::new(StatusCode::PRECONDITION_FAILED, error));
        }
        Wanted::Absent => return Ok(absent(&about)),
    };
    let body = if call.head.method == Method::HEAD || length == 0 {
        Body::empty()
    } else {
        let (offset, limit) = (Some(offset), Some(length));
        let read = FileRead { path, offset, limit, ..FileRead::default() };
        let download = Download::begin(&call, read.into(), Some(about.etag.clone())).await?;
        download.body()
    };
    let mut response = described(status, body, &about);
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, length.into());
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {offset}-{}/{size}", offset + length - 1);
        headers.insert(CONTENT_RANGE, header(&range));
    }
    Ok(response)
}

/// A file whose size nobody knows before it was read, as they are in `/proc`.
async fn of_unknown_length(call: Call, about: FileContent) -> Answer {
    let body = if call.head.method == Method::HEAD {
        Body::empty()
    } else {
        let read = FileRead { path: call.path.clone(), ..FileRead::default() };
        Download::begin(&call, read.into(), None).await?.body()
    };
    let mut response = described(StatusCode::OK, body, &about);
    response.headers_mut().remove(ACCEPT_RANGES);
    Ok(response)
}

fn absent(about: &FileContent) -> Response {
    let error = Error::invalid(format!("{} has {} bytes", about.path, about.size))
        .hint("ask for a range within them");
    let mut response = Shape::Plain.refuse(Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, error));
    let range = format!("bytes */{}", about.size);
    response.headers_mut().insert(CONTENT_RANGE, header(&range));
    response
}

fn described(status: StatusCode, body: Body, about: &FileContent) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    set_etag(&mut response, about.etag.as_str());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, header(&about.mime_type));
    headers.insert(ACCEPT_RANGES, BYTES);
    headers.insert(CACHE_CONTROL, NO_CACHE);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    response
}

pub(super) fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// Content on its way, the first piece of it at hand.
pub(super) struct Download {
    // Dropped with the rest: whoever has gone away wants no more.
    _sender: ContentSender,
    receiver: ContentReceiver,
    first: Option<Transferred>,
    /// What the file must have been when reading began.
    etag: Option<Etag>,
}

impl Download {
    /// Begins, and waits for the first piece: whether it can be done at all is said by the status.
    pub(super) async fn begin(
        call: &Call,
        op: FileOp,
        etag: Option<Etag>,
    ) -> Result<Self, Refusal> {
        let stream = FileStream { cell: call.cell()?, op };
        let FileTransfer { sender, mut receiver } = call.transfer(stream).await?;
        sender.finish().await?;
        let first = receiver.next().await?;
        Ok(Self { _sender: sender, receiver, first: Some(first), etag })
    }

    /// As a body. One that breaks off ends the connection, so that nobody takes it for all.
    pub(super) fn body(self) -> Body {
        Body::from_stream(unfold(Some(self), async |state| {
            let mut download = state?;
            match download.next().await {
                Ok(Some(piece)) => Some((Ok(Bytes::from(piece)), Some(download))),
                Ok(None) => None,
                Err(error) => {
                    tracing::warn!(%error, "a download broke off");
                    Some((Err(error), None))
                }
            }
        }))
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let next = match self.first.take() {
            Some(first) => first,
            None => self.receiver.next().await?,
        };
        match next {
            Transferred::Content(piece) => Ok(Some(piece)),
            Transferred::Done(result) => match (*result, &self.etag) {
                (FileResult::Content(read), Some(etag)) if read.etag != *etag => {
                    Err(Error::conflict(format!("{} was changed meanwhile", read.path)))
                }
                _ => Ok(None),
            },
        }
    }
}
