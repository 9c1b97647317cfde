//! Keys are asked for seldom, change when the issuer's do, and outlast its being away.

use std::time::Duration;

use serde_json::json;

use crate::issuer_keys::descriptions;
use crate::oidc::{NotAdmitted, Oidc};
use crate::settings::OidcSettings;
use crate::testing::{Signer, TestIssuer, claims, settings};

/// Believes keys as long as a test takes.
fn oidc(issuer: &TestIssuer) -> Oidc {
    Oidc::new(settings(&issuer.url)).unwrap()
}

/// Asks again each time.
fn forgetful(issuer: &TestIssuer) -> Oidc {
    Oidc::new(OidcSettings { keys_kept: Duration::ZERO, ..settings(&issuer.url) }).unwrap()
}

fn is_refused<T>(outcome: Result<T, NotAdmitted>) -> bool {
    matches!(outcome, Err(NotAdmitted::Refused(_)))
}

#[tokio::test]
async fn keys_are_found_where_the_issuer_says_and_asked_for_once() {
    let (first, second) = (Signer::ed25519("one"), Signer::p256("two"));
    let issuer = TestIssuer::start(&[&first, &second]).await;
    let oidc = oidc(&issuer);
    let claims = claims(&issuer.url);
    for _ in 0..3 {
        let known = oidc.recognise(&first.sign(&claims)).await.unwrap();
        assert_eq!(known.principal, "oidc:ada");
        assert!(oidc.recognise(&second.sign(&claims)).await.is_ok());
    }
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test]
async fn tokens_that_name_unknown_keys_do_not_make_us_ask_each_time() {
    let known = Signer::ed25519("one");
    let issuer = TestIssuer::start(&[&known]).await;
    let oidc = oidc(&issuer);
    let claims = claims(&issuer.url);
    assert!(oidc.recognise(&known.sign(&claims)).await.is_ok());
    for _ in 0..20 {
        assert!(is_refused(oidc.recognise(&Signer::ed25519("other").sign(&claims)).await));
    }
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test]
async fn a_key_that_the_issuer_took_back_is_refused_and_a_new_one_taken() {
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let issuer = TestIssuer::start(&[&old]).await;
    let oidc = forgetful(&issuer);
    let claims = claims(&issuer.url);
    assert!(oidc.recognise(&old.sign(&claims)).await.is_ok());
    issuer.show(&[&old, &new]);
    assert!(oidc.recognise(&new.sign(&claims)).await.is_ok());
    assert!(oidc.recognise(&old.sign(&claims)).await.is_ok());
    issuer.show(&[&new]);
    assert!(oidc.recognise(&new.sign(&claims)).await.is_ok());
    assert!(is_refused(oidc.recognise(&old.sign(&claims)).await));
}

#[tokio::test]
async fn known_keys_outlast_an_issuer_that_is_away_and_others_are_unavailable() {
    let (known, unknown) = (Signer::ed25519("one"), Signer::ed25519("two"));
    let mut issuer = TestIssuer::start(&[&known]).await;
    let oidc = forgetful(&issuer);
    let claims = claims(&issuer.url);
    assert!(oidc.recognise(&known.sign(&claims)).await.is_ok());
    issuer.stop().await;
    assert!(oidc.recognise(&known.sign(&claims)).await.is_ok());
    let away = oidc.recognise(&unknown.sign(&claims)).await;
    assert!(matches!(away, Err(NotAdmitted::Unavailable(_))), "{away:?}");
    let never_met = Oidc::new(settings(&issuer.url)).unwrap();
    let away = never_met.recognise(&known.sign(&claims)).await;
    assert!(matches!(away, Err(NotAdmitted::Unavailable(_))), "{away:?}");
}

#[tokio::test]
async fn a_token_that_names_no_key_is_taken_where_there_is_no_choice() {
    let (first, second) = (Signer::ed25519("one"), Signer::ed25519("two"));
    let issuer = TestIssuer::start(&[&first]).await;
    let oidc = forgetful(&issuer);
    let token = first.sign_as(&json!({ "alg": "EdDSA" }), &claims(&issuer.url));
    assert!(oidc.recognise(&token).await.is_ok());
    issuer.show(&[&first, &second]);
    assert!(is_refused(oidc.recognise(&token).await));
}

#[tokio::test]
async fn a_description_of_somebody_else_is_not_believed() {
    let key = Signer::ed25519("one");
    let issuer = TestIssuer::start(&[&key]).await;
    // The same place by another name, which it does not call itself.
    let other = issuer.url.replace("127.0.0.1", "localhost");
    let oidc = Oidc::new(settings(&other)).unwrap();
    let refused = oidc.recognise(&key.sign(&claims(&other))).await.unwrap_err();
    assert!(
        matches!(&refused, NotAdmitted::Unavailable(why) if why.contains("describes")),
        "{refused:?}"
    );
    assert_eq!(issuer.asked(), 0);
}

#[tokio::test]
async fn nobody_makes_us_ask_more_often_by_going_away() {
    // One that takes connections and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let oidc = Oidc::new(OidcSettings {
        jwks_url: Some(format!("{url}/keys")),
        keys_kept: Duration::ZERO,
        ..settings(&url)
    })
    .unwrap();
    let token = Signer::ed25519("one").sign(&claims(&url));
    for _ in 0..20 {
        let gives_up = tokio::time::timeout(Duration::from_millis(20), oidc.recognise(&token));
        assert!(gives_up.await.is_err());
    }
    let mut connections = Vec::new();
    let wait = Duration::from_millis(100);
    while let Ok(accepted) = tokio::time::timeout(wait, silent.accept()).await {
        connections.push(accepted.unwrap());
    }
    assert_eq!(connections.len(), 1);
    // Whoever still waits hears what became of it.
    drop(connections);
    drop(silent);
    let away = oidc.recognise(&token).await;
    assert!(matches!(away, Err(NotAdmitted::Unavailable(_))), "{away:?}");
}

#[test]
fn issuers_with_a_path_describe_themselves_in_two_places() {
    assert_eq!(
        descriptions("https://id.example.org/realms/a/"),
        [
            "https://id.example.org/realms/a/.well-known/openid-configuration",
            "https://id.example.org/.well-known/oauth-authorization-server/realms/a",
        ]
    );
    assert_eq!(
        descriptions("https://id.example.org"),
        [
            "https://id.example.org/.well-known/openid-configuration",
            "https://id.example.org/.well-known/oauth-authorization-server",
        ]
    );
}
