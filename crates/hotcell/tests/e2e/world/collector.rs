//! A collector of traces, as small as one can be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Takes spans for as long as the test runs.
#[derive(Debug)]
pub(crate) struct TraceCollector {
    pub(crate) address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl TraceCollector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&spans);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let sent = take(connection.unwrap());
                let scopes = sent.resource_spans.into_iter().flat_map(|sent| sent.scope_spans);
                taken.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
            }
        });
        Self { address, spans }
    }

    /// The span of this name that says this, if it has come.
    pub(crate) fn find(&self, name: &str, key: &str, value: &str) -> Option<Span> {
        let spans = self.spans.lock().unwrap();
        let says = |span: &&Span| span.name == name && said(span, key).as_deref() == Some(value);
        spans.iter().find(says).cloned()
    }
}

/// What a span says of something.
pub(crate) fn said(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    let value = found.value.as_ref()?.value.as_ref()?;
    if let AnyValue::IntValue(number) = value {
        return Some(number.to_string());
    }
    let AnyValue::StringValue(text) = value else { panic!("{key} is {value:?}") };
    Some(text.clone())
}

/// One request on a connection.
fn take(connection: TcpStream) -> ExportTraceServiceRequest {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => assert!(line.starts_with("POST /v1/traces "), "{line}"),
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    ExportTraceServiceRequest::decode(body.as_slice()).unwrap()
}
