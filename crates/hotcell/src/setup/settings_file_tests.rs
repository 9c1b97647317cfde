//! How a file is replaced.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use hotcell_model::{ErrorCode, Timestamp};
use tempfile::TempDir;

use super::{Scope, SettingsFile};

const NOW: Timestamp = Timestamp(1_794_724_200_000);

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn names(dir: &TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn copies_are_named_by_the_time_and_never_overwritten() {
    let dir = directory();
    let path = dir.path().join("a.json");
    fs::write(&path, "0").unwrap();
    for text in ["1", "2", "3"] {
        SettingsFile::read(&path).unwrap().replace(text, Scope::User, NOW).unwrap();
    }
    let stamp = "20261115T063000Z";
    let copies = [
        "a.json".to_owned(),
        format!("a.json.before-hotcell-{stamp}"),
        format!("a.json.before-hotcell-{stamp}-2"),
        format!("a.json.before-hotcell-{stamp}-3"),
    ];
    assert_eq!(names(&dir), copies);
    let texts = copies.map(|name| fs::read_to_string(dir.path().join(name)).unwrap());
    assert_eq!(texts, ["3", "0", "1", "2"]);
}

#[test]
fn mode_and_owner_stay_and_the_copy_has_them_too() {
    let dir = directory();
    let path = dir.path().join("a");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4321), Some(4322)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    let kept = SettingsFile::read(&path).unwrap().replace("y", Scope::Project, NOW).unwrap();
    for path in [path, kept.unwrap()] {
        let after = fs::metadata(&path).unwrap();
        assert_eq!(after.mode(), before.mode());
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    }
}

#[test]
fn a_file_that_changed_meanwhile_is_left_alone() {
    let dir = directory();
    let path = dir.path().join("a");
    fs::write(&path, "x").unwrap();
    let file = SettingsFile::read(&path).unwrap();
    fs::write(&path, "new").unwrap();
    let error = file.replace("y", Scope::User, NOW).unwrap_err();
    assert_eq!(error.code, ErrorCode::Conflict);
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(&dir), ["a"]);

    let absent = SettingsFile::read(&dir.path().join("b")).unwrap();
    fs::write(dir.path().join("b"), "made").unwrap();
    assert_eq!(absent.replace("y", Scope::User, NOW).unwrap_err().code, ErrorCode::Conflict);
}

#[test]
fn what_a_process_that_died_has_left_is_in_nobodys_way() {
    let dir = directory();
    let path = dir.path().join("a");
    fs::write(dir.path().join(".a.hotcell-draft"), "half").unwrap();
    SettingsFile::read(&path).unwrap().replace("y", Scope::User, NOW).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "y");
    assert_eq!(names(&dir), [".a.hotcell-draft", "a"]);
}

#[test]
fn a_link_to_nothing_gets_its_file_where_it_leads() {
    let dir = directory();
    let path = dir.path().join("a");
    symlink("deep/down/b", &path).unwrap();
    assert_eq!(SettingsFile::read(&path).unwrap().replace("y", Scope::User, NOW).unwrap(), None);
    assert_eq!(fs::read_to_string(dir.path().join("deep/down/b")).unwrap(), "y");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
}

#[test]
fn what_is_no_text_file_is_refused() {
    let dir = directory();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("dir")).unwrap();
    symlink("circle", path("circle")).unwrap();
    fs::write(path("bytes"), b"a\nb\xff").unwrap();
    fs::write(path("file"), "x").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for (name, code) in [
        ("dir", ErrorCode::Invalid),
        ("circle", ErrorCode::Invalid),
        ("bytes", ErrorCode::Invalid),
        ("pipe", ErrorCode::Invalid),
        ("file/below", ErrorCode::Denied),
    ] {
        let error = SettingsFile::read(&path(name)).unwrap_err();
        assert_eq!(error.code, code, "{name}: {error}");
        assert!(error.hint.is_some(), "{name}: {error}");
    }
    assert!(SettingsFile::read(&path("bytes")).unwrap_err().message.contains("line 2"));
}
