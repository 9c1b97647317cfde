//! Cells without a root of their own say so, instead of doing something else.

use anyhow::{Context as _, Result, ensure};
use hotcell_link::{Ask, Stillness};
use hotcell_model::{
    CheckpointId, CheckpointMeans, CheckpointPurpose, ErrorCode, IsolationLevel, NameRules, Network,
};

use super::guest::{Guest, random, spec};
use super::{DriverPlace, refusal};

pub(super) async fn what_needs_an_own_root_is_refused(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    ensure!(guest.isolation.level == IsolationLevel::Process, "{:?}", guest.isolation);
    for stillness in [Stillness::Empty, Stillness::Frozen] {
        let told = refusal(guest.ask(&Ask::Pause(stillness), &[]).await)?;
        ensure!(told == ErrorCode::Unsupported, "a pause is refused as {told}");
    }
    let told = refusal(guest.link.dial(9).await)?;
    ensure!(told == ErrorCode::Unsupported, "a port is refused as {told}");
    if let Some(checkpointer) = guest.driver.checkpointer() {
        let id = CheckpointId::from_random(random());
        let made = checkpointer
            .create(&guest.spec.id, &id, CheckpointMeans::Stacked, CheckpointPurpose::Keeping)
            .await;
        let told = refusal(made)?;
        ensure!(told == ErrorCode::Unsupported, "a checkpoint is refused as {told}");
    }
    let network = Network::Names(NameRules::default());
    if let Some(networks) = guest.driver.networks() {
        let told = refusal(networks.enforce(&guest.spec, &network).await)?;
        ensure!(told == ErrorCode::Unsupported, "an allowed name is refused as {told}");
    }
    let mut with_network = spec(guest.driver.as_ref());
    with_network.network = network;
    let records = place.records().join(with_network.id.as_str());
    std::fs::create_dir_all(&records).context("make the records directory")?;
    let told = refusal(guest.driver.start(&with_network, &records, None).await)?;
    ensure!(told == ErrorCode::Unsupported, "a cell with a network is refused as {told}");
    Ok(())
}
