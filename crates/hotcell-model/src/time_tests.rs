//! Tests of points in time.

use std::time::Duration;

use proptest::prelude::*;

use crate::{CellSpec, Timestamp};

/// The last millisecond that has four digits for its year.
const LAST: u64 = 253_402_300_799_999;

#[test]
fn times_are_shown_in_utc_with_milliseconds() {
    assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
    assert_eq!(Timestamp(1_700_000_000_123).to_string(), "2023-11-14T22:13:20.123Z");
    assert_eq!(Timestamp(LAST).to_string(), "9999-12-31T23:59:59.999Z");
    assert_eq!(Timestamp(LAST + 1).to_string(), Timestamp(LAST).to_string());
    assert_eq!(Timestamp(u64::MAX).to_string(), Timestamp(LAST).to_string());
}

#[test]
fn what_is_no_time_is_refused() {
    for text in ["", "now", "2023-11-14", "2023-13-14T22:13:20Z", "1700000000123"] {
        assert!(text.parse::<Timestamp>().is_err(), "{text:?}");
        assert!(serde_json::from_value::<Timestamp>(text.into()).is_err());
    }
    assert!(serde_json::from_str::<Timestamp>("5").is_err());
    assert_eq!("2023-11-14T22:13:20Z".parse(), Ok(Timestamp(1_700_000_000_000)));
}

#[test]
fn arithmetic_stops_at_the_ends_of_time() {
    assert_eq!(Timestamp(5).plus_seconds(2), Timestamp(2005));
    assert_eq!(Timestamp(5).plus_seconds(u64::MAX), Timestamp(u64::MAX));
    assert_eq!(Timestamp(5).until(Timestamp(25)), Duration::from_millis(20));
    // A clock that was set back makes no time pass.
    assert_eq!(Timestamp(25).until(Timestamp(5)), Duration::ZERO);
}

#[test]
fn now_is_after_this_was_written() {
    assert!(Timestamp::now() > Timestamp(1_700_000_000_000));
}

#[test]
fn a_spec_of_another_version_is_still_read() {
    let spec: CellSpec = serde_json::from_value(serde_json::json!({
        "id": "c_0000000000", "driver": "native", "image": "host", "keep": "always",
        "sleep_after_s": 600, "orphan_grace_s": 60, "max_running": 128, "output_bytes": 1,
        "limits": { "memory_mb": 1, "pids": 1, "disk_mb": 1, "gpus": 4 },
        "network": "none", "created_at": "2023-11-14T22:13:20.123Z", "colour": "red",
    }))
    .unwrap();
    assert_eq!((spec.alias, spec.ttl_s, spec.env.len()), (None, None, 0));
    assert_eq!(spec.created_at, Timestamp(1_700_000_000_123));
}

proptest! {
    #[test]
    fn times_come_back_from_text_and_order_as_text(a in 0..=LAST, b in 0..=LAST) {
        let (a, b) = (Timestamp(a), Timestamp(b));
        prop_assert_eq!(a.to_string().parse::<Timestamp>(), Ok(a));
        prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
        let json = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), a);
    }
}
