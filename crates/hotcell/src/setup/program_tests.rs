//! The path under which a client finds this program.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;

use super::own_program;

#[test]
fn a_link_by_which_it_was_started_is_kept() {
    let real = std::env::current_exe().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("hotcell");
    symlink(&real, &link).unwrap();
    let expected = link.to_str().unwrap();
    assert_eq!(own_program(Some(link.as_os_str()), None).unwrap(), expected);
    let search = std::env::join_paths(["/nowhere".as_ref(), dir.path()]).unwrap();
    assert_eq!(own_program(Some(OsStr::new("hotcell")), Some(&search)).unwrap(), expected);
}

#[test]
fn a_name_that_leads_elsewhere_is_not_trusted() {
    let real = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let path = OsStr::new("/usr/bin:/bin");
    for (name, search) in [
        (Some("/bin/sh"), None),
        (Some("sh"), Some(path)),
        (Some("/nowhere/hotcell"), None),
        (Some("hotcell"), None),
        (None, Some(path)),
    ] {
        assert_eq!(own_program(name.map(OsStr::new), search).unwrap(), real, "{name:?}");
    }
}
