//! What a cell may send to which port.

use hotcell_model::NameRules;
use proptest::prelude::*;

use crate::client_hello_tests::real_hello;
use crate::inspection::{Inspector, Refusal};

fn rules() -> NameRules {
    let allow = ["a.test", "b.test", "*.wide.test:443", "a.test:5432", "a.test:8443", "d.test:81"];
    let allow = allow.map(|text| text.parse().unwrap()).to_vec();
    NameRules { allow, deny: vec!["no.wide.test".parse().unwrap()] }
}

/// What goes on of what comes byte by byte, with what is held at the end.
fn send(port: u16, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let (mut inspector, mut passed, rules) = (Inspector::new(port), Vec::new(), rules());
    for byte in bytes {
        inspector.take(&[*byte], &rules, &mut passed)?;
    }
    inspector.end(&mut passed)?;
    Ok(passed)
}

fn get(host: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

#[track_caller]
fn goes_on(port: u16, bytes: &[u8]) {
    assert_eq!(send(port, bytes).map(|it| it == bytes), Ok(true), "{port}");
}

#[track_caller]
fn is_refused(port: u16, bytes: &[u8], why: &str) -> Refusal {
    let refused = send(port, bytes).expect_err(why);
    assert!(refused.why.contains(why), "{why}: {refused:?}");
    refused
}

#[test]
fn tls_and_http_reach_allowed_names_alone() {
    for name in ["a.test", "b.test", "x.wide.test"] {
        goes_on(443, &real_hello(name));
    }
    // What comes after the hello is the server's business.
    goes_on(443, &[real_hello("a.test"), b"\x17\x03\x03\0\x01x".to_vec()].concat());
    goes_on(80, &get("a.test"));
    goes_on(80, &get("b.test:80"));
    goes_on(443, &get("a.test"));
    goes_on(80, &real_hello("a.test"));
    for name in ["c.test", "no.wide.test", "wide.test", "xa.test", "d.test"] {
        let refused = is_refused(443, &real_hello(name), name);
        assert_eq!(refused.answer, [21, 3, 3, 0, 2, 2, 112], "an alert of TLS");
        let refused = is_refused(443, &get(name), name);
        assert!(refused.answer.starts_with(b"HTTP/1.1 403 "), "{refused:?}");
    }
    is_refused(80, &get("x.wide.test"), "port 80");
    is_refused(80, &get("a.test:8080"), "port 8080");
    is_refused(80, &[get("a.test"), get("c.test")].concat(), "c.test");
    is_refused(443, &real_hello("192.0.2.1"), "no SNI");
}

#[test]
fn other_protocols_need_another_port() {
    for other in [&b"SSH-2.0-OpenSSH_9.6\r\n"[..], b"\0\0\0\x08\x04\xd2\x16\x2f", b"\x16\x02", b"x"]
    {
        for port in [80, 443, 8443, 993] {
            assert!(send(port, other).is_err(), "{port} {other:?}");
        }
        goes_on(22, other);
        goes_on(5432, other);
    }
}

#[test]
fn tls_and_http_are_found_at_every_port() {
    goes_on(5432, &real_hello("a.test"));
    is_refused(5432, &real_hello("b.test"), "b.test");
    goes_on(81, &get("d.test:81"));
    is_refused(81, &get("a.test"), "a.test");
    for start in ["\r\n", "\n", " ", "\r\n\r\n"] {
        let bytes = [start.as_bytes(), &get("c.test")].concat();
        assert!(send(81, &bytes).is_err(), "{start:?}");
    }
    is_refused(81, b"GET / http/1.1\r\nHost: d.test:81\r\n\r\n", "neither");
    is_refused(81, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2");
    is_refused(81, b"FETCH\t/\tHTTP/1.1\r\nHost: c.test\r\n\r\n", "neither");
    is_refused(81, &[b'a'; 20_000], "complete");
    // Protocols that look a little like it.
    for other in
        ["*1\r\n$4\r\nPING\r\n", "get key\r\n", "OPTIONS rtsp://x RTSP/1.0\r\n", "EHLO a\r\n"]
    {
        goes_on(81, other.as_bytes());
    }
}

#[test]
fn what_is_not_complete_does_not_go_on() {
    let hello = real_hello("a.test");
    is_refused(443, &hello[..hello.len() - 1], "ClientHello was complete");
    is_refused(80, b"GET / HTTP/1.1\r\nHost: a.test\r\n", "HTTP request was complete");
    goes_on(22, b"GE");
    goes_on(443, b"");
}

#[test]
fn every_name_of_a_connection_must_stay_allowed() {
    let (mut inspector, mut passed, mut rules) = (Inspector::new(80), Vec::new(), rules());
    inspector.take(&[get("a.test"), get("b.test")].concat(), &rules, &mut passed).unwrap();
    assert!(inspector.is_allowed(&rules));
    rules.deny("b.test".parse().unwrap()).unwrap();
    assert!(!inspector.is_allowed(&rules));
}

#[test]
fn the_names_of_a_connection_are_bounded() {
    let mut rules = NameRules::default();
    rules.allow("*".parse().unwrap()).unwrap();
    let (mut inspector, mut passed) = (Inspector::new(80), Vec::new());
    let mut ask =
        |number: u32| inspector.take(&get(&format!("n{number}.test")), &rules, &mut passed);
    assert!((0..16).chain(0..16).all(|number| ask(number).is_ok()));
    assert!(ask(16).unwrap_err().why.contains("more than 16"));
}

proptest! {
    #[test]
    fn no_name_goes_on_that_is_not_allowed(start in "[\\r\\n \\t]{0,8}[A-Z/]{0,4}", host in "[a-c]\\.test", port in prop_oneof![Just(80_u16), Just(443), Just(81), Just(5432)]) {
        let bytes = [start.as_bytes(), &get(&host)].concat();
        if let Ok(passed) = send(port, &bytes) {
            let is_allowed = rules().allows(&host.parse().unwrap(), port);
            prop_assert!(is_allowed || passed.is_empty(), "{start:?} {host} {port}");
        }
    }
}
