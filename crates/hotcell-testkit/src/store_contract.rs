//! What every store must do, shown against the port alone.

mod cells;
mod execs;
mod held_calls;
mod keys;
mod locks;
mod upkeep;

use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hotcell_model::{Error, ErrorCode, Store};

/// Where the data of one case lies. It can be opened as often as a case likes, as several
/// processes would.
pub struct StorePlace {
    open: Box<dyn Fn() -> Result<Arc<dyn Store>> + Send + Sync>,
}

impl StorePlace {
    /// A place whose store this opens. The data must live as long as the closure does.
    pub fn new(open: impl Fn() -> Result<Arc<dyn Store>> + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open) }
    }

    /// Opens the store of this place once more.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self) -> Result<Arc<dyn Store>> {
        (self.open)().context("open the store")
    }
}

impl fmt::Debug for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorePlace").finish_non_exhaustive()
    }
}

macro_rules! run_cases {
    ($fresh:expr, $($group:ident :: $case:ident),* $(,)?) => {{
        let mut failures = Vec::new();
        $(
            let name = concat!(stringify!($group), "::", stringify!($case));
            let ran = match $fresh() {
                Ok(place) => $group::$case(&place).await,
                Err(error) => Err(error),
            };
            if let Err(error) = ran {
                failures.push(format!("{name}: {error:#}"));
            }
        )*
        failures
    }};
}

/// Runs every case, each in a place of its own that `fresh` makes empty.
///
/// # Errors
/// Names every case that failed, and how.
pub async fn run_store_contract(fresh: impl Fn() -> Result<StorePlace>) -> Result<()> {
    let failures = run_cases!(
        fresh,
        upkeep::a_cell_that_is_kept_has_ended_and_comes_back,
        upkeep::a_cell_is_given_out_to_one,
        upkeep::clients_are_remembered_and_forgotten,
        cells::a_cell_comes_back_as_it_was_put,
        cells::an_unknown_cell_is_not_there,
        cells::an_id_is_given_once,
        cells::an_alias_belongs_to_one_cell_until_it_ends,
        cells::an_ended_cell_takes_no_alias,
        cells::of_many_only_one_gets_an_alias,
        cells::the_first_end_counts,
        cells::isolation_is_recorded,
        cells::cells_are_listed_newest_first,
        cells::a_deleted_cell_takes_its_execs_and_keys_with_it,
        cells::a_new_index_is_to_be_rebuilt_until_it_was,
        cells::names_and_lists_are_each_tenants_own,
        keys::a_key_stands_for_what_claimed_it,
        keys::scopes_are_apart,
        keys::a_key_past_its_time_is_free,
        keys::only_its_own_value_releases_a_key,
        keys::of_many_only_one_gets_a_key,
        execs::an_exec_comes_back_as_it_was_put,
        execs::an_exec_of_no_cell_is_refused,
        execs::a_later_reading_replaces_an_earlier_one,
        execs::a_late_reader_does_no_harm,
        execs::the_position_can_be_set_back,
        execs::execs_are_listed_newest_first,
        execs::filters_choose_by_cell_and_status,
        execs::pages_follow_each_other_without_gap,
        execs::a_page_goes_on_after_its_exec_is_gone,
        execs::execs_are_their_cells_tenants,
        execs::an_exec_stays_with_the_cell_that_had_it_first,
        held_calls::the_same_call_is_held_once,
        held_calls::no_more_wait_than_may,
        held_calls::an_answer_is_given_once_and_in_time,
        held_calls::an_approval_is_used_once,
        held_calls::what_nobody_answers_expires_once,
        locks::a_lock_excludes_until_it_is_dropped,
        locks::locks_of_cells_are_apart,
        locks::a_waiter_gets_the_lock,
        locks::a_cancelled_wait_leaves_nothing_behind,
        locks::a_lock_survives_the_deletion_of_its_cell,
        locks::cells_are_admitted_one_at_a_time,
        locks::execs_of_a_tenant_are_admitted_one_at_a_time,
        locks::of_many_one_at_a_time_has_the_lock,
    );
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{} cases of the store contract failed:\n{}", failures.len(), failures.join("\n"))
}

/// The code and the hint with which something must fail.
fn failure<T>(result: Result<T, Error>) -> Result<ErrorCode> {
    match result {
        Ok(_) => bail!("it was allowed"),
        Err(error) if error.hint.is_none() => bail!("no hint with: {error}"),
        Err(error) => Ok(error.code),
    }
}
