//! The mount table is read as the kernel writes it.

use std::path::Path;

use super::{FileSystem, find_file_system, find_lying, is_chroot};
use crate::diagnose::testing::machine;

const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:28 / /var rw,relatime shared:9 - xfs /dev/vdb rw
32 31 0:29 / /var/lib/my\\040state rw master:1 propagate_from:2 - btrfs /dev/vdc rw
33 27 0:30 / /srv rw - nfs4 server:/srv rw
34 27 0:31 / /srv rw - tmpfs tmpfs rw
";

fn found(directory: &str) -> FileSystem {
    let machine = machine(&[("proc/self/mountinfo", TABLE)]);
    find_file_system(machine.path(), Path::new(directory)).unwrap()
}

#[test]
fn the_innermost_mount_counts_and_of_two_the_later() {
    for (directory, kind, point) in [
        ("/root/.local/state/hotcell", "ext4", "/"),
        ("/variable", "ext4", "/"),
        ("/var/lib", "xfs", "/var"),
        ("/var/lib/my state/hotcell", "btrfs", "/var/lib/my state"),
        ("/srv/hotcell", "tmpfs", "/srv"),
    ] {
        let expected = FileSystem { kind: kind.to_owned(), point: point.into() };
        assert_eq!(found(directory), expected, "{directory}");
    }
}

#[test]
fn one_place_is_known_under_all_its_names() {
    let table = "\
27 1 254:0 / / rw - ext4 /dev/vda rw
28 27 254:0 /srv/app/rules /etc/hotcell rw - ext4 /dev/vda rw
29 27 0:9 / /srv/app/other rw - tmpfs tmpfs rw
";
    let machine = machine(&[("proc/self/mountinfo", table)]);
    let lying = |path: &str| find_lying(machine.path(), Path::new(path)).unwrap();
    let app = lying("/srv/app");
    assert!(lying("/etc/hotcell/policy.toml").is_in(&app));
    assert!(lying("/srv/app").is_in(&app));
    for elsewhere in ["/etc/passwd", "/srv/apple", "/srv", "/srv/app/other/x"] {
        assert!(!lying(elsewhere).is_in(&app), "{elsewhere}");
    }
}

#[test]
fn the_remedy_says_what_is_wrong_with_the_kind() {
    let remedy = |kind: &str| FileSystem { kind: kind.to_owned(), point: "/".into() }.remedy();
    assert!(remedy("overlay").starts_with("overlayfs cannot be stacked on itself"));
    assert!(remedy("nfs4").starts_with("nfs4 cannot carry"));
    assert!(remedy("fuse.sshfs").starts_with("fuse.sshfs cannot carry"));
    assert!(remedy("ext4").contains("modprobe overlay"));
    for kind in ["overlay", "nfs4", "fuse.sshfs", "ext4"] {
        assert!(remedy(kind).contains("HOTCELL_STATE_DIR"), "{kind}");
    }
}

#[test]
fn a_table_without_a_root_is_that_of_a_chroot() {
    assert!(!is_chroot(machine(&[("proc/self/mountinfo", TABLE)]).path()));
    let inner = "22 27 0:21 / /proc rw,relatime - proc proc rw\n";
    assert!(is_chroot(machine(&[("proc/self/mountinfo", inner)]).path()));
    assert!(!is_chroot(machine(&[]).path()), "nothing is known");
}

#[test]
fn a_root_that_others_see_elsewhere_is_that_of_a_chroot() {
    let own = "51 27 254:1 / / rw,relatime - ext4 /dev/vdb rw\n";
    let outside = "27 1 254:0 / / rw - ext4 /dev/vda rw\n51 27 254:1 / /srv/tree rw - ext4 x rw\n";
    let files = [("proc/self/mountinfo", own), ("proc/1/mountinfo", outside)];
    assert!(is_chroot(machine(&files).path()));
    let files = [("proc/self/mountinfo", outside), ("proc/1/mountinfo", outside)];
    assert!(!is_chroot(machine(&files).path()));
}
