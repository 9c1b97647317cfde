//! What an edit of TOML leaves, to the byte.

use serde_json::json;

use super::{Entry, Language};

fn edited(text: &str) -> String {
    let entry = Entry { fields: vec![("command", json!("/x")), ("args", json!(["serve"]))] };
    Language::Toml.edit(text, "mcp_servers", "hotcell", &entry).unwrap()
}

const TABLE: &str = "[mcp_servers.hotcell]\ncommand = \"/x\"\nargs = [\"serve\"]\n";

#[test]
fn a_table_is_added_behind_everything() {
    for before in [
        "model = \"o\"\n",
        "model='o' # x\n\n[mcp_servers.a]\ncommand = 'y'\n",
        "[projects.\"/a\"]\ntrust_level = \"trusted\"\n",
        "[mcp_servers]\n[mcp_servers.a]\nn = 1_000\nt = 1979-05-27\n",
    ] {
        assert_eq!(edited(before), format!("{before}\n{TABLE}"));
    }
}

#[test]
fn other_spellings_of_a_table_are_edited_where_they_are() {
    let inline = edited("mcp_servers = { a = { command = 'y' } }\n");
    assert!(inline.starts_with("mcp_servers = { a = { command = 'y' }"), "{inline}");
    assert_eq!(inline.lines().count(), 1, "{inline}");
    let there = edited("mcp_servers.hotcell = { command = 'y', keep = 1 }\n");
    assert!(there.starts_with("mcp_servers.hotcell = { command = \"/x\", keep = 1"), "{there}");
    let dotted = edited("mcp_servers.hotcell.command = 'y' # why\n");
    assert!(dotted.starts_with("mcp_servers.hotcell.command = \"/x\" # why\n"), "{dotted}");
    edited("mcp_servers.a.command = 'y'\n");
}

#[test]
fn a_comment_behind_a_value_stays() {
    let before = "[mcp_servers.hotcell]\ncommand = \"/old\" # mine\nargs = [\"serve\"]\n";
    let after = "[mcp_servers.hotcell]\ncommand = \"/x\" # mine\nargs = [\"serve\"]\n";
    assert_eq!(edited(before), after);
}
