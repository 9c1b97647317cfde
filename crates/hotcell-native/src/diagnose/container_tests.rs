//! Each kind of container is told by its mark, and has its own remedy.

use super::{Container, Kind, find_container};
use crate::diagnose::testing::machine;

const MACHINE_MAP: (&str, &str) = ("proc/self/uid_map", "         0          0 4294967295\n");

#[test]
fn a_plain_machine_is_no_container() {
    let plain = machine(&[
        MACHINE_MAP,
        ("proc/1/cgroup", "0::/init.scope\n"),
        ("proc/1/environ", "HOME=/\0TERM=linux\0"),
    ]);
    assert_eq!(find_container(plain.path()), None);
    assert_eq!(find_container(machine(&[]).path()), None);
}

#[test]
fn every_mark_is_known() {
    let cases = [
        ((".dockerenv", ""), Kind::Docker),
        (("run/.containerenv", "engine=\"podman\"\n"), Kind::Podman),
        (("var/run/secrets/kubernetes.io/serviceaccount/token", "x"), Kind::Kubernetes),
        (("run/systemd/container", "systemd-nspawn\n"), Kind::Nspawn),
        (("run/systemd/container", "wsl\n"), Kind::Other("wsl".to_owned())),
        (("proc/1/environ", "A=b\0container=lxc\0"), Kind::Lxc),
        (("proc/1/cgroup", "0::/system.slice/docker-0123abcd.scope\n"), Kind::Docker),
        (("proc/1/cgroup", "4:memory:/kubepods/burstable/pod1/docker-1\n"), Kind::Kubernetes),
        (("proc/1/cgroup", "0::/machine.slice/libpod-77.scope/container\n"), Kind::Podman),
        (("proc/self/uid_map", "0 1000 1\n"), Kind::UserNamespace),
    ];
    for (file, kind) in cases {
        let Container { kind: found, mark } = find_container(machine(&[file]).path()).unwrap();
        assert_eq!(found, kind, "{file:?}");
        let file = format!("/{}", file.0);
        let names_it = file.starts_with(&mark) || mark == "the environment of process 1";
        assert!(names_it, "{mark} for {file}");
    }
}

#[test]
fn the_remedy_is_that_of_the_program_that_made_it() {
    assert!(Kind::Docker.remedy().contains("docker run --security-opt seccomp=unconfined"));
    assert!(Kind::Podman.remedy().contains("podman run"));
    assert!(Kind::Kubernetes.remedy().contains("procMount: Unmasked"));
    assert!(Kind::Lxc.remedy().contains("security.nesting true"));
    assert!(Kind::Other("x".to_owned()).remedy().contains("user namespaces"));
}
