//! Each setting is seen, named and answered with its own command.

use std::path::Path;

use super::{Power, Rule, rules};
use crate::diagnose::testing::machine;

const CLONE: &str = "proc/sys/kernel/unprivileged_userns_clone";
const MOST: &str = "proc/sys/user/max_user_namespaces";
const APPARMOR: &str = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";
const LABEL: &str = "proc/self/attr/apparmor/current";

#[test]
fn a_machine_that_allows_everything_has_no_rules() {
    let open = machine(&[
        (CLONE, "1\n"),
        (MOST, "192870\n"),
        (APPARMOR, "0\n"),
        ("proc/self/ns/user", ""),
    ]);
    assert_eq!(rules(open.path()), []);
    assert_eq!(rules(machine(&[]).path()), [], "and neither has one that tells nothing");
}

#[test]
fn each_setting_is_its_own_rule() {
    let cases = [
        ((CLONE, "0\n"), Rule::PrivilegedOnly, "kernel.unprivileged_userns_clone=1"),
        ((MOST, "0\n"), Rule::AtMost(0), "user.max_user_namespaces=15000"),
        ((MOST, "3"), Rule::AtMost(3), "user.max_user_namespaces=15000"),
        ((APPARMOR, "1\n"), Rule::ProfiledOnly, "kernel.apparmor_restrict_unprivileged_userns=0"),
        (("proc/self/ns/mnt", ""), Rule::NotBuilt, "CONFIG_USER_NS=y"),
    ];
    for (file, rule, command) in cases {
        let found = rules(machine(&[file]).path());
        assert_eq!(found, std::slice::from_ref(&rule));
        assert!(rule.hint().contains(command), "{}", rule.hint());
        assert!(!rule.hint().contains('\n'), "a hint is one line: {}", rule.hint());
        assert!(rule.remedy(Path::new("/bin/hotcell")).contains(command));
    }
}

#[test]
fn a_profile_of_its_own_frees_hotcell_from_apparmors_rule() {
    for (label, restricted) in [
        ("unconfined\n", true),
        ("", true),
        ("hotcell (unconfined)\n", false),
        ("hotcell (enforce)\n", false),
    ] {
        let found = rules(machine(&[(APPARMOR, "1"), (LABEL, label)]).path());
        assert_eq!(found.contains(&Rule::ProfiledOnly), restricted, "{label:?}");
    }
}

#[test]
fn root_is_held_only_by_what_holds_everybody() {
    let held = |rule: Rule| rule.holds_for(Power::Privileged);
    assert!(held(Rule::AtMost(0)) && held(Rule::NotBuilt));
    assert!(!held(Rule::PrivilegedOnly) && !held(Rule::ProfiledOnly));
    assert!(Rule::PrivilegedOnly.holds_for(Power::Ordinary));
}

#[test]
fn the_profile_names_the_program() {
    let remedy = Rule::ProfiledOnly.remedy(Path::new("/opt/hot cell/hotcell"));
    let profile = "profile hotcell \"/opt/hot cell/hotcell\" flags=(unconfined) {\n  userns,\n";
    assert!(remedy.contains(profile), "{remedy}");
    assert!(remedy.contains("apparmor_parser -r /etc/apparmor.d/hotcell"), "{remedy}");
}
