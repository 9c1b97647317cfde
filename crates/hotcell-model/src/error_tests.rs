//! Tests of the one table of errors; its rows are a promise to every kind of caller.

use std::collections::BTreeSet;

use crate::{Error, ErrorCode};

const ALL: [ErrorCode; 10] = [
    ErrorCode::Invalid,
    ErrorCode::NotFound,
    ErrorCode::Conflict,
    ErrorCode::Denied,
    ErrorCode::LimitExceeded,
    ErrorCode::Timeout,
    ErrorCode::Cancelled,
    ErrorCode::Unsupported,
    ErrorCode::Unavailable,
    ErrorCode::Internal,
];

#[test]
fn the_table_of_errors() {
    let row = |code: ErrorCode| {
        let (http, rpc, exit) = (code.http_status(), code.json_rpc(), code.exit_code());
        format!("{code:<15} http {http}  json-rpc {rpc}  exit {exit}")
    };
    insta::assert_snapshot!(ALL.map(row).join("\n"), @r"
    invalid         http 400  json-rpc -32602  exit 2
    not_found       http 404  json-rpc -32001  exit 3
    conflict        http 409  json-rpc -32002  exit 4
    denied          http 403  json-rpc -32003  exit 5
    limit_exceeded  http 429  json-rpc -32004  exit 6
    timeout         http 504  json-rpc -32005  exit 7
    cancelled       http 499  json-rpc -32006  exit 8
    unsupported     http 501  json-rpc -32007  exit 9
    unavailable     http 503  json-rpc -32008  exit 10
    internal        http 500  json-rpc -32603  exit 70
    ");
}

#[test]
fn every_column_tells_the_codes_apart() {
    let columns: [fn(ErrorCode) -> i64; 3] = [
        |code| i64::from(code.http_status()),
        |code| i64::from(code.json_rpc()),
        |code| i64::from(code.exit_code()),
    ];
    for column in columns {
        assert_eq!(ALL.map(column).into_iter().collect::<BTreeSet<_>>().len(), ALL.len());
    }
    for code in ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        assert!(code.exit_code() != 0 && code.exit_code() != 1, "those mean other things");
    }
}

#[test]
fn an_error_on_the_wire() {
    let error = Error::not_found("there is no cell \"x\"");
    let wire = serde_json::json!({ "code": "not_found", "message": "there is no cell \"x\"" });
    assert_eq!(serde_json::to_value(&error).unwrap(), wire);
    assert_eq!(serde_json::from_value::<Error>(wire).unwrap(), error);
    let hinted = error.hint("list them");
    assert_eq!(serde_json::to_value(&hinted).unwrap()["hint"], "list them");
    assert_eq!(hinted.to_string(), "there is no cell \"x\"");
}

#[test]
fn each_constructor_gives_its_code() {
    let made = [
        Error::invalid("m"),
        Error::not_found("m"),
        Error::conflict("m"),
        Error::denied("m"),
        Error::limit_exceeded("m"),
        Error::timeout("m"),
        Error::cancelled("m"),
        Error::unsupported("m"),
        Error::unavailable("m"),
        Error::internal("m"),
    ];
    assert_eq!(made.map(|error| error.code), ALL);
}
