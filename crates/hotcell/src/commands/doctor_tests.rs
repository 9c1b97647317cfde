//! The doctor's words: aligned, wrapped, and each remedy once.

use hotcell_model::{Check, CheckStatus, Diagnoses, Diagnosis, Isolation, Layer, MissingLayer};

use super::doctor::{Report, text};

fn check(name: &str, status: CheckStatus, detail: &str, remedy: Option<&str>) -> Check {
    let remedy = remedy.map(str::to_owned);
    Check { name: name.to_owned(), status, detail: detail.to_owned(), remedy }
}

fn missing(name: &str, remedy: &str) -> MissingLayer {
    let reason = "not delegated".to_owned();
    MissingLayer { name: name.to_owned(), reason, remedy: remedy.to_owned() }
}

fn report(checks: Vec<Check>, isolation: Option<Isolation>) -> Report {
    let driver = Diagnosis { driver: "native".to_owned(), checks, isolation };
    Report {
        state_dir: check("state_dir", CheckStatus::Ok, "/state: private and writable", None),
        diagnoses: Diagnoses { drivers: vec![driver] },
    }
}

#[test]
fn what_several_checks_lack_is_told_once() {
    let checks = vec![
        check("user_namespace", CheckStatus::Ok, "ids of its own", None),
        check("memory_limit", CheckStatus::Missing, "not delegated", Some("run as root")),
        check("cpu_limit", CheckStatus::Missing, "not delegated", Some("run as root")),
    ];
    let layers = vec![Layer { name: "user_namespace".to_owned(), means: None }];
    let lacking = vec![
        missing("memory_limit", "run as root"),
        missing("cpu_limit", "run as root"),
        missing("landlock", "use a newer kernel"),
    ];
    let isolation = Isolation::from_layers(layers, lacking);
    let expected = "\
CHECK           STATUS   SEEN
state_dir       ok       /state: private and writable
user_namespace  ok       ids of its own
memory_limit    missing  not delegated
cpu_limit       missing  not delegated

What to do:
  memory_limit, cpu_limit
      run as root
  landlock
      use a newer kernel

Cells of native can be made here. Their isolation is limited: without memory_limit, cpu_limit, landlock.
";
    assert_eq!(text(&report(checks, Some(isolation)), None), expected);
}

#[test]
fn lines_fit_the_terminal_and_what_is_copied_keeps_its_form() {
    let remedy =
        "write this to a file, and load it with the program for it:\n\nprofile {\n  userns,\n}";
    let checks = vec![check(
        "user_namespace",
        CheckStatus::Fatal,
        "clone3: Operation not permitted (os error 1)",
        Some(remedy),
    )];
    let expected = "\
CHECK           STATUS  SEEN
state_dir       ok      /state: private and
                        writable
user_namespace  fatal   clone3: Operation not
                        permitted (os error 1)

What to do:
  user_namespace
      write this to a file, and load it with the
      program for it:

      profile {
        userns,
      }

No cell of native can be made here.
";
    assert_eq!(text(&report(checks, None), Some(48)), expected);
}

#[test]
fn a_terminal_too_narrow_to_wrap_in_is_left_to_break_lines_itself() {
    let checks = vec![check("kernel", CheckStatus::Info, "Linux 6.18 of some distribution", None)];
    let shown = text(&report(checks, None), Some(20));
    assert!(shown.contains("info    Linux 6.18 of some distribution\n"), "{shown}");
}
