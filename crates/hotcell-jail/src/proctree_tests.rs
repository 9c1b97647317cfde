//! Trees of real processes.
#![expect(clippy::disallowed_methods, reason = "a test starts programs")]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;

/// A shell with two children, one of which has a child of its own and outlives it.
fn family() -> Child {
    let script = "sleep 1000 & sh -c 'sleep 1000 & wait; kill -STOP $$' & wait";
    Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn below_once_complete(root: Pid) -> HashSet<i32> {
    loop {
        let found = descendants(root).unwrap();
        if found.len() == 3 {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn all_but_one_are_killed_wherever_they_are_in_the_tree() {
    let mut shell = family();
    let root = pid_of(&shell);
    let found = below_once_complete(root);
    let middle = found
        .iter()
        .copied()
        .find(|pid| Pid::from_raw(*pid).is_some_and(|pid| !descendants(pid).unwrap().is_empty()));
    let kept = Pid::from_raw(middle.unwrap()).unwrap();
    // Its own child is no exception.
    assert_eq!(kill_all_but(root, kept).unwrap(), 2);
    while descendants(root).unwrap() != HashSet::from([kept.as_raw_nonzero().get()]) {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_descendants(root).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
}

#[test]
fn whoever_is_below_a_process_has_it_above() {
    let (mut shell, mut other) = (family(), family());
    let (root, stranger) = (pid_of(&shell), pid_of(&other));
    for pid in below_once_complete(root).into_iter().filter_map(Pid::from_raw) {
        let above = ancestors(pid).unwrap();
        assert!(above.contains(&root) && !above.contains(&stranger), "{above:?}");
    }
    assert!(!ancestors(root).unwrap().contains(&root));
    below_once_complete(stranger);
    for (root, shell) in [(root, &mut shell), (stranger, &mut other)] {
        kill_descendants(root).unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
}

#[test]
fn what_a_process_has_used_is_its_own() {
    let own = rustix::process::getpid();
    let before = used_by(own).unwrap();
    let held = vec![1_u8; 64 << 20];
    while used_by(own).unwrap().cpu_us < before.cpu_us + 50_000 {
        std::hint::black_box(held.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    }
    let after = used_by(own).unwrap();
    assert!(after.memory_bytes >= before.memory_bytes + (60 << 20), "{after:?}");
    assert!(after.max_rss_kb >= after.memory_bytes / 1024, "{after:?}");
    drop(held);
    assert!(used_by(own).unwrap().memory_bytes < after.memory_bytes - (60 << 20));
    // Nothing can be said of one that is not there.
    assert_eq!(used_by(Pid::from_raw(i32::MAX).unwrap()), None);
}
