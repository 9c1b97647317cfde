//! Tests of what a request wants of a file.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::ranges::{Wanted, wanted};

const ETAG: &str = "0123456789abcdef0123456789abcdef";

fn of(headers: &[(&str, &str)]) -> Wanted {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let value = value.replace("ETAG", ETAG);
        map.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(&value).unwrap());
    }
    wanted(&map, ETAG, 100)
}

fn part(offset: u64, length: u64) -> Wanted {
    Wanted::Part { offset, length }
}

#[test]
fn a_range_is_a_part_or_nothing() {
    for (range, expected) in [
        ("bytes=0-9", part(0, 10)),
        ("bytes=10-", part(10, 90)),
        ("bytes=-10", part(90, 10)),
        ("bytes=-1000", part(0, 100)),
        ("bytes=99-2000", part(99, 1)),
        ("bytes=0-18446744073709551615", part(0, 100)),
        ("bytes=100-", Wanted::Absent),
        ("bytes=-0", Wanted::Absent),
        ("bytes=5-4", Wanted::Whole),
        ("bytes=0-1,3-4", Wanted::Whole),
        ("bytes=+1-2", Wanted::Whole),
        ("bytes=", Wanted::Whole),
        ("lines=1-2", Wanted::Whole),
        ("bytes=99999999999999999999-", Wanted::Whole),
    ] {
        assert_eq!(of(&[("range", range)]), expected, "{range}");
    }
    assert_eq!(of(&[]), Wanted::Whole);
}

#[test]
fn conditions_come_before_ranges() {
    let range = ("range", "bytes=0-0");
    for (condition, expected) in [
        (("if-none-match", "\"ETAG\""), Wanted::Unchanged),
        (("if-none-match", "W/\"ETAG\""), Wanted::Unchanged),
        (("if-none-match", "\"other\", \"ETAG\""), Wanted::Unchanged),
        (("if-none-match", "*"), Wanted::Unchanged),
        (("if-none-match", "\"other\""), part(0, 1)),
        (("if-match", "\"ETAG\""), part(0, 1)),
        (("if-match", "*"), part(0, 1)),
        (("if-match", "W/\"ETAG\""), Wanted::Changed),
        (("if-match", "\"other\""), Wanted::Changed),
        (("if-range", "\"ETAG\""), part(0, 1)),
        (("if-range", "W/\"ETAG\""), Wanted::Whole),
        (("if-range", "\"other\""), Wanted::Whole),
        (("if-range", "Sat, 29 Oct 1994 19:43:31 GMT"), Wanted::Whole),
    ] {
        assert_eq!(of(&[condition, range]), expected, "{condition:?}");
    }
}
