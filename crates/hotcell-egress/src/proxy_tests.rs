//! Requests to the proxy.

use proptest::prelude::*;

use crate::connection::Target;
use crate::proxy::{Asked, has_end, parse};

fn target(name: &str, port: u16) -> Target {
    Target { name: name.parse().unwrap(), port }
}

#[test]
fn a_tunnel_is_asked_for_with_name_and_port() {
    let head = b"CONNECT Api.example.org:8443 HTTP/1.1\r\nHost: x\r\n\r\n";
    let bytes = [&head[..], b"and more"].concat();
    let asked = Asked::Tunnel { target: target("api.example.org", 8443), head_bytes: head.len() };
    assert_eq!(parse(&bytes), asked);
    assert_eq!(parse(&head[..head.len() - 1]), Asked::More);
}

#[test]
fn a_plain_request_is_passed_on_without_what_is_for_the_proxy() {
    let text =
        b"POST http://a.test:8080/x?y=1 HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: x\r\n\
                 Connection: keep-alive\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nhi";
    let Asked::Plain { target: found, head_bytes, head } = parse(text) else { panic!("plain") };
    assert_eq!((found, head_bytes), (target("a.test", 8080), text.len() - 2));
    assert_eq!(
        String::from_utf8(head).unwrap(),
        "POST /x?y=1 HTTP/1.1\r\nHost: a.test:8080\r\nX-Own: 1\r\nContent-Length: 2\r\n\
         Connection: close\r\n\r\n"
    );
    let Asked::Plain { head, .. } = parse(b"GET HTTP://a.test?q HTTP/1.1\r\n\r\n") else {
        panic!("plain")
    };
    assert!(head.starts_with(b"GET /?q HTTP/1.1\r\n"));
}

#[test]
fn addresses_are_no_names() {
    for text in
        ["CONNECT 1.1.1.1:443", "CONNECT [::1]:443", "GET http://127.0.0.1/", "GET http://[::1]/"]
    {
        let asked = parse(format!("{text} HTTP/1.1\r\n\r\n").as_bytes());
        assert!(matches!(asked, Asked::NoName(_)), "{text}: {asked:?}");
    }
}

#[test]
fn what_is_no_request_to_a_proxy_is_refused() {
    for text in [
        "GET / HTTP/1.1",
        "CONNECT a.test HTTP/1.1",
        "CONNECT a.test:0 HTTP/1.1",
        "\x16\x03\x01",
        "GET http://u:p@a.test/ HTTP/1.1",
        "GET https://a.test/ HTTP/1.1",
        "CONNECT a.test:x HTTP/1.1",
    ] {
        let asked = parse(format!("{text}\r\n\r\n").as_bytes());
        assert!(matches!(asked, Asked::Wrong(_)), "{text}: {asked:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = parse(&[b"GET http://a.test/ HTTP/1.1\r\n", bytes.as_slice()].concat());
        let _ = parse(&[b"GET http://", bytes.as_slice(), b" HTTP/1.1\r\n\r\n"].concat());
    }
}

#[test]
fn the_end_of_a_head_is_found_however_it_comes() {
    for head in
        ["GET http://a.test/ HTTP/1.1\r\nA: b\r\n\r\n", "GET http://a.test/ HTTP/1.1\nA: b\n\n"]
    {
        let bytes = head.as_bytes();
        for before in 1..bytes.len() {
            assert!(has_end(bytes, before), "{before}");
            assert!(!has_end(&bytes[..bytes.len() - 1], before.min(bytes.len() - 1)), "{before}");
        }
        assert_ne!(parse(bytes), Asked::More);
    }
}
