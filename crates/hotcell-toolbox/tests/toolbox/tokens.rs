//! What stubs save against definitions, and how good the estimate of tokens is.

use hotcell_brief::estimate_tokens;
use hotcell_toolbox::{
    Language, Observations, PASS_THROUGH_TOKENS, Showing, ToolTree, Trust, seeded_policy,
};

use crate::fixture;

#[test]
fn stubs_cost_a_fraction_and_the_estimate_is_near() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let count = |text: &str| tokenizer.encode_ordinary(text).len();
    let catalog = fixture::catalog();
    let observations = Observations::default();
    let policy = |key: &_| {
        let tool = catalog.find_by_key(key).unwrap();
        seeded_policy(tool.listing(), Trust::Nothing)
    };
    let tree = ToolTree::new(&catalog, &observations, &policy);
    let definitions: Vec<String> =
        catalog.tools().map(|tool| serde_json::to_string(tool.listing()).unwrap()).collect();
    let definitions = definitions.join(",");
    let join = |language| -> String {
        catalog.tools().map(|tool| tool.line(language, None) + "\n").collect()
    };
    let (python, typescript) = (join(Language::Python), join(Language::TypeScript));
    let full: String = tree
        .paths()
        .iter()
        .filter(|path| path.ends_with(".pyi") && !path.ends_with("__init__.pyi"))
        .map(|path| tree.read(path).unwrap())
        .collect();
    let index = tree.read("INDEX.md").unwrap();
    println!("{} tools of {} servers", catalog.tools().count(), catalog.servers().len());
    let mut off: Vec<&str> = Vec::new();
    for (what, text) in [
        ("definitions", &definitions),
        ("full stubs, Python", &full),
        ("one line each, Python", &python),
        ("one line each, TypeScript", &typescript),
        ("index of servers", &index),
    ] {
        let (real, estimate) = (count(text), estimate_tokens(text));
        println!("{what}: {real} tokens, estimated {estimate} ({} characters)", text.len());
        off.extend((estimate * 100 < real * 90 || estimate * 100 > real * 110).then_some(what));
    }
    assert!(off.is_empty(), "the estimate is off by more than a tenth for {off:?}");
    assert!(count(&python) * 100 < count(&definitions) * 40);
    assert!(count(&index) < 900);
    assert_eq!(Showing::of(&catalog.passed(""), PASS_THROUGH_TOKENS), Showing::Code);
    assert_eq!(Showing::of(&catalog.passed(""), 1_000_000), Showing::PassThrough);
}
