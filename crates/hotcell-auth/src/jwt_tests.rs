//! A signature counts only from a key that the issuer shows, in the way that this key is for.

use ring::hmac;
use serde_json::{Value, json};

use crate::algorithm::Algorithm;
use crate::jwk::{Jwk, read_set};
use crate::jwt::{Unverified, looks_like};
use crate::testing::{Signer, encode};

fn key_of(jwk: Value) -> Jwk {
    let mut keys = read_set(json!({ "keys": [jwk] }).to_string().as_bytes()).unwrap();
    keys.pop().unwrap()
}

fn verify(token: &str, key: &Jwk) -> Result<Value, String> {
    let claims = Unverified::read(token, &Algorithm::ALL)?.verify(key)?;
    Ok(Value::Object(claims))
}

#[test]
fn what_a_key_signed_is_known_by_that_key_alone() {
    let claims = json!({ "sub": "ada" });
    for signer in [Signer::ed25519("a"), Signer::p256("a")] {
        let token = signer.sign(&claims);
        assert_eq!(verify(&token, &key_of(signer.jwk())), Ok(claims.clone()));
        for other in [Signer::ed25519("a"), Signer::p256("a")] {
            assert!(verify(&token, &key_of(other.jwk())).is_err());
        }
    }
}

#[test]
fn any_change_is_found() {
    let signer = Signer::ed25519("a");
    let key = key_of(signer.jwk());
    let token = signer.sign(&json!({ "sub": "ada", "scope": "hotcell:read" }));
    let parts: Vec<&str> = token.split('.').collect();
    let forged = encode(json!({ "sub": "ada", "scope": "hotcell:admin" }).to_string());
    assert!(verify(&format!("{}.{forged}.{}", parts[0], parts[2]), &key).is_err());
    let head = encode(json!({ "alg": "EdDSA", "kid": "b" }).to_string());
    assert!(verify(&format!("{head}.{}.{}", parts[1], parts[2]), &key).is_err());
    assert!(verify(&format!("{}.{}.", parts[0], parts[1]), &key).is_err());
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        if let Ok(changed) = String::from_utf8(changed) {
            assert!(verify(&changed, &key).is_err(), "a change at {at} of {token}");
        }
    }
    assert!(verify(&token, &key).is_ok());
}

#[test]
fn none_and_shared_secrets_are_no_ways_to_sign() {
    let signer = Signer::ed25519("a");
    let key = key_of(signer.jwk());
    let claims = encode(json!({ "sub": "ada" }).to_string());
    for alg in ["none", "None", "NONE", ""] {
        let head = encode(json!({ "alg": alg }).to_string());
        let refused = verify(&format!("{head}.{claims}."), &key).unwrap_err();
        assert!(refused.contains("not allowed"), "{refused}");
    }
    // The public key, in every form that a careless library would take for a secret.
    let jwk = signer.jwk();
    let x = jwk["x"].as_str().unwrap();
    for secret in [x.as_bytes().to_vec(), jwk.to_string().into_bytes()] {
        let head = encode(json!({ "alg": "HS256", "kid": "a" }).to_string());
        let signed = format!("{head}.{claims}");
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let token = format!("{signed}.{}", encode(hmac::sign(&secret, signed.as_bytes())));
        let refused = verify(&token, &key).unwrap_err();
        assert!(refused.contains("HS256"), "{refused}");
    }
    assert!("HS256".parse::<Algorithm>().is_err() && "none".parse::<Algorithm>().is_err());
}

#[test]
fn a_key_is_for_one_kind_of_signature() {
    let signer = Signer::p256("a");
    let key = key_of(signer.jwk());
    let head = |alg: &str| json!({ "alg": alg, "kid": "a" });
    let claims = json!({});
    assert!(verify(&signer.sign_as(&head("ES256"), &claims), &key).is_ok());
    for alg in ["RS256", "PS256", "ES384", "EdDSA"] {
        assert!(verify(&signer.sign_as(&head(alg), &claims), &key).is_err(), "{alg}");
    }
    // Its issuer may keep it to one algorithm.
    let mut jwk = signer.jwk();
    jwk["alg"] = json!("ES384");
    assert!(verify(&signer.sign(&claims), &key_of(jwk)).is_err());
    // An algorithm that the operator did not allow is not looked at.
    let refused = Unverified::read(&signer.sign(&claims), &[Algorithm::EdDsa]).unwrap_err();
    assert!(refused.contains("ES256"), "{refused}");
}

#[test]
fn keys_that_check_no_signatures_are_left_out() {
    let mut for_encryption = Signer::ed25519("a").jwk();
    for_encryption["use"] = json!("enc");
    let mut for_signing = Signer::ed25519("b").jwk();
    for_signing["key_ops"] = json!(["sign"]);
    let set = json!({ "keys": [
        for_encryption, for_signing, { "kty": "oct", "k": "c2VjcmV0" }, { "kty": "EC", "crv": "P-256" },
        "no key", Signer::p256("c").jwk(),
    ] });
    let keys = read_set(set.to_string().as_bytes()).unwrap();
    assert_eq!(keys.len(), 1);
    assert!(keys[0].is_named("c"));
    assert!(read_set(b"{}").is_err());
    assert!(read_set(b"[]").is_err());
}

#[test]
fn heads_that_mean_something_else_are_refused() {
    let signer = Signer::ed25519("a");
    let with = |name: &str, value: Value| {
        let mut head = json!({ "alg": "EdDSA", "kid": "a" });
        head[name] = value;
        signer.sign_as(&head, &json!({}))
    };
    let key = key_of(signer.jwk());
    for good in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        assert!(verify(&with("typ", json!(good)), &key).is_ok(), "{good}");
    }
    for bad in ["dpop+jwt", "logout+jwt", "secevent+jwt", ""] {
        assert!(verify(&with("typ", json!(bad)), &key).is_err(), "{bad}");
    }
    for critical in [json!(["b64"]), json!([]), json!(null), json!(false)] {
        assert!(verify(&with("crit", critical.clone()), &key).is_err(), "{critical}");
    }
    // A key that comes with the token is not looked at.
    let stranger = Signer::ed25519("a");
    let head = json!({ "alg": "EdDSA", "kid": "a", "jwk": stranger.jwk() });
    assert!(verify(&stranger.sign_as(&head, &json!({})), &key).is_err());
}

#[test]
fn what_is_no_token_is_told_from_one() {
    assert!(looks_like("aa.bb.cc") && looks_like("aa.bb."));
    for other in ["", "hc_4k7m2x9qpa_abc", "a.b", "a.b.c.d.e", "a b.c.d", "ä.b.c"] {
        assert!(!looks_like(other), "{other}");
    }
    for broken in ["..", "a.b.c", "!.e30.e30", &"a.".repeat(20_000)] {
        assert!(Unverified::read(broken, &Algorithm::ALL).is_err());
    }
}
