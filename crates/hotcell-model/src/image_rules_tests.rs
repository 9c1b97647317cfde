//! Patterns stand for what they say and for nothing else.

use super::*;

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn image(text: &str) -> ImageName {
    text.parse().unwrap()
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.parse::<ImagePattern>().unwrap().matches(&image(name))
}

#[test]
fn patterns_match_by_registry_and_whole_parts() {
    for (pattern, name) in [
        ("*", "anything/at:all"),
        ("docker.io/*", "debian"),
        ("docker.io/library/*", "debian:12"),
        ("ghcr.io/acme/*", "ghcr.io/acme/a/b:1"),
        ("localhost:5000/*", "localhost:5000/a"),
        ("debian", "debian:12"),
        ("debian", "docker.io/library/debian"),
        ("debian:12", "debian:12"),
        ("acme/*", "acme/tool"),
    ] {
        assert!(matches(pattern, name), "{pattern} stands for {name}");
    }
    for (pattern, name) in [
        ("ghcr.io/acme/*", "ghcr.io/acme-evil/a"),
        ("ghcr.io/acme/*", "evil.io/ghcr.io/acme/a"),
        ("docker.io/library/*", "acme/tool"),
        ("localhost:5000/*", "localhost:5001/a"),
        ("localhost/*", "localhost:5000/a"),
        ("debian", "debian-evil"),
        ("debian", "ghcr.io/library/debian"),
        ("debian:12", "debian:13"),
        ("debian:12", "debian"),
    ] {
        assert!(!matches(pattern, name), "{pattern} does not stand for {name}");
    }
    let pinned = format!("debian@{DIGEST}");
    assert!(matches(&pinned, &pinned) && matches("debian", &pinned));
    assert!(!matches(&pinned, "debian") && !matches("debian:12", &pinned));
}

#[test]
fn patterns_are_written_as_they_are_read() {
    for text in
        ["*", "docker.io/*", "ghcr.io/acme/*", "docker.io/library/debian:12", "docker.io/a/b"]
    {
        let pattern: ImagePattern = text.parse().unwrap();
        assert_eq!(pattern.to_string(), text);
        assert_eq!(pattern.to_string().parse::<ImagePattern>().unwrap(), pattern);
    }
    for wrong in ["", "**", "a b", "*/a", "UPPER/*/x", "/*"] {
        assert!(wrong.parse::<ImagePattern>().is_err(), "{wrong:?}");
    }
}

#[test]
fn what_is_not_allowed_is_denied_with_what_is() {
    let rules = ImageRules { allow: vec!["debian".parse().unwrap()], pinned: false };
    assert!(rules.check(&image("debian:12")).is_ok());
    let denied = rules.check(&image("alpine")).unwrap_err();
    assert!(denied.hint.unwrap().contains("docker.io/library/debian"));
    assert!(ImageRules::default().check(&image("alpine")).is_ok());
    let pinned = ImageRules { pinned: true, ..rules };
    assert!(pinned.check(&image("debian:12")).is_err());
    assert!(pinned.check(&image(&format!("debian@{DIGEST}"))).is_ok());
}
