//! Bodies in whatever pieces: the same is masked, and as many bytes come.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hotcell_masking::Masks;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use http_body_util::BodyExt;

use crate::masked_body::{MaskedBody, mask_headers};

const VALUE: &str = "hunter2-hunter2";

struct Pieces(VecDeque<Frame<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

fn masks() -> Arc<Masks> {
    let mut masks = Masks::of_same_length();
    masks.add("token", VALUE.as_bytes());
    Arc::new(masks)
}

async fn through(pieces: &[&[u8]], trailers: Option<HeaderMap>) -> (Vec<u8>, Option<HeaderMap>) {
    let mut frames: VecDeque<_> =
        pieces.iter().map(|piece| Frame::data(Bytes::copy_from_slice(piece))).collect();
    frames.extend(trailers.map(Frame::trailers));
    let collected = MaskedBody::new(Pieces(frames), masks()).collect().await.unwrap();
    let trailers = collected.trailers().cloned();
    (collected.to_bytes().to_vec(), trailers)
}

#[tokio::test]
async fn a_value_is_masked_wherever_the_body_is_cut() {
    let body = format!("{{\"token\": \"{VALUE}\"}} and half of it: hunter2-");
    let whole = format!("{{\"token\": \"{}\"}} and half of it: hunter2-", "*".repeat(VALUE.len()));
    let body = body.as_bytes();
    for cut in 0..=body.len() {
        let (seen, _) = through(&[&body[..cut], &body[cut..]], None).await;
        assert_eq!(String::from_utf8(seen).unwrap(), whole, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(through(&bytes, None).await.0, whole.as_bytes());
}

#[tokio::test]
async fn what_comes_after_the_body_is_masked_and_comes_after_it() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-echo", HeaderValue::from_str(&format!("a {VALUE}")).unwrap());
    let (body, seen) = through(&[b"hunter2-hunt"], Some(trailers)).await;
    assert_eq!(body, b"hunter2-hunt");
    assert_eq!(seen.unwrap()["x-echo"], format!("a {}", "*".repeat(VALUE.len())).as_str());
}

#[test]
fn headers_are_masked_and_others_stay_as_they_are() {
    let mut headers = HeaderMap::new();
    headers.append("x-echo", HeaderValue::from_str(&format!("Bearer {VALUE}")).unwrap());
    headers.append("x-echo", HeaderValue::from_static("hunter2"));
    headers.append("x-odd", HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    mask_headers(&masks(), &mut headers);
    let seen: Vec<&[u8]> = headers.get_all("x-echo").iter().map(HeaderValue::as_bytes).collect();
    assert_eq!(seen, [format!("Bearer {}", "*".repeat(VALUE.len())).as_bytes(), b"hunter2"]);
    assert_eq!(headers["x-odd"].as_bytes(), b"\xff\xfe");
}
