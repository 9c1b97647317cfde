//! Rules about images and hosts fit however these are written.

use crate::{Act, ImageNames, Policy};

/// How a rule about the key decides about a cell that may reach a name or begins with an image.
fn decides(verdict: &str, key: &str, pattern: &str, made: &Act<'_>) -> bool {
    let rules = format!(
        "default = '{}'\n[[rule]]\nid = 'r'\nverdict = '{verdict}'\n{key} = '{pattern}'\n",
        if verdict == "allow" { "deny" } else { "allow" }
    );
    let policy = Policy::parse(Some(&rules), "open").unwrap();
    policy.decide(made).parts.iter().any(|part| part.rule.as_deref() == Some("r"))
}

#[test]
fn a_host_is_denied_however_a_network_rule_is_written() {
    let fits = |verdict: &str, pattern: &str, asked: &str| {
        decides(verdict, "egress", pattern, &Act::Egress { names: &[asked.to_owned()] })
    };
    for asked in ["db.corp", "db.corp:443", "db.corp/raw", "db.corp:8443/raw", "*.corp", "*", "*:1"]
    {
        assert!(fits("deny", "db.corp", asked), "{asked}");
        assert!(fits("ask", "*.corp", asked), "{asked}");
        assert_eq!(fits("allow", "db.corp", asked), asked == "db.corp", "{asked}");
    }
    assert!(fits("deny", "db.corp:443", "db.corp:443/raw"));
    for other in ["db.corp.test", "xdb.corp", "*.test", "x.corp:443"] {
        assert!(!fits("deny", "db.corp", other), "{other}");
    }
    assert!(!fits("deny", "db.corp:443", "db.corp:80"));
    assert!(fits("allow", "*.corp:*", "db.corp:443") && !fits("allow", "*.corp:*", "db.corp"));
}

#[test]
fn an_image_is_known_by_all_its_names() {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    let image = ImageNames {
        name: "debian".to_owned(),
        same: names(&["docker.io/library/debian:latest"]),
        related: names(&["docker.io/library/debian@sha256:0"]),
    };
    let made = Act::Spawn { image: &image, egress: &[], secrets: &[] };
    for pattern in ["debian", "docker.io/*"] {
        assert!(
            decides("deny", "image", pattern, &made) && decides("allow", "image", pattern, &made)
        );
    }
    assert!(decides("deny", "image", "*@sha256:0", &made));
    assert!(!decides("allow", "image", "*@sha256:0", &made), "the content may be another tomorrow");
    assert!(!decides("deny", "image", "debian:12", &made));
}
