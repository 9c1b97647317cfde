//! The body of an answer, with stars in the place of secrets and every byte count as it was.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hotcell_masking::{Masker, Masks};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

/// A body on its way into the cell.
#[derive(Debug)]
pub(crate) struct MaskedBody<B> {
    inner: B,
    masks: Arc<Masks>,
    masker: Masker,
    /// What came after the last byte, while that is held.
    trailers: Option<HeaderMap>,
    has_ended: bool,
}

impl<B> MaskedBody<B> {
    pub(crate) fn new(inner: B, masks: Arc<Masks>) -> Self {
        Self { inner, masks, masker: Masker::default(), trailers: None, has_ended: false }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for MaskedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        while !this.has_ended {
            match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => {
                    // What is held may be half a secret, and nobody takes half for the whole.
                    this.has_ended = true;
                    this.masker = Masker::default();
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => this.has_ended = true,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        let masked = this.masker.take(&this.masks, &data);
                        if !masked.is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(masked.into()))));
                        }
                    }
                    Err(frame) => {
                        this.has_ended = true;
                        if let Ok(mut trailers) = frame.into_trailers() {
                            mask_headers(&this.masks, &mut trailers);
                            this.trailers = Some(trailers);
                        }
                    }
                },
            }
        }
        let rest = this.masker.release(&this.masks);
        if !rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
        }
        Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        !self.masker.holds()
            && self.trailers.is_none()
            && (self.has_ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        // Nothing is known of what is held; lengths that were told stand in the head.
        if self.masker.holds() { SizeHint::default() } else { self.inner.size_hint() }
    }
}

/// Puts stars in the place of secrets in the values of headers.
pub(crate) fn mask_headers(masks: &Masks, headers: &mut HeaderMap) {
    for value in headers.values_mut() {
        let mut masker = Masker::default();
        let mut masked = masker.take(masks, value.as_bytes());
        masked.extend(masker.release(masks));
        if masked != value.as_bytes() {
            // Stars can be in every header.
            if let Ok(masked) = http::HeaderValue::from_bytes(&masked) {
                *value = masked;
            } else {
                *value = http::HeaderValue::from_static("*");
            }
        }
    }
}
