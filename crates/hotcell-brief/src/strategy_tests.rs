//! What each strategy tells of each kind of text and value.

use serde_json::{Value, json};

use crate::{Brief, How, Parts, ResultContent, ResultPart, ShownResult, Strategy, Text};

fn printed(text: &str, strategy: Strategy, budget: usize) -> (String, How) {
    let parts = Parts { stdout: Text::whole(text), ..Parts::default() };
    let shown = Brief::new(budget, strategy).show(&parts);
    assert!(shown.tokens <= budget);
    (shown.stdout, shown.cut[0].how)
}

fn returned(value: &Value, strategy: Strategy, budget: usize) -> String {
    let result = Some(ResultPart { content: ResultContent::Json(value), more: None });
    let shown = Brief::new(budget, strategy).show(&Parts { result, ..Parts::default() });
    let Some(ShownResult::Text(text)) = shown.result else { panic!("{shown:?}") };
    text
}

fn records(count: usize) -> Value {
    let record = |at: usize| {
        json!({"id": at, "name": format!("customer {at}"), "tags": vec!["a"; at % 4],
               "owner": {"mail": "x@example.com", "age": if at.is_multiple_of(2) { json!(30) } else { Value::Null }}})
    };
    Value::from_iter((0..count).map(record))
}

#[test]
fn a_list_of_records_is_told_by_its_shape_and_some_of_it() {
    let told = returned(&records(5_000), Strategy::Auto, 500);
    for part in [
        "list[5000] of object\n",
        "  id: integer, such as 0\n",
        "  name: string, such as \"customer 0\"\n",
        "tags: list[0 to 3] of string",
        "    age: integer or null, such as 30\n",
        "of 5000 items, evenly spaced:\n[0] {\"id\":0,",
        "[4999] {",
    ] {
        assert!(told.contains(part), "no {part:?} in\n{told}");
    }
}

#[test]
fn an_object_is_told_with_the_values_that_it_has() {
    let value = json!({"count": 5, "title": "Report", "rows": records(3_000)});
    let told = returned(&value, Strategy::Summarise, 300);
    for part in
        ["count: integer = 5\n", "title: string = \"Report\"\n", "rows: list[3000] of object\n"]
    {
        assert!(told.contains(part), "no {part:?} in\n{told}");
    }
}

#[test]
fn keys_beyond_the_room_are_counted() {
    let value = Value::from_iter((0..5_000).map(|at| (format!("key_{at}"), json!("v".repeat(50)))));
    let told = returned(&value, Strategy::Auto, 400);
    assert!(told.contains("more keys"), "{told}");
}

#[test]
fn a_list_is_sampled_with_its_numbers() {
    let told = returned(&records(5_000), Strategy::Sample, 400);
    assert!(told.contains(" of 5000 items, evenly spaced:\n[0] {"), "{told}");
    assert!(told.contains("\n[4999] {"), "{told}");
}

#[test]
fn json_that_was_printed_is_told_by_its_shape_too() {
    let (told, how) = printed(&records(2_000).to_string(), Strategy::Auto, 400);
    assert!(told.starts_with("list[2000] of object\n"), "{told}");
    assert_eq!(how, How::Summarised);
    let lines: String =
        records(900).as_array().unwrap().iter().map(|one| format!("{one}\n")).collect();
    let (told, _) = printed(&lines, Strategy::Auto, 400);
    assert!(told.starts_with("900 lines of JSON, each: object\n  id: integer"), "{told}");
    assert!(told.contains("\"id\":899"), "{told}");
}

#[test]
fn a_table_is_told_by_its_columns_and_rows() {
    let rows: String = (0..9_000).map(|at| format!("{at},\"Doe, J\",{}.5,\n", at % 90)).collect();
    let (told, how) = printed(&format!("id,name,price,note\n{rows}"), Strategy::Auto, 400);
    let head = "table: 9000 rows below the first line, 4 columns: \
                id integer, name text, price number, note (empty)\nid,name,price,note\n0,\"Doe, J\"";
    assert!(told.starts_with(head), "{told}");
    assert!(told.contains("lines, ") && told.ends_with("8999,\"Doe, J\",89.5,\n"), "{told}");
    assert_eq!(how, How::Summarised);
}

#[test]
fn a_log_is_told_by_its_kinds_of_lines_with_errors_first() {
    let mut log = String::new();
    for at in 0..30_000 {
        let line = match at {
            777 => "ERROR cannot reach db-3: refused".to_owned(),
            _ if at % 10_000 == 5 => format!("WARN slow query {at} ms"),
            _ => format!("INFO request {at} done in {} ms", at % 70),
        };
        log += &format!("2026-11-16T10:00:{:02} {line}\n", at % 60);
    }
    let (told, how) = printed(&log, Strategy::Auto, 400);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("log: 30000 lines, 1 with errors. Kinds of lines"), "{told}");
    assert!(lines[1].starts_with("1× line 778: ") && lines[1].ends_with("db-3: refused"), "{told}");
    assert!(lines[2].starts_with("3× line 6: ") && lines[2].contains("WARN"), "{told}");
    assert!(lines[3].starts_with("29996× line 1: "), "{told}");
    assert!(told.ends_with("INFO request 29999 done in 39 ms"), "{told}");
    assert_eq!(how, How::Summarised);
}

#[test]
fn prose_keeps_its_beginning_and_its_end_in_whole_lines() {
    let words = ["river", "stone", "wind", "house", "letter", "garden", "street"];
    let line = |at: usize| {
        format!("The {} by the {} is {}.\n", words[at % 7], words[at % 5], words[at / 7 % 7])
    };
    let prose: String = (0..4_000).map(line).collect();
    let (told, how) = printed(&prose, Strategy::Truncate, 400);
    let (head, tail) = told.split_once("[… ").unwrap();
    assert!(prose.starts_with(head) && head.ends_with(".\n"), "{told}");
    let (note, tail) = tail.split_once(" …]\n").unwrap();
    assert!(prose.ends_with(tail) && tail.starts_with("The "), "{told}");
    let shown = head.lines().count() + tail.lines().count();
    let bytes = prose.len() - head.len() - tail.len();
    assert_eq!(note, format!("{} lines, {bytes} bytes left out", 4_000 - shown));
    assert_eq!(how, How::Truncated);
}

#[test]
fn lines_are_sampled_with_their_numbers() {
    let text: String = (1..=9_999).map(|at| format!("line number {at}\n")).collect();
    let (told, how) = printed(&text, Strategy::Sample, 300);
    assert!(told.contains("of 9999 lines, evenly spaced:\n1: line number 1\n"), "{told}");
    assert!(told.ends_with("9999: line number 9999\n"), "{told}");
    for line in told.lines().skip(1) {
        let (number, text) = line.split_once(": ").unwrap();
        assert_eq!(text, format!("line number {number}"));
    }
    assert_eq!(how, How::Sampled);
}

#[test]
fn one_line_without_end_is_cut_between_characters() {
    let (told, _) = printed(&"äöü".repeat(3_000_000), Strategy::Auto, 300);
    assert!(told.starts_with("äöü") && told.ends_with("ü"), "{told}");
    assert!(told.contains(" bytes left out …]"), "{told}");
}

#[test]
fn bytes_are_named_and_not_printed() {
    let raw: Vec<u8> = (0..100_000_u32).map(|at| u8::try_from(at * 7919 % 256).unwrap()).collect();
    let stdout = Text::pieces(&raw, b"", raw.len() as u64, 400);
    let shown = Brief::new(500, Strategy::Auto).show(&Parts { stdout, ..Parts::default() });
    assert!(shown.stdout.starts_with("no text: 100000 bytes, the first are 00 "), "{shown:?}");
}

#[test]
fn a_large_string_is_shown_as_the_text_that_it_is() {
    let value = Value::from("once upon a time\n".repeat(5_000));
    let told = returned(&value, Strategy::Truncate, 300);
    assert!(told.starts_with("once upon a time\nonce"), "{told}");
}
