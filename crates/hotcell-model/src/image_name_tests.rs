//! Names are understood as container engines understand them.

use proptest::prelude::*;

use super::ImageName;

fn full(text: &str) -> String {
    text.parse::<ImageName>().unwrap().to_string()
}

fn refused(text: &str) -> String {
    text.parse::<ImageName>().unwrap_err().to_string()
}

const CONTENT: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn what_people_leave_out_is_put_in() {
    assert_eq!(full("debian"), "docker.io/library/debian:latest");
    assert_eq!(full("debian:12"), "docker.io/library/debian:12");
    assert_eq!(full("owner/name"), "docker.io/owner/name:latest");
    assert_eq!(full("docker.io/debian"), "docker.io/library/debian:latest");
    assert_eq!(full("ghcr.io/owner/name:v1.2-rc_3"), "ghcr.io/owner/name:v1.2-rc_3");
    assert_eq!(full("localhost/name"), "localhost/name:latest");
}

#[test]
fn a_registry_has_one_name() {
    assert_eq!(full("DOCKER.IO/debian"), "docker.io/library/debian:latest");
    assert_eq!(full("index.docker.io/owner/name:1"), "docker.io/owner/name:1");
    assert_eq!(full("GHCR.io/owner/name"), "ghcr.io/owner/name:latest");
    assert_eq!(full("LocalHost/name"), "localhost/name:latest");
    // Only its capitals tell it from an owner.
    assert_eq!(full("Registry/name"), "Registry/name:latest");
}

#[test]
fn a_port_is_no_tag_and_a_tag_no_port() {
    let name: ImageName = "localhost:5000/name".parse().unwrap();
    assert_eq!((name.registry(), name.repository()), ("localhost:5000", "name"));
    assert_eq!(name.tag(), Some("latest"));
    let name: ImageName = format!("registry.example:5000/a/b:1@{CONTENT}").parse().unwrap();
    assert_eq!((name.registry(), name.repository()), ("registry.example:5000", "a/b"));
    assert_eq!((name.tag(), name.digest().unwrap().to_string()), (Some("1"), CONTENT.to_owned()));
    assert_eq!(full("[::1]:5000/name:2"), "[::1]:5000/name:2");
}

#[test]
fn content_that_is_said_needs_no_tag() {
    assert_eq!(full(&format!("debian@{CONTENT}")), format!("docker.io/library/debian@{CONTENT}"));
}

#[test]
fn what_is_no_name_is_refused_with_a_reason() {
    let long = "a".repeat(256);
    for text in [
        "",
        "/",
        "a//b",
        "a/",
        "-a",
        "a-",
        "a..b",
        "a___b",
        "owner/Name",
        "a:",
        "a:b:c",
        "a:-b",
        "a@",
        "a@sha256:12",
        "a@md5:e3b0c44298fc1c149afbf4c8996fb924",
        "https://ghcr.io/a",
        "ghcr.io:99999/a",
        "ghcr.io:/a",
        "ghcr.io:+1/a",
        "[::1/a",
        "[host]:1/a",
        "../a",
        "a/../b",
        "a b",
        "a\nb",
        "ä",
        long.as_str(),
    ] {
        let error = refused(text);
        assert!(error.contains("is no name of an image"), "{text:?}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in "\\PC{0,60}") {
        let _ = text.parse::<ImageName>();
    }

    #[test]
    fn a_full_name_stands_for_itself(text in "[a-z0-9./:@_-]{1,40}") {
        if let Ok(name) = text.parse::<ImageName>() {
            prop_assert_eq!(&name.to_string().parse::<ImageName>().unwrap(), &name);
            prop_assert!(name.repository().split('/').all(|part| !part.is_empty() && part != ".."));
        }
    }
}
