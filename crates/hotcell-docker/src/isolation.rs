//! What a cell in a container is separated by, and what is missing for more.

use hotcell_jail::landlock::Landlock;
use hotcell_jail::process::Confinement;
use hotcell_model::{Isolation, Layer, MissingLayer};

use crate::container::Enforced;
use crate::disk::Measured;
use crate::docker_host::DockerHost;

/// What this engine can enforce.
pub(crate) fn enforced(host: &DockerHost) -> Enforced {
    let info = &host.info;
    Enforced {
        memory: info.memory_limit.unwrap_or(false),
        swap: info.swap_limit.unwrap_or(false),
        cpu: info.cpu_cfs_quota.unwrap_or(false),
        pids: info.pids_limit.unwrap_or(false),
        seccomp: host.secures_by("seccomp"),
    }
}

/// The isolation of a cell at this engine.
pub(crate) fn describe(
    host: &DockerHost,
    confinement: &Confinement,
    measured: Measured,
) -> Isolation {
    let enforced = enforced(host);
    let mut layers = Vec::new();
    let mut missing = Vec::new();
    let mut layer = |name: &str, means: Option<&str>| {
        layers.push(Layer { name: name.to_owned(), means: means.map(str::to_owned) });
    };
    let mut lacks = |name: &str, reason: &str, remedy: &str| {
        missing.push(MissingLayer {
            name: name.to_owned(),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    for name in ["mount_namespace", "pid_namespace", "network_namespace"] {
        layer(name, None);
    }
    for name in ["ipc_namespace", "uts_namespace", "masked_proc", "no_capabilities"] {
        layer(name, None);
    }
    layer("no_new_privs", None);
    if host.secures_by("userns") || host.secures_by("rootless") {
        layer("user_namespace", Some("of the Docker engine"));
        layer("private_ids", Some("one range for all containers"));
    } else {
        let remedy = "run the Docker engine rootless, or with userns-remap";
        lacks("user_namespace", "the Docker engine gives containers the host's user ids", remedy);
        lacks("private_ids", "all cells of the engine run as one user of the host", remedy);
    }
    match host.secures_by("cgroupns") {
        true => layer("cgroup_namespace", None),
        false => lacks(
            "cgroup_namespace",
            "the Docker engine shows containers the host's names of control groups, read-only",
            "use an engine on control groups v2",
        ),
    }
    layer("tree_kill", Some("subreaper"));
    let version = match host.info.cgroup_version {
        Some(bollard::models::SystemInfoCgroupVersionEnum::_2) => "cgroup v2",
        Some(_) | None => "cgroup v1",
    };
    let limits = [
        ("memory_limit", enforced.memory),
        ("swap_limit", enforced.memory && enforced.swap),
        ("pids_limit", enforced.pids),
        ("cpu_limit", enforced.cpu),
    ];
    for (name, is_enforced) in limits {
        match is_enforced {
            true => layer(name, Some(version)),
            false => lacks(
                name,
                "the Docker engine says that it cannot enforce it",
                "see the warnings of `docker info`",
            ),
        }
    }
    match measured {
        Measured::Yes => layer("disk_limit", Some("sampled while something runs")),
        Measured::No => lacks(
            "disk_limit",
            "volumes of the Docker engine have no bound, and only root can measure those of an \
             engine that is not rootless",
            "run hotcell as root, or use a cell of the native driver",
        ),
    }
    layer(
        "seccomp_filter",
        Some(&format!("allowlist of {} system calls", confinement.system_calls)),
    );
    match &confinement.landlock {
        Landlock::Applied { abi, scopes } => {
            let scopes = if *scopes { ", signals, abstract sockets" } else { "" };
            layer("landlock", Some(&format!("ABI {abi}: files{scopes}")));
        }
        Landlock::Absent { reason } => lacks(
            "landlock",
            reason,
            "use Linux 5.19 or newer with `landlock` in the boot parameter lsm=",
        ),
    }
    Isolation::from_layers(layers, missing)
}
