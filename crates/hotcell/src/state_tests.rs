//! Which state directories are taken, mended or refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hotcell_model::ErrorCode;

use crate::state::{prepare, refuse_unfit};

fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_missing_directory_is_made_private_with_its_parents() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b");
    prepare(&dir, uid()).unwrap();
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(std::fs::read_to_string(dir.join("version")).unwrap(), "1\n");
    prepare(&dir, uid()).unwrap();
}

#[test]
fn a_directory_open_to_others_is_closed() {
    let root = tempfile::tempdir().unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    prepare(root.path(), uid()).unwrap();
    assert_eq!(mode(root.path()), 0o700);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let error = prepare(root.path(), uid() + 1).unwrap_err();
    assert_eq!(error.code, ErrorCode::Denied);
    assert!(error.message.contains("belongs to uid"), "{error}");
    assert!(error.hint.unwrap().contains("HOTCELL_STATE_DIR"));
}

#[test]
fn a_newer_format_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("version"), "2\n").unwrap();
    let error = prepare(root.path(), uid()).unwrap_err();
    assert_eq!(error.code, ErrorCode::Conflict);
    assert!(error.message.contains("newer hotcell"), "{error}");
}

#[test]
fn a_version_that_is_none_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("version"), "soup").unwrap();
    let error = prepare(root.path(), uid()).unwrap_err();
    assert!(error.message.contains("\"soup\""), "{error}");
}

#[test]
fn a_file_in_the_way_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    for dir in [file.join("below"), file] {
        let error = prepare(&dir, uid()).unwrap_err();
        assert_eq!(error.code, ErrorCode::Denied);
        assert!(error.message.contains(&dir.display().to_string()), "{error}");
    }
}

#[test]
fn network_file_systems_are_refused() {
    let kinds =
        [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x6573_5546, "FUSE"), (0x0102_1997, "9p")];
    for (magic, kind) in kinds {
        let error = refuse_unfit(Path::new("/net/home"), magic).unwrap_err();
        assert_eq!(error.code, ErrorCode::Unsupported);
        assert!(error.message.contains(kind) && error.message.contains("/net/home"), "{error}");
        assert!(error.hint.is_some(), "{error}");
    }
    const EXT4: u32 = 0xef53;
    refuse_unfit(Path::new("/var"), EXT4).unwrap();
}
