//! Code that was let go of is gone from memory and runs all the same.

use super::{own_code, release_code};

/// How much of the own code is in memory, in KiB.
fn resident() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines().skip_while(|line| own_code(line).is_none());
    let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn released_code_is_gone_and_comes_back() {
    let before = resident();
    release_code();
    let after = resident();
    assert!(0 < after && after < before, "{before} KiB, then {after} KiB");
}

#[test]
fn only_code_is_released() {
    let here = release_code as fn() as usize;
    let line = |rights: &str, start: usize| {
        own_code(&format!("{start:x}-{:x} {rights} 0 0:0 0 /program", start + 4096))
    };
    assert_eq!(line("r-xp", here), Some((here, here + 4096)));
    assert_eq!(line("rw-p", here), None);
    assert_eq!(line("r--p", here), None);
    assert_eq!(line("r-xp", here + 1), None);
}
