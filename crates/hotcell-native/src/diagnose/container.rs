//! Whether this machine is a container, of which kind, and what such a one must be given.

use std::path::Path;

use super::host_file::read;

/// A container that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) kind: Kind,
    /// What told so.
    pub(super) mark: String,
}

/// Who made it, as far as the remedy depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Docker,
    Podman,
    Kubernetes,
    Lxc,
    Nspawn,
    /// A user namespace made by hand or by a program that leaves no mark.
    UserNamespace,
    Other(String),
}

/// Parts of the paths that container programs give to their control groups.
const GROUPS: [(&str, Kind); 5] = [
    ("kubepods", Kind::Kubernetes),
    ("docker", Kind::Docker),
    ("libpod", Kind::Podman),
    ("lxc", Kind::Lxc),
    ("machine.slice/systemd-nspawn", Kind::Nspawn),
];

/// Looks for a container below the root `host`, the surest mark first.
pub(super) fn find_container(host: &Path) -> Option<Container> {
    let found = |kind: Kind, mark: &str| Some(Container { kind, mark: mark.to_owned() });
    if host.join("var/run/secrets/kubernetes.io").exists() {
        return found(Kind::Kubernetes, "/var/run/secrets/kubernetes.io");
    }
    if host.join("run/.containerenv").exists() {
        return found(Kind::Podman, "/run/.containerenv");
    }
    if host.join(".dockerenv").exists() {
        return found(Kind::Docker, "/.dockerenv");
    }
    if let Some(name) = read(host, "run/systemd/container") {
        return found(Kind::named(name.trim()), "/run/systemd/container");
    }
    let environment = read(host, "proc/1/environ").unwrap_or_default();
    if let Some(name) = environment.split('\0').find_map(|pair| pair.strip_prefix("container=")) {
        return found(Kind::named(name), "the environment of process 1");
    }
    let groups = read(host, "proc/1/cgroup").unwrap_or_default();
    for (part, kind) in GROUPS {
        if groups.contains(part) {
            return found(kind, "/proc/1/cgroup");
        }
    }
    let map = read(host, "proc/self/uid_map")?;
    match map.split_ascii_whitespace().eq(["0", "0", "4294967295"]) {
        true => None,
        false => found(Kind::UserNamespace, "/proc/self/uid_map"),
    }
}

impl Kind {
    fn named(name: &str) -> Self {
        match name {
            "docker" => Self::Docker,
            "podman" => Self::Podman,
            "kubernetes" => Self::Kubernetes,
            "lxc" | "lxc-libvirt" => Self::Lxc,
            "systemd-nspawn" => Self::Nspawn,
            other => Self::Other(other.to_owned()),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
            Self::Kubernetes => "Kubernetes",
            Self::Lxc => "LXC",
            Self::Nspawn => "systemd-nspawn",
            Self::UserNamespace => "a user namespace",
            Self::Other(name) => name,
        }
    }

    /// How such a container is started so that cells can be made in it.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::Docker => "start the container with \
                 `docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
                 --security-opt systempaths=unconfined -v hotcell:/var/lib/hotcell \
                 -e HOTCELL_STATE_DIR=/var/lib/hotcell …`"
                .to_owned(),
            Self::Podman => "start the container with \
                 `podman run --security-opt seccomp=unconfined --security-opt unmask=ALL \
                 -v hotcell:/var/lib/hotcell -e HOTCELL_STATE_DIR=/var/lib/hotcell …`"
                .to_owned(),
            Self::Kubernetes => "give the container `securityContext: {seccompProfile: {type: \
                 Unconfined}, appArmorProfile: {type: Unconfined}, procMount: Unmasked}`, the pod \
                 `hostUsers: false`, and HOTCELL_STATE_DIR on a volume (emptyDir)"
                .to_owned(),
            Self::Lxc => "allow nesting: `lxc config set NAME security.nesting true`, then restart \
                 the container"
                .to_owned(),
            Self::Nspawn => "start the container with \
                 `systemd-nspawn --private-users=pick --system-call-filter='@mount setns unshare'`"
                .to_owned(),
            Self::UserNamespace | Self::Other(_) => "allow the container what hotcell needs: user \
                 namespaces (clone3, unshare, mount and their relatives in its system-call filter), \
                 a /proc of which nothing is covered, and a state directory outside of its overlay"
                .to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod container_tests;
