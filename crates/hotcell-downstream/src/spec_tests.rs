//! What a declaration may be, and what of it is never shown.

use std::collections::BTreeMap;

use crate::spec::{HttpLaunch, Launch, ServerName, ServerSpec, SpecText, StdioLaunch};

fn stdio() -> StdioLaunch {
    StdioLaunch {
        command: "server".to_owned(),
        args: vec!["--key=visible-key".to_owned()],
        env: BTreeMap::from([("KEY".to_owned(), SpecText::Plain("visible-value".to_owned()))]),
        cwd: None,
    }
}

fn http(url: &str) -> ServerSpec {
    let headers =
        BTreeMap::from([("X-Key".to_owned(), SpecText::Plain("visible-value".to_owned()))]);
    let bearer = Some(SpecText::Plain("visible-token".to_owned()));
    ServerSpec::new(Launch::Http(HttpLaunch { url: url.to_owned(), headers, bearer }))
}

#[test]
fn names_are_what_code_can_import() {
    for name in ["a", "github", "my-server_2", &"a".repeat(32)] {
        assert_eq!(name.parse::<ServerName>().unwrap().as_str(), name);
    }
    for name in ["", "A", "1a", "-a", "a.b", "a/b", "ä", "hotcell", "tools", &"a".repeat(33)] {
        let error = name.parse::<ServerName>().unwrap_err();
        assert!(error.hint.is_some() && error.message.contains(&format!("{name:?}")), "{error:?}");
    }
}

#[test]
fn values_are_never_shown() {
    let shown = format!(
        "{:?} {:?}",
        ServerSpec::new(Launch::Stdio(stdio())),
        http("https://example.com/mcp?key=visible-key")
    );
    assert!(!shown.contains("visible"), "{shown}");
    assert!(shown.contains("KEY") && shown.contains("example.com"), "{shown}");
}

#[test]
fn addresses_are_https_or_of_this_machine() {
    for url in
        ["https://example.com/mcp", "http://localhost:1/", "http://127.0.0.1/", "http://[::1]:8/x"]
    {
        http(url).check().unwrap();
    }
    for url in [
        "http://example.com/",
        "https://me:word@example.com/",
        "ftp://a/",
        "/mcp",
        "",
        "http://127.0.0.1.nip.io/",
    ] {
        let error = http(url).check().unwrap_err();
        assert!(error.message.starts_with("url "), "{url}: {error:?}");
    }
    let mut spec = http("https://example.com/");
    if let Launch::Http(http) = &mut spec.launch {
        http.headers.insert("Authorization".to_owned(), SpecText::Plain("x".to_owned()));
    }
    assert!(spec.check().unwrap_err().message.contains("Authorization"));
}

#[test]
fn bounds_and_programs_are_checked() {
    ServerSpec::new(Launch::Stdio(stdio())).check().unwrap();
    let mut none = stdio();
    none.command.clear();
    assert!(ServerSpec::new(Launch::Stdio(none)).check().is_err());
    let mut odd = stdio();
    odd.env.insert("A=B".to_owned(), SpecText::Plain(String::new()));
    assert!(ServerSpec::new(Launch::Stdio(odd)).check().unwrap_err().message.contains("A=B"));
    let mut spec = ServerSpec::new(Launch::Stdio(stdio()));
    spec.parallel = 0;
    assert!(spec.check().unwrap_err().message.contains("parallel"));
}

#[test]
fn a_digest_tells_declarations_apart_and_no_values() {
    let digest = |stdio: StdioLaunch| ServerSpec::new(Launch::Stdio(stdio)).digest();
    let same = digest(stdio());
    let mut other = stdio();
    other.env.insert("KEY".to_owned(), SpecText::Secret("key".parse().unwrap()));
    assert_eq!(digest(other), same);
    let mut other = stdio();
    other.args = vec!["--key=".to_owned(), "visible-key".to_owned()];
    assert_ne!(digest(other), same);
    let mut other = stdio();
    other.env.insert("MORE".to_owned(), SpecText::Plain(String::new()));
    assert_ne!(digest(other), same);
}
