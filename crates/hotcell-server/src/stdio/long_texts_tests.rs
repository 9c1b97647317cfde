//! Whatever a message holds, it is encoded as by the JSON library.

use rmcp::model::{CallToolResult, ContentBlock, RequestId};
use serde_json::json;

use super::*;

fn message(text: &str, fields: Value) -> ServerJsonRpcMessage {
    let mut result =
        CallToolResult::success(vec![ContentBlock::text(text), ContentBlock::text("short")]);
    result.structured_content = Some(fields);
    let result = ServerResult::CallToolResult(result);
    ServerJsonRpcMessage::response(result, RequestId::Number(7))
}

fn assert_same(mut message: ServerJsonRpcMessage) {
    let expected = serde_json::to_string(&message).unwrap();
    let (line, _) = encode(&mut message).unwrap();
    assert!(line == expected.as_bytes(), "{} bytes differ from {}", line.len(), expected.len());
}

#[test]
fn every_byte_is_escaped_like_the_library_does_at_every_place() {
    for place in 0..9 {
        for letter in (0..=0xff_u8).map(char::from).chain(['\u{2028}', '🦀', '\u{7f}']) {
            let text = format!("{}{letter}{}", "a".repeat(place), "b".repeat(LONG));
            let mut line = Vec::new();
            escape(&mut line, &text);
            let expected = serde_json::to_string(&text).unwrap();
            assert!(
                format!("\"{}\"", String::from_utf8(line).unwrap()) == expected,
                "{letter:?} at {place}"
            );
        }
    }
}

#[test]
fn a_text_that_is_there_twice_and_others_are_where_they_belong() {
    let content = "line \"one\"\n\tand \\ two\u{1}\r\n".repeat(5000);
    let other = "z\n".repeat(LONG);
    assert_same(message(&content, json!({ "content": content, "etag": "x", "size": 3 })));
    assert_same(message(
        &content,
        json!({ "a": other, "content": content, "zz": other, "n": null }),
    ));
    assert_same(message("short", json!({ "a": "short", "list": [content] })));
    assert_same(message(&other, json!([other])));
}

#[test]
fn texts_of_any_length_are_the_same() {
    for length in [0, 1, LONG - 1, LONG, LONG + 1, LONG + 7, 3 * LONG] {
        let text = "é\"".repeat(length).chars().take(length).collect::<String>();
        assert_same(message(&text, json!({ "content": text })));
    }
}

#[test]
fn structured_content_that_is_json_already_is_put_in_as_it_is() {
    let entries: Vec<Value> =
        (0..3000).map(|n| json!({ "path": format!("/\"{n}\"\n"), "size": n })).collect();
    let fields = json!({ "entries": entries, "next_cursor": "\u{1}" });
    for fields in [fields, json!({})] {
        for text in ["short".to_owned(), "long\n".repeat(LONG)] {
            let expected = serde_json::to_string(&message(&text, fields.clone())).unwrap();
            let mut told = message(&text, Value::String(fields.to_string()));
            let (line, _) = encode(&mut told).unwrap();
            assert!(line == expected.as_bytes(), "{} bytes", line.len());
        }
    }
}
