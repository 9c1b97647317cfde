//! An exec's output as server-sent events, to be taken up again where it broke off.
//!
//! It reads pages, as polling does: they begin and end between characters wherever one resumes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use hotcell_model::{Error, ExecId, ExecPage, ExecPoll, OutputFilter, OutputView};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue};
use serde::Serialize;

use super::shown::message;
use super::{Answer, Call};
use crate::http::access::Admitted;
use crate::http::routes::Parts;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// How often a stream without output says that it is there.
const HEARTBEAT_S: f64 = 15.0;
const PAGE_BYTES: u64 = 256 * 1024;

/// Who follows, and how far they are.
struct Follower {
    parts: Arc<Parts>,
    admitted: Admitted,
    exec: ExecId,
    after_seq: u64,
}

/// Streams output after a seq, then the end.
pub(super) async fn follow(call: Call, after_seq: u64) -> Answer {
    let exec = call.exec()?;
    let after_seq = last_event(&call.head.headers)?.unwrap_or(after_seq);
    let follower = Follower { parts: call.parts, admitted: call.admitted, exec, after_seq };
    // Whether it can be followed at all is said by the status.
    let first = follower.page(0.0).await?;
    let events = unfold(Some((follower, Some(first))), async |state| {
        let (mut follower, page) = state?;
        let page = match page {
            Some(page) => Ok(page),
            None => follower.page(HEARTBEAT_S).await,
        };
        let (text, more) = match page {
            Ok(page) => follower.tell(page),
            Err(error) => {
                follower.parts.door.refused(&error);
                (event("error", None, &error), false)
            }
        };
        let state = more.then_some((follower, None));
        Some((Ok::<_, Infallible>(Bytes::from(text)), state))
    });
    let mut response = Response::new(Body::from_stream(events));
    response.headers_mut().insert(CONTENT_TYPE, EVENT_STREAM);
    response.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
    Ok(response)
}

impl Follower {
    async fn page(&self, wait_s: f64) -> Result<ExecPage, Error> {
        let poll = ExecPoll {
            exec: self.exec.clone(),
            after_seq: self.after_seq,
            wait_s,
            filter: OutputFilter::default(),
            max_bytes: PAGE_BYTES,
            view: OutputView::first_output(),
        };
        let request = poll.into();
        self.admitted.note(&request);
        self.parts.door.attempt::<ExecPoll>(&self.admitted.caller, request).await
    }

    /// What is sent of a page, and whether more will come.
    fn tell(&mut self, page: ExecPage) -> (String, bool) {
        let mut text = String::new();
        if let Some(dropped) = &page.dropped {
            text += &event("dropped", None, dropped);
        }
        for record in page.records {
            let seq = record.seq;
            text += &event("output", Some(seq), &message(record));
        }
        self.after_seq = page.next_seq;
        if page.complete {
            text += &event("end", None, &page.exec);
            return (text, false);
        }
        if text.is_empty() {
            text.push_str(": it goes on\n\n");
        }
        // A client that loses the stream takes it up again, at the next server.
        (text, !self.parts.door.draining.is_cancelled())
    }
}

fn event<T: Serialize>(kind: &str, id: Option<u64>, data: &T) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    // Without line breaks: JSON has them escaped.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n")
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let seq = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    seq.map(Some).ok_or_else(|| {
        Error::invalid(format!("the header Last-Event-ID is {value:?}, which is no seq"))
            .hint("pass on the id of the last event that came")
    })
}
