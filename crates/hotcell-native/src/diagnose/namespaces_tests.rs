//! Which failures of a trial mean that no namespaces can be had.

use crate::diagnose::testing::{all_works, machine};

use super::*;

const PLENTY: &[(&str, &str)] = &[("proc/sys/user/max_user_namespaces", "15000\n")];
const NONE: &[(&str, &str)] = &[("proc/sys/user/max_user_namespaces", "0\n")];

/// A machine on which no root of a cell could be put together.
fn without_root() -> Report {
    Report { root: Finding::NotTried("a part of it is missing".to_owned()), ..all_works() }
}

fn refused(step: &str, errno: Errno) -> Finding {
    crate::diagnose::testing::refused(step, errno.raw_os_error())
}

fn without_user_namespace(errno: Errno) -> Report {
    let mut report = without_root();
    report.namespaces[0].finding = refused("clone3", errno);
    report
}

fn on(files: &[(&str, &str)], report: &Report) -> Prospect {
    prospect(report, machine(files).path())
}

#[track_caller]
fn is_unclear(found: &Prospect, step: &str) {
    assert!(matches!(found, Prospect::Unclear(said) if said.contains(step)), "{found:?}");
}

#[test]
fn where_a_root_can_be_put_together_namespaces_are_made() {
    assert_eq!(on(PLENTY, &all_works()), Prospect::Made);
}

#[test]
fn what_is_not_permitted_or_not_built_is_forbidden() {
    for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL] {
        assert_eq!(on(PLENTY, &without_user_namespace(errno)), Prospect::Forbidden, "{errno}");
    }
}

#[test]
fn what_was_short_at_the_time_forbids_nothing() {
    for errno in [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::INTR, Errno::IO] {
        is_unclear(&on(PLENTY, &without_user_namespace(errno)), "clone3");
    }
}

#[test]
fn a_number_of_namespaces_that_is_used_up_forbids_nothing_and_one_of_zero_does() {
    for errno in [Errno::NOSPC, Errno::USERS] {
        is_unclear(&on(PLENTY, &without_user_namespace(errno)), "clone3");
        is_unclear(&on(&[], &without_user_namespace(errno)), "clone3");
        assert_eq!(on(NONE, &without_user_namespace(errno)), Prospect::Forbidden);
    }
    let mut report = without_root();
    report.namespaces[3].finding = refused("clone3", Errno::NOSPC);
    is_unclear(&on(NONE, &report), "clone3");
    let no_networks = &[("proc/sys/user/max_net_namespaces", "0\n")];
    assert_eq!(on(no_networks, &report), Prospect::Forbidden);
}

#[test]
fn a_namespace_whose_powers_are_taken_away_is_none() {
    let powers = refused("set the host name", Errno::PERM);
    assert_eq!(on(PLENTY, &Report { powers, ..without_root() }), Prospect::Forbidden);
    let proc = refused("mount proc", Errno::PERM);
    assert_eq!(on(PLENTY, &Report { proc, ..without_root() }), Prospect::Forbidden);
    let powers = refused("clone3", Errno::AGAIN);
    is_unclear(&on(PLENTY, &Report { powers, ..without_root() }), "clone3");
}

#[test]
fn a_state_directory_that_cells_cannot_be_in_forbids_nothing() {
    for errno in [Errno::ACCESS, Errno::PERM, Errno::NOSPC, Errno::INVAL, Errno::NOENT] {
        let overlay = refused("mount an overlay", errno);
        is_unclear(&on(NONE, &Report { overlay, ..without_root() }), "overlay");
        let root = refused("make the cell's directories in /state", errno);
        is_unclear(&on(NONE, &Report { root, ..all_works() }), "/state");
    }
}
