//! Idempotency keys.

use anyhow::{Result, ensure};
use hotcell_model::{Claim, KeyScope, Tenant, Timestamp};
use tokio::task::JoinSet;

use super::StorePlace;
use crate::sample;

fn later() -> Timestamp {
    Timestamp::now().plus_seconds(3600)
}

fn taken(value: &str, fingerprint: u64) -> Claim {
    Claim::Taken { value: value.to_owned(), fingerprint }
}

pub(super) async fn a_key_stands_for_what_claimed_it(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    // Fingerprints use all their bits, keys all of Unicode.
    let (fingerprint, key) = (u64::MAX - 1, "ключ \u{1F511} '\"\0");
    let claim = store
        .claim_key(&KeyScope::Spawn(Tenant::default()), key, "first", fingerprint, later())
        .await?;
    ensure!(claim == Claim::New);
    let again = place
        .open()?
        .claim_key(&KeyScope::Spawn(Tenant::default()), key, "second", 7, later())
        .await?;
    ensure!(again == taken("first", fingerprint), "{again:?}");
    let own = store
        .claim_key(&KeyScope::Spawn(Tenant::default()), key, "first", fingerprint, later())
        .await?;
    ensure!(own == taken("first", fingerprint));
    Ok(())
}

pub(super) async fn scopes_are_apart(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = |number| KeyScope::Run(sample::cell(number).spec.id);
    for scope in
        [KeyScope::Spawn(Tenant::default()), KeyScope::Spawn("a".parse()?), cell(1), cell(2)]
    {
        ensure!(store.claim_key(&scope, "key", "value", 0, later()).await? == Claim::New);
    }
    ensure!(store.claim_key(&cell(1), "other", "value", 0, later()).await? == Claim::New);
    Ok(())
}

pub(super) async fn a_key_past_its_time_is_free(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let past = Timestamp(Timestamp::now().0 - 1);
    ensure!(
        store.claim_key(&KeyScope::Spawn(Tenant::default()), "key", "old", 1, past).await?
            == Claim::New
    );
    ensure!(
        store.claim_key(&KeyScope::Spawn(Tenant::default()), "key", "new", 2, later()).await?
            == Claim::New
    );
    let claim =
        store.claim_key(&KeyScope::Spawn(Tenant::default()), "key", "third", 3, later()).await?;
    ensure!(claim == taken("new", 2));
    Ok(())
}

pub(super) async fn only_its_own_value_releases_a_key(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let scope = KeyScope::Spawn(Tenant::default());
    store.claim_key(&scope, "key", "first", 0, later()).await?;
    store.release_key(&scope, "key", "second").await?;
    store.release_key(&KeyScope::Run(sample::cell(1).spec.id), "key", "first").await?;
    ensure!(store.claim_key(&scope, "key", "second", 0, later()).await? == taken("first", 0));
    store.release_key(&scope, "key", "first").await?;
    store.release_key(&scope, "key", "first").await?;
    ensure!(store.claim_key(&scope, "key", "second", 0, later()).await? == Claim::New);
    Ok(())
}

pub(super) async fn of_many_only_one_gets_a_key(place: &StorePlace) -> Result<()> {
    let mut tries = JoinSet::new();
    for number in 0..20_u64 {
        let store = place.open()?;
        tries.spawn(async move {
            let value = number.to_string();
            let claim = store
                .claim_key(&KeyScope::Spawn(Tenant::default()), "key", &value, number, later())
                .await;
            (value, claim)
        });
    }
    let mut winner = None;
    let mut seen = Vec::new();
    for (value, claim) in tries.join_all().await {
        match claim? {
            Claim::New => ensure!(winner.replace(value).is_none(), "two won"),
            Claim::Taken { value, .. } => seen.push(value),
        }
    }
    ensure!(seen.len() == 19 && seen.iter().all(|value| Some(value) == winner.as_ref()));
    Ok(())
}
