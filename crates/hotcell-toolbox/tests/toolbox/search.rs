//! Whether people's words find the tool that they mean.

use hotcell_toolbox::{ToolIndex, ToolKey, ToolQuery};

use crate::fixture;

/// Each query with the tools that are right, by the names on the wire.
fn queries() -> Vec<(&'static str, Vec<ToolKey>)> {
    let lines = include_str!("queries.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (query, right) = line.split_once(" => ").unwrap();
            let right = right.split(" | ").map(|name| {
                let (server, tool) = name.split_once('.').unwrap();
                ToolKey { server: server.to_owned(), tool: tool.to_owned() }
            });
            (query, right.collect())
        })
        .collect()
}

#[test]
fn the_right_tool_is_among_the_first_five() {
    let catalog = fixture::catalog();
    let index = ToolIndex::new(&catalog);
    let queries = queries();
    assert!(queries.len() >= 150);
    let mut missed = Vec::new();
    let mut first = 0;
    for (text, right) in &queries {
        for key in right {
            assert!(catalog.find_by_key(key).is_some(), "{key:?} is not in the catalog");
        }
        let query = ToolQuery { text: (*text).to_owned(), server: None, limit: 5 };
        let hits = index.search(&query);
        first += usize::from(hits.first().is_some_and(|hit| right.contains(&hit.key)));
        if !hits.iter().any(|hit| right.contains(&hit.key)) {
            let found: Vec<String> =
                hits.iter().map(|hit| format!("{}.{}", hit.key.server, hit.key.tool)).collect();
            missed.push(format!("{text}: {} instead of {:?}", found.join(", "), right[0].tool));
        }
    }
    let all = queries.len();
    let found = all - missed.len();
    println!("{found} of {all} in the first five, {first} first\n{}", missed.join("\n"));
    assert!(found * 100 >= all * 90, "{found} of {all} in the first five:\n{}", missed.join("\n"));
}
