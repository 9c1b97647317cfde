//! What cells may reach, where the driver says that they may reach anything.

use anyhow::{Context as _, Result, ensure};
use hotcell_model::{NameRules, NetVerdict, Network, Networks};

use super::DriverPlace;
use super::guest::Guest;

fn only(name: &str) -> Result<Network> {
    Ok(Network::Names(NameRules { allow: vec![name.parse()?], deny: Vec::new() }))
}

fn networks(guest: &Guest) -> Result<&dyn Networks> {
    guest.driver.networks().context("the driver has no networks any more")
}

/// Whether a name has an address in a cell. Nobody outside is asked for that.
async fn is_there(guest: &Guest, name: &str) -> Result<bool> {
    let told = guest.output_of(&format!("getent hosts {name} || echo not there")).await?;
    Ok(told.starts_with("127."))
}

async fn is_denied_in_log(guest: &Guest, name: &str) -> Result<bool> {
    let log = networks(guest)?.log(&guest.records, 100).await?;
    Ok(log.iter().any(|it| it.verdict == NetVerdict::Denied && it.name == name))
}

pub(super) async fn what_is_allowed_is_there_until_it_is_not(place: &DriverPlace) -> Result<()> {
    if place.open()?.networks().is_none() {
        return Ok(());
    }
    let first = only("first.test")?;
    let mut guest = Guest::start_with(place, |spec| spec.network = first.clone()).await?;
    ensure!(networks(&guest)?.in_force(&guest.spec).await? == first, "other rules are in force");
    ensure!(is_there(&guest, "first.test").await?, "what is allowed is not there");
    ensure!(!is_there(&guest, "second.test").await?, "what is not allowed is there");
    ensure!(is_denied_in_log(&guest, "second.test").await?, "a refusal is not in the log");
    ensure!(!is_denied_in_log(&guest, "first.test").await?, "a refusal is made up");
    networks(&guest)?.enforce(&guest.spec, &only("second.test")?).await?;
    ensure!(!is_there(&guest, "first.test").await?, "what is denied is there");
    ensure!(is_there(&guest, "second.test").await?, "what was allowed later is not there");
    ensure!(networks(&guest)?.stats(&guest.spec.id).await?.is_some(), "nothing carries");
    // It stays so in the next life of the cell.
    guest.driver.stop(&guest.spec.id).await?;
    guest.wake().await?;
    ensure!(!is_there(&guest, "first.test").await?, "what is denied is there again");
    ensure!(is_there(&guest, "second.test").await?, "what is allowed is not there any more");
    networks(&guest)?.enforce(&guest.spec, &Network::None).await?;
    ensure!(!is_there(&guest, "second.test").await?, "something is there without a network");
    Ok(())
}

pub(super) async fn a_cell_without_a_network_gets_one(place: &DriverPlace) -> Result<()> {
    if place.open()?.networks().is_none() {
        return Ok(());
    }
    let guest = Guest::start(place).await?;
    ensure!(!is_there(&guest, "late.test").await?, "something is there without a network");
    networks(&guest)?.enforce(&guest.spec, &only("*.test")?).await?;
    ensure!(is_there(&guest, "late.test").await?, "what was allowed is not there");
    Ok(())
}
