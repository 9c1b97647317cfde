//! Limits of a cell's network.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::EgressSettings;
use crate::meter::{Allowance, Meter, UsedUp, Way, used_today};

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

#[test]
fn bytes_of_both_ways_count_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || std::os::fd::OwnedFd::from(std::fs::File::open(directory.path()).unwrap());
    let settings = EgressSettings { max_bytes: Some(100), ..EgressSettings::default() };
    let meter = Meter::new(&settings, open());
    run(async {
        assert_eq!(meter.take(Way::Out, 40).await, Ok(()));
        assert_eq!(meter.take(Way::In, 70).await, Err(UsedUp));
        assert_eq!(meter.take(Way::In, 50).await, Ok(()));
    });
    meter.save().unwrap();
    let later = Meter::new(&settings, open());
    assert_eq!((later.stats().sent_bytes, later.stats().received_bytes), (40, 50));
    assert!(!later.is_used_up());
    run(async { assert_eq!(later.take(Way::Out, 10).await, Ok(())) });
    assert!(later.is_used_up());
}

#[test]
fn what_is_carried_counts_for_its_day_and_stops_when_the_tenant_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let open = || std::os::fd::OwnedFd::from(std::fs::File::open(directory.path()).unwrap());
    let meter = Meter::new(&EgressSettings::default(), open());
    assert_eq!(used_today(directory.path()), 0);
    run(async {
        assert_eq!(meter.take(Way::Out, 40).await, Ok(()));
        assert_eq!(meter.take(Way::In, 50).await, Ok(()));
        meter.allow(Allowance::UsedUp);
        assert_eq!(meter.take(Way::In, 1).await, Err(UsedUp));
        meter.allow(Allowance::Open);
        assert_eq!(meter.take(Way::In, 10).await, Ok(()));
    });
    meter.save().unwrap();
    assert_eq!(used_today(directory.path()), 100);
    // A carrier that comes later on the day goes on from there.
    let later = Meter::new(&EgressSettings::default(), open());
    run(async { assert_eq!(later.take(Way::In, 5).await, Ok(())) });
    later.save().unwrap();
    assert_eq!(used_today(directory.path()), 105);
    // What was carried on another day does not count.
    let used = r#"{"connections":0,"sent_bytes":7,"received_bytes":7,"day":3,"day_bytes":14}"#;
    std::fs::write(directory.path().join("network-used.json"), used).unwrap();
    assert_eq!(used_today(directory.path()), 0);
    let later = Meter::new(&EgressSettings::default(), open());
    run(async { assert_eq!(later.take(Way::In, 5).await, Ok(())) });
    later.save().unwrap();
    assert_eq!(used_today(directory.path()), 5);
    assert_eq!(later.stats().received_bytes, 12);
}

#[test]
fn whatever_lies_where_use_is_written_down_nothing_breaks() {
    let directory = tempfile::tempdir().unwrap();
    let open = || std::os::fd::OwnedFd::from(std::fs::File::open(directory.path()).unwrap());
    let used = directory.path().join("network-used.json");
    std::os::unix::fs::symlink("/dev/zero", &used).unwrap();
    let settings = EgressSettings { max_bytes: Some(100), ..EgressSettings::default() };
    assert!(!Meter::new(&settings, open()).is_used_up());
    std::fs::remove_file(&used).unwrap();
    let all = u64::MAX;
    let text = format!("{{\"connections\":0,\"sent_bytes\":{all},\"received_bytes\":{all}}}");
    std::fs::write(&used, text).unwrap();
    let meter = Meter::new(&settings, open());
    assert!(meter.is_used_up());
    run(async { assert_eq!(meter.take(Way::Out, 40).await, Err(UsedUp)) });
    let boundless = Meter::new(&EgressSettings::default(), open());
    run(async { assert_eq!(boundless.take(Way::Out, 40).await, Ok(())) });
    assert_eq!(boundless.stats().sent_bytes, all);
}

#[test]
fn connections_count_while_they_are_held() {
    let settings = EgressSettings { max_connections: 2, ..EgressSettings::default() };
    let meter = Arc::new(Meter::new(&settings, std::fs::File::open("/").unwrap().into()));
    let first = meter.open().unwrap();
    let _second = meter.open().unwrap();
    assert!(meter.open().is_none());
    drop(first);
    assert!(meter.open().is_some());
}

#[test]
fn a_rate_slows_down() {
    let settings = EgressSettings { bytes_per_s: Some(1000), ..EgressSettings::default() };
    let meter = Meter::new(&settings, std::fs::File::open("/").unwrap().into());
    let begun = Instant::now();
    run(async {
        for _ in 0..10 {
            meter.take(Way::In, 50).await.unwrap();
        }
    });
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
}
