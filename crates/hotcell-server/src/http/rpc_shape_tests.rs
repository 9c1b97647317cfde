//! What is taken for a message of JSON-RPC.

use rmcp::model::{ErrorCode, NumberOrString};

use super::rpc_shape::{Message, read};

fn code(body: impl AsRef<[u8]>) -> Option<ErrorCode> {
    read(body.as_ref()).err().map(|malformed| malformed.error.code)
}

fn nested(depth: usize) -> String {
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{open}{close}}}}}"#)
}

#[test]
fn messages_are_told_apart() {
    let request = |id| Ok(Message::Request { id, method: "m".to_owned() });
    let read = |text: &str| read(text.as_bytes()).map_err(|malformed| malformed.error);
    assert_eq!(
        read(r#" {"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2.5,"x",null,true]}} "#),
        request(NumberOrString::Number(1))
    );
    assert_eq!(
        read(r#"{"method":"m","id":"a","jsonrpc":"2.0"}"#),
        request(NumberOrString::String("a".into()))
    );
    assert_eq!(read(r#"{"jsonrpc":"2.0","method":"m"}"#), Ok(Message::Other));
    assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Message::Other));
    assert_eq!(read(r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#), Ok(Message::Other));
    assert_eq!(read(&nested(100)), request(NumberOrString::Number(1)));
}

#[test]
fn what_is_not_json_cannot_be_parsed() {
    let broken =
        ["", "{", "{}}", "nonsense", r#"{"jsonrpc":"2.0","id":1,"method":"m""#, r#"{"a":1,"a":2}"#];
    for text in broken {
        assert_eq!(code(text), Some(ErrorCode::PARSE_ERROR), "{text}");
    }
    assert_eq!(code(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}"), Some(ErrorCode::PARSE_ERROR));
    assert_eq!(code(nested(200)), Some(ErrorCode::PARSE_ERROR));
    assert_eq!(code(nested(100_000)), Some(ErrorCode::PARSE_ERROR));
}

#[test]
fn json_that_is_no_message_is_refused() {
    for text in [
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#,
        "1",
        "null",
        r#""text""#,
        "{}",
        r#"{"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
    ] {
        assert_eq!(code(text), Some(ErrorCode::INVALID_REQUEST), "{text}");
    }
}

#[test]
fn the_id_of_a_wrong_request_is_passed_back() {
    let malformed = read(br#"{"jsonrpc":"2.0","id":7,"method":[]}"#).unwrap_err();
    assert_eq!(malformed.id, Some(NumberOrString::Number(7)));
}
