//! Addresses of collectors.

use hotcell_model::ErrorCode;

use super::Collector;

#[test]
fn an_address_may_leave_out_what_is_usual() {
    for (given, shown, path) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318", "/v1/traces"),
        ("http://localhost", "http://127.0.0.1:4318", "/v1/traces"),
        ("http://localhost:9000/", "http://127.0.0.1:9000", "/v1/traces"),
        ("http://10.0.0.7/otlp", "http://10.0.0.7:4318/otlp", "/otlp/v1/traces"),
        ("http://10.0.0.7:80/v1/traces", "http://10.0.0.7:80", "/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318", "/v1/traces"),
        ("http://[::1]", "http://[::1]:4318", "/v1/traces"),
    ] {
        let collector: Collector = given.parse().unwrap();
        assert_eq!((collector.to_string().as_str(), collector.path().as_str()), (shown, path));
    }
}

#[test]
fn what_cannot_be_reached_is_refused() {
    for given in [
        "",
        "127.0.0.1:4318",
        "http://",
        "http://collector:4318",
        "http://localhost.example.org",
        "http://127.0.0.1:no",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/?x=1",
        "http://user:word@127.0.0.1",
        "grpc://127.0.0.1:4317",
    ] {
        let error = given.parse::<Collector>().unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{given}");
    }
    let error = "https://127.0.0.1:4318".parse::<Collector>().unwrap_err();
    assert_eq!(error.code, ErrorCode::Unsupported);
}
