//! Under which names and from whose pages the server can be reached.

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request};

use super::visitors::Visitors;

fn headers(name: HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
}

fn visitors(bound: &str) -> Visitors {
    let hosts = ["Cells.Example.org".to_owned(), "other.example.org:81".to_owned()];
    let origins = ["https://app.example.org".to_owned()];
    Visitors::new(bound.parse().unwrap(), &hosts, &origins)
}

#[test]
fn only_known_names_reach_the_server() {
    let visitors = visitors("127.0.0.1");
    for good in [
        "localhost",
        "LOCALHOST:8000",
        "127.0.0.1:8000",
        "[::1]:8000",
        "cells.example.org",
        "cells.example.org:8000",
        "other.example.org:81",
    ] {
        assert!(visitors.check_host(&headers(HOST, good)).is_ok(), "{good}");
    }
    for bad in [
        "evil.example.org",
        "other.example.org",
        "other.example.org:82",
        "localhost.evil.org",
        "192.0.2.1:8000",
        "",
        "a b",
        "127.0.0.1:8000:1",
    ] {
        assert!(visitors.check_host(&headers(HOST, bad)).is_err(), "{bad}");
    }
    assert!(visitors.check_host(&HeaderMap::new()).is_err());
    let mut twice = headers(HOST, "localhost");
    twice.append(HOST, HeaderValue::from_static("localhost"));
    assert!(visitors.check_host(&twice).is_err());
}

#[test]
fn an_address_that_is_served_is_a_good_name() {
    let one = headers(HOST, "192.0.2.1:8000");
    assert!(visitors("192.0.2.1").check_host(&one).is_ok());
    assert!(visitors("0.0.0.0").check_host(&one).is_ok());
    assert!(visitors("192.0.2.2").check_host(&one).is_err());
    assert!(visitors("0.0.0.0").check_host(&headers(HOST, "evil.example.org")).is_err());
}

#[test]
fn only_known_pages_may_call() {
    let visitors = visitors("127.0.0.1");
    assert!(visitors.check_origin(&HeaderMap::new()).is_ok());
    let from = |origin: &str, host: &str| {
        let mut both = headers(ORIGIN, origin);
        both.insert(HOST, HeaderValue::from_str(host).unwrap());
        visitors.check_origin(&both)
    };
    for (good, host) in [
        ("http://localhost:3000", "localhost:3000"),
        ("http://127.0.0.1", "127.0.0.1"),
        ("http://[::1]:1", "[::1]:1"),
        ("https://app.example.org", "localhost:3000"),
    ] {
        assert!(from(good, host).is_ok(), "{good}");
    }
    // Another port of this machine may be that of a service in a cell.
    for (bad, host) in [
        ("http://localhost:3001", "localhost:3000"),
        ("http://127.0.0.1:3000", "localhost:3000"),
        ("http://localhost", "localhost:3000"),
        ("http://cells.example.org", "cells.example.org"),
    ] {
        assert!(from(bad, host).is_err(), "{bad}");
    }
    for bad in [
        "null",
        "http://evil.example.org",
        "https://app.example.org:444",
        "http://app.example.org",
        "http://localhost.evil.org",
        "file://localhost",
    ] {
        assert!(visitors.check_origin(&headers(ORIGIN, bad)).is_err(), "{bad}");
    }
}

#[test]
fn what_another_page_loads_is_refused() {
    let visitors = visitors("127.0.0.1");
    let asked = |method: Method, path: &str, site: &str, origin: Option<&str>| {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        *request.headers_mut() = headers(HOST, "localhost:8000");
        let site = HeaderValue::from_str(site).unwrap();
        request.headers_mut().insert("sec-fetch-site", site);
        if let Some(origin) = origin {
            request.headers_mut().insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        visitors.check(&request)
    };
    let port = "/cells/work/ports/80/a.css";
    for (path, method) in [("/v1/cells", Method::GET), ("/mcp", Method::POST)] {
        for site in ["cross-site", "same-site", "something-new"] {
            assert!(asked(method.clone(), path, site, None).is_err(), "{path} {site}");
        }
        for site in ["same-origin", "none"] {
            assert!(asked(method.clone(), path, site, None).is_ok(), "{path} {site}");
        }
    }
    assert!(asked(Method::GET, port, "cross-site", None).is_err());
    assert!(asked(Method::POST, port, "cross-site", None).is_err());
    // A page in a sandbox has no origin, wherever it asks.
    for path in ["/v1/cells", "/mcp", port] {
        assert!(asked(Method::GET, path, "cross-site", Some("null")).is_err(), "{path}");
    }
}

#[test]
fn a_port_of_a_cell_is_loaded_by_whoever_goes_there_and_by_its_own_pages() {
    let visitors = visitors("127.0.0.1");
    let asked = |method: &Method, path: &str, said: &[(&'static str, &str)]| {
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse().unwrap();
        *request.headers_mut() = headers(HOST, "localhost:8000");
        for (name, value) in said {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        visitors.check(&request).is_ok()
    };
    let path = "/cells/work/ports/80/a.css";
    for site in ["cross-site", "same-site", "something-new"] {
        let site = ("sec-fetch-site", site);
        let going = [site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert!(asked(&Method::GET, path, &going));
        assert!(!asked(&Method::POST, path, &going));
        assert!(!asked(&Method::GET, "/v1/cells", &going));
        for (mode, dest) in [
            ("navigate", "iframe"),
            ("no-cors", "image"),
            ("no-cors", "script"),
            ("cors", "document"),
        ] {
            let said = [site, ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            assert!(!asked(&Method::GET, path, &said), "{mode} {dest}");
        }
        for (page, is_let_in) in [
            ("http://localhost:8000/cells/work/ports/80/", true),
            ("http://localhost:8000/cells/work/ports/80/sub/page.html?q", true),
            ("http://localhost:8000/cells/work/ports/8080/", false),
            ("http://localhost:8000/cells/other/ports/80/", false),
            ("http://localhost:8000/", false),
            ("http://localhost:8001/cells/work/ports/80/", false),
            ("http://evil.example.org/cells/work/ports/80/", false),
            ("http://localhost:8000@evil.example.org/cells/work/ports/80/", false),
            ("/cells/work/ports/80/", false),
        ] {
            for method in [Method::GET, Method::HEAD] {
                let said = [site, ("sec-fetch-mode", "no-cors"), ("referer", page)];
                assert_eq!(asked(&method, path, &said), is_let_in, "{page}");
            }
            assert!(!asked(&Method::POST, path, &[site, ("referer", page)]), "{page}");
            assert!(!asked(&Method::GET, "/v1/cells", &[site, ("referer", page)]), "{page}");
        }
    }
    // Programs say nothing of sites.
    assert!(asked(&Method::POST, path, &[]));
}

#[test]
fn only_configured_pages_may_read_answers() {
    let visitors = visitors("127.0.0.1");
    let shared = |origin| visitors.shared_with(&headers(ORIGIN, origin)).is_some();
    assert!(shared("https://app.example.org"));
    assert!(!shared("http://localhost:3000"));
    assert!(!shared("http://evil.example.org"));
}
