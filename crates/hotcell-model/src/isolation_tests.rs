//! What is required is in force, or refused.

use super::*;

fn isolation(layers: &[&str], missing: &[&str]) -> Isolation {
    let layer = |name: &&str| Layer { name: (*name).to_owned(), means: None };
    let lacking = |name: &&str| MissingLayer {
        name: (*name).to_owned(),
        reason: format!("no {name} here"),
        remedy: "buy another machine".to_owned(),
    };
    let missing = missing.iter().map(lacking).collect();
    Isolation::from_layers(layers.iter().map(layer).collect(), missing)
}

fn required(level: IsolationLevel, layers: &[&str]) -> RequiredIsolation {
    RequiredIsolation { level, layers: layers.iter().map(|name| (*name).to_owned()).collect() }
}

#[test]
fn what_is_in_force_is_enough() {
    let limited = isolation(&["landlock"], &["memory_limit"]);
    assert!(RequiredIsolation::default().check(&limited).is_ok());
    assert!(required(IsolationLevel::Limited, &["landlock"]).check(&limited).is_ok());
    let full = isolation(&["landlock", "memory_limit"], &[]);
    assert!(required(IsolationLevel::Full, &["memory_limit"]).check(&full).is_ok());
}

#[test]
fn what_is_missing_is_refused_with_reason_and_remedy() {
    let limited = isolation(&["landlock"], &["memory_limit", "private_ids"]);
    let refused = required(IsolationLevel::Limited, &["memory_limit"]).check(&limited);
    let refused = refused.unwrap_err();
    assert!(refused.message.contains("no memory_limit here"), "{refused:?}");
    assert!(!refused.message.contains("private_ids"), "{refused:?}");
    assert!(refused.hint.unwrap().contains("buy another machine"));
    let refused = required(IsolationLevel::Full, &[]).check(&limited).unwrap_err();
    assert!(refused.message.contains("memory_limit") && refused.message.contains("private_ids"));
}

#[test]
fn what_nobody_speaks_of_is_not_in_force() {
    // Without a limit on memory nothing is said of swap.
    let limited = isolation(&["landlock"], &["memory_limit"]);
    let refused = required(IsolationLevel::Limited, &["swap_limit"]).check(&limited).unwrap_err();
    assert!(refused.message.contains("swap_limit is required"), "{refused:?}");
}

#[test]
fn in_the_hosts_root_a_cell_is_of_the_least_level_and_only_accepted_by_its_name() {
    assert_eq!(isolation(&[], &["user_namespace"]).level, IsolationLevel::Limited);
    let process = isolation(&["landlock"], &["mount_namespace", "pid_namespace"]);
    assert_eq!(process.level, IsolationLevel::Process);
    assert!(required(IsolationLevel::Process, &["landlock"]).check(&process).is_ok());
    let refused = RequiredIsolation::default().check(&process).unwrap_err();
    assert!(refused.message.contains("level limited is required and this is process"));
    let better = isolation(&["landlock"], &["memory_limit"]);
    assert!(required(IsolationLevel::Process, &[]).check(&better).is_ok());
}
