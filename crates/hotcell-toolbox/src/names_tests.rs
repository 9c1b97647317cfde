//! What names become, and that no two become the same.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::names::{Use, identifiers, is_plain};

fn tool(name: &str) -> String {
    identifiers([name], Use::Tool).remove(name).unwrap()
}

#[test]
fn names_keep_what_they_can() {
    for (name, expected) in [
        ("create_issue", "create_issue"),
        ("createIssue", "createIssue"),
        ("create-issue", "create_issue"),
        ("issues.create", "issues_create"),
        ("issues/create:v2", "issues_create_v2"),
        ("2fa", "_2fa"),
        ("class", "class_"),
        ("delete", "delete_"),
        ("list", "list_"),
        ("__init__", "init"),
        ("naïve", "na_ve"),
        ("x(): pass\nimport os", "x_pass_import_os"),
        ("../../etc/passwd", "etc_passwd"),
    ] {
        assert_eq!(tool(name), expected, "{name}");
    }
    assert!(tool("日本語").starts_with("tool_"));
    assert_ne!(tool("日本語"), tool("日本"));
    let of = |name, purpose| identifiers([name], purpose).remove(name).unwrap();
    assert_eq!(of("gather", Use::Server), "gather_");
    assert_eq!(of("gather", Use::Tool), "gather");
    for taken in ["Call", "ToolError", "call", "search", "tool_search", "tools"] {
        assert_eq!(of(taken, Use::Server), format!("{taken}_"));
    }
    assert_eq!(of("list", Use::Argument), "list");
    assert_eq!(of("from", Use::Argument), "from_");
}

#[test]
fn a_name_that_two_could_have_is_nobodys_but_its_own() {
    let given = identifiers(["a_b", "a-b", "a.b"], Use::Tool);
    assert_eq!(given["a_b"], "a_b");
    assert!(given["a-b"].starts_with("a_b_") && given["a.b"].starts_with("a_b_"));
    assert_ne!(given["a-b"], given["a.b"]);
    let contested = identifiers(["a-b", "a.b"], Use::Tool);
    assert_eq!((&contested["a-b"], &contested["a.b"]), (&given["a-b"], &given["a.b"]));
    assert_eq!(identifiers(["a-b"], Use::Tool)["a-b"], "a_b");
}

proptest! {
    #[test]
    fn every_name_has_an_identifier_of_its_own(
        names in prop::collection::btree_set(".{1,80}|[a-b_.-]{1,4}|list_?|class_*", 1..30),
    ) {
        for purpose in [Use::Server, Use::Tool, Use::Argument] {
            let given = identifiers(names.iter().map(String::as_str), purpose);
            prop_assert_eq!(given.len(), names.len());
            let different: BTreeSet<&String> = given.values().collect();
            prop_assert_eq!(different.len(), names.len());
            for identifier in given.values() {
                prop_assert!(is_plain(identifier) && identifier.len() <= 72, "{}", identifier);
                prop_assert!(!identifier.starts_with("__"), "{}", identifier);
            }
            let turned = identifiers(names.iter().rev().map(String::as_str), purpose);
            prop_assert_eq!(&turned, &given);
        }
    }
}
