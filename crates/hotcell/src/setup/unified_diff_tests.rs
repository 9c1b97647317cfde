//! The shape of the difference that is shown.

use std::path::Path;

use super::unified_diff;

#[test]
fn only_what_changes_is_shown_with_some_lines_around() {
    let before: String = (1..=20).map(|line| format!("{line}\n")).collect();
    let after = before.replace("10\n", "ten\n");
    let shown = unified_diff(Path::new("/a"), &before, &after);
    let expected = "--- /a\n+++ /a\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n";
    assert_eq!(shown, expected);
}

#[test]
fn a_file_cannot_send_commands_to_the_terminal_or_fill_it() {
    let long = "x".repeat(10_000);
    let shown = unified_diff(Path::new("/a"), "", &format!("\u{1b}]0;hi\u{7}\t{long}\n"));
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown}");
    assert!(shown.contains("\\u{1b}") && shown.contains('\t') && shown.contains('…'), "{shown}");
    assert!(shown.len() < 1000);
}

#[test]
fn a_new_file_comes_from_nothing() {
    assert!(unified_diff(Path::new("/a"), "", "x\n").starts_with("--- /dev/null\n+++ /a\n"));
}
