//! Whom carriers are.

use std::collections::BTreeSet;

use super::*;

fn cell(number: u64) -> CellId {
    CellId::from_random(number)
}

#[test]
fn each_cell_has_ids_that_nobody_has() {
    let ids: BTreeSet<u32> = (0..1000).map(|number| carrier_id(&cell(number << 20))).collect();
    assert!(ids.len() > 990, "{} of 1000 differ", ids.len());
    assert!(ids.iter().all(|id| (FIRST..FIRST + IDS).contains(id)));
    assert_eq!(carrier_id(&cell(7)), carrier_id(&cell(7)));
}

#[test]
fn records_are_shared_with_the_carrier_and_nobody_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let records = tempfile::tempdir().unwrap();
    let cell = cell(7);
    // As they were before, or where there is no such id.
    let found = fs::metadata(records.path()).unwrap();
    assert_eq!(find_carrier(records.path(), &cell).unwrap(), (found.uid(), found.gid()));
    share_records(records.path(), &cell, (1000, 1000)).unwrap();
    let found = fs::metadata(records.path()).unwrap();
    let id = carrier_id(&cell);
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1000, id, 0o1770));
    assert_eq!(find_carrier(records.path(), &cell).unwrap(), (id, id));
}
