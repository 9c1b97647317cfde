//! Where the paths of a cell lead.

use super::*;

#[test]
fn in_a_root_of_its_own_everything_lies_at_its_place() {
    assert_eq!(Root::Own.find(Path::new("/workspace/a")), Path::new("/workspace/a"));
}

#[test]
fn in_the_hosts_root_only_the_cells_own_directories_lie_elsewhere() {
    let root = Root::Host(HostRoot { directory: "/state/cell".into(), ..HostRoot::default() });
    let cases = [
        ("/workspace", "/state/cell/workspace"),
        ("/workspace/a/b", "/state/cell/workspace/a/b"),
        ("/tmp/x", "/state/cell/tmp/x"),
        ("/home/cell", "/state/cell/home/cell"),
        ("/home/other", "/home/other"),
        ("/workspaces", "/workspaces"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("relative", "relative"),
    ];
    for (path, place) in cases {
        assert_eq!(root.find(Path::new(path)), Path::new(place));
    }
}
