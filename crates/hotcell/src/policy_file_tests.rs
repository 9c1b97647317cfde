//! Rules that change while they are in force.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hotcell_engine::Policies;
use hotcell_policy::{Act, AllowedLines, Decision};

use crate::policy_file::PolicyFile;

const DENY_LS: &str = "[[rule]]\nid = \"no-ls\"\nverdict = \"deny\"\ncommand = [\"ls\"]\n";

fn opened(path: &Path) -> hotcell_model::Result<PolicyFile> {
    PolicyFile::open("open", path, AllowedLines::default())
}

fn says(file: &PolicyFile, text: &str) -> Decision {
    let act = Act::AnyShell { text, as_root: false, directory: None };
    file.in_force().decide(&act).decision
}

#[test]
fn a_changed_file_is_read_and_a_broken_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    fs::write(&path, DENY_LS).unwrap();
    let file = opened(&path).unwrap();
    assert_eq!(says(&file, "ls"), Decision::Deny);
    assert_eq!(says(&file, "cat x"), Decision::Allow);
    fs::write(&path, DENY_LS.replace("ls", "cat")).unwrap();
    assert_eq!(says(&file, "ls"), Decision::Allow);
    assert_eq!(says(&file, "cat x"), Decision::Deny);
    fs::write(&path, "[[rule]]\nid = 7\n").unwrap();
    assert_eq!(says(&file, "cat x"), Decision::Deny);
    fs::remove_file(&path).unwrap();
    assert_eq!(says(&file, "cat x"), Decision::Deny);
    fs::write(&path, DENY_LS).unwrap();
    assert_eq!(says(&file, "ls"), Decision::Deny);
    assert_eq!(says(&file, "cat x"), Decision::Allow);
    assert_eq!(file.by_profile("allowlist").unwrap().profile(), "allowlist");
    assert!(file.by_profile("none such").is_err());
}

#[test]
fn rules_that_are_wrong_at_the_start_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    assert!(opened(&path).unwrap_err().message.contains("policy.toml"));
    fs::write(&path, "[[rule]]\nid = \"a\"\nverdict = \"perhaps\"\n").unwrap();
    let refused = opened(&path).unwrap_err();
    assert!(refused.message.contains("verdict"), "{refused}");
    assert!(PolicyFile::open("none such", Path::new(""), AllowedLines::default()).is_err());
}

#[test]
fn rules_that_others_can_write_are_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    fs::write(&path, DENY_LS).unwrap();
    let file = opened(&path).unwrap();
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(says(&file, "ls"), Decision::Deny);
    assert!(opened(&path).unwrap_err().message.contains("everybody"));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(says(&file, "ls"), Decision::Allow);
}
