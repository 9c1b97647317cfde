//! Cells of a tenant count together, and nobody else's.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

#[test]
fn what_the_cells_of_a_tenant_carried_today_counts_together() {
    let cells = tempfile::tempdir().unwrap();
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    for (cell, tenant, day, bytes) in [
        ("c_1", Some("a"), today, 60),
        ("c_2", Some("a"), today, 30),
        ("c_3", Some("a"), today - 1, 500),
        ("c_4", Some("b"), today, 500),
        ("c_5", None, today, 7),
    ] {
        let records = cells.path().join(cell).join("records");
        fs::create_dir_all(&records).unwrap();
        let used = format!(
            r#"{{"connections":0,"sent_bytes":0,"received_bytes":0,"day":{day},"day_bytes":{bytes}}}"#
        );
        fs::write(records.join("network-used.json"), used).unwrap();
        if let Some(tenant) = tenant {
            fs::write(cells.path().join(cell).join(TENANT), tenant).unwrap();
        }
    }
    let of_all = carried(cells.path(), &Tenants::All).unwrap();
    assert_eq!(of_all, 597);
    let carried =
        |tenant: &str| carried(cells.path(), &Tenants::Of(tenant.parse().unwrap())).unwrap();
    assert_eq!((carried("a"), carried("b"), carried("main"), carried("c")), (90, 500, 7, 0));
    let records = cells.path().join("c_1/records");
    let may = |most| {
        let most = TenantBytes { others: Some(most), ..TenantBytes::default() };
        allowance(&most, &"a".parse().unwrap(), &records)
    };
    assert_eq!((may(91), may(90)), (Allowance::Open, Allowance::UsedUp));
    // What others carry counts where all are bounded together, whoever asks.
    let may = |all, others| {
        let most = TenantBytes { all: Some(all), others, ..TenantBytes::default() };
        ["a", "b", "c"].map(|tenant| allowance(&most, &tenant.parse().unwrap(), &records))
    };
    assert_eq!(may(598, None), [Allowance::Open; 3]);
    assert_eq!(may(597, None), [Allowance::UsedUp; 3]);
    assert_eq!(may(598, Some(90)), [Allowance::UsedUp, Allowance::UsedUp, Allowance::Open]);
    let none = TenantBytes::default();
    assert_eq!(allowance(&none, &"a".parse().unwrap(), &records), Allowance::Open);
    let most = TenantBytes { others: Some(u64::MAX), ..none };
    let nowhere = allowance(&most, &"a".parse().unwrap(), Path::new("/nowhere/at/all"));
    assert_eq!(nowhere, Allowance::UsedUp);
}
