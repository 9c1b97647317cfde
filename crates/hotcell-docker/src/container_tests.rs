//! What an engine is told about containers.

use std::path::{Path, PathBuf};

use bollard::models::{ContainerCreateBody, HostConfig, MountType};
use hotcell_model::{CellSpec, Limits};
use hotcell_place::ACCOUNTS;

use crate::container::{Enforced, Shown, describe};
use crate::paths::{PLACED_VERSION, Placed};

const ALL: Enforced = Enforced { memory: true, swap: true, cpu: true, pids: true, seccomp: true };

fn spec() -> CellSpec {
    let spec = serde_json::json!({
        "id": "c_0123456789", "driver": "docker", "image": "debian:12", "keep": "ttl",
        "sleep_after_s": 600, "orphan_grace_s": 60, "max_running": 8, "output_bytes": 1 << 20,
        "limits": { "memory_mb": 512, "cpus": 1.5, "pids": 64, "disk_mb": 100, "disk_files": 1000 },
        "network": "none", "env": { "TOKEN": "of the cell" }, "created_at": "2026-01-01T00:00:00.000Z",
    });
    serde_json::from_value(spec).unwrap()
}

fn described(limits: impl FnOnce(&mut Limits), enforced: Enforced) -> ContainerCreateBody {
    let mut spec = spec();
    limits(&mut spec.limits);
    let placed = Placed {
        version: PLACED_VERSION,
        spec,
        records: PathBuf::from("/state/cells/c_0123456789/records"),
        image: "sha256:00".to_owned(),
        user: (1000, 1000),
        engine: "ABCD".to_owned(),
        outpost: false,
        engine_name: None,
        engine_data: None,
        scratch: vec!["/data".to_owned(), "/tmp".to_owned()],
        prepared: true,
    };
    let accounts = ACCOUNTS.map(|it| (PathBuf::from("/state").join(it.path), it));
    let shown = Shown {
        program: Path::new("/state/docker/programs/hotcell-1"),
        birthplace: Path::new("/state/docker/cells/c_0123456789/birth"),
        accounts: &accounts,
        files: &[(PathBuf::from("/state/hosts"), "/etc/hosts".to_owned())],
        trust: Some(Path::new("/state/trust")),
        tools: Some(Path::new("/state/tools")),
    };
    describe(&placed, &shown, enforced, "0123456789abcdef", None)
}

fn hardened(body: &ContainerCreateBody) -> &HostConfig {
    body.host_config.as_ref().unwrap()
}

#[test]
fn nothing_in_it_has_a_privilege() {
    let body = described(|_| {}, ALL);
    let config = hardened(&body);
    assert_eq!(body.user.as_deref(), Some("1000:1000"));
    assert_eq!(config.cap_drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(config.cap_add, None);
    assert_eq!(config.privileged, Some(false));
    assert_eq!(config.devices, None);
    assert_eq!(config.group_add, None);
    assert_eq!((&config.pid_mode, &config.uts_mode, &config.userns_mode), (&None, &None, &None));
    assert_eq!(config.ipc_mode.as_deref(), Some("private"));
    let security = config.security_opt.as_ref().unwrap();
    assert_eq!(security[0], "no-new-privileges:true");
    assert!(security.iter().all(|option| !option.contains("unconfined")), "{security:?}");
}

#[test]
fn it_reaches_nothing_and_writes_to_its_volumes_alone() {
    let body = described(|_| {}, ALL);
    let config = hardened(&body);
    assert_eq!(config.network_mode.as_deref(), Some("none"));
    assert_eq!(config.readonly_rootfs, Some(true));
    assert_eq!((&config.binds, &config.volumes_from), (&None, &None));
    // Of its own network namespace, in which nothing but itself is.
    let sysctls: Vec<_> = config.sysctls.iter().flatten().collect();
    let any_port = ("net.ipv4.ip_unprivileged_port_start".to_owned(), "0".to_owned());
    assert_eq!(sysctls, [(&any_port.0, &any_port.1)]);
    let mounts = config.mounts.as_ref().unwrap();
    for shown in ["/etc/hosts", "/dev/hotcell", "/etc/passwd", "/tools"] {
        let is_there = mounts.iter().any(|mount| mount.target.as_deref() == Some(shown));
        assert!(is_there, "{shown} is not among {mounts:?}");
    }
    let written: Vec<&str> = mounts
        .iter()
        .filter(|mount| mount.typ == Some(MountType::BIND) && mount.read_only != Some(true))
        .filter_map(|mount| mount.source.as_deref())
        .collect();
    // Records and its supervisor's socket are handed over open, and have no path in it.
    assert_eq!(written, Vec::<&str>::new());
    // An image that fills a directory decides neither its content nor its owner.
    let volumes = mounts.iter().filter_map(|mount| mount.volume_options.as_ref());
    assert!(volumes.clone().count() == 2 && volumes.clone().all(|it| it.no_copy == Some(true)));
    let volumes = mounts.iter().filter(|mount| mount.typ == Some(MountType::VOLUME));
    let volumes: Vec<&str> = volumes.filter_map(|mount| mount.target.as_deref()).collect();
    assert_eq!(volumes, ["/workspace", "/home/cell"]);
}

#[test]
fn an_image_decides_nothing_about_what_runs() {
    let body = described(|_| {}, ALL);
    let entrypoint = vec!["/.hotcell/bin/hotcell".to_owned(), "supervise".to_owned()];
    assert_eq!(body.entrypoint, Some(entrypoint));
    assert_eq!(body.cmd, Some(Vec::new()));
    assert_eq!(body.healthcheck.unwrap().test, Some(vec!["NONE".to_owned()]));
    // Whoever may talk to the engine can read what a container is made with.
    assert_eq!(body.env, Some(Vec::new()));
}

#[test]
fn limits_are_those_of_the_cell() {
    let body = described(|_| {}, ALL);
    let config = hardened(&body);
    assert_eq!(config.memory, Some(512 << 20));
    assert_eq!(config.memory_swap, Some(512 << 20));
    assert_eq!(config.nano_cpus, Some(1_500_000_000));
    assert_eq!(config.pids_limit, Some(64));
    let tmp = &config.tmpfs.as_ref().unwrap()["/tmp"];
    assert!(tmp.contains(&format!("size={}", 256 << 20)) && tmp.contains("nosuid"), "{tmp}");
    let tmpfs = config.tmpfs.as_ref().unwrap();
    assert!(tmpfs.contains_key("/data"), "what an image says is written to is in memory");
    let sizes = tmpfs
        .values()
        .filter_map(|it| it.split("size=").nth(1)?.split(',').next()?.parse::<u64>().ok());
    assert!(sizes.sum::<u64>() < 400 << 20, "{tmpfs:?}");
    let unlimited = described(|limits| limits.cpus = None, ALL);
    assert_eq!(hardened(&unlimited).nano_cpus, None);
}

#[test]
fn what_an_engine_cannot_enforce_is_not_asked_of_it() {
    let nothing = Enforced { memory: false, swap: false, cpu: false, pids: false, seccomp: false };
    let body = described(|_| {}, nothing);
    let config = hardened(&body);
    assert_eq!((config.memory, config.memory_swap), (None, None));
    assert_eq!((config.nano_cpus, config.pids_limit), (None, None));
    assert_eq!(config.security_opt.as_ref().unwrap().len(), 1);
}

#[test]
fn the_filter_of_the_container_allows_what_is_needed_and_no_dangers() {
    let body = described(|_| {}, ALL);
    let security = hardened(&body).security_opt.clone().unwrap();
    let profile = security.iter().find_map(|option| option.strip_prefix("seccomp=")).unwrap();
    let profile: serde_json::Value = serde_json::from_str(profile).unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let names = profile["syscalls"][0]["names"].as_array().unwrap();
    let allows = |name: &str| names.iter().any(|it| it == name);
    assert!(["execve", "clone3", "seccomp", "landlock_restrict_self"].iter().all(|it| allows(it)));
    for danger in ["mount", "setns", "bpf", "keyctl", "io_uring_setup", "kexec_load", "userfaultfd"]
    {
        assert!(!allows(danger), "{danger}");
    }
}
