//! What cells may reach over the network, and what they did there.

use hotcell_model::{
    CellSpec, CellState, Driver, Error, NetChange, NetLog, NetRecords, NetRule, NetShow, Network,
    NetworkState, Networks, Result, StoredCell,
};

use crate::settings::AllowedNames;
use crate::site::Site;

/// The most records that are told at once.
const MOST_RECORDS: u32 = 100_000;

/// Shows what a cell may reach.
pub(crate) async fn net_show(site: &Site, request: NetShow) -> Result<NetworkState> {
    let cell = site.get_cell(&request.cell).await?;
    let networks = networks(&**site.driver(&cell.spec.driver)?)?;
    let network = networks.in_force(&cell.spec).await?;
    let stats = networks.stats(&cell.spec.id).await?;
    Ok(NetworkState { cell: cell.spec.id, network, stats })
}

/// Changes it. All of it is changed, or nothing.
pub(crate) async fn net_change(site: &Site, request: NetChange) -> Result<NetworkState> {
    if let AllowedNames::Only(_) = site.settings.names {
        return Err(Error::denied("only the operator changes what a cell may reach")
            .hint("use `hotcell net allow` and `hotcell net deny` at a terminal"));
    }
    let cell = site.get_cell(&request.cell).await?;
    let _lock = site.store.lock_cell(&cell.spec.id).await?;
    let networks = networks(&**site.driver(&cell.spec.driver)?)?;
    let mut rules = networks.in_force(&cell.spec).await?.rules();
    for rule in request.deny {
        rules.deny(rule)?;
    }
    for rule in request.allow {
        rules.allow(rule)?;
    }
    let network = Network::from(rules);
    networks.enforce(&cell.spec, &network).await?;
    let stats = networks.stats(&cell.spec.id).await?;
    Ok(NetworkState { cell: cell.spec.id, network, stats })
}

/// Tells what a cell did, also one that has ended, as long as its records are kept.
pub(crate) async fn net_log(site: &Site, request: NetLog) -> Result<NetRecords> {
    if request.limit > MOST_RECORDS {
        let range = format!("at most {MOST_RECORDS}");
        return Err(Error::argument("limit", range, request.limit));
    }
    let cell = site.get_cell_or_ended(&request.cell).await?;
    let networks = networks(&**site.driver(&cell.spec.driver)?)?;
    let records = networks.log(&site.records(&cell.spec.id), request.limit).await?;
    Ok(NetRecords { cell: cell.spec.id, records })
}

impl Site {
    /// The network that a new cell is to have, if the operator allows it.
    pub(crate) fn allowed_network(&self, asked: &Network, driver: &dyn Driver) -> Result<Network> {
        let Network::Names(rules) = asked else { return Ok(Network::None) };
        rules.check_size()?;
        networks(driver)?;
        match &self.settings.names {
            AllowedNames::Any => Ok(asked.clone()),
            AllowedNames::Only(allowed) => {
                match rules.allow.iter().find(|rule| !allowed.cover(rule)) {
                    None => Ok(asked.clone()),
                    Some(rule) => Err(not_allowed(rule, &Network::from(allowed.clone()))),
                }
            }
        }
    }

    /// What a cell may reach now.
    pub(crate) async fn network_in_force(&self, cell: &StoredCell) -> Result<Network> {
        match self.driver(&cell.spec.driver)?.networks() {
            Some(networks) => networks.in_force(&cell.spec).await,
            None => Ok(cell.spec.network.clone()),
        }
    }

    /// A cell as it was spawned, with what it may reach now.
    pub(crate) async fn with_network_in_force(&self, cell: &StoredCell) -> CellSpec {
        match self.network_in_force(cell).await {
            Ok(network) => CellSpec { network, ..cell.spec.clone() },
            Err(error) => {
                tracing::warn!(cell = %cell.spec.id, %error, "what a cell may reach is not known");
                cell.spec.clone()
            }
        }
    }

    /// What a cell used of the network, where it has one and is awake.
    pub(crate) async fn network_stats(
        &self,
        spec: &CellSpec,
        state: CellState,
    ) -> Option<hotcell_model::NetworkStats> {
        if state != CellState::Ready || spec.network == Network::None {
            return None;
        }
        let networks = self.driver(&spec.driver).ok()?.networks()?;
        networks.stats(&spec.id).await.ok().flatten()
    }
}

pub(crate) fn networks(driver: &dyn Driver) -> Result<&dyn Networks> {
    driver.networks().ok_or_else(|| {
        Error::unsupported(format!("cells of the driver {} cannot have a network", driver.name()))
            .hint("use a cell of the native driver")
    })
}

fn not_allowed(rule: &NetRule, allowed: &Network) -> Error {
    let refused = Error::denied(format!("a cell may not reach {rule} over the network"));
    match allowed {
        Network::None => refused.hint(
            "the operator allows names with `hotcell serve --allow NAME` or the setting serve.allow",
        ),
        Network::Names(_) => {
            refused.hint(format!("the operator allows {allowed} (--allow, serve.allow)"))
        }
    }
}
