//! Lines of a server, whole and in pieces, short and long.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::json;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

use crate::lines::LineTransport;
use crate::link::Link;

const MOST: usize = 1000;

type Ends = (LineTransport<DuplexStream>, DuplexStream, DuplexStream, Arc<Link>);

fn open() -> Ends {
    let (output, reader) = duplex(4096);
    let (writer, input) = duplex(1 << 20);
    let link = Arc::new(Link::default());
    (LineTransport::new(reader, writer, MOST, Arc::clone(&link)), output, input, link)
}

fn call(id: i64) -> ClientJsonRpcMessage {
    let request = CallToolRequest::new(CallToolRequestParams::new("t"));
    ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(request), RequestId::Number(id))
}

/// What comes of some bytes, and of each a word.
async fn heard(ends: &mut Ends, lines: Vec<u8>) -> Vec<ServerJsonRpcMessage> {
    let (transport, output, ..) = ends;
    let mut heard = Vec::new();
    let told = async {
        output.write_all(&lines).await.unwrap();
    };
    let hear = async {
        while let Ok(Some(message)) =
            tokio::time::timeout(Duration::from_millis(500), transport.receive()).await
        {
            heard.push(message);
        }
    };
    tokio::join!(told, hear);
    heard
}

fn long_line(id: i64, is_last: bool, bytes: usize) -> String {
    let result = json!({ "content": [{ "type": "text", "text": "z".repeat(bytes) }], "id": 77 });
    match is_last {
        true => format!("{{\"result\":{result},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n"),
        false => format!("{{\"jsonrpc\": \"2.0\", \"id\" : {id}, \"result\":{result}}}\n"),
    }
}

#[tokio::test]
async fn a_result_of_a_call_is_passed_on_as_it_came() {
    let mut ends = open();
    ends.0.send(call(3)).await.unwrap();
    let odd = json!({ "content": [{ "type": "new" }], "resources": [], "more": 1.50 });
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{odd}}}\n");
    let heard = heard(&mut ends, line.into_bytes()).await;
    let [JsonRpcMessage::Response(response)] = &heard[..] else { panic!("{heard:?}") };
    let ServerResult::CustomResult(result) = &response.result else { panic!("{response:?}") };
    assert_eq!(result.0, odd);
}

#[tokio::test]
async fn a_long_answer_is_an_error_of_its_request_alone() {
    for is_last in [false, true] {
        let mut ends = open();
        for id in [5, 6] {
            ends.0.send(call(id)).await.unwrap();
        }
        let mut lines = long_line(5, is_last, 200_000);
        lines.push_str("{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{}}\n");
        let heard = heard(&mut ends, lines.into_bytes()).await;
        let [JsonRpcMessage::Error(refused), JsonRpcMessage::Response(well)] = &heard[..] else {
            panic!("{heard:?}")
        };
        assert_eq!(
            (refused.id.clone(), well.id.clone()),
            (Some(RequestId::Number(5)), RequestId::Number(6))
        );
        assert!(ends.3.take_oversized(&RequestId::Number(5)));
        assert!(!ends.3.take_oversized(&RequestId::Number(6)) && !ends.3.is_gone());
    }
}

#[tokio::test]
async fn a_long_line_that_answers_nothing_is_left_out() {
    let mut ends = open();
    ends.0.send(call(5)).await.unwrap();
    let mut lines = "x".repeat(200_000);
    lines.push_str("\n{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n");
    assert_eq!(heard(&mut ends, lines.into_bytes()).await.len(), 1);
}

#[tokio::test]
async fn a_line_without_an_end_ends_the_connection() {
    let mut ends = open();
    let (transport, mut output, _input, link) = (&mut ends.0, ends.1, ends.2, ends.3);
    let told = async { while output.write_all(&[b'x'; 4096]).await.is_ok() && !link.is_gone() {} };
    let (_, heard) = tokio::join!(told, transport.receive());
    assert!(heard.is_none());
    assert!(link.why().is_some_and(|why| why.message.contains("without an end")));
}
