//! Sends spans to a collector, by OTLP over HTTP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Request};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry::Value;
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Collector;
use crate::call_id::{OK, STATUS};

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// How long a collector may take for one batch.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first status of HTTP that is the server's own fault.
const OWN_FAULT: i64 = 500;

/// Spans that a collector did not take.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<AtomicU64>);

impl Tally {
    /// Counts some; whether they are the first.
    fn add(&self, spans: usize) -> bool {
        self.0.fetch_add(spans as u64, Ordering::Relaxed) == 0
    }

    /// Says how many there were, if there were any.
    pub(super) fn tell(&self) {
        let spans = self.0.load(Ordering::Relaxed);
        if spans > 0 {
            tracing::warn!(spans, "so many spans were not taken by the collector");
        }
    }
}

/// Sends batches, one after the other, in the thread that asks for it.
#[derive(Debug)]
pub(super) struct Exporter {
    collector: Collector,
    runtime: Runtime,
    program: ResourceAttributesWithSchema,
    tally: Tally,
}

impl Exporter {
    pub(super) fn new(collector: Collector, tally: Tally) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { collector, runtime, program: ResourceAttributesWithSchema::default(), tally })
    }

    fn encode(&self, mut batch: Vec<SpanData>) -> Bytes {
        batch.iter_mut().for_each(judge);
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.program);
        ExportTraceServiceRequest { resource_spans }.encode_to_vec().into()
    }
}

impl SpanExporter for Exporter {
    /// Never fails: what is lost is counted here, and said once.
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let sending = post(&self.collector, self.encode(batch));
        let sent = self.runtime.block_on(async { timeout(PATIENCE, sending).await });
        if let Err(error) = sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            && self.tally.add(spans)
        {
            let collector = &self.collector;
            tracing::warn!(%collector, %error, "traces cannot be sent; calls go on without");
        }
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.program = resource.into();
    }
}

async fn post(collector: &Collector, body: Bytes) -> io::Result<()> {
    let stream = TcpStream::connect(collector.address).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let mut driven = JoinSet::new();
    driven.spawn(connection);
    let request = Request::post(collector.path())
        .header(HOST, collector.address.to_string())
        .header(CONTENT_TYPE, PROTOBUF)
        .body(Full::new(body))
        .map_err(io::Error::other)?;
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    match answer.status() {
        status if status.is_success() => Ok(()),
        status => Err(io::Error::other(format!("it answers with {status}"))),
    }
}

/// Tells a collector in its own words what a span is and how it went.
fn judge(span: &mut SpanData) {
    if span.parent_span_id == SpanId::INVALID {
        span.span_kind = SpanKind::Server;
    }
    let status = span.attributes.iter().find(|attribute| attribute.key.as_str() == STATUS);
    span.status = match status.map(|status| &status.value) {
        Some(Value::String(code)) if code.as_str() != OK => Status::error(code.to_string()),
        Some(Value::I64(status)) if *status >= OWN_FAULT => Status::error(status.to_string()),
        _ => Status::Unset,
    };
}
