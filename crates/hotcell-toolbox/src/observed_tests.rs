//! What is learned of results, and what is not.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::catalog::{Catalog, ToolKey};
use crate::changes::CatalogChanges;
use crate::observations::Observations;
use crate::observed::Observed;
use crate::testing::{catalog_of, only, takes};
use crate::text::Language;

fn learned(results: &[Value]) -> Observed {
    let mut observed = Observed::default();
    results.iter().for_each(|result| observed.learn(result));
    observed
}

fn stub(results: &[Value]) -> String {
    let catalog = takes(json!({}));
    only(&catalog).stub(Language::Python, Some(&learned(results)), None)
}

#[test]
fn results_are_merged_and_marked() {
    let stub = stub(&[
        json!({ "id": 1, "tags": ["a"], "owner": { "name": "Ada" } }),
        json!({ "id": "x", "tags": [], "closed": null }),
    ]);
    assert!(stub.contains("-> DoItResult:"), "{stub}");
    let class = "class DoItResult(TypedDict):\n    id: str | int\n    tags: list[str]\n    \
                 closed: NotRequired[None]\n    owner: NotRequired[DoItResultOwner]\n";
    assert!(stub.contains(class), "{stub}");
    assert!(
        stub.contains("Result as observed in 2 calls; the server does not declare it."),
        "{stub}"
    );
}

#[test]
fn no_value_is_kept() {
    let secret = "hunter2-ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let result = json!({
        "token": secret,
        "list": [secret, { secret: secret }],
        "by_mail": { "ada@example.com": 1, "bob@example.com": 2 },
        "by_id": { "4711": { "x": 1 }, "4712": { "x": 2 } },
        "by_day": { "2026-01-31": 5 },
    });
    let observed = learned(&[result.clone(), json!({ "by_mail": { "plain": 3 } })]);
    let kept = serde_json::to_string(&observed).unwrap();
    for value in [secret, "hunter2", "ada@", "4711", "2026"] {
        assert!(!kept.contains(value), "{kept}");
    }
    assert!(kept.contains("token"));
    let stub = stub(&[result]);
    assert!(stub.contains("by_mail: dict[str, int]"), "{stub}");
    assert!(stub.contains("by_day: dict[str, int]"), "{stub}");
}

#[test]
fn shapes_stay_small() {
    let wide: Value = (0..5_000)
        .map(|at| (format!("k{at}"), json!(at)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let deep = (0..100).fold(json!(1), |inner, at| json!({ "in": inner, "at": at }));
    let bushy = (0..4).fold(json!(1), |inner, _| {
        (0..20)
            .map(|at| (format!("k{}", (b'a' + at) as char), inner.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    });
    let observed = learned(&[wide, deep, bushy]);
    let kept = serde_json::to_string(&observed).unwrap();
    assert!(kept.len() < 40_000, "{} bytes", kept.len());
}

#[test]
fn only_tools_that_do_not_say_what_they_give_are_learned_and_changed_ones_forgotten() {
    let tool = |name: &str, more: Value| json!({ "name": name, "outputSchema": more });
    let old = catalog_of(&[
        tool("says", json!({})),
        tool("silent", Value::Null),
        tool("stays", Value::Null),
    ]);
    let key = |name: &str| ToolKey { server: "box".to_owned(), tool: name.to_owned() };
    let mut observations = Observations::default();
    for name in ["says", "silent", "stays", "never listed"] {
        observations.learn(&old, &key(name), &json!({ "x": 1 }));
    }
    let known = |observations: &Observations, name: &str| observations.find(&key(name)).is_some();
    let all = ["says", "silent", "stays", "never listed"].map(|name| known(&observations, name));
    assert_eq!(all, [false, true, true, false]);
    let text = serde_json::to_string(&observations).unwrap();
    assert_eq!(serde_json::from_str::<Observations>(&text).unwrap(), observations);
    let new: Catalog = catalog_of(&[
        json!({ "name": "silent", "description": "now it does something else" }),
        tool("stays", Value::Null),
    ]);
    observations.forget_changed(&CatalogChanges::between(&old, &new));
    assert!(!known(&observations, "silent") && known(&observations, "stays"));
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-d]|[0-9]{5}", inner, 0..5).prop_map(|keys| json!(keys)),
        ]
    })
    .boxed()
}

proptest! {
    #[test]
    fn it_does_not_matter_what_was_seen_first(results in prop::collection::vec(value(), 1..6)) {
        let there = learned(&results);
        let turned: Vec<Value> = results.iter().rev().cloned().collect();
        prop_assert_eq!(&there, &learned(&turned));
        let (one, other) = results.split_at(results.len() / 2);
        let mut merged = learned(one);
        merged.merge(learned(other));
        prop_assert_eq!(merged, there);
    }
}
