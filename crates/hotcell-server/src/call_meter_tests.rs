//! One tenant's calls leave room for another's.

use hotcell_engine::{Admission, Quota, TenantSettings, TenantTable};
use hotcell_model::{Caller, ErrorCode};

use super::{CallMeter, MOST_CALLS};

fn of(tenant: &str) -> Caller {
    Caller::local(1).in_tenant(tenant.parse().unwrap())
}

#[test]
fn a_tenant_that_floods_leaves_room_for_another() {
    let meter = CallMeter::new(TenantTable::default(), &Admission::default());
    let mut flood = Vec::new();
    let refused = loop {
        match meter.begin(&of("a")) {
            Ok(call) => flood.push(call),
            Err(error) => break error,
        }
    };
    assert_eq!(flood.len(), MOST_CALLS / 2);
    assert_eq!((refused.code, refused.retry_after_s), (ErrorCode::Unavailable, Some(1)));
    let mut others: Vec<_> = (0..1000).map(|_| meter.begin(&of("b")).unwrap()).collect();
    assert_eq!(meter.under_way(), MOST_CALLS / 2 + 1000);
    // The server itself is never kept out by those who call.
    others.push(meter.begin(&Caller::server().in_tenant("a".parse().unwrap())).unwrap());
    drop(flood);
    drop(others);
    assert_eq!(meter.under_way(), 0);
    assert!(meter.begin(&of("a")).is_ok());
}

#[test]
fn calls_a_second_are_bounded_for_each_tenant_by_itself() {
    let mut table = TenantTable::default();
    let quotas = [(Quota::CallsPerS, 1), (Quota::CallsBurst, 3)].into();
    table.named.insert("a".parse().unwrap(), TenantSettings { quotas, secrets: None });
    let meter = CallMeter::new(table, &Admission::default());
    for _ in 0..3 {
        meter.begin(&of("a")).unwrap();
    }
    let refused = meter.begin(&of("a")).unwrap_err();
    assert_eq!((refused.code, refused.retry_after_s), (ErrorCode::LimitExceeded, Some(1)));
    let hit = refused.quota.unwrap();
    assert_eq!((hit.key.as_str(), hit.limit), ("tenants.a.calls_per_s", 1));
    for _ in 0..100 {
        meter.begin(&of("b")).unwrap();
        meter.begin(&Caller::server().in_tenant("a".parse().unwrap())).unwrap();
    }
}
