//! Markers are counted wherever a stream is cut, and what only looks like one is none.

use super::marker::{MOST_BYTES, MarkerScan, markers};

#[test]
fn markers_are_counted_wherever_they_are_cut() {
    let longest = format!("[REDACTED:{}]", "n".repeat(64));
    assert_eq!(longest.len(), MOST_BYTES);
    let text = format!("a [REDACTED:key] b [REDACTED:my.token_1][REDACTED:key]{longest}");
    let bytes = text.as_bytes();
    let whole = markers(bytes);
    assert_eq!(whole.get(b"[REDACTED:key]".as_slice()), Some(&2));
    assert_eq!(whole.values().sum::<u64>(), 4);
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let mut scan = MarkerScan::default();
            let mut counted = std::collections::BTreeMap::new();
            for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                for (marker, count) in scan.feed(piece) {
                    *counted.entry(marker).or_insert(0) += count;
                }
            }
            assert_eq!(counted, whole, "cut at {first} and {second}");
        }
    }
}

#[test]
fn what_only_looks_like_a_marker_is_none() {
    let long = format!("[REDACTED:{}]", "n".repeat(65));
    for text in
        ["[REDACTED:]", "[REDACTED:a b]", "[REDACTED]", "[redacted:key]", "[REDACTED:key", &long]
    {
        assert!(markers(text.as_bytes()).is_empty(), "{text}");
    }
}
