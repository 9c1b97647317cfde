//! A call of a tool that is read at once is what the SDK would have read.

use rmcp::model::ClientJsonRpcMessage;
use serde_json::{Value, json};

use super::read_message;

fn by_the_sdk(line: &str) -> Result<ClientJsonRpcMessage, String> {
    serde_json::from_str(line).map_err(|error| error.to_string())
}

fn at_once(line: &str) -> Result<ClientJsonRpcMessage, String> {
    read_message(line.as_bytes()).map_err(|error| error.to_string())
}

fn call(params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params })
}

#[test]
fn calls_are_read_alike() {
    for params in [
        json!({ "name": "fs_write", "arguments": { "path": "a", "content": "b\n\u{20ac}" } }),
        json!({ "name": "fs_read" }),
        json!({ "name": "a", "arguments": {}, "_meta": { "progressToken": "t", "own": [1.5] } }),
        json!({ "name": "a", "arguments": null, "requestState": "s", "unknown": true }),
    ] {
        let line = call(params).to_string();
        let read = at_once(&line);
        assert!(read.is_ok(), "{line}: {read:?}");
        let (read, expected) = (format!("{read:?}"), format!("{:?}", by_the_sdk(&line)));
        assert_eq!(read, expected, "{line}");
    }
}

#[test]
fn what_is_no_call_is_refused_or_read_as_by_the_sdk() {
    let mut stray = call(json!({ "name": "a" }));
    stray["result"] = json!({});
    let mut old = call(json!({ "name": "a" }));
    old["jsonrpc"] = json!("1.0");
    let mut nobody = call(json!({ "name": "a" }));
    nobody["id"] = json!(null);
    let others = [
        json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!([call(json!({ "name": "a" }))]),
    ];
    for line in others.into_iter().chain([stray, old, nobody, call(json!([])), call(json!({}))]) {
        let line = line.to_string();
        let (read, expected) = (at_once(&line), by_the_sdk(&line));
        assert_eq!(format!("{read:?}"), format!("{expected:?}"), "{line}");
    }
    assert!(at_once("{\"jsonrpc\":").is_err());
}
