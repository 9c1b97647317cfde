//! Tests of limits against machines of every size.

use proptest::prelude::*;

use crate::{ErrorCode, LIMITS, Limits, Machine, RequestedLimits};

const LARGE: Machine = Machine { memory_mb: 65_536, cpus: 16, pids: 4_194_304, disk_mb: 1 << 20 };
const SMALL: Machine = Machine { memory_mb: 1000, cpus: 1, pids: 100, disk_mb: 500 };
const NOTHING: RequestedLimits =
    RequestedLimits { memory_mb: None, cpus: None, pids: None, disk_mb: None, disk_files: None };

#[test]
fn what_is_left_out_takes_its_default() {
    let expected =
        Limits { memory_mb: 4096, cpus: None, pids: 1024, disk_mb: 10_240, disk_files: 1_000_000 };
    assert_eq!(NOTHING.resolve(&LARGE).unwrap(), expected);
}

#[test]
fn defaults_fit_a_small_machine() {
    let expected =
        Limits { memory_mb: 500, cpus: None, pids: 100, disk_mb: 500, disk_files: 1_000_000 };
    assert_eq!(NOTHING.resolve(&SMALL).unwrap(), expected);
    let tiny = Machine { memory_mb: 4, cpus: 1, pids: 1, disk_mb: 0 };
    let limits = NOTHING.resolve(&tiny).unwrap();
    assert_eq!((limits.memory_mb, limits.disk_mb), (LIMITS.min_memory_mb, 1));
}

#[test]
fn an_operator_may_have_other_defaults() {
    let usual = RequestedLimits {
        memory_mb: Some(2000),
        cpus: Some(2.0),
        pids: Some(256),
        disk_mb: None,
        disk_files: Some(1000),
    };
    let all = NOTHING.or_usual(&usual, &SMALL).resolve(&SMALL).unwrap();
    assert_eq!((all.memory_mb, all.cpus, all.pids), (1000, Some(1.0), 100));
    assert_eq!((all.disk_mb, all.disk_files), (500, 1000));
    let asked = RequestedLimits { memory_mb: Some(64), ..NOTHING };
    let some = asked.or_usual(&usual, &LARGE).resolve(&LARGE).unwrap();
    assert_eq!((some.memory_mb, some.cpus, some.pids), (64, Some(2.0), 256));
    assert_eq!(NOTHING.or_usual(&NOTHING, &LARGE), NOTHING);
}

#[test]
fn all_of_the_machine_can_be_asked_for_and_no_more() {
    let all = RequestedLimits {
        memory_mb: Some(1000),
        cpus: Some(1.0),
        pids: Some(100),
        disk_mb: Some(500),
        disk_files: Some(1000),
    };
    let limits = all.resolve(&SMALL).unwrap();
    assert_eq!(
        limits,
        Limits { memory_mb: 1000, cpus: Some(1.0), pids: 100, disk_mb: 500, disk_files: 1000 }
    );
    let beyond = [
        RequestedLimits { memory_mb: Some(1001), ..NOTHING },
        RequestedLimits { cpus: Some(1.01), ..NOTHING },
        RequestedLimits { pids: Some(101), ..NOTHING },
        RequestedLimits { disk_mb: Some(501), ..NOTHING },
        RequestedLimits { disk_files: Some(u64::MAX), ..NOTHING },
    ];
    for requested in beyond {
        assert_eq!(requested.resolve(&SMALL).unwrap_err().code, ErrorCode::Invalid);
    }
}

#[test]
fn too_little_is_refused_with_what_is_possible() {
    let refusal = |requested: RequestedLimits| {
        let error = requested.resolve(&SMALL).unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid);
        error.to_string()
    };
    insta::assert_snapshot!(refusal(RequestedLimits { memory_mb: Some(0), ..NOTHING }), @"memory_mb must be between 8 and 1000 on this machine, not 0");
    insta::assert_snapshot!(refusal(RequestedLimits { pids: Some(7), ..NOTHING }), @"pids must be between 8 and 100 on this machine, not 7");
    insta::assert_snapshot!(refusal(RequestedLimits { disk_mb: Some(0), ..NOTHING }), @"disk_mb must be between 1 and 500 on this machine, not 0");
    insta::assert_snapshot!(refusal(RequestedLimits { disk_files: Some(99), ..NOTHING }), @"disk_files must be between 100 and 1099511627776 on this machine, not 99");
    insta::assert_snapshot!(refusal(RequestedLimits { cpus: Some(0.0), ..NOTHING }), @"cpus must be between 0.01 and 1 on this machine, not 0");
    for cpus in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.009] {
        refusal(RequestedLimits { cpus: Some(cpus), ..NOTHING });
    }
}

#[test]
fn a_limit_that_does_not_exist_is_refused() {
    assert!(serde_json::from_str::<RequestedLimits>(r#"{"memory": 5}"#).is_err());
    let some: RequestedLimits = serde_json::from_str(r#"{"pids": 50}"#).unwrap();
    assert_eq!(some, RequestedLimits { pids: Some(50), ..NOTHING });
}

proptest! {
    #[test]
    fn what_is_granted_is_within_the_machine_and_as_asked(
        memory_mb: Option<u64>,
        cpus: Option<f64>,
        pids: Option<u32>,
        disk_mb: Option<u64>,
        disk_files: Option<u64>,
        machine_mb in 16_u64..1 << 30,
        machine_cpus in 1_u32..1024,
        machine_pids in 8_u32..1 << 22,
        machine_disk in 1_u64..1 << 40,
    ) {
        let machine = Machine {
            memory_mb: machine_mb, cpus: machine_cpus, pids: machine_pids, disk_mb: machine_disk,
        };
        let requested = RequestedLimits { memory_mb, cpus, pids, disk_mb, disk_files };
        match requested.resolve(&machine) {
            Ok(limits) => {
                prop_assert!(limits.memory_mb <= machine_mb && limits.disk_mb <= machine_disk);
                prop_assert!(limits.pids <= machine_pids);
                prop_assert!(limits.cpus.is_none_or(|cpus| cpus <= f64::from(machine_cpus)));
                prop_assert_eq!(limits.memory_mb, memory_mb.unwrap_or(limits.memory_mb));
                prop_assert_eq!(limits.cpus, cpus);
                prop_assert_eq!(limits.pids, pids.unwrap_or(limits.pids));
                prop_assert_eq!(limits.disk_mb, disk_mb.unwrap_or(limits.disk_mb));
                prop_assert_eq!(limits.disk_files, disk_files.unwrap_or(limits.disk_files));
            }
            Err(error) => {
                prop_assert!(requested != NOTHING);
                prop_assert!(error.message.contains("on this machine"));
            }
        }
    }
}
