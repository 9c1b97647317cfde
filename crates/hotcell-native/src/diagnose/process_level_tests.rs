//! What the doctor says where no namespaces can be made.

use super::*;

fn fatal() -> Vec<Check> {
    let (name, detail) = ("user_namespace".to_owned(), "refused".to_owned());
    vec![Check { name, status: CheckStatus::Fatal, detail, remedy: None }]
}

fn statuses(level: &ProcessLevel) -> Vec<CheckStatus> {
    level.without_namespaces(fatal()).iter().map(|check| check.status).collect()
}

#[test]
fn who_did_not_ask_for_it_is_told_of_the_setting_and_still_has_no_cells() {
    let level = ProcessLevel { wanted: false, refused: None };
    assert_eq!(statuses(&level), [CheckStatus::Fatal, CheckStatus::Info]);
    let told = level.without_namespaces(fatal()).pop().map(|check| check.detail);
    assert!(told.is_some_and(|detail| detail.contains("native.level = \"process\"")));
}

#[test]
fn who_asked_for_it_has_cells_that_lack_namespaces() {
    let level = ProcessLevel { wanted: true, refused: None };
    assert_eq!(statuses(&level), [CheckStatus::Missing, CheckStatus::Ok]);
}

#[test]
fn where_it_cannot_be_had_asking_changes_nothing() {
    let refused = || Some(Error::unsupported("the kernel has no Landlock"));
    let asked = ProcessLevel { wanted: true, refused: refused() };
    assert_eq!(statuses(&asked), [CheckStatus::Fatal, CheckStatus::Fatal]);
    let not_asked = ProcessLevel { wanted: false, refused: refused() };
    assert_eq!(statuses(&not_asked), [CheckStatus::Fatal, CheckStatus::Info]);
}
