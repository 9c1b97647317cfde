//! A key file is there whole or not at all, and its owner's alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Barrier;

use hotcell_model::ErrorCode;
use rustix::process::{DumpableBehavior, dumpable_behavior, geteuid};

use crate::key::KeyFile;
use crate::leave_no_image;

fn key(path: &Path) -> KeyFile<'_> {
    KeyFile { path, setting: "secrets.key_file", if_seen: "set the secrets anew" }
}

#[test]
fn of_several_who_make_a_key_one_wins_and_all_have_its_key() {
    let home = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let path = home.path().join(format!("{round}/key"));
        let start = Barrier::new(8);
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        let found = key(&path).find().unwrap();
                        found.unwrap_or_else(|| key(&path).make().unwrap())
                    })
                })
                .collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|made| *made == key(&path).find().unwrap().unwrap()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "a draft is left");
    }
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("key");
    key(&path).make().unwrap();
    for mode in [0o640, 0o604, 0o660] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(key(&path).find().err().unwrap().code, ErrorCode::Denied, "{mode:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(key(&path).find().unwrap().is_some());
    // Only root can give a file away.
    if geteuid().is_root() {
        chown(&path, Some(12_345), None).unwrap();
        let refused = key(&path).find().err().unwrap();
        assert_eq!(refused.code, ErrorCode::Denied);
        assert!(refused.message.contains("12345"), "{refused}");
    }
}

#[test]
fn a_process_that_has_a_secret_leaves_no_image() {
    leave_no_image();
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
