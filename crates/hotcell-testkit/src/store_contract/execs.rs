//! The index of execs.

use anyhow::{Result, bail, ensure};
use hotcell_model::{
    CellId, ErrorCode, Exec, ExecFilter, ExecId, ExecState, ExecStatusFilter, Store, Tenants,
    Timestamp,
};

use super::{StorePlace, failure};
use crate::sample;

const ALL: ExecFilter =
    ExecFilter { tenants: Tenants::All, cell: None, status: None, limit: 100, before: None };

async fn add_cell(store: &dyn Store, number: u64) -> Result<CellId> {
    let cell = sample::cell(number);
    store.insert_cell(&cell).await?;
    Ok(cell.spec.id)
}

async fn listed(store: &dyn Store, filter: &ExecFilter) -> Result<Vec<ExecId>> {
    Ok(store.list_execs(filter).await?.into_iter().map(|exec| exec.id).collect())
}

fn ids<const N: usize>(numbers: [u64; N]) -> [ExecId; N] {
    numbers.map(ExecId::from_random)
}

pub(super) async fn an_exec_comes_back_as_it_was_put(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = add_cell(&*store, 1).await?;
    let queued = Exec { state: ExecState::Queued, started_at: None, ..sample::exec(&cell, 1) };
    let running = sample::exec(&cell, 2);
    let ended = sample::ended(&sample::exec(&cell, 3));
    let all = [queued, running, ended];
    store.put_execs(&cell, &all, 1 << 40).await?;
    let other = place.open()?;
    for exec in &all {
        ensure!(other.find_exec(&exec.id).await?.as_ref() == Some(exec));
    }
    ensure!(other.indexed_bytes(&cell).await? == 1 << 40);
    ensure!(other.find_exec(&ExecId::from_random(4)).await?.is_none());
    Ok(())
}

pub(super) async fn an_exec_of_no_cell_is_refused(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = sample::cell(1).spec.id;
    let refused = store.put_execs(&cell, &[sample::exec(&cell, 1)], 10).await;
    ensure!(failure(refused)? == ErrorCode::NotFound);
    ensure!(store.list_execs(&ALL).await?.is_empty());
    Ok(())
}

pub(super) async fn a_later_reading_replaces_an_earlier_one(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = add_cell(&*store, 1).await?;
    let (first, second) = (sample::exec(&cell, 1), sample::exec(&cell, 2));
    store.put_execs(&cell, &[first.clone(), second.clone()], 10).await?;
    store.put_execs(&cell, &[sample::ended(&first)], 20).await?;
    ensure!(store.find_exec(&first.id).await? == Some(sample::ended(&first)));
    ensure!(store.find_exec(&second.id).await? == Some(second));
    ensure!(store.indexed_bytes(&cell).await? == 20);
    store.put_execs(&cell, &[], 30).await?;
    ensure!(store.indexed_bytes(&cell).await? == 30);
    Ok(())
}

pub(super) async fn a_late_reader_does_no_harm(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = add_cell(&*store, 1).await?;
    let exec = sample::exec(&cell, 1);
    let mut renewed = exec.clone();
    renewed.started_at = Some(Timestamp(1));
    store.put_execs(&cell, std::slice::from_ref(&renewed), 20).await?;
    store.put_execs(&cell, std::slice::from_ref(&exec), 10).await?;
    ensure!(store.find_exec(&exec.id).await? == Some(renewed), "less of the journal was read");
    ensure!(store.indexed_bytes(&cell).await? == 20);

    let ended = sample::ended(&exec);
    store.put_execs(&cell, std::slice::from_ref(&ended), 20).await?;
    for position in [20, 30, 0] {
        store.put_execs(&cell, std::slice::from_ref(&exec), position).await?;
        ensure!(store.find_exec(&exec.id).await?.as_ref() == Some(&ended), "the end is final");
    }
    Ok(())
}

pub(super) async fn the_position_can_be_set_back(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = add_cell(&*store, 1).await?;
    let ended = sample::ended(&sample::exec(&cell, 1));
    store.put_execs(&cell, std::slice::from_ref(&ended), 20).await?;
    store.put_execs(&cell, &[], 0).await?;
    ensure!(store.indexed_bytes(&cell).await? == 0);
    ensure!(store.find_exec(&ended.id).await? == Some(ended));
    store.put_execs(&cell, &[sample::exec(&cell, 2)], 5).await?;
    ensure!(store.indexed_bytes(&cell).await? == 5);
    Ok(())
}

pub(super) async fn execs_are_listed_newest_first(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = add_cell(&*store, 1).await?;
    let at = |number, millisecond| Exec {
        queued_at: Timestamp(sample::EPOCH.0 + millisecond),
        ..sample::exec(&cell, number)
    };
    // Ids tell nothing about age; within a millisecond the order of arrival does.
    store.put_execs(&cell, &[at(5, 1), at(9, 3), at(2, 3)], 10).await?;
    store.put_execs(&cell, &[at(7, 2), at(4, 3)], 20).await?;
    store.put_execs(&cell, &[sample::ended(&at(9, 3))], 30).await?;
    ensure!(listed(&*store, &ALL).await? == ids([4, 2, 9, 7, 5]));
    let two = ExecFilter { limit: 2, ..ALL };
    ensure!(listed(&*store, &two).await? == ids([4, 2]));
    ensure!(listed(&*store, &ExecFilter { limit: 0, ..ALL }).await?.is_empty());
    Ok(())
}

pub(super) async fn filters_choose_by_cell_and_status(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let (one, two) = (add_cell(&*store, 1).await?, add_cell(&*store, 2).await?);
    let of_one = [sample::ended(&sample::exec(&one, 1)), sample::exec(&one, 2)];
    let queued = Exec { state: ExecState::Queued, started_at: None, ..sample::exec(&two, 4) };
    let of_two = [sample::ended(&sample::exec(&two, 3)), queued];
    store.put_execs(&one, &of_one, 10).await?;
    store.put_execs(&two, &of_two, 10).await?;
    let (live, ended) = (Some(ExecStatusFilter::Live), Some(ExecStatusFilter::Ended));
    let filter = |cell: Option<&CellId>, status| ExecFilter {
        tenants: Tenants::All,
        cell: cell.cloned(),
        status,
        ..ALL
    };
    ensure!(listed(&*store, &filter(None, live)).await? == ids([4, 2]));
    ensure!(listed(&*store, &filter(None, ended)).await? == ids([3, 1]));
    ensure!(listed(&*store, &filter(Some(&one), None)).await? == ids([2, 1]));
    ensure!(listed(&*store, &filter(Some(&one), live)).await? == ids([2]));
    ensure!(listed(&*store, &filter(Some(&two), ended)).await? == ids([3]));
    Ok(())
}

pub(super) async fn pages_follow_each_other_without_gap(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let cell = add_cell(&*store, 1).await?;
    // Four to the millisecond, so that pages of three end in the middle of one.
    let execs: Vec<Exec> = (0..20)
        .map(|number| Exec {
            queued_at: Timestamp(sample::EPOCH.0 + number / 4),
            ..sample::exec(&cell, number)
        })
        .collect();
    store.put_execs(&cell, &execs, 10).await?;
    for cell in [None, Some(cell.clone())] {
        let mut filter = ExecFilter { tenants: Tenants::All, cell, limit: 3, ..ALL };
        let mut seen = Vec::new();
        loop {
            let page = store.list_execs(&filter).await?;
            let Some(last) = page.last() else { break };
            filter.before = Some((last.queued_at, last.id.clone()));
            seen.extend(page);
        }
        ensure!(seen.iter().rev().eq(execs.iter()));
    }
    Ok(())
}

pub(super) async fn a_page_goes_on_after_its_exec_is_gone(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let (kept, gone) = (add_cell(&*store, 1).await?, add_cell(&*store, 2).await?);
    store.put_execs(&kept, &[sample::exec(&kept, 1), sample::exec(&kept, 3)], 10).await?;
    let last = sample::exec(&gone, 2);
    store.put_execs(&gone, std::slice::from_ref(&last), 10).await?;
    store.delete_cell(&gone).await?;
    let filter = ExecFilter { before: Some((last.queued_at, last.id)), ..ALL };
    ensure!(listed(&*store, &filter).await? == ids([1]));
    Ok(())
}

pub(super) async fn execs_are_their_cells_tenants(place: &StorePlace) -> Result<()> {
    let store = place.open()?;
    let (of_a, of_b) = (Tenants::Of("a".parse()?), Tenants::Of("b".parse()?));
    let mut execs = Vec::new();
    for (number, tenant) in [(1, "a"), (2, "b")] {
        let mut cell = sample::cell(number);
        cell.spec.tenant = tenant.parse()?;
        store.insert_cell(&cell).await?;
        let exec = sample::exec(&cell.spec.id, number);
        store.put_execs(&cell.spec.id, std::slice::from_ref(&exec), 10).await?;
        execs.push(exec);
    }
    let [first, second] = execs.as_slice() else { bail!("two were put") };
    ensure!(store.find_exec_among(&of_a, &first.id).await?.as_ref() == Some(first));
    ensure!(store.find_exec_among(&Tenants::All, &first.id).await?.as_ref() == Some(first));
    ensure!(store.find_exec_among(&of_b, &first.id).await?.is_none());
    let filter = |tenants: &Tenants| ExecFilter {
        tenants: tenants.clone(),
        cell: None,
        status: None,
        limit: 9,
        before: None,
    };
    ensure!(store.list_execs(&filter(&of_b)).await? == std::slice::from_ref(second));
    ensure!(store.list_execs(&filter(&Tenants::All)).await?.len() == 2);
    let live = Some(hotcell_model::ExecStatusFilter::Live);
    let live = ExecFilter { status: live, ..filter(&of_a) };
    ensure!(store.list_execs(&live).await? == std::slice::from_ref(first));
    // Somebody else's cell lists nothing, and somebody else's exec as the end of a page is as
    // one that never was.
    let foreign = ExecFilter { cell: Some(first.cell.clone()), ..filter(&of_b) };
    ensure!(store.list_execs(&foreign).await?.is_empty());
    let after = |exec: &ExecId| ExecFilter {
        before: Some((second.queued_at, exec.clone())),
        ..filter(&of_b)
    };
    let never = ExecId::from_random(99);
    ensure!(store.list_execs(&after(&first.id)).await? == store.list_execs(&after(&never)).await?);
    Ok(())
}

pub(super) async fn an_exec_stays_with_the_cell_that_had_it_first(
    place: &StorePlace,
) -> Result<()> {
    let store = place.open()?;
    let (mine, other) = (sample::cell(1), sample::cell(2));
    store.insert_cell(&mine).await?;
    store.insert_cell(&other).await?;
    let exec = sample::exec(&mine.spec.id, 1);
    store.put_execs(&mine.spec.id, std::slice::from_ref(&exec), 10).await?;
    let forged = sample::ended(&sample::exec(&other.spec.id, 1));
    store.put_execs(&other.spec.id, &[forged], 10).await?;
    ensure!(store.find_exec(&exec.id).await? == Some(exec));
    Ok(())
}
