//! From findings to checks: what is fatal, what is told, and with which remedy.

use std::path::Path;

use hotcell_jail::cgroup::Hierarchies;
use hotcell_jail::ids::{IdLayout, Starter};
use hotcell_jail::landlock::Landlock;
use hotcell_jail::probe::Report;
use hotcell_jail::process::Confinement;
use hotcell_model::{Check, CheckStatus};

use super::{Means, essentials, facts, filters, limits};
use crate::diagnose::control_groups::Arrangement;
use crate::diagnose::remedies::Circumstances;
use crate::diagnose::testing::{all_works, machine, refused};
use crate::driver::CgroupUse;
use crate::isolation::describe;

const SINGLE: IdLayout = IdLayout::Single { uid: 1000, gid: 1000 };

fn user() -> Starter {
    Starter::User { layout: SINGLE, without_subordinates: Some("no line for user 1000".to_owned()) }
}

fn essentials_on(files: &[(&str, &str)], report: &Report) -> Vec<Check> {
    let machine = machine(files);
    let circumstances = Circumstances::look(machine.path(), Path::new("/state"), &user());
    essentials(report, &circumstances, Path::new("/bin/hotcell"))
}

fn get<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.name == name).unwrap()
}

#[test]
fn where_all_works_nothing_is_fatal_and_nothing_needs_a_remedy() {
    let checks = essentials_on(&[], &all_works());
    for check in &checks {
        assert!(matches!(check.status, CheckStatus::Ok | CheckStatus::Info), "{check:?}");
        assert_eq!(check.remedy, None, "{check:?}");
    }
    assert_eq!(get(&checks, "system_calls").detail, "clone3, openat2");
    assert_eq!(get(&checks, "idmapped_mount").status, CheckStatus::Info);
}

#[test]
fn every_essential_is_fatal_when_refused_and_has_a_remedy() {
    type Spoil = fn(&mut Report);
    let cases: [(&str, Spoil); 9] = [
        ("system_calls", |report| report.calls[1].finding = refused("openat2", libc_enosys())),
        ("user_namespace", |report| report.namespaces[0].finding = refused("clone3", 1)),
        ("network_namespace", |report| report.namespaces[3].finding = refused("clone3", 28)),
        ("id_maps", |report| report.id_maps = refused("newuidmap 0 1000 1", 1)),
        ("capabilities", |report| report.powers = refused("set the host name", 1)),
        ("overlay", |report| report.overlay = refused("overlay of a and b", 22)),
        ("idmapped_mount", |report| report.idmapped_mount = refused("idmapped mount", 22)),
        ("proc", |report| report.proc = refused("new proc", 1)),
        ("cell_root", |report| report.root = refused("pivot_root", 22)),
    ];
    for (name, spoil) in cases {
        let mut report = all_works();
        spoil(&mut report);
        let checks = essentials_on(&[], &report);
        let fatal: Vec<&str> = checks
            .iter()
            .filter(|check| check.status == CheckStatus::Fatal)
            .map(|check| check.name.as_str())
            .collect();
        assert_eq!(fatal, [name]);
        assert!(get(&checks, name).remedy.is_some(), "{name}");
        assert!(get(&checks, name).detail.contains("os error"), "{name}");
    }
}

fn libc_enosys() -> i32 {
    rustix::io::Errno::NOSYS.raw_os_error()
}

#[test]
fn capabilities_that_were_taken_away_are_apparmors_work() {
    let files = [("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")];
    let report = Report { powers: refused("set the host name", 1), ..all_works() };
    let checks = essentials_on(&files, &report);
    let remedy = get(&checks, "capabilities").remedy.as_deref().unwrap();
    assert!(remedy.contains("profile hotcell \"/bin/hotcell\""), "{remedy}");
}

#[test]
fn a_full_table_of_one_kind_names_its_own_sysctl() {
    for (at, sysctl) in [(1, "max_mnt_"), (2, "max_pid_"), (3, "max_net_"), (6, "max_cgroup_")] {
        let mut report = all_works();
        report.namespaces[at].finding = refused("clone3", 28);
        let checks = essentials_on(&[], &report);
        let fatal = checks.iter().find(|check| check.status == CheckStatus::Fatal).unwrap();
        let remedy = fatal.remedy.as_deref().unwrap();
        assert!(remedy.contains(&format!("user.{sysctl}namespaces=")), "{remedy}");
    }
}

#[test]
fn facts_carry_no_verdict() {
    let machine = machine(&[
        ("proc/sys/kernel/osrelease", "5.15.0\n"),
        ("proc/sys/user/max_user_namespaces", "0\n"),
        (".dockerenv", ""),
    ]);
    let circumstances = Circumstances::look(machine.path(), Path::new("/state"), &user());
    let checks = facts(&circumstances);
    assert!(checks.iter().all(|check| check.status == CheckStatus::Info));
    assert_eq!(get(&checks, "kernel").detail, "Linux 5.15.0; cells of root need 5.19");
    assert_eq!(get(&checks, "container").detail, "marked as Docker by /.dockerenv");
    assert_eq!(get(&checks, "namespace_rules").detail, "user.max_user_namespaces = 0");
}

#[test]
fn limits_are_those_of_the_isolation() {
    let hierarchies = Hierarchies::default();
    let isolation = describe(&SINGLE, &user(), &hierarchies, CgroupUse::Off, &confined());
    let means = Means {
        cgroups: CgroupUse::Off,
        arrangement: Arrangement::Unified,
        hierarchies: &hierarchies,
    };
    let checks = limits(&all_works(), &isolation, &means);
    let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
    let expected = [
        "cgroups",
        "private_ids",
        "tree_kill",
        "memory_limit",
        "pids_limit",
        "cpu_limit",
        "disk_limit",
    ];
    assert_eq!(names, expected);
    let memory = get(&checks, "memory_limit");
    assert_eq!(memory.status, CheckStatus::Missing);
    assert!(memory.remedy.as_deref().unwrap().contains("native.cgroups"));
    assert_eq!(get(&checks, "private_ids").detail, "no line for user 1000");
    assert_eq!(get(&checks, "tree_kill").detail, "subreaper");
    assert!(get(&checks, "cgroups").detail.starts_with("turned off"));
}

#[test]
fn control_groups_that_fail_when_used_stop_every_cell() {
    let hierarchies = Hierarchies::default();
    let isolation = describe(&SINGLE, &user(), &hierarchies, CgroupUse::Auto, &confined());
    let means = Means {
        cgroups: CgroupUse::Auto,
        arrangement: Arrangement::Unified,
        hierarchies: &hierarchies,
    };
    let report = Report { cgroups: refused("write 64 to memory.max", 13), ..all_works() };
    let checks = limits(&report, &isolation, &means);
    let cgroups = get(&checks, "cgroups");
    assert_eq!(cgroups.status, CheckStatus::Fatal);
    assert!(cgroups.remedy.as_deref().unwrap().contains("HOTCELL_NATIVE_CGROUPS=off"));
}

fn confined() -> Confinement {
    Confinement { system_calls: 300, landlock: Landlock::Applied { abi: 7, scopes: true } }
}

#[test]
fn without_a_filter_no_cell_is_made_and_without_landlock_it_lacks_a_layer() {
    let machine = machine(&[]);
    let circumstances = Circumstances::look(machine.path(), Path::new("/state"), &user());
    let isolation = |confinement: &Confinement| {
        describe(&SINGLE, &user(), &Hierarchies::default(), CgroupUse::Off, confinement)
    };
    let checks = filters(&all_works(), &isolation(&confined()), &circumstances);
    assert_eq!(get(&checks, "seccomp_filter").detail, "allowlist of 300 system calls");
    let landlock = get(&checks, "landlock");
    assert_eq!(landlock.status, CheckStatus::Ok);
    assert_eq!(landlock.detail, "ABI 7: files, signals, abstract sockets");

    let report = Report { seccomp: refused("seccomp", libc_enosys()), ..all_works() };
    let landlock = Landlock::Absent { reason: "the kernel has no Landlock".to_owned() };
    let isolation = isolation(&Confinement { landlock, ..confined() });
    let checks = filters(&report, &isolation, &circumstances);
    assert_eq!(get(&checks, "seccomp_filter").status, CheckStatus::Fatal);
    let landlock = get(&checks, "landlock");
    assert_eq!(landlock.status, CheckStatus::Missing);
    assert_eq!(landlock.detail, "the kernel has no Landlock");
    assert!(landlock.remedy.as_deref().unwrap().contains("lsm="));
}
