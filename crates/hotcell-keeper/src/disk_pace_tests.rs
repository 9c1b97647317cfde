//! Tests of when a cell's files are looked at.

use std::time::{Duration, Instant};

use crate::disk_pace::Walked;
use crate::disk_use::Used;

const GIB: u64 = 1 << 30;
const HELD: Used = Used { bytes: 50 * GIB, files: 1_000_000 };

fn walked(took_ms: u64, room: Used) -> Walked {
    Walked { at: Instant::now(), took: Duration::from_millis(took_ms), room, held: HELD }
}

fn pause(walked: &Walked, grown: Used) -> Duration {
    let held = Used { bytes: HELD.bytes + grown.bytes, files: HELD.files + grown.files };
    walked.next(held) - walked.at
}

const NOTHING: Used = Used { bytes: 0, files: 0 };
const FAR: Used = Used { bytes: 10 * GIB, files: 1_000_000 };

#[test]
fn a_cell_far_from_its_limit_is_walked_through_seldom() {
    let little = Used { bytes: GIB, files: 1000 };
    for grown in [NOTHING, little] {
        assert_eq!(pause(&walked(1, FAR), grown), Duration::from_secs(1));
        assert_eq!(pause(&walked(500, FAR), grown), Duration::from_secs(5));
    }
    assert_eq!(walked(1, FAR).until_look(), Duration::from_secs(1));
}

#[test]
fn what_the_file_system_took_on_brings_the_next_walk_forward() {
    for grown in [Used { bytes: 5 * GIB, files: 0 }, Used { bytes: 0, files: 500_000 }] {
        assert_eq!(pause(&walked(1, FAR), grown), Duration::from_millis(50));
        assert_eq!(pause(&walked(500, FAR), grown), Duration::from_secs(2));
    }
}

#[test]
fn a_cell_near_its_limit_is_looked_at_more_often() {
    let near = Used { bytes: 64 << 20, files: 1_000_000 };
    assert_eq!(walked(1, near).until_look(), Duration::from_millis(50));
    let few_files = Used { bytes: 10 * GIB, files: 40_000 };
    assert_eq!(walked(1, few_files).until_look(), Duration::from_millis(100));
}

#[test]
fn without_room_only_growth_brings_it_forward() {
    assert_eq!(pause(&walked(1, NOTHING), NOTHING), Duration::from_secs(1));
    let grown = Used { bytes: 4096, files: 0 };
    assert_eq!(pause(&walked(1, NOTHING), grown), Duration::from_millis(50));
    // Somebody else made room meanwhile.
    let less = Used { bytes: HELD.bytes - GIB, files: HELD.files - 5 };
    let one = walked(1, FAR);
    assert_eq!(one.next(less) - one.at, Duration::from_secs(1));
}
