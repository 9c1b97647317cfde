//! What other clients were told of.

use crate::import::mcp_servers_json;
use crate::spec::{Launch, SpecText};

#[test]
fn the_common_form_is_read() {
    let read = mcp_servers_json(
        r#"{"other": 1, "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "cwd": "/srv"},
            "far": {"type": "http", "url": "https://example.com/mcp",
                    "headers": {"authorization": "Bearer abc", "X-A": "b"}}
        }}"#,
    )
    .unwrap();
    let [(far, far_spec), (files, files_spec)] = &read[..] else { panic!("{read:?}") };
    assert_eq!((far.as_str(), files.as_str()), ("far", "files"));
    let Launch::Stdio(stdio) = &files_spec.launch else { panic!("{files_spec:?}") };
    assert_eq!(
        (stdio.command.as_str(), &stdio.args[..]),
        ("npx", &["-y".to_owned(), "x".to_owned()][..])
    );
    assert_eq!(stdio.env["A"], SpecText::Plain("b".to_owned()));
    assert_eq!(stdio.cwd.as_deref(), Some(std::path::Path::new("/srv")));
    let Launch::Http(http) = &far_spec.launch else { panic!("{far_spec:?}") };
    assert_eq!(http.bearer, Some(SpecText::Plain("abc".to_owned())));
    assert_eq!(http.headers.keys().collect::<Vec<_>>(), ["X-A"]);
    assert!(!far_spec.trust_annotations);
}

#[test]
fn what_is_wrong_is_named_and_no_value_is_repeated() {
    for (text, words) in [
        ("{\"mcpServers\": {} // none\n}", "line 1"),
        ("{\"mcpServers\": {\n\"a\": {\"command\": \"x\"},}}", "line 2"),
        ("{}", "no `mcpServers`"),
        ("[]", "no `mcpServers`"),
        ("{\"mcpServers\": []}", "no object"),
        (r#"{"mcpServers": {"a": {"command": "x", "disabled": "visible"}}}"#, "`disabled`"),
        (r#"{"mcpServers": {"A b": {"command": "x"}}}"#, "mcpServers.A b"),
        (r#"{"mcpServers": {"tools": {"command": "x"}}}"#, "taken"),
        (r#"{"mcpServers": {"a": {"command": "x", "url": "visible"}}}"#, "both"),
        (r#"{"mcpServers": {"a": {}}}"#, "neither"),
        (r#"{"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}"#, "`env.K`"),
        (r#"{"mcpServers": {"a": {"command": "x", "args": [1]}}}"#, "`args`"),
        (r#"{"mcpServers": {"a": {"url": "http://visible.com/"}}}"#, "not https"),
        (r#"{"mcpServers": {"a": {"type": "sse", "url": "https://a/"}}}"#, "\"sse\""),
        (
            r#"{"mcpServers": {"a": {"url": "https://a/", "headers": {"Authorization": "visible"}}}}"#,
            "bearer",
        ),
    ] {
        let error = mcp_servers_json(text).unwrap_err();
        assert!(error.message.contains(words), "{text}: {error:?}");
        assert!(!error.message.contains("visible"), "{error:?}");
    }
}
