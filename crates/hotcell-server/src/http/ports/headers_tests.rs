//! What of a request reaches a service in a cell, and what of its answer reaches a client.

use axum::body::Body;
use axum::extract::Request;
use http::HeaderMap;

use super::headers::{Address, to_client, to_service, wanted_upgrade};
use super::own_name::{ReachedUnder, lead_to_path};
use super::{is_port, is_same_port};

fn request(path: &str) -> Request {
    let built = Request::builder().uri(path).header("host", "cells.example.org:8000");
    built.body(Body::empty()).unwrap()
}

fn address(path: &str) -> Address {
    Address::of(&request(path), 80, ReachedUnder::Path).unwrap()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

#[test]
fn the_service_gets_the_rest_of_the_path_as_it_was_written() {
    for (path, target) in [
        ("/cells/work/ports/80/", "/"),
        ("/cells/work/ports/80", "/"),
        ("/cells/work/ports/80/a%2Fb/../c?x=%20&y", "/a%2Fb/../c?x=%20&y"),
        ("/cells/work/ports/80//double", "//double"),
        ("/cells/work/ports/80/?q", "/?q"),
    ] {
        assert_eq!(address(path).target, target, "{path}");
    }
}

#[test]
fn what_is_not_for_the_service_stays_outside() {
    let mut given = headers(&[
        ("authorization", "Bearer secret"),
        ("cookie", "session=1"),
        ("connection", "close, X-Private"),
        ("x-private", "1"),
        ("te", "trailers"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-prefix", "/forged"),
        ("forwarded", "for=1"),
        ("origin", "http://cells.example.org:8000"),
        ("accept", "text/html"),
    ]);
    to_service(&mut given, &address("/cells/work/ports/80/x"), None);
    let expected = headers(&[
        ("origin", "http://localhost:80"),
        ("accept", "text/html"),
        ("x-forwarded-host", "cells.example.org:8000"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-prefix", "/cells/work/ports/80"),
    ]);
    assert_eq!(given, expected);
}

#[test]
fn what_would_hold_for_the_whole_server_does_not_come_out() {
    let mut given = headers(&[
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("access-control-allow-origin", "*"),
        ("service-worker-allowed", "/"),
        ("strict-transport-security", "max-age=1"),
        ("clear-site-data", "\"*\""),
        ("referrer-policy", "no-referrer"),
        ("keep-alive", "timeout=5"),
        ("content-type", "text/html"),
        ("content-security-policy", "default-src 'self'"),
    ]);
    to_client(&mut given, &address("/cells/work/ports/80/x"), None);
    let policies: Vec<_> = given.get_all("content-security-policy").iter().collect();
    assert_eq!(policies[0], "default-src 'self'");
    let sandbox = policies[1].to_str().unwrap();
    assert!(sandbox.starts_with("sandbox ") && !sandbox.contains("same-origin"), "{sandbox}");
    given.remove("content-security-policy");
    assert_eq!(given, headers(&[("content-type", "text/html")]));
}

fn led(path: &str, name: &'static str, said: &str) -> Option<String> {
    let mut given = headers(&[]);
    given.insert(name, said.parse().unwrap());
    to_client(&mut given, &address(path), None);
    given.get(name).map(|place| place.to_str().unwrap().to_owned())
}

#[test]
fn a_place_of_the_service_is_one_below_its_path() {
    for (said, seen) in [
        ("/login?next=/", "/cells/work/ports/80/login?next=/"),
        ("http://localhost:80/a", "/cells/work/ports/80/a"),
        ("http://127.0.0.1:80", "/cells/work/ports/80/"),
        ("/cells/work/ports/80/known", "/cells/work/ports/80/known"),
        ("/cells/work/ports/8080", "/cells/work/ports/80/cells/work/ports/8080"),
        ("next", "next"),
        ("?next", "?next"),
        ("", ""),
        ("//elsewhere.org/", "//elsewhere.org/"),
        ("http://localhost:8080/", "http://localhost:8080/"),
        ("https://elsewhere.org/../x", "https://elsewhere.org/../x"),
        ("mailto:a@b", "mailto:a@b"),
    ] {
        for name in ["location", "content-location"] {
            let path = "/cells/work/ports/80/x";
            assert_eq!(led(path, name, said).as_deref(), Some(seen), "{name}: {said}");
        }
    }
}

#[test]
fn no_place_of_a_service_leads_to_the_rest_of_the_server() {
    let prefix = "/cells/work/ports/80";
    for (said, seen) in [
        ("/v1/cells", "/v1/cells"),
        ("../../../../../v1/cells", "/v1/cells"),
        ("..", "/"),
        ("./../%2E%2e/.%2e/%2e./v1?x=../y", "/v1?x=../y"),
        ("../b/./c", "/b/c"),
        ("/cells/work/ports/80/../../../../v1", "/v1"),
        ("/cells/work/ports/80/%2e%2e/80/ok", "/ok"),
        ("/cells/work/ports/80/..", "/cells/work/ports/"),
        ("http://cells.example.org:8000/v1/cells", "/v1/cells"),
        ("HTTP://Cells.Example.Org.:8000/mcp", "/mcp"),
        ("http://who:ever@cells.example.org:8000/mcp", "/mcp"),
        ("//cells.example.org:8000/mcp", "/mcp"),
        ("//cells.example.org:08000?q", "/?q"),
        ("https://localhost:8000/mcp", "/mcp"),
        ("http://[::ffff:127.0.0.1]:8000/mcp", "/mcp"),
        ("http://localhost:80/../../v1", "/v1"),
    ] {
        let below = if said.ends_with("80/ok") {
            "/cells/work/ports/80/ok".to_owned()
        } else {
            format!("{prefix}{seen}")
        };
        for name in ["location", "content-location"] {
            let led = led("/cells/work/ports/80/a/x", name, said);
            assert_eq!(led.as_deref(), Some(below.as_str()), "{said}");
        }
        for refresh in [format!("0;url={said}"), format!("0, URL = '{said}'"), format!("0 {said}")]
        {
            let led = led("/cells/work/ports/80/a/x", "refresh", &refresh);
            assert_eq!(led, Some(format!("0;url={below}")), "{refresh}");
        }
    }
    // A client that does not follow dots itself resolves against them.
    let led_from = led("/cells/work/ports/80/../../../../", "location", "v1");
    assert_eq!(led_from.as_deref(), Some("/cells/work/ports/80/v1"));
    assert_eq!(led("/cells/work/ports/80/", "refresh", "5").as_deref(), Some("5"));
}

#[test]
fn a_place_that_clients_read_differently_is_not_passed_on() {
    for said in [
        "\\\\localhost:8000/v1",
        "/\\localhost:8000/v1",
        "..\\..\\v1",
        "http:/v1",
        "http:v1",
        "http:///localhost:8000/v1",
        "///localhost:8000/v1",
        "/a\t/../../v1",
        "http://%6cocalhost:8000/v1",
        "http://127.1:8000/v1",
        "http://0x7f000001:8000/v1",
        "http://2130706433:8000/v1",
        "http://localhost:port/v1",
    ] {
        assert_eq!(led("/cells/work/ports/80/x", "location", said), None, "{said}");
    }
    let mut given = headers(&[("location", "/a"), ("location", "/b")]);
    given.append("content-location", http::HeaderValue::from_bytes(b"/\xff").unwrap());
    to_client(&mut given, &address("/cells/work/ports/80/x"), None);
    assert_eq!(given.get_all("location").iter().collect::<Vec<_>>(), ["/cells/work/ports/80/a"]);
    assert!(!given.contains_key("content-location"));
}

#[test]
fn a_change_of_protocol_is_asked_for_and_agreed_to() {
    let asked = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
    let upgrade = wanted_upgrade(&asked);
    assert_eq!(upgrade.as_ref().unwrap(), "websocket");
    assert_eq!(wanted_upgrade(&headers(&[("upgrade", "websocket")])), None);
    let mut passed = asked;
    let address = address("/cells/work/ports/80/ws");
    to_service(&mut passed, &address, upgrade.as_ref());
    assert_eq!(
        (&passed["connection"], &passed["upgrade"]),
        (&"upgrade".parse().unwrap(), &"websocket".parse().unwrap())
    );
    let mut agreed = headers(&[("connection", "Upgrade"), ("upgrade", "websocket")]);
    to_client(&mut agreed, &address, upgrade.as_ref());
    assert_eq!(agreed["upgrade"], "websocket");
    let mut not_asked = headers(&[("connection", "Upgrade"), ("upgrade", "h2c")]);
    to_client(&mut not_asked, &address, None);
    assert!(!not_asked.contains_key("upgrade"));
}

#[test]
fn paths_of_ports_are_known() {
    for yes in ["/cells/work/ports/80/", "/cells/work/ports/80", "/cells/x/ports/"] {
        assert!(is_port(yes), "{yes}");
    }
    for no in ["/v1/cells/work/ports/80", "/cells/work/port/80", "/mcp", "/cells", "cells/a/ports"]
    {
        assert!(!is_port(no), "{no}");
    }
}

#[test]
fn a_port_is_told_from_others() {
    let page = "/cells/work/ports/80/a";
    for same in ["/cells/work/ports/80/", "/cells/work/ports/80", "/cells/work/ports/80/b/c"] {
        assert!(is_same_port(page, same), "{same}");
    }
    for other in
        ["/cells/work/ports/8", "/cells/w/ports/80/a", "/cells/work/ports", "/v1/cells", ""]
    {
        assert!(!is_same_port(page, other), "{other}");
        assert!(!is_same_port(other, page), "{other}");
    }
}

#[test]
fn a_name_of_a_service_stands_for_its_path() {
    let led = |host: &str, path: &str| {
        let built = Request::builder().uri(path).header("host", host);
        let mut request = built.body(Body::empty()).unwrap();
        lead_to_path(&mut request);
        (request.uri().to_string(), ReachedUnder::of(&request))
    };
    for (host, path, meant) in [
        ("8080.web.localhost:8000", "/", "/cells/web/ports/8080/"),
        ("8080.web.localhost", "/a/b?c=d", "/cells/web/ports/8080/a/b?c=d"),
        ("1.a.b.LocalHost:8000", "/v1/cells", "/cells/a.b/ports/1/v1/cells"),
        ("80.c_abc.localhost", "/health", "/cells/c_abc/ports/80/health"),
    ] {
        assert_eq!(led(host, path), (meant.to_owned(), ReachedUnder::OwnName), "{host}");
    }
    for host in [
        "localhost:8000",
        "web.localhost",
        "0.web.localhost",
        "65536.web.localhost",
        "8080.web.localhost.example.org",
        "8080.webXlocalhost",
        ".localhost",
        "127.0.0.1",
    ] {
        assert_eq!(led(host, "/x"), ("/x".to_owned(), ReachedUnder::Path), "{host}");
    }
}

#[test]
fn under_its_own_name_a_service_has_cookies_and_an_origin() {
    let address =
        Address::of(&request("/cells/work/ports/80/x"), 80, ReachedUnder::OwnName).unwrap();
    let mut asked = headers(&[("cookie", "a=1"), ("authorization", "Bearer secret")]);
    to_service(&mut asked, &address, None);
    assert_eq!(asked.get("cookie").unwrap(), "a=1");
    assert!(!asked.contains_key("authorization") && !asked.contains_key("x-forwarded-prefix"));
    let mut said = headers(&[
        ("set-cookie", "a=1; Path=/; HttpOnly"),
        ("set-cookie", "b=2; Path=/ ; dOmAin =localhost"),
        ("access-control-allow-origin", "*"),
        ("location", "http://localhost:80/../next"),
    ]);
    to_client(&mut said, &address, None);
    assert_eq!(said, headers(&[("set-cookie", "a=1; Path=/; HttpOnly"), ("location", "/next")]));
}
