//! Reports are read whatever they hold.

use hotcell_model::{CodeOutcome, CodeReport, CodeValue};
use proptest::prelude::*;
use serde_json::json;

use crate::{MAX_ARTIFACTS, MAX_REPORT_BYTES, ReportError, read_report};

fn read(value: &serde_json::Value) -> CodeReport {
    read_report(value.to_string().as_bytes()).unwrap()
}

#[test]
fn a_whole_report_is_read() {
    let report = read(&json!({
        "status": "ok", "result": {"json": {"a": [1, null]}}, "result_type": "dict",
        "result_file": "/workspace/.results/e_1/result.json", "error": null,
        "artifacts": [{"path": "/workspace/.results/e_1/a.png", "mime": "image/png", "bytes": 7}],
    }));
    assert_eq!(report.status, CodeOutcome::Ok);
    assert_eq!(report.result, Some(CodeValue::Json(json!({"a": [1, null]}))));
    assert_eq!(report.result_type.as_deref(), Some("dict"));
    assert_eq!(report.result_file.as_deref(), Some("/workspace/.results/e_1/result.json"));
    assert_eq!(report.artifacts[0].bytes, 7);
    let error = json!({"type": "ValueError", "message": "m", "traceback": "t", "line": 3});
    let failed = read(&json!({"status": "error", "error": error, "result": {"preview": "p"}}));
    assert_eq!(failed.status, CodeOutcome::Error);
    assert_eq!(failed.result, Some(CodeValue::Preview("p".to_owned())));
    let told = failed.error.unwrap();
    assert_eq!((told.kind.as_str(), told.line), ("ValueError", Some(3)));
}

#[test]
fn what_is_of_another_type_reads_as_absent() {
    let report = read(&json!({
        "status": 3, "result": [1], "result_type": {}, "result_file": "../etc/passwd", "error": 7,
        "artifacts": {"a": 1},
    }));
    assert_eq!(report, CodeReport::default());
    let error = read(&json!({"status": "ok?", "error": {"type": 1, "line": -4}})).error.unwrap();
    assert_eq!((error.kind.as_str(), error.line), ("Exception", None));
    assert_eq!(read(&json!({"result": {"repr": 5}})).result, None);
}

#[test]
fn paths_that_lead_elsewhere_are_left_out() {
    let artifact = |path: &str| json!({"path": path, "mime": "image/png", "bytes": 1});
    let report = read(&json!({"artifacts": [
        artifact("/w/../../etc/shadow"), artifact("relative"), artifact("/a\n/b"), artifact("/w/ok"),
        {"path": "/w/mime", "mime": "text/html\r\nX: y", "bytes": -1},
    ]}));
    let paths: Vec<&str> = report.artifacts.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(paths, ["/w/ok", "/w/mime"]);
    assert_eq!(report.artifacts[0].mime, "image/png");
    assert_eq!(report.artifacts[1].mime, "application/octet-stream");
    assert_eq!(report.artifacts[1].bytes, 0);
}

#[test]
fn lists_are_bounded() {
    let many = |item: serde_json::Value| vec![item; 5000];
    let report = read(&json!({
        "artifacts": many(json!({"path": "/a", "mime": "a/b", "bytes": 1})),
    }));
    assert_eq!(report.artifacts.len(), MAX_ARTIFACTS);
}

#[test]
fn what_is_no_report_is_refused() {
    assert!(matches!(read_report(b""), Err(ReportError::Absent)));
    let large = vec![b' '; MAX_REPORT_BYTES + 1];
    assert!(matches!(read_report(&large), Err(ReportError::TooLarge(_))));
    let deep = format!("{{\"result\":{{\"json\":{}1{}}}}}", "[".repeat(500), "]".repeat(500));
    for bad in ["[]", "7", "{", "{} {}", "\u{0}", deep.as_str()] {
        assert!(matches!(read_report(bad.as_bytes()), Err(ReportError::Malformed(_))), "{bad}");
    }
    assert!(matches!(read_report(b"{\"a\":\"\xff\"}"), Err(ReportError::Malformed(_))));
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_report(&bytes);
    }

    #[test]
    fn what_was_read_is_within_bounds(text in ".{0,400}", path in "(/?[a.\n]{0,4}){0,5}") {
        let report = read(&json!({
            "result_type": text, "result_file": path,
        }));
        prop_assert!(report.result_type.is_none_or(|name| name.chars().count() <= 256));
        let leads_elsewhere =
            |path: &String| !path.starts_with('/') || path.contains("/../") || path.contains('\n');
        prop_assert!(!report.result_file.as_ref().is_some_and(leads_elsewhere));
    }
}
