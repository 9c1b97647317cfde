//! What all may call together holds, and one that floods leaves the others their part.

use super::*;

fn shares(per_second: u32, burst: Option<u32>) -> CallShares {
    let all =
        Admission { calls_per_s: Some(per_second), calls_burst: burst, ..Admission::default() };
    CallShares::new(&all).unwrap()
}

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

/// How many of so many calls are taken.
fn taken(shares: &mut CallShares, name: &str, tries: usize, now: Instant) -> usize {
    (0..tries).filter(|_| shares.take(&tenant(name), now).is_ok()).count()
}

#[test]
fn one_alone_has_all_and_no_more() {
    let mut shares = shares(10, None);
    let began = Instant::now();
    assert_eq!(taken(&mut shares, "a", 100, began), 10);
    let refused = shares.take(&tenant("a"), began).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.retry_after_s), ("limit_exceeded", Some(1)));
    let hit = refused.quota.unwrap();
    assert_eq!((hit.key.as_str(), hit.limit), (KEY, 10));
    let mut all = 0;
    for step in 1..=1000 {
        all += taken(&mut shares, "a", 3, began + Duration::from_millis(10 * step));
    }
    assert!((99..=100).contains(&all), "{all}");
}

#[test]
fn one_that_floods_leaves_the_other_its_part() {
    let mut shares = shares(100, None);
    let began = Instant::now();
    let (mut loud, mut quiet, mut refused) = (0, 0, 0);
    for step in 0..10_000 {
        let now = began + Duration::from_millis(step);
        loud += taken(&mut shares, "a", 10, now);
        // Forty a second, below its part of fifty.
        if step % 25 == 0 {
            match shares.take(&tenant("b"), now) {
                Ok(()) => quiet += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert_eq!((quiet, refused), (400, 0));
    assert!((450..=700).contains(&loud), "{loud}");
}

#[test]
fn a_pause_wins_nothing_and_parts_come_back() {
    let mut shares = shares(1, Some(5));
    let began = Instant::now();
    assert_eq!(taken(&mut shares, "a", 10, began), 5);
    assert_eq!(taken(&mut shares, "a", 10, began + Duration::from_secs(2)), 2);
    // Another comes, and gets its own.
    assert_eq!(taken(&mut shares, "b", 10, began + Duration::from_secs(2)), 2);
    assert_eq!(taken(&mut shares, "a", 10, began + Duration::from_secs(60)), 5);
    assert_eq!(shares.parts.len(), 1);
}

#[test]
fn nothing_is_kept_where_nothing_is_bounded() {
    assert!(CallShares::new(&Admission::default()).is_none());
}
