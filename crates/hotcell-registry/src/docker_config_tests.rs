//! Where credentials are found.

use std::fs;

use tempfile::TempDir;

use crate::credentials::Credentials;
use crate::docker_config::DockerConfig;

fn config(text: &str) -> (TempDir, DockerConfig) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.json"), text).unwrap();
    let config = DockerConfig { directory: Some(directory.path().to_owned()), text: None };
    (directory, config)
}

fn password(user: &str, password: &str) -> Option<Credentials> {
    Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
}

#[tokio::test]
async fn each_registry_has_its_own() {
    let (_directory, config) = config(
        r#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "aHViOm9uZQ=="},
            "registry.example.org:5000": {"auth": "YTpiOmM="},
            "https://old.example.org/v1/": {"auth": "b2xkOnR3bw=="},
            "token.example.org": {"auth": "eDp5", "identitytoken": "long"},
            "empty.example.org": {}
        }}"#,
    );
    let of = async |registry: &str| config.credentials(registry).await.unwrap();
    assert_eq!(of("docker.io").await, password("hub", "one"));
    assert_eq!(of("registry.example.org:5000").await, password("a", "b:c"));
    assert_eq!(of("old.example.org").await, password("old", "two"));
    assert_eq!(of("token.example.org").await, Some(Credentials::Token("long".to_owned())));
    for nobody in
        ["empty.example.org", "registry.example.org", "example.org", "index.docker.io.example.org"]
    {
        assert_eq!(of(nobody).await, None, "{nobody}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_shows_no_secret() {
    let (_directory, broken) = config(r#"{"auths": {"a.example.org": {"auth": "c2VjcmV0"}}}"#);
    let error = broken.credentials("a.example.org").await.unwrap_err();
    assert!(error.message.contains("a.example.org") && !error.message.contains("c2VjcmV0"));
    let (_directory, missing) = config(r#"{"credsStore": "no-such-program-anywhere"}"#);
    let error = missing.credentials("a.example.org").await.unwrap_err();
    assert!(error.message.contains("docker-credential-no-such-program-anywhere"), "{error:?}");
    let (_directory, elsewhere) = config(r#"{"credsStore": "../../bin/sh"}"#);
    let error = elsewhere.credentials("a.example.org").await.unwrap_err();
    assert!(error.message.contains("no name of a program"), "{error:?}");
    let (_directory, quoted) = config(r#"{"auths": {"a.example.org": "c2VjcmV0"}}"#);
    let error = quoted.credentials("a.example.org").await.unwrap_err();
    assert!(!error.message.contains("c2VjcmV0"), "{error:?}");
    let (_directory, nobody) = config(r#"{"credsStore": ""}"#);
    assert_eq!(nobody.credentials("a.example.org").await.unwrap(), None);
    assert_eq!(DockerConfig::default().credentials("docker.io").await.unwrap(), None);
}

#[test]
fn credentials_are_not_shown() {
    let all = [Credentials::Token("hidden".to_owned()), password("user", "hidden").unwrap()];
    assert!(all.iter().all(|it| !format!("{it:?}").contains("hidden")));
}
