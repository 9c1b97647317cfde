//! Tests of where a cell without a supervisor stands.

use std::collections::BTreeMap;

use hotcell_model::{CellId, CellSpec, CellState, CloseReason, Keep, Limits, Network, Timestamp};

use crate::Settings;
use crate::cell_standing::{Standing, resting};
use crate::journal_end::JournalEnd;

const CREATED: Timestamp = Timestamp(1_000_000);

fn spec(keep: Keep) -> CellSpec {
    CellSpec {
        id: CellId::from_random(1),
        tenant: hotcell_model::Tenant::default(),
        alias: None,
        driver: "fake".to_owned(),
        image: "host".to_owned(),
        keep,
        ttl_s: None,
        idle_ttl_s: None,
        sleep_after_s: 600,
        orphan_grace_s: 60,
        limits: Limits { memory_mb: 64, cpus: None, pids: 64, disk_mb: 64, disk_files: 1000 },
        max_running: 4,
        output_bytes: 1 << 20,
        network: Network::None,
        sessions: hotcell_model::SessionBounds::default(),
        workspace: None,
        env: BTreeMap::new(),
        secrets: Vec::new(),
        checkpoint_before: None,
        on: BTreeMap::new(),
        labels: BTreeMap::new(),
        created_at: CREATED,
    }
}

fn after(spec: &CellSpec, end: Option<JournalEnd>, seconds: u64) -> Standing {
    resting(spec, end, &Settings::default(), CREATED.plus_seconds(seconds))
}

fn ended(closed: Option<CloseReason>) -> Option<JournalEnd> {
    Some(JournalEnd { at: CREATED.plus_seconds(10), closed })
}

#[test]
fn the_last_entry_decides() {
    let spec = spec(Keep::Always);
    assert_eq!(after(&spec, None, 20), Standing::Is(CellState::Starting));
    assert_eq!(after(&spec, ended(None), 20), Standing::Is(CellState::Stopped));
    let asleep = ended(Some(CloseReason::Asleep));
    assert_eq!(after(&spec, asleep, 20), Standing::Is(CellState::Asleep));
    for reason in [
        CloseReason::Killed,
        CloseReason::Expired,
        CloseReason::Idle,
        CloseReason::Orphaned,
        CloseReason::ExecEnded,
    ] {
        assert_eq!(after(&spec, ended(Some(reason)), 20), Standing::Over);
    }
}

#[test]
fn a_persistent_cell_waits_for_ever_unless_told_otherwise() {
    let asleep = ended(Some(CloseReason::Asleep));
    let year = 365 * 24 * 3600;
    assert_eq!(after(&spec(Keep::Always), asleep, year), Standing::Is(CellState::Asleep));
    let expiring = CellSpec { ttl_s: Some(100), ..spec(Keep::Always) };
    assert_eq!(after(&expiring, asleep, 99), Standing::Is(CellState::Asleep));
    assert_eq!(after(&expiring, asleep, 100), Standing::Over);
    let idle = CellSpec { idle_ttl_s: Some(100), ..spec(Keep::Always) };
    assert_eq!(after(&idle, asleep, 109), Standing::Is(CellState::Asleep));
    assert_eq!(after(&idle, asleep, 110), Standing::Over);
}

#[test]
fn what_a_dead_maker_left_is_over_after_its_grace() {
    assert_eq!(after(&spec(Keep::Holder), None, 59), Standing::Is(CellState::Starting));
    assert_eq!(after(&spec(Keep::Holder), None, 60), Standing::Over);
    assert_eq!(after(&spec(Keep::Exec), None, 60), Standing::Over);
    assert_eq!(after(&spec(Keep::Ttl), None, 60), Standing::Is(CellState::Starting));
}

#[test]
fn a_stopped_cell_that_is_not_persistent_stays_for_a_day() {
    let day = 24 * 3600;
    for keep in [Keep::Holder, Keep::Exec, Keep::Ttl] {
        assert_eq!(after(&spec(keep), ended(None), day), Standing::Is(CellState::Stopped));
        assert_eq!(after(&spec(keep), ended(None), day + 10), Standing::Over);
    }
}
