//! Which directories can be projects.

use std::path::{Path, PathBuf};

use super::place::{people, unsuitable};

fn refused(dir: &str) -> bool {
    let homes = [PathBuf::from("/root"), PathBuf::from("/home/ann")];
    unsuitable(Path::new(dir), Path::new("/home/ann/.local/state/hotcell"), &homes).is_some()
}

#[test]
fn homes_the_machine_and_our_own_state_are_nobodys_workspace() {
    for dir in [
        "/",
        "/home",
        "/home/ann",
        "/root",
        "/etc",
        "/var",
        "/proc/1/root",
        "/sys/fs",
        "/home/ann/.local",
        "/home/ann/.local/state/hotcell",
        "/home/ann/.local/state/hotcell/cells",
    ] {
        assert!(refused(dir), "{dir}");
    }
    for dir in ["/home/ann/code", "/srv/app", "/var/www", "/opt/thing", "/home/annother", "/rooted"]
    {
        assert!(!refused(dir), "{dir}");
    }
}

#[test]
fn people_have_homes_and_services_do_not() {
    let passwd = "root:x:0:0:root:/root:/bin/sh\n\
                  daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
                  www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n\
                  ann:x:1000:1000::/home/ann:/bin/bash\n\
                  odd:x:1001:1001::/:/bin/bash\n\
                  nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n\
                  broken\n";
    assert_eq!(people(passwd), [PathBuf::from("/root"), PathBuf::from("/home/ann")]);
}
