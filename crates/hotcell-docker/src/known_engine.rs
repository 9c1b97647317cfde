//! What engines can do, as they say or as they said last.

use std::path::Path;

use hotcell_model::{DriverCapabilities, Machine, Result, Timestamp};
use hotcell_place::{read_json, write_json};
use serde::{Deserialize, Serialize};

use crate::disk::{self, Measured};
use crate::docker_host::DockerHost;
use crate::engines::Engine;
use crate::isolation::enforced;
use crate::paths::DockerPaths;

/// How long what an engine can do is taken for granted.
const KNOWN_FOR_S: u64 = 600;

/// What an engine can do, as it was when somebody last looked.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownEngine {
    address: String,
    looked_at: Timestamp,
    capabilities: DriverCapabilities,
}

impl KnownEngine {
    fn of(host: &DockerHost) -> Self {
        let enforced = enforced(host);
        Self {
            address: host.settings().address.to_string(),
            looked_at: Timestamp::now(),
            capabilities: DriverCapabilities {
                machine: machine(host),
                as_root: false,
                own_root: true,
                checkpoints: false,
                memory_limit: enforced.memory,
                cpu_limit: enforced.cpu,
                pids_limit: enforced.pids,
                disk_limit: matches!(disk::measures(host), Ok(Measured::Yes)),
            },
        }
    }

    fn is_fresh(&self) -> bool {
        let now = Timestamp::now();
        self.looked_at <= now && now < self.looked_at.plus_seconds(KNOWN_FOR_S)
    }
}

/// What an engine can do. One that cannot be reached can do what it could: cells that run go on
/// without it, and whoever needs it is told.
///
/// # Errors
/// Why it cannot be reached that nobody has ever reached.
pub(crate) async fn capabilities_of(
    paths: &DockerPaths,
    engine: &Engine,
) -> Result<DriverCapabilities> {
    let path = paths.engine(engine.name());
    let address = engine.settings().address.to_string();
    let known = read_json::<KnownEngine>(&path).unwrap_or_default();
    let known = known.filter(|known| known.address == address);
    if let Some(known) = known.as_ref().filter(|known| known.is_fresh()) {
        return Ok(known.capabilities.clone());
    }
    match (engine.host().await, known) {
        (Ok(host), _) => {
            let known = KnownEngine::of(&host);
            if let Err(error) = paths.make().and_then(|()| write_json(&path, &known)) {
                tracing::warn!(%error, "what the Docker engine can do is not kept");
            }
            Ok(known.capabilities)
        }
        (Err(_), Some(known)) => Ok(known.capabilities),
        (Err(error), None) => Err(error),
    }
}

/// What holds of a cell whichever of two engines it is at. One that is too big for one of them is
/// placed at the other.
pub(crate) fn of_both(one: &DriverCapabilities, other: &DriverCapabilities) -> DriverCapabilities {
    DriverCapabilities {
        machine: Machine {
            memory_mb: one.machine.memory_mb.max(other.machine.memory_mb),
            cpus: one.machine.cpus.max(other.machine.cpus),
            pids: one.machine.pids.max(other.machine.pids),
            disk_mb: one.machine.disk_mb.max(other.machine.disk_mb),
        },
        as_root: one.as_root && other.as_root,
        own_root: one.own_root && other.own_root,
        checkpoints: one.checkpoints && other.checkpoints,
        memory_limit: one.memory_limit && other.memory_limit,
        cpu_limit: one.cpu_limit && other.cpu_limit,
        pids_limit: one.pids_limit && other.pids_limit,
        disk_limit: one.disk_limit && other.disk_limit,
    }
}

/// What the machine of an engine has to share out.
pub(crate) fn machine(host: &DockerHost) -> Machine {
    let info = &host.info;
    let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    // Another machine's directories are not to be seen from here.
    let root = info.docker_root_dir.as_deref().filter(|_| !host.settings().address.is_remote());
    let disk = root.and_then(|root| rustix::fs::statvfs(Path::new(root)).ok());
    Machine {
        memory_mb: positive(info.mem_total).map_or(1024, |bytes| bytes >> 20),
        cpus: positive(info.ncpu).and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1),
        pids: 32_768,
        disk_mb: disk
            .map_or(u64::MAX >> 20, |found| found.f_blocks.saturating_mul(found.f_frsize) >> 20),
    }
}
