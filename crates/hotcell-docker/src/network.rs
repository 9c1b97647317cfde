//! What cells in containers may reach over the network.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use hotcell_egress::{has_records, used_today};
use hotcell_keeper::{carrier_stats, network_log, network_log_after};
use hotcell_model::{
    CellId, CellSpec, Error, LentSecret, NetCursor, NetRecord, NetTail, Network, NetworkStats,
    Networks, Result,
};
use hotcell_place::{connect_in, save_json};

use crate::driver::{DockerDriver, at};
use crate::keeper::KeeperAsk;
use crate::keeping::Keeping;
use crate::paths::{CellPaths, LINK_SOCKET};
use crate::remote::Begun;

#[async_trait]
impl Networks for DockerDriver {
    async fn in_force(&self, spec: &CellSpec) -> Result<Network> {
        let paths = self.cell_paths(&spec.id);
        let spawned = spec.network.clone();
        blocking(move || {
            paths.kept().in_force(&spawned).map_err(|error| at("read", &paths, &error))
        })
        .await
    }

    async fn enforce(&self, spec: &CellSpec, network: &Network) -> Result<()> {
        let (paths, cell) = (self.cell_paths(&spec.id), spec.id.clone());
        self.find_keeper(&paths, Some(network)).await?;
        let (keeping, network) = (self.keeping().clone(), network.clone());
        blocking(move || enforce(&keeping, &paths, &cell, &network)).await
    }

    async fn log(&self, records: &Path, limit: u32) -> Result<Vec<NetRecord>> {
        let records = records.to_owned();
        blocking(move || network_log(&records, limit)).await
    }

    fn has_log(&self, records: &Path) -> bool {
        has_records(records)
    }

    async fn log_after(&self, records: &Path, cursor: &NetCursor) -> Result<NetTail> {
        let (records, cursor) = (records.to_owned(), *cursor);
        blocking(move || network_log_after(&records, &cursor)).await
    }

    async fn stats(&self, cell: &CellId) -> Result<Option<NetworkStats>> {
        let paths = self.cell_paths(cell);
        blocking(move || Ok(carrier_stats(paths.kept()))).await
    }

    async fn used_today(&self, records: &Path) -> Result<u64> {
        let records = records.to_owned();
        blocking(move || Ok(used_today(&records))).await
    }

    async fn lend(&self, cell: &CellId, secrets: Vec<LentSecret>) -> Result<()> {
        let paths = self.cell_paths(cell);
        self.find_keeper(&paths, None).await?;
        self.ask_keeper(paths, KeeperAsk::Lend(secrets)).await
    }
}

impl DockerDriver {
    /// Sees to it that the keeper of a cell at another machine can be asked, and that a network can be
    /// had there. What it cannot be told now it would not obey.
    async fn find_keeper(&self, paths: &CellPaths, network: Option<&Network>) -> Result<()> {
        let begun = Begun::find(paths).map_err(|error| at("read", paths, &error))?;
        let Some(begun) = begun else { return Ok(()) };
        if let Some(network) = network {
            self.check_carries(paths, &begun, network)?;
        }
        self.connect_there(paths).await.map(drop)
    }
}

/// Written down first: whatever carries connections from then on obeys it.
fn enforce(keeping: &Keeping, paths: &CellPaths, cell: &CellId, network: &Network) -> Result<()> {
    let failed = |error: io::Error| at("change the network of", paths, &error);
    if !paths.placed().exists() {
        return Err(Error::not_found(format!("there is no cell {cell} here")));
    }
    save_json(&paths.kept().network(), network).map_err(failed)?;
    if connect_in(paths.root(), LINK_SOCKET).map_err(failed)?.is_none() {
        // Nothing runs in it. It obeys when it wakes.
        if Begun::find(paths).map_err(failed)?.is_none() {
            return Ok(());
        }
        return Err(Error::unavailable(format!(
            "the cell {cell} could not be told just now what it may reach"
        ))
        .hint("it is written down, and obeyed as soon as its engine can be reached; try again"));
    }
    // The keeper tells the carrier what is written down. One that is not there allows nothing, and
    // one that comes begins with that.
    keeping.ask(paths, &KeeperAsk::Network).map_err(failed)?
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::internal(format!("the docker driver failed: {error}")))?
}
