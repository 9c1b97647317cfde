//! Containers: making and ending them, who works in them, and what they use.

use std::collections::BTreeMap;

use hotcell_model::{
    Cell, CellAttach, CellFork, CellId, CellInfo, CellKill, CellList, CellRef, CellSpawn,
    CellState, CheckpointCreate, CheckpointDelete, CheckpointId, CheckpointList, Error, ErrorCode,
    ExecId, ExecList, ExecStatusFilter, Keep, KillWait, RequestedLimits, Timestamp,
};
use serde_json::{Value, json};

use super::errors::{About, Refused};
use super::execs::GRACE_S;
use super::{Answered, Bench, inputs};
use crate::tool::answer;

/// What marks containers, so that the last server can stop them when it leaves.
pub const LABEL: (&str, &str) = ("dialect", "devbench");
const MEBIBYTE: f64 = (1 << 20) as f64;
/// What the id of a snapshot begins with.
const SNAPSHOT: &str = "snap_";

/// The container that a caller names.
pub(super) fn container(name: &str) -> Result<CellRef, Refused> {
    match name.parse() {
        Ok(CellRef::Default) | Err(_) => Err(Refused::no_container(name)),
        Ok(named) => Ok(named),
    }
}

/// How an answer about a container is told.
pub(super) fn of_container(name: &str) -> impl FnOnce(Error) -> Refused {
    move |error| match error.code == ErrorCode::NotFound {
        true => Refused::no_container(name),
        false => About::Rest.refused()(error),
    }
}

/// How an answer about a snapshot is told. It went if its container did.
fn of_snapshot(id: &str) -> impl FnOnce(Error) -> Refused {
    move |error| match error.code == ErrorCode::NotFound {
        true => Refused::no_snapshot(id),
        false => About::Rest.refused()(error),
    }
}

/// A state of a container's files: a checkpoint of a cell.
struct Snapshot {
    cell: CellId,
    checkpoint: CheckpointId,
}

impl Snapshot {
    fn parse(id: &str) -> Option<Self> {
        let (cell, checkpoint) = id.strip_prefix(SNAPSHOT)?.split_once('.')?;
        Some(Self { cell: cell.parse().ok()?, checkpoint: checkpoint.parse().ok()? })
    }

    fn find(id: &str) -> Result<Self, Refused> {
        Self::parse(id).ok_or_else(|| Refused::no_snapshot(id))
    }

    fn id(&self) -> String {
        format!("{SNAPSHOT}{}.{}", self.cell, self.checkpoint)
    }
}

impl Bench {
    /// What is told of something in a container: it may be the container that is not there.
    pub(super) async fn in_container(&self, name: &str, refused: Refused) -> Refused {
        let Ok(cell) = container(name) else { return Refused::no_container(name) };
        if !refused.is_of(ErrorCode::NotFound) {
            return refused;
        }
        match self.asking.ask(CellInfo { cell }).await {
            Err(error) if error.code == ErrorCode::NotFound => Refused::no_container(name),
            Ok(_) | Err(_) => refused,
        }
    }

    pub(super) async fn spawn(&self, input: inputs::Spawn) -> Answered {
        let inputs::Spawn { image, persistent, alias, ttl_s, idempotency_key } = input;
        if Snapshot::parse(&image).is_some() {
            let snapshot = inputs::SpawnFromSnapshot {
                snapshot_id: image,
                persistent,
                alias,
                ttl_s,
                idempotency_key,
            };
            return self.spawn_from_snapshot(snapshot).await;
        }
        let spawn = CellSpawn {
            image,
            alias: alias.as_deref().map(str::parse).transpose()?,
            keep: if persistent { Keep::Always } else { Keep::Ttl },
            ttl_s: ttl_s.filter(|_| !persistent),
            limits: RequestedLimits::default(),
            network: self.settings.network.clone(),
            labels: BTreeMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())]),
            idempotency_key,
            ..CellSpawn::default()
        };
        let cell = self.asking.ask(spawn).await.map_err(About::Spawn.refused())?;
        Ok(answer(&spawned(&cell)))
    }

    pub(super) async fn attach(&self, input: inputs::Attach) -> Answered {
        let inputs::Attach { target, client_name, session_id } = input;
        let attach = CellAttach {
            cell: container(&target)?,
            client_name: Some(client_name),
            session_id: Some(session_id),
        };
        let details = self.asking.ask(attach).await.map_err(of_container(&target))?;
        Ok(answer(&json!({
            "container_id": details.cell.id,
            "alias": details.cell.alias,
            "roots": [format!("workspace:{}", details.cell.id)],
        })))
    }

    /// Without force what runs is asked to end first.
    pub(super) async fn kill(&self, input: inputs::Kill) -> Answered {
        let cell = container(&input.container_id)?;
        if !input.force {
            let info = CellInfo { cell: cell.clone() };
            let details = self.asking.ask(info).await.map_err(of_container(&input.container_id))?;
            let execs: Vec<ExecId> = details.execs.into_iter().map(|exec| exec.id).collect();
            self.end_all(&execs, GRACE_S).await?;
        }
        let kill = CellKill { cell, force: true, volumes: false, wait: KillWait::Removed };
        let killed = self.asking.ask(kill).await.map_err(of_container(&input.container_id))?;
        let kept = killed.volume.is_some();
        Ok(answer(&json!({ "status": "stopped", "workspace_kept": kept })))
    }

    pub(super) async fn list_containers(&self, input: inputs::ListContainers) -> Answered {
        let list = CellList { include_stopped: input.include_stopped };
        let cells = self.asking.ask(list).await.map_err(About::Rest.refused())?.cells;
        let mut containers: Vec<Value> = Vec::new();
        for cell in &cells {
            containers.push(listed(cell, self.last_used(cell).await));
        }
        Ok(answer(&json!({ "containers": containers })))
    }

    /// When a container was last used, as far as its commands tell.
    async fn last_used(&self, cell: &Cell) -> Timestamp {
        let last = |status| ExecList {
            cell: Some(CellRef::Id(cell.id.clone())),
            status,
            limit: 1,
            cursor: None,
        };
        match self.asking.ask(last(Some(ExecStatusFilter::Live))).await {
            Ok(live) if !live.execs.is_empty() => return Timestamp::now(),
            Ok(_) | Err(_) => {}
        }
        let ended =
            self.asking.ask(last(None)).await.ok().and_then(|page| page.execs.into_iter().next());
        ended.and_then(|exec| exec.end).map_or(cell.created_at, |end| end.ended_at)
    }

    /// How many containers run, and how many clients work in them.
    pub(super) async fn count(&self) -> Result<(usize, usize), Refused> {
        let list = CellList { include_stopped: false };
        let cells = self.asking.ask(list).await.map_err(About::Rest.refused())?.cells;
        let mut attachments = 0;
        for cell in &cells {
            let info = CellInfo { cell: CellRef::Id(cell.id.clone()) };
            match self.asking.ask(info).await {
                Ok(details) => attachments += details.attachments.len(),
                // It has ended meanwhile, or its place cannot be reached.
                Err(error) => match error.code {
                    ErrorCode::NotFound | ErrorCode::Unavailable => {}
                    ErrorCode::Invalid
                    | ErrorCode::Conflict
                    | ErrorCode::Denied
                    | ErrorCode::LimitExceeded
                    | ErrorCode::Timeout
                    | ErrorCode::Cancelled
                    | ErrorCode::Unsupported
                    | ErrorCode::Internal => return Err(error.into()),
                },
            }
        }
        let running = cells.iter().filter(|cell| status(cell.state) == RUNNING).count();
        Ok((running, attachments))
    }

    pub(super) async fn container_stats(&self, input: inputs::OfContainer) -> Answered {
        let info = CellInfo { cell: container(&input.container_id)? };
        let details = self.asking.ask(info).await.map_err(of_container(&input.container_id))?;
        let (cell, stats) = (details.cell, details.stats.unwrap_or_default());
        let now = Timestamp::now();
        let lived_ms = cell.created_at.until(now).as_secs_f64() * 1000.0;
        let memory_mb = stats.memory_bytes.map(|bytes| bytes as f64 / MEBIBYTE);
        let limit_mb = cell.limits.memory_mb as f64;
        Ok(answer(&json!({
            "container_id": cell.id,
            "cpu_percent": stats.cpu_ms.map(|ms| 100.0 * ms as f64 / lived_ms.max(1.0)),
            "cpu_ms": stats.cpu_ms,
            "memory_usage_mb": memory_mb,
            "memory_limit_mb": limit_mb,
            "memory_percent": memory_mb.map(|mb| 100.0 * mb / limit_mb),
            "network_rx_bytes": stats.network.as_ref().map_or(0, |it| it.received_bytes),
            "network_tx_bytes": stats.network.as_ref().map_or(0, |it| it.sent_bytes),
            "disk_bytes": stats.disk_bytes,
            "pids": stats.pids,
            "pids_limit": cell.limits.pids,
            "execs_running": stats.running,
            "execs_queued": stats.queued,
            "timestamp": now,
        })))
    }

    pub(super) async fn create_snapshot(&self, input: inputs::OfContainer) -> Answered {
        let cell = container(&input.container_id)?;
        let create = CheckpointCreate { cell: cell.clone() };
        let made = self.asking.ask(create).await.map_err(of_container(&input.container_id))?;
        let list = self.asking.ask(CheckpointList { cell }).await;
        let list = list.map_err(of_container(&input.container_id))?.checkpoints;
        let bytes = list.iter().find(|one| one.id == made.id).and_then(|one| one.bytes);
        let id = Snapshot { cell: made.cell, checkpoint: made.id }.id();
        let size_mb = bytes.map(|bytes| bytes as f64 / MEBIBYTE);
        Ok(answer(&json!({ "snapshot_id": id, "image_tag": id, "size_mb": size_mb })))
    }

    pub(super) async fn list_snapshots(&self, input: inputs::OfContainer) -> Answered {
        let list = CheckpointList { cell: container(&input.container_id)? };
        let found = self.asking.ask(list).await.map_err(of_container(&input.container_id))?;
        let snapshots: Vec<Value> = found
            .checkpoints
            .into_iter()
            .map(|one| {
                let size_mb = one.bytes.map(|bytes| bytes as f64 / MEBIBYTE);
                let id = Snapshot { cell: one.cell, checkpoint: one.id }.id();
                json!({ "snapshot_id": id, "created_at": one.created_at, "size_mb": size_mb })
            })
            .collect();
        Ok(answer(&json!({ "snapshots": snapshots })))
    }

    pub(super) async fn delete_snapshot(&self, input: inputs::OfSnapshot) -> Answered {
        let Snapshot { cell, checkpoint } = Snapshot::find(&input.snapshot_id)?;
        let delete = CheckpointDelete { cell: CellRef::Id(cell), checkpoint };
        self.asking.ask(delete).await.map_err(of_snapshot(&input.snapshot_id))?;
        Ok(answer(&json!({ "status": "deleted", "snapshot_id": input.snapshot_id })))
    }

    pub(super) async fn spawn_from_snapshot(&self, input: inputs::SpawnFromSnapshot) -> Answered {
        let inputs::SpawnFromSnapshot { snapshot_id, persistent, alias, ttl_s, idempotency_key } =
            input;
        let Snapshot { cell, checkpoint } = Snapshot::find(&snapshot_id)?;
        let fork = CellFork {
            cell: CellRef::Id(cell),
            checkpoint: Some(checkpoint),
            alias: alias.as_deref().map(str::parse).transpose()?,
            count: 1,
            keep: Some(if persistent { Keep::Always } else { Keep::Ttl }),
            ttl_s: ttl_s.filter(|_| !persistent),
            idempotency_key,
        };
        let made = self.asking.ask(fork).await.map_err(of_snapshot(&snapshot_id))?.cells;
        let cell = made.first().ok_or_else(|| Error::internal("no container was made"))?;
        Ok(answer(&spawned(cell)))
    }
}

fn spawned(cell: &Cell) -> Value {
    json!({ "container_id": cell.id, "alias": cell.alias, "status": status(cell.state) })
}

const RUNNING: &str = "running";

fn status(state: CellState) -> &'static str {
    match state {
        CellState::Starting => "creating",
        // One that sleeps is awake by the time that it is used.
        CellState::Ready | CellState::Asleep => RUNNING,
        CellState::Stopped => "stopped",
        CellState::Unavailable => "error",
    }
}

fn listed(cell: &Cell, last_used: Timestamp) -> Value {
    let status = status(cell.state);
    let docker_id = (cell.driver == "docker").then(|| format!("hotcell-{}", cell.id));
    json!({
        "id": cell.id,
        "container_id": cell.id,
        "docker_id": docker_id,
        "alias": cell.alias,
        "image": cell.image,
        "status": status,
        "persistent": cell.persistent,
        "created_at": cell.created_at,
        "last_seen": last_used,
        "expires_at": cell.expires_at,
    })
}
