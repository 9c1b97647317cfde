//! Calls that wait for a person's word.

use anyhow::{Context as _, Result, ensure};
use hotcell_model::{
    Approval, ApprovalAnswer, ApprovalId, ApprovalNeed, ApprovalVerdict, Asked, HeldCall, HeldId,
    Holding, Tenant, Tenants, Timestamp,
};
use tokio::task::JoinSet;

use super::StorePlace;

const MOST: u64 = 3;
const NOW: Timestamp = Timestamp(1_000_000);
const WITHIN_MS: u64 = 1000;

fn id(number: u64) -> HeldId {
    HeldId::from_random(number)
}

/// A call of a caller of `main`.
fn call(number: u64, caller: &str, digest: &str) -> HeldCall {
    let need = ApprovalNeed {
        rule: "rule".to_owned(),
        reason: "why".to_owned(),
        asked_by: caller.to_owned(),
        within_ms: WITHIN_MS,
        parts: Vec::new(),
        facts: Vec::new(),
    };
    let asked = Asked {
        id: ApprovalId::Held(id(number)),
        tenant: Tenant::default(),
        tool: "fs_write".to_owned(),
        cell: None,
        exec: None,
        what: "write '\u{1F511}'".to_owned(),
        asked_at: NOW,
        approval: Approval::pending(need, NOW),
        used_at: None,
    };
    HeldCall { asked, digest: digest.to_owned() }
}

fn answer(verdict: ApprovalVerdict, at: Timestamp) -> ApprovalAnswer {
    ApprovalAnswer { verdict, by: "somebody".to_owned(), at }
}

fn granted() -> ApprovalAnswer {
    answer(ApprovalVerdict::Granted, NOW.plus_millis(1))
}

pub(super) async fn the_same_call_is_held_once(place: &StorePlace) -> Result<()> {
    let (store, other) = (place.open()?, place.open()?);
    let first = call(1, "a", "x");
    ensure!(store.hold_call(&first, NOW, MOST).await? == Holding::New);
    let again = other.hold_call(&call(2, "a", "x"), NOW.plus_millis(9), MOST).await?;
    ensure!(again == Holding::Held(Box::new(first.clone())), "{again:?}");
    // Another caller, another request and another tenant are others.
    ensure!(other.hold_call(&call(3, "b", "x"), NOW, MOST).await? == Holding::New);
    ensure!(other.hold_call(&call(4, "a", "y"), NOW, MOST).await? == Holding::New);
    let mut theirs = call(5, "a", "x");
    theirs.asked.tenant = "theirs".parse()?;
    ensure!(other.hold_call(&theirs, NOW, MOST).await? == Holding::New);
    let listed = store.list_held(&Tenants::Of(Tenant::default()), NOW).await?;
    let ids: Vec<String> = listed.iter().map(|held| held.asked.id.to_string()).collect();
    ensure!(ids == [id(1), id(3), id(4)].map(|id| id.to_string()), "{ids:?}");
    ensure!(store.list_held(&Tenants::All, NOW).await?.len() == 4);
    let main = Tenants::Of(Tenant::default());
    ensure!(store.find_held(&main, &id(5)).await?.is_none());
    ensure!(store.find_held(&main, &id(1)).await? == Some(first));
    Ok(())
}

pub(super) async fn no_more_wait_than_may(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    for number in 0..MOST {
        let held = store.hold_call(&call(number, "a", &number.to_string()), NOW, MOST).await?;
        ensure!(held == Holding::New);
    }
    ensure!(store.hold_call(&call(9, "a", "9"), NOW, MOST).await? == Holding::Full(MOST));
    // One that is held is found all the same, and one that was answered makes room.
    let again = store.hold_call(&call(9, "a", "0"), NOW, MOST).await?;
    ensure!(matches!(again, Holding::Held(_)), "{again:?}");
    ensure!(store.answer_held(&id(0), &answer(ApprovalVerdict::Refused, NOW)).await?);
    ensure!(store.hold_call(&call(9, "a", "9"), NOW, MOST).await? == Holding::New);
    Ok(())
}

pub(super) async fn an_answer_is_given_once_and_in_time(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    store.hold_call(&call(1, "a", "x"), NOW, MOST).await?;
    ensure!(!store.answer_held(&id(7), &granted()).await?, "one that is not there");
    ensure!(store.answer_held(&id(1), &granted()).await?);
    let refused = answer(ApprovalVerdict::Refused, NOW.plus_millis(2));
    ensure!(!store.answer_held(&id(1), &refused).await?, "a second answer");
    let found = store.find_held(&Tenants::All, &id(1)).await?.context("it is gone")?;
    ensure!(found.asked.approval.answer == Some(granted()), "{found:?}");
    store.hold_call(&call(2, "a", "y"), NOW, MOST).await?;
    let late = answer(ApprovalVerdict::Granted, NOW.plus_millis(WITHIN_MS));
    ensure!(!store.answer_held(&id(2), &late).await?, "an answer after the deadline");
    ensure!(!store.use_held(&id(2), NOW).await?);
    Ok(())
}

pub(super) async fn an_approval_is_used_once(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    store.hold_call(&call(1, "a", "x"), NOW, MOST).await?;
    ensure!(!store.use_held(&id(1), NOW).await?, "before it was given");
    ensure!(store.answer_held(&id(1), &granted()).await?);
    let mut users = JoinSet::new();
    for _ in 0..8 {
        let store = place.open()?;
        users.spawn(async move { store.use_held(&id(1), NOW.plus_millis(5)).await });
    }
    let mut used = 0;
    while let Some(user) = users.join_next().await {
        used += u32::from(user??);
    }
    ensure!(used == 1, "{used} used one approval");
    let found = store.find_held(&Tenants::All, &id(1)).await?.context("it is gone")?;
    ensure!(found.asked.used_at == Some(NOW.plus_millis(5)), "{found:?}");
    // What comes after it is another call.
    ensure!(store.hold_call(&call(2, "a", "x"), NOW, MOST).await? == Holding::New);
    store.hold_call(&call(3, "a", "y"), NOW, MOST).await?;
    ensure!(store.answer_held(&id(3), &granted()).await?);
    ensure!(!store.use_held(&id(3), NOW.plus_millis(WITHIN_MS)).await?, "after the deadline");
    Ok(())
}

pub(super) async fn what_nobody_answers_expires_once(place: &StorePlace) -> Result<()> {
    let (store, over) = (place.open()?, NOW.plus_millis(WITHIN_MS));
    store.hold_call(&call(1, "a", "x"), NOW, MOST).await?;
    ensure!(store.expire_held(Timestamp(over.0 - 1)).await?.is_empty(), "too early");
    let expired = place.open()?.expire_held(over).await?;
    ensure!(expired.len() == 1, "{expired:?}");
    let verdict = expired[0].asked.approval.answer.as_ref().map(|answer| answer.verdict);
    ensure!(verdict == Some(ApprovalVerdict::Expired), "{verdict:?}");
    ensure!(store.expire_held(over).await?.is_empty(), "twice");
    ensure!(!store.use_held(&id(1), NOW).await?);
    ensure!(store.list_held(&Tenants::All, over).await?.is_empty());
    // The same call asks anew.
    ensure!(store.hold_call(&call(2, "a", "x"), over, MOST).await? == Holding::New);
    // A day later nothing is left of the first.
    let later = over.plus_seconds(25 * 3600);
    store.hold_call(&call(3, "a", "z"), later, MOST).await?;
    ensure!(store.find_held(&Tenants::All, &id(1)).await?.is_none());
    Ok(())
}
