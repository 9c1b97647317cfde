//! What an answer of a search costs at most, whatever servers list.

use hotcell_toolbox::{
    Catalog, Observations, SearchDetail, ServerListing, ToolIndex, ToolQuery, Trust, seeded_policy,
    show_hits,
};
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

use crate::fixture;

/// Five tools on one line each.
const MOST_OF_FIVE_LINES: usize = 420;
/// One tool in full.
const MOST_OF_ONE: usize = 460;

/// What five lines and one full stub of what a query finds cost.
fn costs(tokenizer: &CoreBPE, catalog: &Catalog, index: &ToolIndex, text: &str) -> (usize, usize) {
    let query = ToolQuery { text: text.to_owned(), server: None, limit: 5 };
    let hits = index.search(&query);
    let observations = Observations::default();
    let policy = |key: &_| {
        let tool = catalog.find_by_key(key).unwrap();
        seeded_policy(tool.listing(), Trust::Nothing)
    };
    let cost = |hits: &[_], detail| {
        let shown = show_hits(catalog, hits, detail, &observations, &policy).join("\n");
        tokenizer.encode_ordinary(&shown).len()
    };
    let full = hits.iter().map(|hit| cost(std::slice::from_ref(hit), SearchDetail::Full)).max();
    (cost(&hits, SearchDetail::Stub), full.unwrap_or(0))
}

#[test]
fn an_ordinary_discovery_is_bounded() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let catalog = fixture::catalog();
    let index = ToolIndex::new(&catalog);
    let mut dearest = (0, 0);
    for line in include_str!("queries.txt").lines().filter(|line| !line.starts_with('#')) {
        let (lines, full) = costs(&tokenizer, &catalog, &index, line.split(" => ").next().unwrap());
        dearest = (dearest.0.max(lines), dearest.1.max(full));
    }
    println!("five lines {}, one in full {}", dearest.0, dearest.1);
    assert!(dearest.0 > 100 && dearest.0 <= MOST_OF_FIVE_LINES, "{dearest:?}");
    assert!(dearest.1 > 100 && dearest.1 <= MOST_OF_ONE, "{dearest:?}");
}

/// Tools whose schemas are as long as they can be made.
fn monsters() -> Vec<Value> {
    let words = "an argument that is told of at great length and with many words ".repeat(12);
    let values: Vec<String> = (0..60).map(|n| format!("a value of many letters {n}")).collect();
    let deep = (0..6).fold(json!({ "type": "string", "description": words }), |inner, n| {
        json!({ "type": "object", "description": words, "properties": { format!("level_{n}"): inner } })
    });
    let shapes = [
        json!({ "enum": values, "description": words }),
        json!({ "type": "array", "items": { "enum": values } }),
        json!({ "anyOf": [deep.clone(), { "type": "integer" }, { "enum": values }] }),
        deep,
    ];
    (0..5)
        .map(|n| {
            let names: Vec<String> =
                (0..40).map(|at| format!("argument_number_{at}_of_{n}")).collect();
            let properties: serde_json::Map<String, Value> = names
                .iter()
                .enumerate()
                .map(|(at, name)| (name.clone(), shapes[at % shapes.len()].clone()))
                .collect();
            let required: Vec<&String> = names.iter().take(10 * n).collect();
            json!({
                "name": format!("monster_{n}_{}", "of_many_words_".repeat(4)),
                "description": words,
                "inputSchema": { "type": "object", "properties": properties, "required": required },
                "outputSchema": { "type": "object", "properties": properties },
            })
        })
        .collect()
}

#[test]
fn a_discovery_among_monsters_is_bounded() {
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let catalog = Catalog::new([ServerListing::read("monsters", &monsters())]);
    let (lines, full) =
        costs(&tokenizer, &catalog, &ToolIndex::new(&catalog), "monster of many words");
    println!("five lines {lines}, one in full {full}");
    assert!(lines > 100 && lines <= MOST_OF_FIVE_LINES, "{lines}");
    assert!(full > 50 && full <= MOST_OF_ONE, "{full}");
    // It is the bound that does it: all of one is far longer.
    let tool = catalog.tools().next().unwrap();
    let whole = tool.stub(hotcell_toolbox::Language::Python, None, None);
    assert!(tokenizer.encode_ordinary(&whole).len() > 10 * MOST_OF_ONE);
}
