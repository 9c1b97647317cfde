//! Words, stems, and what a search gives.

use serde_json::json;

use crate::catalog::Catalog;
use crate::listing::ServerListing;
use crate::observations::Observations;
use crate::search::{SearchDetail, ToolHit, ToolIndex, ToolQuery, show_hits};
use crate::seeding::{Trust, seeded_policy};
use crate::spelling::Dictionary;
use crate::words::{split, stem};

fn catalog() -> Catalog {
    let chat = [
        json!({ "name": "postMessage", "description": "Send a message to a channel" }),
        json!({ "name": "list_channels", "description": "List channels" }),
    ];
    let mail = [
        json!({ "name": "send_message", "description": "Send a message by mail" }),
        json!({ "name": "delete-draft", "description": "Delete a draft" }),
    ];
    Catalog::new([ServerListing::read("chat", &chat), ServerListing::read("mail", &mail)])
}

fn query(text: &str, server: Option<&str>, limit: usize) -> Vec<ToolHit> {
    let query = ToolQuery { text: text.to_owned(), server: server.map(str::to_owned), limit };
    ToolIndex::new(&catalog()).search(&query)
}

fn names(hits: &[ToolHit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.key.tool.as_str()).collect()
}

#[test]
fn names_are_split_into_words() {
    for (name, words) in [
        ("createIssue", vec!["create", "issue"]),
        ("HTTPServerError", vec!["http", "server", "error"]),
        ("get_file-contents.v2", vec!["get", "file", "contents", "v2"]),
        ("user's list", vec!["user", "list"]),
        ("Überblick", vec!["überblick"]),
    ] {
        assert_eq!(split(name), words);
    }
}

#[test]
fn forms_of_a_word_have_one_stem() {
    for forms in [
        vec!["create", "creates", "created", "creating", "creation"],
        vec!["delete", "deletes", "deleted", "deleting", "deletion"],
        vec!["query", "queries", "querying"],
        vec!["notify", "notification", "notifications", "notified"],
        vec!["authorize", "authorization"],
        vec!["branch", "branches"],
        vec!["run", "runs", "running"],
        vec!["address", "addresses"],
        vec!["translate", "translation", "translating"],
        vec!["file", "files"],
    ] {
        for form in &forms {
            assert_eq!(stem(form), stem(forms[0]), "{form}");
        }
    }
    for (one, other) in [
        ("user", "use"),
        ("string", "str"),
        ("status", "state"),
        ("notion", "note"),
        ("comment", "come"),
    ] {
        assert_ne!(stem(one), stem(other));
    }
}

#[test]
fn a_search_is_limited_by_number_and_server() {
    assert_eq!(names(&query("send message", None, 10))[..2], ["send_message", "postMessage"]);
    assert_eq!(names(&query("send message", None, 1)), ["send_message"]);
    assert_eq!(names(&query("send message", Some("chat"), 10))[0], "postMessage");
    assert_eq!(names(&query("send message in chat", None, 10))[0], "postMessage");
    assert_eq!(names(&query("send message", Some("nobody"), 10)), Vec::<&str>::new());
    assert_eq!(names(&query("send message", None, 0)), Vec::<&str>::new());
    for nothing in ["", "   ", "the of to", "zzzz", "\"\\\0*?"] {
        assert_eq!(names(&query(nothing, None, 10)), Vec::<&str>::new(), "{nothing}");
    }
    assert!(!query(&"message ".repeat(100_000), None, 10).is_empty());
}

#[test]
fn words_that_mean_the_same_find_it_too() {
    assert_eq!(names(&query("erase unsent mail", None, 1)), ["delete-draft"]);
    assert_eq!(names(&query("show rooms", None, 1)), ["list_channels"]);
}

#[test]
fn misspelt_and_foreign_words_find_it_too() {
    for text in ["delte a darft", "deelte draft", "Entwurf: delete draft", "supprimer draft"] {
        assert_eq!(names(&query(text, None, 1)), ["delete-draft"], "{text}");
    }
    for text in
        ["Kanäle auflisten", "listar los canales", "список каналов", "列出频道", "チャンネル一覧"]
    {
        assert_eq!(names(&query(text, None, 1)), ["list_channels"], "{text}");
    }
}

#[test]
fn a_request_that_no_tool_serves_finds_nothing() {
    for text in ["delete the giraffe photos", "send a pizza home", "list constellations"] {
        assert_eq!(names(&query(text, None, 5)), Vec::<&str>::new(), "{text}");
        assert!(
            !query(text, Some("chat"), 5).is_empty() || !query(text, Some("mail"), 5).is_empty()
        );
    }
}

#[test]
fn words_of_a_name_tell_more_than_words_of_a_description() {
    let found = |tool: serde_json::Value| {
        let other = json!({ "name": "list_channels", "description": "List channels" });
        let catalog = Catalog::new([ServerListing::read("studio", &[tool, other])]);
        let text = "paint the turnips".to_owned();
        !ToolIndex::new(&catalog).search(&ToolQuery { text, server: None, limit: 5 }).is_empty()
    };
    let described = "Draw a chart. It has axes, a legend and a title, in ink or paint.";
    assert!(!found(json!({ "name": "draw_chart", "description": described })));
    assert!(found(json!({ "name": "paint_chart", "description": "Draw a chart" })));
}

#[test]
fn a_verb_alone_fits_only_a_query_of_verbs() {
    assert_eq!(names(&query("list", None, 1)), ["list_channels"]);
    assert_eq!(names(&query("list comets", None, 1)), Vec::<&str>::new());
}

#[test]
fn only_likely_mistakes_are_corrected() {
    let words = ["ticket", "file", "message", "password", "min", "place", "excel"];
    let dictionary = Dictionary::new(words.into_iter());
    for (wrong, right) in [
        ("tikcet", Some("ticket")),
        ("fiel", Some("file")),
        ("exel", Some("excel")),
        ("messege", Some("message")),
        ("passport", None),
        ("main", None),
        ("plate", None),
        ("zicket", None),
    ] {
        assert_eq!(dictionary.correct(wrong), right, "{wrong}");
    }
}

#[test]
fn hits_are_shown_in_three_ways() {
    let catalog = catalog();
    let hits = query("delete draft", None, 1);
    let observations = Observations::default();
    let policy =
        |key: &_| seeded_policy(catalog.find_by_key(key).unwrap().listing(), Trust::Nothing);
    let shown = |detail| show_hits(&catalog, &hits, detail, &observations, &policy).join("\n");
    assert_eq!(shown(SearchDetail::Name), "mail.delete_draft");
    assert_eq!(
        shown(SearchDetail::Stub),
        "mail: def delete_draft(**more: Any) -> Any: ...  # Delete a draft"
    );
    assert!(shown(SearchDetail::Full).contains("# policy: ask (no rule)"));
}
