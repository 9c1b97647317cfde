//! What is shown of settings that are not ours.

use serde_json::json;

use super::{Entry, Language};

fn entry() -> Entry {
    let headers = json!({ "Authorization": "Bearer ${CELL_TOKEN}" });
    Entry { fields: vec![("url", json!("http://127.0.0.1:8000/mcp")), ("headers", headers)] }
}

#[test]
fn only_our_own_values_are_shown_of_json() {
    let text = r#"// api key: s3cret-1
{
  "s3": 5432,
  "on": true, /* s3cret-2 */
  "mcpServers": {
    "other": { "command": "s3cret\"-3", "args": ["--key", "s3cret-4"], "env": { "K": "s3cret-5" } },
    "cell": { "url": "http://127.0.0.1:8000/mcp", "headers": { "Authorization": "Bearer ${CELL_TOKEN}", "X": "s3cret-6" } },
  },
}
"#;
    let shown = Language::Json.conceal(text, &entry()).unwrap();
    assert!(
        !shown.contains("cret") && !shown.contains("--key") && !shown.contains("5432"),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), text.lines().count());
    for kept in [
        "// …",
        "/* … */",
        r#""s3": …,"#,
        r#""on": true,"#,
        r#""other": { "command": "…", "args": ["…", "…"], "env": { "K": "…" } },"#,
        r#""url": "http://127.0.0.1:8000/mcp""#,
        r#""Authorization": "Bearer ${CELL_TOKEN}", "X": "…""#,
    ] {
        assert!(shown.contains(kept), "{kept}\n{shown}");
    }
}

#[test]
fn only_our_own_values_are_shown_of_toml() {
    let text = r##"# s3cret-1
model = "s3cret-2" # s3cret-3
pin = 5432
when = 2026-01-01
on = true
"a#b" = 's3cret-4#'
text = """
s3cret-5
"""
points = [ { k = "s3cret-6" }, 1.5 ]
[mcp_servers.other.env]
K = "s3cret-7"
[mcp_servers.cell]
url = "http://127.0.0.1:8000/mcp"
[[more]]
k = "s3cret-8"
"##;
    let shown = Language::Toml.conceal(text, &entry()).unwrap();
    let expected = r##"# …
model = "…" # …
pin = …
when = …
on = true
"a#b" = "…"
text = "…"
points = [ { k = "…" }, … ]
[mcp_servers.other.env]
K = "…"
[mcp_servers.cell]
url = "http://127.0.0.1:8000/mcp"
[[more]]
k = "…"
"##;
    assert_eq!(shown, expected);
}

#[test]
fn a_mark_at_the_beginning_stays() {
    for (language, text) in [(Language::Json, "\u{feff}{}"), (Language::Toml, "\u{feff}a = 1\n")] {
        assert!(language.conceal(text, &entry()).unwrap().starts_with('\u{feff}'));
    }
    assert_eq!(Language::Json.conceal("", &entry()).unwrap(), "");
}
