//! Settings that would let anybody in are refused.

use crate::oidc::Oidc;
use crate::settings::{OidcSettings, check_url};
use crate::testing::settings;

#[test]
fn an_issuer_is_asked_over_https_or_on_this_machine() {
    for good in [
        "https://id.example.org",
        "https://10.0.0.1:8443/a",
        "http://127.0.0.1:9",
        "http://[::1]:9",
        "http://localhost:9/realm",
    ] {
        assert!(check_url("key", good).is_ok(), "{good}");
    }
    for bad in [
        "http://id.example.org",
        "http://10.0.0.1",
        "http://localhost.example.org",
        "ftp://localhost",
        "id.example.org",
        "https://",
        "",
        "https://user@id.example.org",
        "http://127.0.0.1@evil.org",
    ] {
        assert!(check_url("key", bad).is_err(), "{bad}");
    }
}

#[test]
fn tokens_for_any_audience_are_never_taken() {
    let good = settings("https://id.example.org");
    assert!(Oidc::new(good.clone()).is_ok());
    for bad in [
        OidcSettings { audiences: Vec::new(), ..good.clone() },
        OidcSettings { algorithms: Vec::new(), ..good.clone() },
        OidcSettings { issuer: "https://id.example.org?x".to_owned(), ..good.clone() },
        OidcSettings { jwks_url: Some("http://id.example.org/keys".to_owned()), ..good },
    ] {
        assert!(Oidc::new(bad.clone()).is_err(), "{bad:?}");
    }
}
