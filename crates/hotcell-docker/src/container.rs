//! What a container is made of: everything that an engine is told about one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
    ResourcesUlimits,
};
use hotcell_jail::container_calls;
use hotcell_jail::shown::{CALLS_PLACE, SHOWN_TOOLS};
use hotcell_jail::trusted::TRUSTED_PLACE;
use hotcell_link::{CONTAINER_BIRTHPLACE, CONTAINER_PROGRAM};
use hotcell_model::{CellId, Limits};
use hotcell_place::Accounts;

use crate::labels;
use crate::paths::Placed;
use crate::volumes;

/// The most that `/tmp` takes of a cell's memory, and other places do.
const TMP_BYTES: u64 = 512 << 20;
const SMALL_BYTES: u64 = 64 << 20;
const RUN_BYTES: u64 = 16 << 20;
const CALLS_BYTES: u64 = 64 << 10;
const TMP_FILES: u32 = 16_384;
/// The first port that needs no capability.
const ANY_PORT: &str = "net.ipv4.ip_unprivileged_port_start";

/// What of the host a container has.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) program: &'a Path,
    /// Where its first process asks what to be.
    pub(crate) birthplace: &'a Path,
    /// Files that say who is who.
    pub(crate) accounts: &'a [(PathBuf, Accounts)],
    /// Other files that it sees instead of its image's, each with where.
    pub(crate) files: &'a [(PathBuf, String)],
    /// Whom it trusts besides.
    pub(crate) trust: Option<&'a Path>,
    pub(crate) tools: Option<&'a Path>,
}

/// What an engine can enforce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enforced {
    pub(crate) memory: bool,
    pub(crate) swap: bool,
    pub(crate) cpu: bool,
    pub(crate) pids: bool,
    pub(crate) seccomp: bool,
}

/// The name of a cell's container.
pub(crate) fn name(cell: &CellId) -> String {
    format!("hotcell-{cell}")
}

/// Everything about the container of a cell.
pub(crate) fn describe(
    placed: &Placed,
    shown: &Shown<'_>,
    enforced: Enforced,
    state: &str,
    runtime: Option<&str>,
) -> ContainerCreateBody {
    let spec = &placed.spec;
    let (uid, gid) = placed.user;
    ContainerCreateBody {
        image: Some(placed.image.clone()),
        hostname: Some("cell".to_owned()),
        user: Some(format!("{uid}:{gid}")),
        entrypoint: Some(vec![CONTAINER_PROGRAM.to_owned(), "supervise".to_owned()]),
        cmd: Some(Vec::new()),
        working_dir: Some("/".to_owned()),
        // The supervisor's own: what execs have is the cell's.
        env: Some(Vec::new()),
        // An image's own would be run beside the supervisor, by nobody's leave.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        labels: Some(labels::of_cell(&spec.id, state)),
        host_config: Some(hardened(placed, shown, enforced, runtime)),
        ..ContainerCreateBody::default()
    }
}

fn hardened(
    placed: &Placed,
    shown: &Shown<'_>,
    enforced: Enforced,
    runtime: Option<&str>,
) -> HostConfig {
    let limits = &placed.spec.limits;
    let memory = enforced.memory.then(|| bytes(limits.memory_mb));
    let mut security = vec!["no-new-privileges:true".to_owned()];
    security.extend(enforced.seccomp.then(|| format!("seccomp={}", seccomp_profile())));
    HostConfig {
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        privileged: Some(false),
        security_opt: Some(security),
        network_mode: Some("none".to_owned()),
        // Its supervisor listens where names are answered and at the ports of what it may reach, and
        // has no capability for that.
        sysctls: Some(HashMap::from([(ANY_PORT.to_owned(), "0".to_owned())])),
        ipc_mode: Some("private".to_owned()),
        mounts: Some(mounts(placed, shown)),
        tmpfs: Some(in_memory(limits, placed.user, shown.tools.is_some(), &placed.scratch)),
        memory,
        // With what is swapped out: no more than that.
        memory_swap: memory.filter(|_| enforced.swap),
        nano_cpus: limits.cpus.filter(|_| enforced.cpu).map(nano_cpus),
        pids_limit: enforced.pids.then_some(limits.pids.into()),
        ulimits: Some(vec![ResourcesUlimits {
            name: Some("core".to_owned()),
            soft: Some(0),
            hard: Some(0),
        }]),
        // What is printed goes into the cell's own logs.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        auto_remove: Some(true),
        init: Some(false),
        runtime: runtime.map(str::to_owned),
        ..HostConfig::default()
    }
}

fn bytes(megabytes: u64) -> i64 {
    i64::try_from(megabytes.saturating_mul(1 << 20)).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "checked: 0.01 to the machine's CPUs")]
fn nano_cpus(cpus: f64) -> i64 {
    (cpus * 1e9).round() as i64
}

fn mounts(placed: &Placed, shown: &Shown<'_>) -> Vec<Mount> {
    let bind = |source: &Path, target: &str| Mount {
        target: Some(target.to_owned()),
        source: Some(source.to_string_lossy().into_owned()),
        typ: Some(MountType::BIND),
        // Nothing of the host is written to.
        read_only: Some(true),
        ..Mount::default()
    };
    let mut mounts = volumes::mounts(&placed.spec.id, |_, target| target.to_owned());
    mounts.push(bind(shown.program, CONTAINER_PROGRAM));
    mounts.push(bind(shown.birthplace, CONTAINER_BIRTHPLACE));
    for (file, accounts) in shown.accounts {
        mounts.push(bind(file, &format!("/{}", accounts.path)));
    }
    mounts.extend(shown.files.iter().map(|(file, target)| bind(file, target)));
    mounts.extend(shown.trust.map(|trust| bind(trust, TRUSTED_PLACE)));
    mounts.extend(shown.tools.map(|tools| bind(tools, SHOWN_TOOLS)));
    mounts
}

/// What a cell has in memory, counted as its memory: never so much that nothing could be started.
fn in_memory(
    limits: &Limits,
    (uid, gid): (u32, u32),
    calls: bool,
    scratch: &[String],
) -> HashMap<String, String> {
    let part = |most: u64, of: u64| most.min((limits.memory_mb << 20) / of);
    let everybody = |size: u64, more: &str| {
        format!("rw,nosuid,nodev,{more},mode=1777,size={size},nr_inodes={TMP_FILES}")
    };
    let own = |size: u64| {
        format!("rw,nosuid,nodev,noexec,mode=755,uid={uid},gid={gid},size={size},nr_inodes=1024")
    };
    let mut places = HashMap::from([
        ("/tmp".to_owned(), everybody(part(TMP_BYTES, 2), "exec")),
        ("/var/tmp".to_owned(), everybody(part(SMALL_BYTES, 16), "exec")),
        ("/dev/shm".to_owned(), everybody(part(SMALL_BYTES, 8), "noexec")),
        ("/run".to_owned(), own(part(RUN_BYTES, 32))),
    ]);
    if calls {
        places.insert(CALLS_PLACE.to_owned(), own(CALLS_BYTES));
    }
    // What an image says is written to: in memory, where it is gone when the cell sleeps.
    for place in scratch {
        let size = part(SMALL_BYTES, 16 * u64::try_from(scratch.len()).unwrap_or(1));
        places.entry(place.clone()).or_insert_with(|| everybody(size, "exec"));
    }
    places
}

/// The filter of the whole container, in the engine's words. Programs have a stricter one on top.
fn seccomp_profile() -> String {
    serde_json::json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [{ "names": container_calls(), "action": "SCMP_ACT_ALLOW" }],
    })
    .to_string()
}
