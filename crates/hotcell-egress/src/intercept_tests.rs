//! Requests as the host sees them.

use std::sync::Arc;

use hotcell_masking::Masks;
use hotcell_model::Scheme;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};

use super::prepared;
use crate::connection::Target;
use crate::lending::Lending;

fn lending(scheme: Scheme) -> Lending {
    Lending {
        scheme,
        headers: vec![(
            HeaderName::from_static("authorization"),
            HeaderValue::from_static("Bearer secret-value"),
        )],
        secrets: "token".to_owned(),
        masks: Arc::new(Masks::of_same_length()),
    }
}

fn target(port: u16) -> Target {
    Target { name: "api.test".parse().unwrap(), port }
}

fn asked(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

#[test]
fn the_header_is_set_whatever_the_cell_sent() {
    let request = asked(
        "/path?query=1",
        &[
            ("host", "API.test"),
            ("authorization", "Bearer mine"),
            ("Authorization", "Bearer mine too"),
            ("accept-encoding", "gzip, br"),
            ("connection", "keep-alive, X-Hop, Authorization"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("range", "bytes=0-3"),
            ("upgrade", "h2c"),
            ("x-own", "stays"),
        ],
    );
    let request = prepared(request, &target(443), &lending(Scheme::Https)).unwrap();
    assert_eq!(request.uri(), "/path?query=1");
    let mut seen: Vec<String> = request
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    seen.sort();
    let expected = [
        "accept-encoding: identity",
        "authorization: Bearer secret-value",
        "host: api.test",
        "x-own: stays",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_request_for_another_host_is_refused() {
    let misdirected = |uri: &str, headers: &[(&str, &str)], port, scheme| {
        let refused = prepared(asked(uri, headers), &target(port), &lending(scheme));
        let (code, why) = refused.unwrap_err();
        assert_eq!(code, StatusCode::MISDIRECTED_REQUEST, "{why}");
        assert!(!why.contains("secret-value"), "{why}");
    };
    for host in
        ["other.test", "api.test:8443", "api.test.evil", "x.api.test", "", "api.test@evil", "["]
    {
        misdirected("/", &[("host", host)], 443, Scheme::Https);
    }
    misdirected("/", &[], 443, Scheme::Https);
    misdirected("/", &[("host", "api.test"), ("host", "other.test")], 443, Scheme::Https);
    misdirected("https://other.test/", &[("host", "api.test")], 443, Scheme::Https);
    misdirected("http://api.test/", &[("host", "api.test")], 443, Scheme::Https);
    misdirected("https://api.test/", &[("host", "api.test")], 80, Scheme::Http);
    for (uri, host, port, scheme) in [
        ("/", "api.test", 443, Scheme::Https),
        ("/", "api.test.", 443, Scheme::Https),
        ("/", "api.test:443", 443, Scheme::Https),
        ("/", "api.test:8443", 8443, Scheme::Https),
        ("https://api.test/", "api.test", 443, Scheme::Https),
        ("http://api.test/", "api.test", 80, Scheme::Http),
    ] {
        prepared(asked(uri, &[("host", host)]), &target(port), &lending(scheme)).unwrap();
    }
}

#[test]
fn what_cannot_be_looked_into_is_refused() {
    let host = ("host", "api.test");
    let code = |request| prepared(request, &target(443), &lending(Scheme::Https)).unwrap_err().0;
    let socket = asked("/", &[host, ("connection", "Upgrade"), ("upgrade", "WebSocket")]);
    assert_eq!(code(socket), StatusCode::NOT_IMPLEMENTED);
    for method in [Method::TRACE, Method::CONNECT] {
        let mut request = asked("/", &[host]);
        *request.method_mut() = method;
        assert_eq!(code(request), StatusCode::METHOD_NOT_ALLOWED);
    }
}
