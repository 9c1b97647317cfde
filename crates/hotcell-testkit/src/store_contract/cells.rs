//! Cells: identity, aliases, ends.

use anyhow::{Result, ensure};
use hotcell_model::{ErrorCode, KeyScope, Tenant, Tenants, Timestamp};
use tokio::task::JoinSet;

use super::{StorePlace, failure};
use crate::sample;

pub(super) async fn a_cell_comes_back_as_it_was_put(place: &StorePlace) -> Result<()> {
    let mut put = sample::named_cell(1, &"work".parse()?);
    put.isolation = Some(sample::isolation());
    place.open()?.insert_cell(&put).await?;
    let other = place.open()?;
    ensure!(other.find_cell(&put.spec.id).await?.as_ref() == Some(&put));
    ensure!(other.find_alias(&Tenant::default(), &"work".parse()?).await?.as_ref() == Some(&put));
    ensure!(other.list_cells(&Tenants::All).await? == [put]);
    Ok(())
}

pub(super) async fn an_unknown_cell_is_not_there(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let unknown = sample::cell(1).spec.id;
    ensure!(store.find_cell(&unknown).await?.is_none());
    ensure!(store.find_alias(&Tenant::default(), &"work".parse()?).await?.is_none());
    ensure!(store.list_cells(&Tenants::All).await?.is_empty());
    ensure!(store.indexed_bytes(&unknown).await? == 0);
    store.end_cell(&unknown, sample::EPOCH).await?;
    store.delete_cell(&unknown).await?;
    let refused = store.set_isolation(&unknown, &sample::isolation()).await;
    ensure!(failure(refused)? == ErrorCode::NotFound);
    ensure!(store.find_cell(&unknown).await?.is_none());
    Ok(())
}

pub(super) async fn an_id_is_given_once(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let first = sample::cell(1);
    ensure!(store.count_cells(&Tenants::All).await? == 0);
    store.insert_cell(&first).await?;
    ensure!(store.count_cells(&Tenants::All).await? == 1);
    let mut second = sample::named_cell(1, &"other".parse()?);
    second.spec.image = "another".to_owned();
    ensure!(failure(store.insert_cell(&second).await)? == ErrorCode::Conflict);
    store.end_cell(&first.spec.id, sample::EPOCH).await?;
    ensure!(failure(store.insert_cell(&second).await)? == ErrorCode::Conflict);
    ensure!(store.list_cells(&Tenants::All).await?.len() == 1);
    ensure!(store.count_cells(&Tenants::All).await? == 0, "one that has ended does not count");
    Ok(())
}

pub(super) async fn an_alias_belongs_to_one_cell_until_it_ends(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let alias = "work".parse()?;
    let (first, second) = (sample::named_cell(1, &alias), sample::named_cell(2, &alias));
    store.insert_cell(&first).await?;
    let error = store.insert_cell(&second).await.err();
    let message = error.as_ref().map(|e| e.message.clone()).unwrap_or_default();
    ensure!(message.contains("work") && message.contains(first.spec.id.as_str()), "{message}");
    ensure!(error.map(|e| e.code) == Some(ErrorCode::Conflict));
    ensure!(store.find_cell(&second.spec.id).await?.is_none());

    store.end_cell(&first.spec.id, sample::EPOCH).await?;
    ensure!(store.find_alias(&Tenant::default(), &alias).await?.is_none());
    store.insert_cell(&second).await?;
    ensure!(store.find_alias(&Tenant::default(), &alias).await? == Some(second));
    // Case tells aliases apart.
    store.insert_cell(&sample::named_cell(3, &"Work".parse()?)).await?;
    Ok(())
}

pub(super) async fn an_ended_cell_takes_no_alias(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let alias = "work".parse()?;
    let living = sample::named_cell(1, &alias);
    let mut ended = sample::named_cell(2, &alias);
    ended.ended_at = Some(sample::EPOCH);
    store.insert_cell(&living).await?;
    store.insert_cell(&ended).await?;
    ensure!(store.find_alias(&Tenant::default(), &alias).await? == Some(living));
    ensure!(store.find_cell(&ended.spec.id).await? == Some(ended));
    Ok(())
}

pub(super) async fn of_many_only_one_gets_an_alias(place: &StorePlace) -> Result<()> {
    let alias = "work".parse()?;
    let mut tries = JoinSet::new();
    for number in 0..20 {
        let (store, cell) = (place.open()?, sample::named_cell(number, &alias));
        tries.spawn(async move { store.insert_cell(&cell).await });
    }
    let outcomes = tries.join_all().await;
    ensure!(outcomes.iter().filter(|outcome| outcome.is_ok()).count() == 1);
    for refused in outcomes.into_iter().filter(Result::is_err) {
        ensure!(failure(refused)? == ErrorCode::Conflict);
    }
    ensure!(place.open()?.list_cells(&Tenants::All).await?.len() == 1);
    Ok(())
}

pub(super) async fn the_first_end_counts(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = sample::cell(1);
    store.insert_cell(&cell).await?;
    store.end_cell(&cell.spec.id, Timestamp(5)).await?;
    store.end_cell(&cell.spec.id, Timestamp(9)).await?;
    let found = store.find_cell(&cell.spec.id).await?;
    ensure!(found.and_then(|cell| cell.ended_at) == Some(Timestamp(5)));
    Ok(())
}

pub(super) async fn isolation_is_recorded(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = sample::cell(1);
    store.insert_cell(&cell).await?;
    store.set_isolation(&cell.spec.id, &sample::isolation()).await?;
    let found = place.open()?.find_cell(&cell.spec.id).await?;
    ensure!(found.and_then(|cell| cell.isolation) == Some(sample::isolation()));
    Ok(())
}

pub(super) async fn cells_are_listed_newest_first(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    for number in [2, 1, 4, 3] {
        store.insert_cell(&sample::cell(number)).await?;
    }
    store.end_cell(&sample::cell(3).spec.id, sample::EPOCH).await?;
    let listed: Vec<_> =
        store.list_cells(&Tenants::All).await?.into_iter().map(|cell| cell.spec).collect();
    ensure!(listed == [4, 3, 2, 1].map(sample::cell_spec));
    Ok(())
}

pub(super) async fn a_deleted_cell_takes_its_execs_and_keys_with_it(
    place: &StorePlace,
) -> Result<()> {
    let store = place.open()?;
    let (gone, kept) = (sample::cell(1).spec.id, sample::cell(2).spec.id);
    let later = Timestamp::now().plus_seconds(3600);
    for (number, cell) in [(1, &gone), (2, &kept)] {
        store.insert_cell(&sample::cell(number)).await?;
        store.put_execs(cell, &[sample::exec(cell, number)], 10).await?;
        store.claim_key(&KeyScope::Run(cell.clone()), "key", "value", 0, later).await?;
    }
    store.delete_cell(&gone).await?;
    store.delete_cell(&gone).await?;
    ensure!(store.find_cell(&gone).await?.is_none());
    ensure!(store.find_exec(&sample::exec(&gone, 1).id).await?.is_none());
    ensure!(store.indexed_bytes(&gone).await? == 0);
    ensure!(store.find_exec(&sample::exec(&kept, 2).id).await?.is_some());
    ensure!(store.indexed_bytes(&kept).await? == 10);
    // The id may be brought back by a rebuild, and is a new cell then.
    store.insert_cell(&sample::cell(1)).await?;
    ensure!(store.indexed_bytes(&gone).await? == 0);
    let claim = store.claim_key(&KeyScope::Run(gone), "key", "other", 0, later).await?;
    ensure!(claim == hotcell_model::Claim::New);
    Ok(())
}

pub(super) async fn a_new_index_is_to_be_rebuilt_until_it_was(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    ensure!(store.needs_rebuild().await?);
    ensure!(place.open()?.needs_rebuild().await?, "asking is not doing");
    store.mark_rebuilt().await?;
    store.mark_rebuilt().await?;
    ensure!(!store.needs_rebuild().await?);
    ensure!(!place.open()?.needs_rebuild().await?);
    Ok(())
}

pub(super) async fn names_and_lists_are_each_tenants_own(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let alias = "work".parse()?;
    let (a, b): (Tenant, Tenant) = ("a".parse()?, "b".parse()?);
    let (of_a, of_b) = (Tenants::Of(a.clone()), Tenants::Of(b.clone()));
    let cell = |number, tenant: &Tenant| {
        let mut cell = sample::named_cell(number, &alias);
        cell.spec.tenant = tenant.clone();
        cell
    };
    let (first, second) = (cell(1, &a), cell(2, &b));
    store.insert_cell(&first).await?;
    ensure!(store.find_alias(&b, &alias).await?.is_none());
    store.insert_cell(&second).await?;
    ensure!(failure(store.insert_cell(&cell(3, &a)).await)? == ErrorCode::Conflict);
    ensure!(store.find_alias(&a, &alias).await? == Some(first.clone()));
    ensure!(store.find_alias(&b, &alias).await? == Some(second.clone()));
    ensure!(store.find_alias(&Tenant::default(), &alias).await?.is_none());

    let id = &first.spec.id;
    ensure!(store.find_cell_among(&of_a, id).await? == Some(first.clone()));
    ensure!(store.find_cell_among(&Tenants::All, id).await? == Some(first.clone()));
    ensure!(store.find_cell_among(&of_b, id).await?.is_none());
    ensure!(store.list_cells(&of_b).await? == std::slice::from_ref(&second));
    ensure!(store.list_cells(&Tenants::All).await? == [second, first.clone()]);
    ensure!(store.count_cells(&of_a).await? == 1 && store.count_cells(&of_b).await? == 1);
    store.end_cell(id, sample::EPOCH).await?;
    ensure!(store.count_cells(&of_a).await? == 0 && store.count_cells(&of_b).await? == 1);
    ensure!(store.find_cell_among(&of_a, id).await?.is_some(), "one that has ended is still a's");
    Ok(())
}
