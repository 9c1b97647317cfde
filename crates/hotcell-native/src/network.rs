//! What cells may reach over the network, as the driver sees it.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use hotcell_egress::{has_records, used_today};
use hotcell_keeper::{ask_patiently, carrier_stats, network_log, network_log_after};
use hotcell_model::{
    CellId, CellSpec, Error, LentSecret, NetCursor, NetRecord, NetTail, Network, NetworkStats,
    Networks, Result,
};
use hotcell_place::save_json;

use crate::description::unreadable;
use crate::driver::{Native, NativeDriver, at};
use crate::keeper_socket::KeeperAsk;
use crate::on_host::no_network;
use crate::order::Outcome;
use crate::paths::CellPaths;
use crate::way::Way;

#[async_trait]
impl Networks for NativeDriver {
    async fn in_force(&self, spec: &CellSpec) -> Result<Network> {
        let spec = spec.clone();
        self.blocking(move |native| {
            let paths = native.paths.cell(&spec.id);
            paths.kept().in_force(&spec.network).map_err(|error| at("read", &paths, &error))
        })
        .await
    }

    async fn enforce(&self, spec: &CellSpec, network: &Network) -> Result<()> {
        let (cell, network) = (spec.id.clone(), network.clone());
        self.blocking(move |native| native.enforce(&cell, &network)).await
    }

    async fn log(&self, records: &Path, limit: u32) -> Result<Vec<NetRecord>> {
        let records = records.to_owned();
        self.blocking(move |_| network_log(&records, limit)).await
    }

    fn has_log(&self, records: &Path) -> bool {
        has_records(records)
    }

    async fn log_after(&self, records: &Path, cursor: &NetCursor) -> Result<NetTail> {
        let (records, cursor) = (records.to_owned(), *cursor);
        self.blocking(move |_| network_log_after(&records, &cursor)).await
    }

    async fn stats(&self, cell: &CellId) -> Result<Option<NetworkStats>> {
        let cell = cell.clone();
        self.blocking(move |native| Ok(carrier_stats(native.paths.cell(&cell).kept()))).await
    }

    async fn used_today(&self, records: &Path) -> Result<u64> {
        let records = records.to_owned();
        self.blocking(move |_| Ok(used_today(&records))).await
    }

    async fn lend(&self, cell: &CellId, secrets: Vec<LentSecret>) -> Result<()> {
        let cell = cell.clone();
        self.blocking(move |native| native.lend(&cell, secrets)).await
    }
}

impl Native {
    /// Hands values over. A keeper keeps them for the carriers that it starts.
    fn lend(&self, cell: &CellId, secrets: Vec<LentSecret>) -> Result<()> {
        let paths = self.paths.cell(cell);
        let failed = |error: io::Error| at("hand secrets to the keeper of", &paths, &error);
        match self.ask_patiently(&paths, &KeeperAsk::Lend(secrets)).map_err(failed)? {
            Outcome::Failed(error) => Err(error),
            Outcome::Done
            | Outcome::Ready(_)
            | Outcome::Probed(_)
            | Outcome::Unpacked(_)
            | Outcome::Compared { .. }
            | Outcome::Project(_) => Ok(()),
        }
    }

    /// Written down first: whatever carries connections from then on obeys it.
    fn enforce(&self, cell: &CellId, network: &Network) -> Result<()> {
        let paths = self.paths.cell(cell);
        let failed = |error: io::Error| at("change the network of", &paths, &error);
        let placed = paths.read_placed().map_err(|error| unreadable(&paths, &error))?;
        match (placed, network) {
            (None, _) => return Err(Error::not_found(format!("there is no cell {cell} here"))),
            (Some(placed), Network::Names(_)) if placed.way() == Way::OnHost => {
                return Err(no_network());
            }
            (Some(_), _) => {}
        }
        save_json(&paths.kept().network(), network).map_err(failed)?;
        if paths.connect().map_err(failed)?.is_none() {
            // Nothing runs in it. It obeys when it wakes.
            return Ok(());
        }
        match self.ask_patiently(&paths, &KeeperAsk::Network).map_err(failed)? {
            Outcome::Failed(error) => return Err(error),
            Outcome::Done
            | Outcome::Ready(_)
            | Outcome::Probed(_)
            | Outcome::Unpacked(_)
            | Outcome::Compared { .. }
            | Outcome::Project(_) => {}
        }
        // The keeper has told the carrier what is written down. One that is not there allows
        // nothing, and one that comes begins with that.
        Ok(())
    }
}

impl Native {
    fn ask_patiently(&self, paths: &CellPaths, ask: &KeeperAsk) -> io::Result<Outcome> {
        ask_patiently(paths.kept(), ask, || self.ensure_keeper(paths))
    }
}
