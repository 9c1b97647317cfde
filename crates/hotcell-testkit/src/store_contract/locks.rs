//! Locks on cells.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use hotcell_model::CellId;
use tokio::task::JoinSet;

use super::StorePlace;
use crate::sample;

fn id(number: u64) -> CellId {
    sample::cell(number).spec.id
}

/// Polls a wait so often that it has begun, and sees that it is not over.
async fn begin_to_wait<T>(wait: &mut (impl Future<Output = T> + Unpin)) -> Result<()> {
    for _ in 0..10 {
        tokio::select! {
            biased;
            _ = &mut *wait => anyhow::bail!("the lock was taken twice"),
            () = tokio::task::yield_now() => {}
        }
    }
    Ok(())
}

pub(super) async fn a_lock_excludes_until_it_is_dropped(place: &StorePlace) -> Result<()> {
    let (one, other) = (place.open()?, place.open()?);
    let held = one.lock_cell(&id(1)).await?;
    ensure!(other.try_lock_cell(&id(1)).await?.is_none());
    ensure!(one.try_lock_cell(&id(1)).await?.is_none(), "the same store is excluded too");
    drop(held);
    let held = other.try_lock_cell(&id(1)).await?;
    ensure!(held.is_some());
    ensure!(one.try_lock_cell(&id(1)).await?.is_none());
    Ok(())
}

pub(super) async fn locks_of_cells_are_apart(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let _first = store.lock_cell(&id(1)).await?;
    ensure!(store.try_lock_cell(&id(2)).await?.is_some());
    Ok(())
}

pub(super) async fn cells_are_admitted_one_at_a_time(place: &StorePlace) -> Result<()> {
    let (one, other) = (place.open()?, place.open()?);
    let held = one.lock_admission().await?;
    ensure!(other.try_lock_cell(&id(1)).await?.is_some(), "cells are locked apart from it");
    let mut wait = other.lock_admission();
    begin_to_wait(&mut wait).await?;
    drop(held);
    let _held = wait.await?;
    Ok(())
}

pub(super) async fn execs_of_a_tenant_are_admitted_one_at_a_time(place: &StorePlace) -> Result<()> {
    let (one, other) = (place.open()?, place.open()?);
    let (a, b) = ("a".parse()?, "b".parse()?);
    let held = one.lock_tenant(&a).await?;
    let _theirs = other.lock_tenant(&b).await?;
    let _admission = other.lock_admission().await?;
    let all = other.lock_execs().await?;
    let mut wait = other.lock_tenant(&a);
    begin_to_wait(&mut wait).await?;
    drop(held);
    let _held = wait.await?;
    let mut wait = one.lock_execs();
    begin_to_wait(&mut wait).await?;
    drop(all);
    let _all = wait.await?;
    Ok(())
}

pub(super) async fn a_waiter_gets_the_lock(place: &StorePlace) -> Result<()> {
    let (one, other) = (place.open()?, place.open()?);
    let cell = id(1);
    let held = one.lock_cell(&cell).await?;
    let mut wait = other.lock_cell(&cell);
    begin_to_wait(&mut wait).await?;
    drop(held);
    let _held = wait.await?;
    ensure!(one.try_lock_cell(&cell).await?.is_none());
    Ok(())
}

pub(super) async fn a_cancelled_wait_leaves_nothing_behind(place: &StorePlace) -> Result<()> {
    let (one, other) = (place.open()?, place.open()?);
    let cell = id(1);
    let held = one.lock_cell(&cell).await?;
    for _ in 0..5 {
        let mut wait = other.lock_cell(&cell);
        begin_to_wait(&mut wait).await?;
    }
    drop(held);
    // If a cancelled wait kept the lock, this would wait for ever.
    drop(one.lock_cell(&cell).await?);
    drop(other.lock_cell(&cell).await?);
    Ok(())
}

pub(super) async fn a_lock_survives_the_deletion_of_its_cell(place: &StorePlace) -> Result<()> {
    let (one, other) = (place.open()?, place.open()?);
    let cell = id(1);
    one.insert_cell(&sample::cell(1)).await?;
    let held = one.lock_cell(&cell).await?;
    let mut wait = other.lock_cell(&cell);
    begin_to_wait(&mut wait).await?;
    one.delete_cell(&cell).await?;
    ensure!(other.try_lock_cell(&cell).await?.is_none(), "the one who deletes still holds it");
    drop(held);
    let waited = wait.await?;
    ensure!(one.try_lock_cell(&cell).await?.is_none(), "the one who waited holds it");
    drop(waited);
    drop(one.lock_cell(&cell).await?);
    Ok(())
}

pub(super) async fn of_many_one_at_a_time_has_the_lock(place: &StorePlace) -> Result<()> {
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (store, inside) = (place.open()?, Arc::clone(&inside));
        tasks.spawn(async move {
            let held = store.lock_cell(&id(1)).await?;
            ensure!(inside.fetch_add(1, Ordering::SeqCst) == 0, "two inside");
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            inside.fetch_sub(1, Ordering::SeqCst);
            // What there is of the lock may go with the cell; the exclusion may not.
            store.delete_cell(&id(1)).await?;
            drop(held);
            Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect()
}
