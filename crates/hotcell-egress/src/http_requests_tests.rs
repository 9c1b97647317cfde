//! Hosts of HTTP requests, however they are written and split.

use proptest::prelude::*;

use crate::http_requests::RequestReader;

/// The hosts that were asked about, and what goes on.
fn read_in(parts: &[&[u8]]) -> Result<(Vec<String>, Vec<u8>), String> {
    let (mut reader, mut hosts, mut passed) = (RequestReader::new(), Vec::new(), Vec::new());
    for part in parts {
        let check = |host: crate::http_requests::RequestHost| {
            hosts.push(match host.port {
                Some(port) => format!("{}:{port}", host.name),
                None => host.name.to_string(),
            });
            Ok(())
        };
        reader.take(part, check, &mut passed)?;
    }
    Ok((hosts, passed))
}

fn read(text: &str) -> Result<Vec<String>, String> {
    let (hosts, passed) = read_in(&[text.as_bytes()])?;
    assert_eq!(passed, text.trim_start_matches("\r\n").as_bytes(), "what goes on is unchanged");
    Ok(hosts)
}

const MANY: &str = "POST /a HTTP/1.1\r\nhost: A.test:8080\r\nContent-Length: 12\r\n\r\nGET / HTTP/1\
PUT /b HTTP/1.1\r\nHost:b.test\r\nTransfer-Encoding: chunked\r\n\r\n\
5;name=\"x\"\r\nhello\r\n00000A\r\n0123456789\r\n0\r\nX-After: 1\r\n\r\n\
GET http://c.test/x?y HTTP/1.1\r\nHost: c.test\r\n\r\n\
OPTIONS * HTTP/1.1\r\nHost: d.test.\r\nContent-Length: 0\r\n\r\n\
GET / HTTP/1.0\r\nHost: e.test\r\nConnection: keep-alive\r\n\r\n";
const ALL: [&str; 5] = ["a.test:8080", "b.test", "c.test", "d.test", "e.test"];

#[test]
fn each_request_of_a_connection_is_found() {
    assert_eq!(read(MANY).unwrap(), ALL);
    assert_eq!(read("\r\n\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap(), ["a.test"]);
    // Not the head that stands in a body.
    let inner = "GET / HTTP/1.1\r\nHost: inner.test\r\n\r\n";
    let length = inner.len();
    let outer =
        format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n{inner}");
    assert_eq!(read(&outer).unwrap(), ["a.test"]);
    assert_eq!(read(&format!("{outer}{inner}")).unwrap(), ["a.test", "inner.test"]);
}

#[test]
fn what_servers_could_read_differently_is_refused() {
    let head = "GET / HTTP/1.1\r\nHost: a.test\r\n";
    for (why, text) in [
        ("no host", "GET / HTTP/1.1\r\nX: y\r\n\r\n".to_owned()),
        ("no host", "GET / HTTP/1.0\r\n\r\n".to_owned()),
        ("two host", format!("{head}Host: b.test\r\n\r\n")),
        ("two host", format!("{head}HOST: a.test\r\n\r\n")),
        ("two host", format!("{head}Host:\r\n\r\n")),
        ("malformed", "GET / HTTP/1.1\r\nHost:\r\n a.test\r\n\r\n".to_owned()),
        ("malformed", format!("{head} b.test\r\n\r\n")),
        ("malformed", format!("{head}\tb.test\r\n\r\n")),
        ("malformed", "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n".to_owned()),
        ("malformed", "GET / HTTP/1.1\r\nHost: a.test\0b.test\r\n\r\n".to_owned()),
        ("malformed", "GET / HTTP/1.1\r\n: x\r\nHost: a.test\r\n\r\n".to_owned()),
        ("not a host name", "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n".to_owned()),
        ("not a host name", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n".to_owned()),
        ("not a host name", "GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n".to_owned()),
        ("not a host name", "GET / HTTP/1.1\r\nHost: u@a.test\r\n\r\n".to_owned()),
        ("not a host name", "GET / HTTP/1.1\r\nHost: a.test:80:80\r\n\r\n".to_owned()),
        ("not a host name", "GET / HTTP/1.1\r\nHost: a.test:+80\r\n\r\n".to_owned()),
        ("not a host name", "GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned()),
        ("CRLF", "GET / HTTP/1.1\nHost: a.test\n\n".to_owned()),
        ("CRLF", format!("{head}X: y\nHost: b.test\r\n\r\n")),
        ("CRLF", format!("{head}X: y\rHost: b.test\r\n\r\n")),
        ("connect to another", "CONNECT b.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned()),
        ("connect to another", "connect b.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned()),
        ("names two hosts", "GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned()),
        ("not a host name", "GET http://u@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned()),
        ("neither a path", "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned()),
        ("neither a path", "GET b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned()),
        ("neither TLS", "GET /\r\n".to_owned()),
        ("neither TLS", "SSH-2.0-OpenSSH_9.6\r\n".to_owned()),
        ("neither TLS", "GET / HTTP/2.0\r\nHost: a.test\r\n\r\n".to_owned()),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("two lengths", format!("{head}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n")),
        ("two content-length", format!("{head}Content-Length: 3\r\nContent-Length: 3\r\n\r\n")),
        ("two content-length", format!("{head}Content-Length: 3\r\nContent_Length: 0\r\n\r\n")),
        ("not a number", format!("{head}Content-Length: 3, 3\r\n\r\n")),
        ("not a number", format!("{head}Content-Length: +3\r\n\r\n")),
        ("not a number", format!("{head}Content-Length: 0x3\r\n\r\n")),
        ("not a number", format!("{head}Content-Length: 99999999999999999999\r\n\r\n")),
        ("other than chunked", format!("{head}Transfer-Encoding: gzip, chunked\r\n\r\n")),
        ("other than chunked", format!("{head}Transfer-Encoding: xchunked\r\n\r\n")),
        (
            "other than chunked",
            "GET / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
        ),
        ("too many headers", format!("{head}{}\r\n", "X: y\r\n".repeat(200))),
        ("longer than", format!("{head}X: {}\r\n\r\n", "y".repeat(70_000))),
    ] {
        let refused = read(&text).expect_err(&text);
        assert!(refused.contains(why), "{text:?}: {refused}");
    }
    let chunks = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for rest in
        ["x\r\n", "-1\r\n", "\r\n", "1 \r\n", "1\r\nabc\r\n", "1\r\na\n", "1000000000000000\r\n"]
    {
        assert!(read(&format!("{chunks}{rest}")).is_err(), "{rest:?}");
    }
    assert!(read(&format!("{chunks}1;{}", "x".repeat(2000))).unwrap_err().contains("longer than"));
}

#[test]
fn a_switch_to_another_protocol_is_not_followed() {
    let upgrade =
        "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert!(read(&format!("{upgrade}\u{1}\u{5}hello\r\n")).unwrap_err().contains("neither TLS"));
    // A server that does not switch reads the next bytes as a request, and so does this.
    let next = "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";
    assert_eq!(read(&format!("{upgrade}{next}")).unwrap(), ["a.test", "b.test"]);
}

#[test]
fn nothing_of_a_refused_request_goes_on() {
    let (mut reader, mut passed) = (RequestReader::new(), Vec::new());
    let good = "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let text = format!("{good}GET /2 HTTP/1.1\r\nHost: b.test\r\n\r\n{good}");
    let refused = reader.take(
        text.as_bytes(),
        |host| if host.name.as_str() == "a.test" { Ok(()) } else { Err("no".to_owned()) },
        &mut passed,
    );
    assert_eq!(refused, Err("no".to_owned()));
    assert_eq!(passed, good.as_bytes());
}

proptest! {
    #[test]
    fn splits_change_nothing(pieces in proptest::collection::vec(1_usize..60, 1..40)) {
        let (mut rest, mut parts) = (MANY.as_bytes(), Vec::new());
        for size in pieces.into_iter().cycle() {
            if rest.is_empty() { break }
            let (part, after) = rest.split_at(size.min(rest.len()));
            parts.push(part);
            rest = after;
        }
        let (hosts, passed) = read_in(&parts).unwrap();
        prop_assert_eq!(hosts, ALL);
        prop_assert_eq!(passed, MANY.as_bytes());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0_usize..300) {
        let _ = read_in(&[&bytes]);
        let cut = cut.min(MANY.len());
        let _ = read_in(&[&MANY.as_bytes()[..cut], &bytes]);
    }
}
