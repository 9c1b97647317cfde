//! Code that was let go of is gone from memory and runs all the same.

use super::{keep_freed, own_code, release_code};

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

/// Pages that this thread had to be given so far.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn memory_that_was_freed_is_used_again() {
    keep_freed(16 << 20);
    let use_some = || drop(std::hint::black_box(vec![1_u8; 4 << 20]));
    use_some();
    let before = faults();
    (0..10).for_each(|_| use_some());
    let given = faults() - before;
    assert!(given < 1024, "{given} pages for ten times the same 1024");
}
