//! The remedy fits the refusal and the machine.

use std::path::Path;

use hotcell_jail::ids::{IdLayout, Starter};
use hotcell_jail::probe::Refusal;
use rustix::io::Errno;

use super::Circumstances;
use crate::diagnose::testing::machine;

const CLONE: (&str, &str) = ("proc/sys/kernel/unprivileged_userns_clone", "0\n");
const MOST: (&str, &str) = ("proc/sys/user/max_user_namespaces", "0\n");
const APPARMOR: (&str, &str) = ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
const ROOTED: (&str, &str) = ("proc/self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n");

fn user() -> Starter {
    let layout = IdLayout::Single { uid: 1000, gid: 1000 };
    Starter::User { layout, without_subordinates: None }
}

fn hint(files: &[(&str, &str)], starter: &Starter, errno: Errno) -> String {
    let machine = machine(files);
    let circumstances = Circumstances::look(machine.path(), Path::new("/state"), starter);
    circumstances.user_namespace_hint(Some(errno.raw_os_error()))
}

#[test]
fn the_rule_that_fits_the_error_is_blamed() {
    let both = [MOST, CLONE, ROOTED];
    assert!(hint(&both, &user(), Errno::NOSPC).contains("user.max_user_namespaces=15000"));
    assert!(hint(&both, &user(), Errno::PERM).contains("unprivileged_userns_clone=1"));
    assert!(hint(&[APPARMOR, ROOTED], &user(), Errno::PERM).contains("AppArmor"));
    assert!(hint(&[APPARMOR, ROOTED], &user(), Errno::ACCESS).contains("AppArmor"));
}

#[test]
fn rules_that_do_not_hold_for_root_are_not_blamed() {
    let hint = hint(&[CLONE, APPARMOR, (".dockerenv", ""), ROOTED], &Starter::Root, Errno::PERM);
    assert!(hint.contains("docker run"), "{hint}");
}

#[test]
fn without_a_rule_the_surroundings_are_blamed() {
    let in_chroot = [("proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n")];
    assert!(hint(&in_chroot, &user(), Errno::PERM).contains("chroot"));
    assert!(hint(&[ROOTED, ("run/.containerenv", "")], &user(), Errno::PERM).contains("podman"));
    assert!(hint(&[ROOTED], &user(), Errno::PERM).contains("audit log"));
    let enough = ("proc/sys/user/max_user_namespaces", "30000\n");
    let outer = hint(&[ROOTED, enough], &user(), Errno::NOSPC);
    assert!(outer.contains("a namespace around this one"), "{outer}");
}

fn at_version(version: &str, starter: &Starter) -> Circumstances {
    let machine = machine(&[("proc/sys/kernel/osrelease", version), ROOTED]);
    Circumstances::look(machine.path(), Path::new("/state"), starter)
}

#[test]
fn old_kernels_are_named_as_the_reason() {
    let refusal =
        Refusal { step: "mount_setattr".to_owned(), errno: Some(38), said: String::new() };
    let old = at_version("5.4.0-150-generic\n", &user());
    assert_eq!(old.kernel_version(), Some((5, 4)));
    assert!(old.call_remedy(&refusal).contains("Linux 5.12 or newer"));
    assert!(old.overlay_remedy().contains("Linux 5.12 or newer"));
    let filtered = at_version("6.8.0", &user());
    assert!(filtered.call_remedy(&refusal).contains("system-call filter"));

    let between = "5.15.0-91-generic\n";
    assert!(at_version(between, &Starter::Root).overlay_remedy().contains("Linux 5.19"));
    assert!(at_version(between, &user()).overlay_remedy().contains("modprobe"));
}
