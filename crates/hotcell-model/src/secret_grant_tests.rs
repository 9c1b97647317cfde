//! Grants as people write them.

use super::{HeaderForm, Placeholder, SecretForm, SecretGrant, check_grants_together};

fn grant(text: &str) -> SecretGrant {
    text.parse().unwrap()
}

fn header(text: &str) -> HeaderForm {
    match grant(text).form {
        SecretForm::Header(form) => form,
        SecretForm::Env { .. } => panic!("{text} is a variable"),
    }
}

#[test]
fn grants_are_read_and_written_alike() {
    for text in [
        "github-token",
        "github-token=GH_TOKEN",
        "t:header=Authorization: Bearer {}@api.example.org",
        "t:header=X-Key: {}@a.example.org b.example.org:8443 http://c.example.org http://d.test:81",
        "t:header=Authorization: Basic {basic:me@example.org}@git.example.org",
    ] {
        assert_eq!(grant(text).to_string(), text);
        let stored = serde_json::to_string(&grant(text)).unwrap();
        assert_eq!(serde_json::from_str::<SecretGrant>(&stored).unwrap(), grant(text));
    }
    let form = header("t:header= X-Key :  {} @https://A.example.org:443  a.example.org");
    assert_eq!(form.to_string(), "X-Key: {}@a.example.org");
    let basic = header("t:header=Authorization: Basic {basic:x}@a.test");
    assert_eq!(basic.parts(), Some(("Basic ", Placeholder::Basic("x"), "")));
}

#[test]
fn what_is_no_grant_is_refused() {
    for text in [
        "t:header",
        "t:headers=X: {}@a.test",
        "t:header=X-Key {}@a.test",
        "t:header=X-Key: {}",
        "t:header=X-Key: {}@",
        "t:header=X-Key: no value@a.test",
        "t:header=X-Key: {} {}@a.test",
        "t:header=X-Key: {basic:}@a.test",
        "t:header=X-Key: {other}@a.test",
        "t:header=X-Key: }{}@a.test",
        "t:header=X-Key: {}\r\nEvil: 1@a.test",
        "t:header=X Key: {}@a.test",
        "t:header=Host: {}@a.test",
        "t:header=Content-Length: {}@a.test",
        "t:header=X-Key: a, {}@a.test",
        "t:header=X-Key: {}@*.test",
        "t:header=X-Key: {}@*",
        "t:header=X-Key: {}@1.2.3.4",
        "t:header=X-Key: {}@ftp://a.test",
        "t:header=X-Key: {}@a.test:0",
        "t:header=X-Key: {}@a.test/path",
    ] {
        assert!(text.parse::<SecretGrant>().is_err(), "{text}");
    }
}

#[test]
fn a_lent_header_is_that_header_at_those_hosts_alone() {
    let lent = grant("t:header=X-Key: {}@a.test b.test");
    assert!(lent.covers(&lent) && lent.covers(&grant("t:header=x-key: {}@b.test")));
    for more in [
        "t",
        "t=X",
        "u:header=X-Key: {}@a.test",
        "t:header=X-Key: {}@c.test",
        "t:header=X-Key: {}@a.test c.test",
        "t:header=X-Key: {}@http://a.test",
        "t:header=X-Key: {}@a.test:444",
        "t:header=X-Key: x{}@a.test",
        "t:header=X-Other: {}@a.test",
    ] {
        assert!(!lent.covers(&grant(more)), "{more}");
        // Who has the value itself can do all that.
        assert_eq!(grant("t").covers(&grant(more)), more.starts_with('t'), "{more}");
    }
}

#[test]
fn values_that_no_header_can_have_are_refused_without_being_shown() {
    let form = header("t:header=X-Key: {}@a.test");
    let name = "t".parse().unwrap();
    assert_eq!(form.usable(&name, "hunter2-hunter2\r\n").unwrap(), "hunter2-hunter2");
    let long = "x".repeat(8193);
    for value in ["hunter2", "hunter2\nhunter2", "hunter2-hunter2\n\n", "hünter2-hünter2", &long]
    {
        let error = form.usable(&name, value).unwrap_err().to_string();
        assert!(!error.contains(value), "{error}");
    }
}

#[test]
fn a_host_gets_each_header_once() {
    let together = |texts: &[&str]| {
        let grants: Vec<SecretGrant> = texts.iter().map(|text| grant(text)).collect();
        check_grants_together(&grants)
    };
    let first = "t:header=X-Key: {}@a.test";
    together(&[first, "u:header=X-Other: {}@a.test", "u:header=X-Key: {}@b.test", "u"]).unwrap();
    together(&[first, "u:header=x-key: {}@c.test a.test"]).unwrap_err();
    together(&[first, "u:header=X-Other: {}@http://a.test:443"]).unwrap_err();
    together(&["t=A", "u=A"]).unwrap_err();
}
