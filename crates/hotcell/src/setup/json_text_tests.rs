//! What an edit of JSON leaves, to the byte.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{Entry, Language};

fn edited(text: &str) -> String {
    let entry = Entry { fields: vec![("command", json!("/x")), ("args", json!(["serve"]))] };
    Language::Json.edit(text, "mcpServers", "hotcell", &entry).unwrap()
}

#[test]
fn an_entry_is_added_after_the_others_in_their_layout() {
    let before = "{\n    \"mcpServers\": {\n        \"a\": {}\n    }\n}";
    let after = "{\n    \"mcpServers\": {\n        \"a\": {},\n        \"hotcell\": {\n            \
                 \"command\": \"/x\",\n            \"args\": [\"serve\"]\n        }\n    }\n}";
    assert_eq!(edited(before), after);
}

#[test]
fn comments_behind_the_last_server_stay() {
    let after = edited("{\n  \"mcpServers\": {\n    \"a\": {} // last\n    // end\n  }\n}\n");
    assert!(after.contains("\n    \"a\": {}, // last\n"), "{after}");
    assert!(after.contains("\n    // end\n  }\n}\n"), "{after}");
}

#[test]
fn numbers_and_texts_of_others_stay_as_they_are_written() {
    let others =
        ["\"n\": 1.50e+3", "\"big\": 123456789012345678901234567890", "\"u\": \"\\u00e9\\/\""];
    let after = edited(&format!("{{{}}}", others.join(", ")));
    for other in others {
        assert!(after.contains(other), "{after}");
    }
}

#[test]
fn a_name_that_is_written_with_escapes_is_found() {
    let after = edited("{\"mcp\\u0053ervers\": {\"hot\\u0063ell\": {\"command\": \"/old\"}}}");
    assert!(after.starts_with("{\"mcp\\u0053ervers\": {\"hot\\u0063ell\": {"), "{after}");
    let expected = json!({"mcpServers": {"hotcell": {"command": "/x", "args": ["serve"]}}});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&after).unwrap(), expected);
}

#[test]
fn a_file_of_comments_gets_an_object() {
    let after = edited("// nothing yet\n");
    assert!(after.starts_with("// nothing yet\n{"), "{after}");
}

/// What may stand between two words.
fn gap() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", " ", "\n", "\n    ", "\r\n\t", "/* c */", " // c\n", "\n\n// c\n  "])
}

/// A list of things between brackets, laid out in any way.
fn listed(
    brackets: [&'static str; 2],
    item: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    let items = prop::collection::vec((gap(), item, gap()), 0..4);
    (items, gap(), any::<bool>()).prop_map(move |(items, end, trailing)| {
        let comma = if trailing && !items.is_empty() { "," } else { "" };
        let items: Vec<String> = items
            .into_iter()
            .map(|(before, item, after)| format!("{before}{item}{after}"))
            .collect();
        format!("{}{}{comma}{end}{}", brackets[0], items.join(","), brackets[1])
    })
}

/// JSON with the words that an edit looks for, in any place and layout.
fn document() -> impl Strategy<Value = String> {
    let word = select(vec!["mcpServers", "hotcell", "command", "args", "url", "a", "b"]);
    let leaf = select(vec!["1", "-2.5e3", "\"x\"", "null", "true", "[]", "{}", "[ ]", "{\n}"]);
    let value = leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, move |inner| {
        let field = (word.clone(), gap(), gap(), inner.clone())
            .prop_map(|(name, before, after, value)| format!("\"{name}\"{before}:{after}{value}"));
        prop_oneof![3 => listed(["{", "}"], field), 1 => listed(["[", "]"], inner)]
    });
    (gap(), value, gap()).prop_map(|(before, value, after)| format!("{before}{value}{after}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_layout_is_edited_once_or_refused(text in document()) {
        let entry = Entry { fields: vec![("command", json!("/x")), ("args", json!(["serve"]))] };
        let edit = |text: &str| Language::Json.edit(text, "mcpServers", "hotcell", &entry);
        if let Ok(after) = edit(&text) {
            let meaning = Language::Json.read(&after).unwrap();
            let there = &meaning["mcpServers"]["hotcell"];
            prop_assert_eq!(&there["command"], &json!("/x"), "{}", after);
            prop_assert_eq!(&there["args"], &json!(["serve"]), "{}", after);
            prop_assert_eq!(&there["url"], &json!(null), "{}", after);
            let comments = |text: &str| text.matches(" c").count();
            if !text.contains("hotcell") {
                prop_assert_eq!(comments(&after), comments(&text), "{} became {}", text, after);
            }
            prop_assert_eq!(edit(&after), Ok(after));
        } else {
            let means = Language::Json.read(&text).unwrap();
            let servers = means.get("mcpServers");
            let fits = means.is_object()
                && servers.is_none_or(|servers| {
                    servers.is_object() && servers.get("hotcell").is_none_or(|it| it.is_object())
                });
            let twice = text.matches("\"mcpServers\"").count() > 1
                || text.matches("\"hotcell\"").count() > 1
                || text.matches("\"command\"").count() > 1
                || text.matches("\"args\"").count() > 1
                || text.matches("\"url\"").count() > 1;
            prop_assert!(!fits || twice, "{text} was refused: {:?}", edit(&text));
        }
    }
}
