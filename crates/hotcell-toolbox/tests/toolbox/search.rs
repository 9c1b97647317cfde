//! Whether people's words find the tool that they mean.

use hotcell_toolbox::{ToolIndex, ToolKey, ToolQuery};

use crate::fixture;

/// Each query with the tools that are right, by the names on the wire.
fn queries(text: &'static str) -> Vec<(&'static str, Vec<ToolKey>)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
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

/// How many queries of a hundred find their tool among the first five; those that do not are told.
fn found_of_a_hundred(queries: &[(&str, Vec<ToolKey>)]) -> usize {
    let catalog = fixture::catalog();
    let index = ToolIndex::new(&catalog);
    let mut missed = Vec::new();
    let mut first = 0;
    for (text, right) in queries {
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
    let (all, found) = (queries.len(), queries.len() - missed.len());
    println!("{found} of {all} in the first five, {first} first\n{}", missed.join("\n"));
    found * 100 / all
}

#[test]
fn the_right_tool_is_among_the_first_five() {
    let queries = queries(include_str!("queries.txt"));
    assert!(queries.len() >= 150);
    assert!(found_of_a_hundred(&queries) >= 95);
}

#[test]
fn the_right_tool_is_found_by_words_that_nothing_was_tuned_to() {
    let queries = queries(include_str!("queries_blind.txt"));
    assert!(queries.len() >= 80);
    assert!(found_of_a_hundred(&queries) >= 90);
}

#[test]
fn a_search_that_finds_nothing_would_be_noticed() {
    let queries = queries("xyzzy => forge.create_issue\nopen a PR => weather.current");
    assert_eq!(found_of_a_hundred(&queries), 0);
}

#[test]
fn misspelt_words_and_other_languages_find_the_tool() {
    let queries = queries(include_str!("queries_spoken.txt"));
    assert!(queries.len() >= 25);
    assert!(found_of_a_hundred(&queries) >= 90);
}

#[test]
fn requests_that_no_tool_can_serve_find_nothing() {
    let index = ToolIndex::new(&fixture::catalog());
    let search =
        |text: &str| index.search(&ToolQuery { text: text.to_owned(), server: None, limit: 5 });
    let impossible = [
        "play some jazz music",
        "order a pizza with extra cheese",
        "turn on the lamp in the bedroom",
        "unlock my bicycle",
        "compose a lullaby",
        "feed the goldfish",
        "train a neural network",
        "bake a chocolate cake",
        "ein Lied abspielen",
        "jouer de la guitare",
    ];
    let wrong: Vec<&str> = impossible.into_iter().filter(|text| !search(text).is_empty()).collect();
    assert!(wrong.len() <= 1, "{wrong:?}");
}
