//! Catalogs, what is different between two, the tree, and what is decided without a rule.

use hotcell_model::PolicyDecision;
use serde_json::{Value, json};

use crate::catalog::{Catalog, ToolKey};
use crate::changes::CatalogChanges;
use crate::listing::{MAX_TOOLS, ServerListing};
use crate::observations::Observations;
use crate::seeding::{Trust, seeded_policy};
use crate::stub::ToolPolicy;
use crate::testing::catalog_of;
use crate::tree::ToolTree;

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object", "properties": {} } })
}

fn key(tool: &str) -> ToolKey {
    ToolKey { server: "box".to_owned(), tool: tool.to_owned() }
}

fn asked(_: &ToolKey) -> ToolPolicy {
    ToolPolicy { decision: PolicyDecision::Ask, why: "no rule".to_owned() }
}

#[test]
fn the_order_of_lists_does_not_matter() {
    let one = ServerListing::read("one", &[tool("b", ""), tool("a.b", ""), tool("a-b", "")]);
    let two = ServerListing::read("two", &[tool("a-b", "")]);
    let mut turned = one.clone();
    turned.tools.reverse();
    let catalog = Catalog::new([one, two.clone()]);
    let other = Catalog::new([two, turned]);
    let observations = Observations::default();
    let (tree, same) = (
        ToolTree::new(&catalog, &observations, &asked),
        ToolTree::new(&other, &observations, &asked),
    );
    assert_eq!(tree.paths(), same.paths());
    for path in tree.paths() {
        assert_eq!(tree.read(&path), same.read(&path), "{path}");
    }
    assert!(CatalogChanges::between(&catalog, &other).is_empty());
}

#[test]
fn names_lead_both_ways_and_those_not_listed_do_not_exist() {
    let catalog = catalog_of(&[tool("issues.create", ""), tool("list", "")]);
    let found = catalog.find("box", "issues_create").unwrap();
    assert_eq!(found.key(), &key("issues.create"));
    assert_eq!(catalog.find_by_key(&key("issues.create")).unwrap().identifier(), "issues_create");
    assert!(catalog.find("box", "issues.create").is_none());
    assert!(catalog.find("box", "delete_everything").is_none());
    assert!(catalog.find("other", "list_").is_none());
    assert!(catalog.find_by_key(&key("issues_create")).is_none());
}

#[test]
fn what_cannot_be_used_is_left_out_and_said() {
    let mut tools: Vec<Value> = (0..MAX_TOOLS).map(|at| tool(&format!("t{at}"), "")).collect();
    tools.splice(
        0..0,
        [
            json!(3),
            json!({ "name": "" }),
            json!({ "name": "x".repeat(300) }),
            json!({ "name": "odd", "inputSchema": "text" }),
        ],
    );
    tools.insert(5, tool("t0", "again"));
    tools.push(tool("one too many", ""));
    let listing = ServerListing::read("box", &tools);
    assert_eq!(listing.tools.len(), MAX_TOOLS);
    let why: Vec<&str> = listing.refused.iter().map(|refused| refused.why.as_str()).collect();
    assert_eq!(
        why,
        [
            "it has no name",
            "its name has 0 bytes, not 1 to 256",
            "its name has 300 bytes, not 1 to 256",
            "its inputSchema is no schema",
            "the list has another tool of that name",
            "only 2000 tools of a server are taken",
        ]
    );
    let loose = ServerListing::read(
        "box",
        &[json!({ "name": "a", "annotations": 5, "title": [], "description": {} })],
    );
    assert_eq!(loose.tools.len(), 1);
}

#[test]
fn changes_name_tools_and_files() {
    let old = catalog_of(&[
        tool("gone", ""),
        tool("same", ""),
        tool("other", "was this"),
        tool("a.b", ""),
    ]);
    let new = catalog_of(&[
        tool("same", ""),
        tool("other", "is that"),
        tool("new", ""),
        tool("a.b", ""),
        tool("a-b", ""),
    ]);
    let changes = CatalogChanges::between(&old, &new);
    assert_eq!(changes.added, [key("a-b"), key("new")]);
    assert_eq!(changes.removed, [key("gone")]);
    // The plain name `a_b` is contested now, so that it leads nowhere.
    assert_eq!(changes.changed, [key("a.b"), key("other")]);
    assert!(new.find("box", "a_b").is_none());
    let observations = Observations::default();
    let (before, after) =
        (ToolTree::new(&old, &observations, &asked), ToolTree::new(&new, &observations, &asked));
    let mut all = [before.paths(), after.paths()].concat();
    all.sort();
    all.dedup();
    for path in all {
        let differs = before.read(&path) != after.read(&path);
        assert_eq!(changes.paths.contains(&path), differs, "{path}");
    }
}

#[test]
fn the_tree_has_what_it_lists_and_nothing_else() {
    let catalog =
        catalog_of(&[tool("do-it", "Does it. At length."), tool("index", "Has an index")]);
    let observations = Observations::default();
    let tree = ToolTree::new(&catalog, &observations, &asked);
    assert_eq!(
        tree.paths(),
        [
            "INDEX.md",
            "box/__init__.pyi",
            "box/do_it.d.ts",
            "box/do_it.pyi",
            "box/index.d.ts",
            "box/index_.d.ts",
            "box/index_.pyi",
        ]
    );
    for path in tree.paths() {
        assert!(tree.read(&path).is_some(), "{path}");
    }
    for path in [
        "",
        "/",
        "box",
        "box/",
        "box/nothing.pyi",
        "box/do-it.pyi",
        "../INDEX.md",
        "other/__init__.pyi",
        "box/do_it",
    ] {
        assert!(tree.read(path).is_none(), "{path}");
    }
    assert!(tree.read("INDEX.md").unwrap().ends_with("\n- box (2): do_it, index_\n"));
    let lines = tree.read("box/__init__.pyi").unwrap();
    assert!(
        lines.ends_with(
            "def do_it() -> Any: ...  # Does it\ndef index_() -> Any: ...  # Has an index\n"
        ),
        "{lines}"
    );
    let stub = tree.read("box/do_it.pyi").unwrap();
    assert!(stub.starts_with("# from tools.box import do_it: tool \"do-it\" of server \"box\"\n# policy: ask (no rule)\n"), "{stub}");
}

#[test]
fn a_claim_counts_only_for_servers_that_the_operator_trusts() {
    let decided = |annotations: Value, trust| {
        let listing =
            ServerListing::read("box", &[json!({ "name": "a", "annotations": annotations })]);
        seeded_policy(&listing.tools[0], trust).decision
    };
    let reads = json!({ "readOnlyHint": true });
    assert_eq!(decided(reads.clone(), Trust::Annotations), PolicyDecision::Allow);
    assert_eq!(decided(reads, Trust::Nothing), PolicyDecision::Ask);
    for other in [
        Value::Null,
        json!({}),
        json!({ "readOnlyHint": false, "destructiveHint": false }),
        json!({ "readOnlyHint": true, "destructiveHint": true }),
        json!({ "readOnlyHint": "true" }),
    ] {
        assert_eq!(decided(other.clone(), Trust::Annotations), PolicyDecision::Ask, "{other}");
    }
}
