//! What every driver must do, shown through the port, the link and the records alone.
//!
//! A driver places a supervisor and opens streams to it; the rest is the supervisor's. Both are
//! tried together here, because it is together that they are of use. Cases branch on
//! [`DriverCapabilities`] and on nothing else.

mod approvals;
mod bounds;
mod checkpoints;
mod ending;
mod execs;
mod files;
mod following;
mod guest;
mod input;
mod lifetime;
mod limits;
mod networks;
mod placing;
mod pooled;
mod ports;
mod queueing;
mod shared_root;
mod tools;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_model::{Driver, DriverCapabilities, Error, ErrorCode};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Cases wait more than they work.
const CASES_AT_ONCE: usize = 6;
/// A case that takes longer hangs.
const CASE_WITHIN: Duration = Duration::from_secs(100);
/// What has ended is gone within this.
const GONE_WITHIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where the cells of one case are. The driver can be opened as often as a case likes, as several
/// processes would.
pub struct DriverPlace {
    records: PathBuf,
    open: Box<dyn Fn() -> Result<Arc<dyn Driver>> + Send + Sync>,
    left_behind: Box<dyn Fn() -> Result<Vec<String>> + Send + Sync>,
}

impl DriverPlace {
    /// A place whose driver this opens. Below `records` each cell gets a directory for its journal
    /// and logs. What the closures own must live as long as they do.
    pub fn new(
        records: PathBuf,
        open: impl Fn() -> Result<Arc<dyn Driver>> + Send + Sync + 'static,
    ) -> Self {
        Self { records, open: Box::new(open), left_behind: Box::new(|| Ok(Vec::new())) }
    }

    /// The same place, with a look at what is left of cells that were removed: processes, mounts,
    /// groups, files, each in a few words.
    #[must_use]
    pub fn with_left_behind(
        mut self,
        look: impl Fn() -> Result<Vec<String>> + Send + Sync + 'static,
    ) -> Self {
        self.left_behind = Box::new(look);
        self
    }

    fn open(&self) -> Result<Arc<dyn Driver>> {
        (self.open)().context("open the driver")
    }

    fn records(&self) -> &Path {
        &self.records
    }

    async fn capabilities(&self) -> Result<DriverCapabilities> {
        Ok(self.open()?.capabilities().await?)
    }

    /// Ends and removes every cell, whatever a case left it in, and looks that nothing stays.
    async fn clear(&self) -> Result<()> {
        let driver = self.open()?;
        for cell in driver.list().await? {
            driver.stop(&cell.spec.id).await?;
            driver.remove(&cell.spec.id).await?;
        }
        ensure!(driver.list().await?.is_empty(), "cells are listed that were removed");
        let looking = async {
            loop {
                let left = (self.left_behind)()?;
                if left.is_empty() {
                    return anyhow::Ok(());
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        match timeout(GONE_WITHIN, looking).await {
            Ok(looked) => looked,
            Err(_) => bail!("left behind: {}", (self.left_behind)()?.join("; ")),
        }
    }
}

impl fmt::Debug for DriverPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverPlace").field("records", &self.records).finish_non_exhaustive()
    }
}

macro_rules! spawn_cases {
    ($running:ident, $fresh:ident, $turn:ident: $($group:ident :: $case:ident),* $(,)?) => {
        $(
            let (fresh, turn) = (Arc::clone(&$fresh), Arc::clone(&$turn));
            $running.spawn(async move {
                let _turn = turn.acquire().await;
                let ran = match fresh() {
                    Ok(place) => in_place(&place, $group::$case(&place)).await,
                    Err(error) => Err(error),
                };
                let name = concat!(stringify!($group), "::", stringify!($case));
                ran.map_err(|error| format!("{name}: {error:#}"))
            });
        )*
    };
}

/// Runs every case, each in a place of its own that `fresh` makes empty, a few at a time.
///
/// # Errors
/// Names every case that failed, and how.
pub async fn run_driver_contract(
    fresh: impl Fn() -> Result<DriverPlace> + Send + Sync + 'static,
) -> Result<()> {
    let (fresh, turn) = (Arc::new(fresh), Arc::new(Semaphore::new(CASES_AT_ONCE)));
    let capabilities = fresh()?.capabilities().await?;
    let mut running = JoinSet::new();
    spawn_where_it_can_be(&mut running, &fresh, &turn, &capabilities);
    spawn_cases!(
        running, fresh, turn:
        placing::a_cell_is_started_once_and_found_until_it_is_removed,
        placing::a_cell_that_was_never_made_is_not_there,
        placing::a_stopped_cell_keeps_its_files_and_loses_its_execs,
        placing::a_stop_leaves_no_process,
        placing::several_engines_share_a_cell,
        placing::cells_do_not_see_each_other,
        execs::streams_codes_and_usage_are_told,
        execs::a_signal_that_ends_an_exec_is_told,
        execs::directory_and_variables_are_set,
        execs::what_cannot_be_run_is_refused,
        execs::a_second_start_is_the_same_exec,
        execs::root_of_the_cell_where_there_is_one,
        execs::the_journal_tells_every_exec,
        execs::many_at_once_are_kept_apart,
        input::text_is_read_to_its_end,
        input::open_input_waits_for_its_reader,
        input::input_that_nobody_reads_is_refused,
        input::a_terminal_has_a_size_that_changes,
        input::signals_reach_the_process,
        ending::a_polite_exec_ends_by_itself_when_cancelled,
        ending::a_cancel_ends_every_descendant,
        ending::a_process_that_forks_without_end_is_caught,
        ending::descendants_end_with_the_main_process,
        ending::a_timeout_needs_nobody_connected,
        approvals::an_exec_that_asks_starts_once_it_is_approved,
        approvals::an_exec_that_is_refused_never_starts,
        approvals::an_exec_that_nobody_answers_for_is_denied,
        approvals::an_exec_that_asks_can_be_cancelled,
        approvals::an_approved_exec_takes_its_place_in_the_queue,
        queueing::the_rest_waits_by_priority_and_then_in_order,
        queueing::a_queued_exec_can_be_cancelled,
        queueing::input_of_a_queued_exec_is_kept_for_it,
        queueing::input_of_a_queued_exec_that_is_cancelled_is_refused,
        bounds::an_exec_may_rather_not_be_than_wait,
        bounds::an_exec_keeps_as_much_output_as_it_asks_for,
        bounds::the_main_process_is_known_by_its_pid,
        bounds::a_timeout_has_the_grace_that_was_asked_for,
        following::output_goes_on_from_any_seq,
        following::a_record_is_on_disk_before_it_is_seen,
        following::a_window_is_kept_to,
        following::a_slow_reader_stops_nobody,
        following::a_reader_that_comes_back_misses_nothing,
        following::head_and_tail_of_too_much_are_kept,
        files::what_is_written_is_read,
        files::one_etag_everywhere_that_any_change_changes,
        files::a_precondition_is_kept,
        files::text_is_replaced_where_it_stands_once,
        files::directories_are_listed_page_by_page,
        files::nothing_outside_is_reached_and_nothing_hangs,
        files::a_batch_is_done_whole_or_not_at_all,
        files::the_process_that_serves_files_may_be_killed,
        limits::memory_ends_the_exec_alone,
        limits::processes_are_counted,
        limits::the_disk_ends_what_fills_it,
        lifetime::a_busy_cell_is_closed_by_force_only,
        lifetime::a_held_cell_outlives_one_holder_and_not_the_last,
        lifetime::a_cell_for_one_exec_ends_with_it,
        lifetime::a_persistent_cell_sleeps_and_wakes_with_its_files,
        lifetime::a_cell_ends_when_its_time_is_over,
        lifetime::an_idle_cell_ends_when_it_is_told_to,
        pooled::a_cell_is_given_out_once_and_stays_what_it_became,
        pooled::a_cell_that_somebody_has_is_not_given_out,
        pooled::one_that_nobody_holds_ends,
        pooled::what_there_is_of_cells_is_found_until_it_is_removed,
    );
    let mut failures = Vec::new();
    while let Some(ended) = running.join_next().await {
        failures.extend(ended?.err());
    }
    if failures.is_empty() {
        return Ok(());
    }
    failures.sort();
    bail!("{} cases of the driver contract failed:\n{}", failures.len(), failures.join("\n"))
}

/// Starts the cases of what not every driver can do.
fn spawn_where_it_can_be<Fresh>(
    running: &mut JoinSet<Result<(), String>>,
    fresh: &Arc<Fresh>,
    turn: &Arc<Semaphore>,
    capabilities: &DriverCapabilities,
) where
    Fresh: Fn() -> Result<DriverPlace> + Send + Sync + 'static,
{
    if capabilities.checkpoints {
        spawn_cases!(
            running, fresh, turn:
            checkpoints::a_running_cell_goes_back_to_what_was_kept,
            checkpoints::forks_share_files_and_no_changes,
            checkpoints::what_begins_during_a_pause_waits,
            checkpoints::who_looks_on_keeps_no_cell_from_holding_still,
            checkpoints::what_runs_is_held_still_and_goes_on,
            tools::it_stays_whatever_becomes_of_the_other_files,
            tools::what_a_cell_put_in_its_place_stays,
            ports::a_connection_lives_through_a_pause,
        );
    }
    if capabilities.own_root {
        spawn_cases!(
            running, fresh, turn:
            tools::a_directory_of_the_host_is_seen_as_it_changes,
            tools::nobody_in_a_cell_writes_to_it,
            ports::bytes_go_both_ways_each_to_its_own_end,
            ports::a_port_without_a_service_is_unavailable,
            ports::much_is_carried_whole_by_many_at_once,
            ports::who_does_not_read_holds_nobody_up,
            ports::the_end_of_a_service_is_the_end_of_its_connections,
            ports::an_open_connection_keeps_a_cell_awake,
            ports::connections_are_counted,
            networks::what_is_allowed_is_there_until_it_is_not,
            networks::a_cell_without_a_network_gets_one,
        );
    } else {
        spawn_cases!(
            running, fresh, turn:
            shared_root::what_needs_an_own_root_is_refused,
        );
    }
}

/// Runs one case, and clears its place whatever came of it.
async fn in_place(place: &DriverPlace, case: impl Future<Output = Result<()>>) -> Result<()> {
    let ran = match timeout(CASE_WITHIN, Box::pin(case)).await {
        Ok(ran) => ran,
        Err(_) => bail!("it hangs; its cells are left as they are"),
    };
    let cleared = match timeout(CASE_WITHIN, place.clear()).await {
        Ok(cleared) => cleared.context("clear the place"),
        Err(_) => bail!("clearing the place hangs, after {ran:?}"),
    };
    ran.and(cleared)
}

/// The code with which something must fail, whoever says no.
fn refusal<T>(result: Result<T, impl Into<Error>>) -> Result<ErrorCode> {
    match result {
        Ok(_) => bail!("it was allowed"),
        Err(error) => Ok(error.into().code),
    }
}
