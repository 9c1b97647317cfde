//! Files that somebody else can change are not read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::own_file::{Held, read};

const ME: u32 = 1000;
const FILE: Held = Held { owner: ME, group: ME, mode: 0o644, names: 1 };
const DIRECTORY: Held = Held { owner: ME, group: ME, mode: 0o755, names: 2 };

#[test]
fn what_others_can_write_is_refused() {
    for file in [
        FILE,
        Held { mode: 0o664, ..FILE },
        Held { owner: 0, group: 0, mode: 0o664, ..FILE },
        Held { owner: 0, group: 0, mode: 0o444, names: 7 },
    ] {
        assert_eq!(file.refuse_file(ME), None, "{file:?}");
    }
    for file in [
        Held { mode: 0o646, ..FILE },
        Held { group: 50, mode: 0o664, ..FILE },
        Held { owner: 1001, ..FILE },
        Held { names: 2, ..FILE },
    ] {
        assert!(file.refuse_file(ME).is_some(), "{file:?}");
    }
    for directory in [DIRECTORY, Held { owner: 0, group: 0, mode: 0o1777, ..DIRECTORY }] {
        assert_eq!(directory.refuse_directory(ME), None, "{directory:?}");
    }
    for directory in [
        Held { mode: 0o777, ..DIRECTORY },
        Held { owner: 1001, mode: 0o1777, ..DIRECTORY },
        Held { owner: 1001, ..DIRECTORY },
        Held { group: 50, mode: 0o775, ..DIRECTORY },
    ] {
        assert!(directory.refuse_directory(ME).is_some(), "{directory:?}");
    }
}

#[test]
fn a_file_is_read_only_where_nobody_else_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules");
    let may_write = |path: &std::path::Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    fs::write(&path, "text").unwrap();
    may_write(&path, 0o600);
    assert_eq!(read(&path, 4).unwrap().1, "text");
    assert!(read(&path, 3).unwrap_err().to_string().contains("more than 3 bytes"));
    may_write(&path, 0o666);
    assert!(read(&path, 4).unwrap_err().to_string().contains("everybody"));
    may_write(&path, 0o600);
    may_write(directory.path(), 0o777);
    assert!(read(&path, 4).unwrap_err().to_string().contains("above it"));
    may_write(directory.path(), 0o700);
    assert!(read(&path, 4).is_ok());
    assert!(read(directory.path(), 4).is_err());
}
