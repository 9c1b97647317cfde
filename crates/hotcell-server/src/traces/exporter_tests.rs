//! What a collector gets of spans, and what becomes of those that it does not take.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};
use tracing::field::Empty;
use tracing_subscriber::layer::SubscriberExt;

use super::{Collector, Traces};

/// Two spans of ours and one of somebody else, all ended when this returns.
fn make_spans() {
    let request = tracing::error_span!(target: "hotcell_server::x", "request", status = 503);
    let call = tracing::error_span!(
        target: "hotcell_server::x",
        parent: &request,
        "call",
        request_id = "id-1",
        status = Empty
    );
    call.record("status", "not_found");
    drop(tracing::error_span!(target: "rmcp", "foreign"));
    tracing::error!(target: "hotcell_server::x", parent: &call, "an event is no part of a span");
}

async fn trace(collector: SocketAddr) {
    let work = move || {
        let collector: Collector = format!("http://{collector}").parse().unwrap();
        let traces = Traces::start(collector).unwrap();
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, make_spans);
        traces.end();
    };
    spawn_blocking(work).await.unwrap();
}

/// One request: its head and its body.
async fn take_one(listener: TcpListener, status: &'static str) -> (String, Vec<u8>) {
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut taken = Vec::new();
    loop {
        assert_ne!(connection.read_buf(&mut taken).await.unwrap(), 0);
        let Some(end) = taken.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(taken[..end].to_vec()).unwrap().to_ascii_lowercase();
        let (_, length) = head.split_once("content-length: ").unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if taken.len() == end + 4 + length {
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            connection.write_all(answer.as_bytes()).await.unwrap();
            return (head, taken.split_off(end + 4));
        }
    }
}

fn text<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    let Value::StringValue(text) = found.value.as_ref()?.value.as_ref()? else { return None };
    Some(text)
}

#[tokio::test]
async fn a_collector_gets_our_spans_and_how_they_went() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut collecting = JoinSet::new();
    collecting.spawn(take_one(listener, "200 OK"));
    trace(address).await;
    let (head, body) = collecting.join_next().await.unwrap().unwrap();
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let [resource] = sent.resource_spans.as_slice() else { panic!("{sent:?}") };
    let program = &resource.resource.as_ref().unwrap().attributes;
    assert!(program.iter().any(|attribute| attribute.key == "service.name"), "{program:?}");
    let spans: Vec<&Span> = resource.scope_spans.iter().flat_map(|scope| &scope.spans).collect();
    let [call, request] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((call.name.as_str(), request.name.as_str()), ("call", "request"));
    assert_eq!(call.parent_span_id, request.span_id);
    assert_eq!((call.kind(), request.kind()), (SpanKind::Internal, SpanKind::Server));
    assert_eq!(text(call, "request_id"), Some("id-1"));
    let status = call.status.as_ref().unwrap();
    assert_eq!((status.code(), status.message.as_str()), (StatusCode::Error, "not_found"));
    assert_eq!(request.status.as_ref().unwrap().code(), StatusCode::Error);
    assert!(call.events.is_empty());
}

#[tokio::test]
async fn a_collector_that_refuses_is_no_trouble() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut collecting = JoinSet::new();
    collecting.spawn(take_one(listener, "503 Service Unavailable"));
    trace(address).await;
    collecting.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn the_end_waits_for_a_silent_collector_only_so_long() {
    // It takes the connection and never says a word.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    trace(listener.local_addr().unwrap()).await;
}
