//! What follows from what a cell has written.

use super::*;

const MIB: u64 = 1 << 20;

fn meter() -> DiskMeter {
    DiskMeter::new(&Limits { memory_mb: 64, cpus: None, pids: 8, disk_mb: 16, disk_files: 10 })
}

/// Looks at once, as if it were time for that.
fn look(meter: &mut DiskMeter, used: Option<Used>) -> Option<DiskState> {
    meter.walked = None;
    meter.note_change(Duration::ZERO);
    meter.look(Path::new("/"), || used)
}

fn state(meter: &mut DiskMeter, bytes: u64, files: u64) -> (Option<LimitHit>, bool) {
    let state = look(meter, Some(Used { bytes, files })).unwrap();
    (state.over, state.end_execs)
}

#[test]
fn only_what_makes_it_worse_is_ended() {
    let mut meter = meter();
    assert_eq!(state(&mut meter, 16 * MIB, 10), (None, false));
    assert!(!meter.is_over());
    assert_eq!(state(&mut meter, 17 * MIB, 10), (Some(LimitHit::Disk), true));
    assert!(meter.is_over());
    assert_eq!(state(&mut meter, 17 * MIB, 10), (Some(LimitHit::Disk), false));
    assert_eq!(state(&mut meter, 18 * MIB, 10), (Some(LimitHit::Disk), true));
    assert_eq!(state(&mut meter, 17 * MIB, 10), (Some(LimitHit::Disk), false));
    assert_eq!(state(&mut meter, MIB, 11), (Some(LimitHit::DiskFiles), true));
    assert_eq!(state(&mut meter, MIB, 1), (None, false));
}

#[test]
fn what_cannot_be_seen_counts_as_too_much_every_time() {
    let mut meter = meter();
    let hidden = crate::disk_use::HIDDEN;
    for _ in 0..2 {
        assert_eq!(state(&mut meter, hidden, 1), (Some(LimitHit::Disk), true));
    }
    assert_eq!(look(&mut meter, None), None, "nothing is said of what was not measured");
}

#[test]
fn nothing_is_looked_at_while_nothing_runs() {
    let mut meter = meter();
    assert_eq!(meter.next_look(), None);
    assert_eq!(meter.look(Path::new("/"), || panic!("it was walked")), None);
    meter.note_activity();
    assert!(meter.next_look().is_some());
}
