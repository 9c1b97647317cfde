//! What an edit of JSON leaves, to the byte.

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
