//! What is kept of ended cells, cells that are made ahead of need, and clients of cells.

use anyhow::{Result, ensure};
use hotcell_model::{
    ATTACHMENTS, Attachment, ErrorCode, Keep, StoredCell, Tenant, Tenants, Timestamp,
};
use tokio::task::JoinSet;

use super::{StorePlace, failure};
use crate::sample;

pub(super) async fn a_cell_that_is_kept_has_ended_and_comes_back(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let alias = "work".parse()?;
    let (first, second) = (sample::named_cell(1, &alias), sample::named_cell(2, &alias));
    let id = &first.spec.id;
    ensure!(failure(store.restore_cell(id).await)? == ErrorCode::NotFound);
    store.insert_cell(&first).await?;
    ensure!(failure(store.restore_cell(id).await)? == ErrorCode::NotFound, "it has not ended");
    store.keep_cell(id, Timestamp(5)).await?;
    store.keep_cell(id, Timestamp(9)).await?;
    let kept = StoredCell { ended_at: Some(Timestamp(5)), kept: true, ..first.clone() };
    ensure!(place.open()?.find_cell(id).await? == Some(kept));
    ensure!(store.count_cells(&Tenants::All).await? == 0);

    store.insert_cell(&second).await?;
    ensure!(failure(store.restore_cell(id).await)? == ErrorCode::Conflict);
    store.end_cell(&second.spec.id, sample::EPOCH).await?;
    store.restore_cell(id).await?;
    ensure!(store.find_alias(&Tenant::default(), &alias).await? == Some(first.clone()));

    store.keep_cell(id, Timestamp(7)).await?;
    store.end_cell(id, Timestamp(9)).await?;
    let gone = StoredCell { ended_at: Some(Timestamp(9)), kept: false, ..first.clone() };
    ensure!(store.find_cell(id).await? == Some(gone));
    ensure!(failure(store.restore_cell(id).await)? == ErrorCode::NotFound);
    Ok(())
}

fn pooled(number: u64) -> StoredCell {
    let mut cell = sample::cell(number);
    cell.spec.keep = Keep::Pool;
    cell
}

pub(super) async fn a_cell_is_given_out_to_one(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let (cell, alias) = (pooled(1), "work".parse()?);
    let (tenant, shape) = (Tenant::default(), cell.spec.shape());
    store.insert_cell(&cell).await?;
    store.insert_cell(&sample::cell(2)).await?;
    ensure!(store.list_pooled(&tenant, &shape).await? == std::slice::from_ref(&cell));
    ensure!(store.list_pooled(&"other".parse()?, &shape).await?.is_empty());
    ensure!(store.list_pooled(&tenant, "another shape").await?.is_empty());

    let mut given = cell.clone();
    given.spec.keep = Keep::Always;
    given.spec.alias = Some(alias);
    let mut assigning = JoinSet::new();
    for _ in 0..8 {
        let (store, given) = (place.open()?, given.clone());
        assigning.spawn(async move { store.assign_cell(&given).await });
    }
    let done = assigning.join_all().await;
    ensure!(done.iter().filter(|done| done.is_ok()).count() == 1, "{done:?}");
    ensure!(done.into_iter().flat_map(Result::err).all(|it| it.code == ErrorCode::NotFound));
    ensure!(store.find_cell(&cell.spec.id).await? == Some(given.clone()));
    ensure!(store.list_pooled(&tenant, &shape).await?.is_empty());

    // An alias that is taken leaves the next one where it is.
    let next = pooled(3);
    store.insert_cell(&next).await?;
    let mut second = next.clone();
    second.spec.alias = given.spec.alias;
    ensure!(failure(store.assign_cell(&second).await)? == ErrorCode::Conflict);
    ensure!(store.list_pooled(&tenant, &shape).await? == std::slice::from_ref(&next));
    store.end_cell(&next.spec.id, sample::EPOCH).await?;
    ensure!(store.list_pooled(&tenant, &shape).await?.is_empty());
    Ok(())
}

fn client(name: &str, seen: u64) -> Attachment {
    Attachment {
        principal: "local:1000".to_owned(),
        client_name: name.to_owned(),
        session_id: String::new(),
        attached_at: Timestamp(seen),
        last_seen: Timestamp(seen),
    }
}

pub(super) async fn clients_are_remembered_and_forgotten(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = sample::cell(1);
    let id = &cell.spec.id;
    ensure!(failure(store.attach(id, &client("a", 1)).await)? == ErrorCode::NotFound);
    store.insert_cell(&cell).await?;
    store.attach(id, &client("a", 1)).await?;
    store.attach(id, &client("b", 2)).await?;
    store.attach(id, &client("a", 3)).await?;
    let seen_again = Attachment { attached_at: Timestamp(1), ..client("a", 3) };
    ensure!(place.open()?.list_attachments(id).await? == [seen_again.clone(), client("b", 2)]);
    ensure!(store.forget_attachments(Timestamp(3), true).await? == 1);
    ensure!(store.forget_attachments(Timestamp(3), false).await? == 1);
    ensure!(store.list_attachments(id).await? == [seen_again]);

    for number in 0..(ATTACHMENTS as u64 + 5) {
        store.attach(id, &client(&format!("c{number}"), 10 + number)).await?;
    }
    let kept = store.list_attachments(id).await?;
    ensure!(kept.len() == ATTACHMENTS && kept.iter().all(|it| it.client_name != "a"));
    store.delete_cell(id).await?;
    ensure!(store.list_attachments(id).await?.is_empty());
    Ok(())
}
