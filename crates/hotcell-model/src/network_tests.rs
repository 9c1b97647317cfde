//! Rules about names.

use proptest::prelude::*;

use crate::{ErrorCode, HostName, NameRules, NetRule, Network, USUAL_PORTS};

fn rules(allow: &[&str], deny: &[&str]) -> NameRules {
    let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    NameRules { allow: parse(allow), deny: parse(deny) }
}

fn allows(rules: &NameRules, name: &str, port: u16) -> bool {
    rules.allows(&name.parse().unwrap(), port)
}

#[test]
fn a_name_stands_for_the_usual_ports_and_no_other() {
    let rules = rules(&["example.org", "db.example.org:5432"], &[]);
    assert!(USUAL_PORTS.iter().all(|port| allows(&rules, "example.org", *port)));
    assert!(!allows(&rules, "example.org", 8080));
    assert!(allows(&rules, "db.example.org", 5432));
    assert!(!allows(&rules, "db.example.org", 443));
    assert!(!allows(&rules, "www.example.org", 443));
    assert!(!allows(&rules, "notexample.org", 443));
}

#[test]
fn a_suffix_stands_for_what_is_below_it_and_not_for_itself() {
    let rules = rules(&["*.example.org"], &[]);
    assert!(allows(&rules, "a.example.org", 443));
    assert!(allows(&rules, "a.b.example.org", 443));
    assert!(!allows(&rules, "example.org", 443));
    assert!(!allows(&rules, "badexample.org", 443));
    assert!(!allows(&rules, "example.org.evil.test", 443));
}

#[test]
fn what_is_denied_goes_before_what_is_allowed() {
    let rules = rules(&["*"], &["*.example.org", "b.test:443"]);
    assert!(allows(&rules, "example.org", 443));
    assert!(!allows(&rules, "a.example.org", 80));
    assert!(!allows(&rules, "b.test", 443));
    assert!(allows(&rules, "b.test", 80));
    assert_eq!(rules.ports_of(&"b.test".parse().unwrap()), [22, 80].into());
    assert!(rules.ports_of(&"x.example.org".parse().unwrap()).is_empty());
}

#[test]
fn names_are_read_strictly() {
    let long_label = "a".repeat(64);
    let long_name = ["abcdefg"; 32].join(".");
    let wrong = [
        "",
        ".",
        "a..b",
        "-a.org",
        "a-.org",
        "a b.org",
        "a/b",
        "exa\u{e4}mple.org",
        "1.2.3.4",
        "127.1",
        "[::1]",
        "::1",
        "a.0x7f",
        "localhost",
        "x.localhost",
        "a.org:0",
        "a.org:65536",
        "a.org:+80",
        "a.org:",
        "*.",
        "*.*",
        "a.*.org",
        "**",
        "*org",
        "a.org:80:80",
        "/raw",
        "a.org/raw:80",
        "a.org:80/",
        "a.org:80/raw/raw",
        "a.org:80/tls",
        &long_label,
        &long_name,
    ];
    for text in wrong {
        let refused = text.parse::<NetRule>().expect_err(text);
        assert_eq!(refused.code, ErrorCode::Invalid, "{text}");
    }
    let right =
        ["a.org", "a_b.org", "db", "a.org:5432", "*.org", "*", "*:8443", "xn--bcher-kva.de"];
    let raw = ["a.org/raw", "a.org:443/raw", "*.org/raw", "*.org:22/raw", "*/raw", "*:8443/raw"];
    for text in right.into_iter().chain(raw) {
        assert_eq!(text.parse::<NetRule>().unwrap().to_string(), text);
    }
    assert_eq!("EXAMPLE.org.".parse::<HostName>().unwrap().as_str(), "example.org");
}

#[test]
fn a_network_is_written_as_none_or_as_its_names() {
    let read = |text: &str| serde_json::from_str::<Network>(text);
    assert_eq!(read("\"none\"").unwrap(), Network::None);
    assert_eq!(read(r#"{"allow": []}"#).unwrap(), Network::None);
    let names = read(r#"{"allow": ["Example.org", "*.a.org:8080"]}"#).unwrap();
    assert_eq!(
        serde_json::to_string(&names).unwrap(),
        r#"{"allow":["example.org","*.a.org:8080"]}"#
    );
    assert_eq!(names.to_string(), "example.org, *.a.org:8080");
    assert_eq!(serde_json::to_string(&Network::None).unwrap(), "\"none\"");
    assert!(read("\"all\"").unwrap_err().to_string().contains("all"));
    assert!(read(r#"{"allow": ["10.0.0.1"]}"#).unwrap_err().to_string().contains("10.0.0.1"));
    assert!(read(r#"{"allow": [], "ask": []}"#).unwrap_err().to_string().contains("ask"));
}

#[test]
fn denying_takes_back_what_was_allowed() {
    let mut changed = rules(&["a.org", "a.org:8080", "b.org"], &[]);
    changed.deny("a.org".parse().unwrap()).unwrap();
    assert_eq!(changed, rules(&["b.org"], &[]));

    let mut changed = rules(&["*.a.org", "x.a.org"], &[]);
    changed.deny("x.a.org".parse().unwrap()).unwrap();
    assert_eq!(changed, rules(&["*.a.org"], &["x.a.org"]));
    changed.allow("x.a.org:443".parse().unwrap()).expect_err("all ports are denied");
    changed.allow("x.a.org".parse().unwrap()).unwrap();
    assert_eq!(changed, rules(&["*.a.org", "x.a.org"], &[]));

    let mut changed = rules(&["a.org"], &[]);
    changed.deny("a.org:443".parse().unwrap()).unwrap();
    assert!(!allows(&changed, "a.org", 443) && allows(&changed, "a.org", 80));

    let mut changed = rules(&["*"], &[]);
    changed.deny("*.evil.org".parse().unwrap()).unwrap();
    let refused = changed.allow("x.evil.org".parse().unwrap()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
}

#[test]
fn only_rules_with_raw_switch_inspection_off() {
    let is_raw = |rules: &NameRules, name: &str, port| rules.is_raw(&name.parse().unwrap(), port);
    let mixed = rules(&["a.org", "*.b.org:8443/raw", "c.org:443/raw"], &["x.b.org"]);
    assert!(!is_raw(&mixed, "a.org", 443));
    assert!(is_raw(&mixed, "y.b.org", 8443) && !is_raw(&mixed, "y.b.org", 443));
    assert!(!is_raw(&mixed, "x.b.org", 8443), "it is denied");
    assert!(is_raw(&mixed, "c.org", 443));

    // What is checked does not allow what is raw; the other way round it does.
    let covers = |allowed: &str, asked: &str| rules(&[allowed], &[]).cover(&asked.parse().unwrap());
    assert!(!covers("a.org", "a.org/raw") && !covers("*", "a.org:443/raw"));
    assert!(covers("a.org/raw", "a.org:443") && covers("*:443/raw", "a.org:443/raw"));

    let mut changed = rules(&["a.org:443/raw"], &[]);
    changed.allow("a.org:443".parse().unwrap()).unwrap();
    assert_eq!(changed, rules(&["a.org:443"], &[]), "the newest rule decides");
    changed.allow("a.org:443/raw".parse().unwrap()).unwrap();
    assert_eq!(changed, rules(&["a.org:443/raw"], &[]));
    changed.deny("a.org:443".parse().unwrap()).unwrap();
    assert_eq!(changed, rules(&[], &[]), "raw is no way around what is denied");

    let mut changed = rules(&["*/raw"], &[]);
    changed.deny("a.org/raw".parse().unwrap()).unwrap();
    assert_eq!(changed, rules(&["*/raw"], &["a.org"]));
}

#[test]
fn too_many_rules_are_refused() {
    let mut many = NameRules::default();
    for number in 0..256 {
        many.allow(format!("n{number}.org").parse().unwrap()).unwrap();
    }
    let refused = many.allow("one.more.org".parse().unwrap()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::LimitExceeded);
}

fn a_rule() -> impl Strategy<Value = NetRule> {
    "(\\*|(\\*\\.)?([ab]\\.){0,2}[cd])(:(22|80|81))?".prop_map(|text| text.parse().unwrap())
}

fn some_rules() -> impl Strategy<Value = NameRules> {
    let list = || proptest::collection::vec(a_rule(), 0..4);
    (list(), list()).prop_map(|(allow, deny)| NameRules { allow, deny })
}

fn a_name() -> impl Strategy<Value = HostName> {
    "([ab]\\.){0,3}[cd]".prop_map(|text| text.parse().unwrap())
}

proptest! {
    #[test]
    fn what_is_denied_is_allowed_no_more(
        mut rules in some_rules(), rule in a_rule(), name in a_name(), port in 20u16..83
    ) {
        rules.deny(rule.clone()).unwrap();
        let is_meant = rule.pattern.matches(&name) && rule.port.is_none_or(|it| it == port);
        prop_assert!(!(is_meant && rules.allows(&name, port)));
    }

    #[test]
    fn denying_never_allows_anything(
        rules in some_rules(), rule in a_rule(), name in a_name(), port in 20u16..83
    ) {
        let mut fewer = rules.clone();
        fewer.deny(rule).unwrap();
        prop_assert!(rules.allows(&name, port) || !fewer.allows(&name, port));
    }

    #[test]
    fn what_covers_a_rule_allows_all_that_it_would(
        rules in some_rules(), rule in a_rule(), name in a_name(), port in 20u16..83
    ) {
        let alone = NameRules { allow: vec![rule.clone()], deny: Vec::new() };
        if rules.cover(&rule) && alone.allows(&name, port) {
            prop_assert!(rules.allows(&name, port));
        }
    }

    #[test]
    fn a_rule_is_read_as_it_is_written(rule in a_rule()) {
        prop_assert_eq!(rule.to_string().parse::<NetRule>().unwrap(), rule);
    }

    #[test]
    fn no_text_makes_it_fail(text in ".{0,300}") {
        if let Ok(rule) = text.parse::<NetRule>() {
            prop_assert_eq!(rule.to_string().parse::<NetRule>().unwrap(), rule);
        }
    }
}
