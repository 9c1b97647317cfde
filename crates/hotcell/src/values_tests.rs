//! What people may write as values, and what they are told otherwise.

use std::time::Duration;

use crate::values::{
    address, bytes, cpus, duration, mebibytes, short, timeout, variable, whole_seconds,
};

#[test]
fn durations_have_units_or_are_seconds() {
    assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
    assert_eq!(duration("0.25"), Ok(Duration::from_millis(250)));
    assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
    assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
    assert_eq!(duration("0"), Ok(Duration::ZERO));
}

#[test]
fn bad_durations_are_named() {
    for text in ["", "soon", "-5", "5 parsecs", "nan", "inf", "400d"] {
        let error = duration(text).unwrap_err();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
    assert!(timeout("0").is_err());
    assert!(whole_seconds("0").is_err());
    assert!(whole_seconds("1.5").is_err());
    assert_eq!(whole_seconds("2h"), Ok(7200));
}

#[test]
fn addresses_have_a_port() {
    let read = |text: &str| address(text).map(|address| address.to_string());
    for (text, expected) in [
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("[::1]:0", "[::1]:0"),
        ("localhost:80", "127.0.0.1:80"),
        ("8000", "127.0.0.1:8000"),
        ("0.0.0.0:1", "0.0.0.0:1"),
    ] {
        assert_eq!(read(text), Ok(expected.to_owned()));
    }
    for text in ["", ":8000", "localhost", "127.0.0.1", "example.org:80", "70000", "::1:80:x"] {
        let error = address(text).unwrap_err();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}

#[test]
fn sizes_have_units() {
    assert_eq!(mebibytes("512M"), Ok(512));
    assert_eq!(mebibytes("1.5G"), Ok(1536));
    assert_eq!(mebibytes("2gib"), Ok(2048));
    assert_eq!(mebibytes("1048576"), Ok(1));
    assert_eq!(mebibytes("1 T"), Ok(1_048_576));
}

#[test]
fn bad_sizes_are_named() {
    for text in ["", "512", "0", "0M", "lots", "12X", "-1G", "1e9G", "99999999999999T"] {
        let error = mebibytes(text).unwrap_err();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}

#[test]
fn variables_need_a_name() {
    assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
    assert_eq!(variable("A="), Ok(("A".to_owned(), String::new())));
    assert!(variable("A").is_err());
    assert!(variable("=b").is_err());
}

#[test]
fn cpus_are_above_zero() {
    assert_eq!(cpus("1.5"), Ok(1.5));
    for text in ["0", "-1", "nan", "inf", "two"] {
        assert!(cpus(text).unwrap_err().contains(&format!("{text:?}")));
    }
}

#[test]
fn spans_and_sizes_are_shown_short() {
    let spans = [(0, "0ms"), (1, "1s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d")];
    for (seconds, shown) in spans {
        assert_eq!(short(Duration::from_secs(seconds)), shown);
    }
    assert_eq!(bytes(0), "0 B");
    assert_eq!(bytes(1536), "1.5 KiB");
    assert_eq!(bytes(64 << 20), "64 MiB");
}
