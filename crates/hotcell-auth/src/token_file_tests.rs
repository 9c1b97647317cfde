//! Tokens are kept as digests, whole, and end when they are to.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Barrier;

use hotcell_model::{
    ErrorCode, Role, Scope, Tenant, Timestamp, TokenCreate, TokenName, TokenStore,
};

use crate::digest::{base32, name_digest};
use crate::token_file::FileTokenStore;

fn ask(name: Option<&str>) -> TokenCreate {
    TokenCreate {
        name: name.map(|name| name.parse().unwrap()),
        tenant: Tenant::default(),
        role: Role::Agent,
        scopes: None,
        expires_at: None,
    }
}

fn named(name: &str) -> TokenName {
    name.parse().unwrap()
}

#[test]
fn a_token_is_recognised_by_its_whole_text() {
    let home = tempfile::tempdir().unwrap();
    let store = FileTokenStore::new(home.path());
    assert!(!store.is_used().unwrap());
    let made = store.create(&ask(Some("ci"))).unwrap();
    let text = made.token.expose();
    let parts: Vec<&str> = text.split('_').collect();
    assert_eq!((parts[0], parts[1]), ("hc", made.about.id.as_str()));
    assert_eq!((parts.len(), parts[2].len()), (3, 52));
    assert_eq!(store.recognise(text).unwrap(), Some(made.about.clone()));
    let longer = format!("{text}0");
    let other_id = text.replacen(parts[1], "0000000000", 1);
    let other_secret = format!("hc_{}_{}", parts[1], "0".repeat(52));
    let no_secret = format!("hc_{}_", parts[1]);
    let wrong =
        [&longer, &text[..text.len() - 1], &other_id, &other_secret, &no_secret, "hc_", "", "_"];
    for wrong in wrong {
        assert_eq!(store.recognise(wrong).unwrap(), None, "{wrong}");
    }
}

#[test]
fn the_file_has_no_token_in_it_and_is_its_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    let store = FileTokenStore::new(home.path());
    let made = store.create(&ask(None)).unwrap();
    let secret = made.token.expose().rsplit('_').next().unwrap();
    for entry in fs::read_dir(home.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{path:?}");
        assert!(!fs::read_to_string(&path).unwrap().contains(secret), "{path:?}");
    }
    let file = fs::read_to_string(home.path().join("tokens.json")).unwrap();
    assert!(file.contains(made.about.id.as_str()));
}

#[test]
fn a_revoked_token_is_refused_at_once_also_by_others() {
    let home = tempfile::tempdir().unwrap();
    let (store, other) = (FileTokenStore::new(home.path()), FileTokenStore::new(home.path()));
    let made = store.create(&ask(Some("ci"))).unwrap();
    assert!(other.recognise(made.token.expose()).unwrap().is_some());
    assert!(other.is_live(&made.about.id).unwrap());
    store.revoke(&named("ci")).unwrap();
    assert!(other.recognise(made.token.expose()).unwrap().is_none());
    assert!(!other.is_live(&made.about.id).unwrap());
    assert_eq!(store.revoke(&named("ci")).unwrap_err().code, ErrorCode::NotFound);
    let by_id = store.create(&ask(None)).unwrap();
    store.revoke(&named(by_id.about.id.as_str())).unwrap();
    assert!(store.list().unwrap().is_empty());
    // All are gone, and that there were some is still known: the door stays shut.
    assert!(store.is_used().unwrap());
}

#[test]
fn a_token_that_is_over_is_refused_and_still_listed() {
    let home = tempfile::tempdir().unwrap();
    let store = FileTokenStore::new(home.path());
    let over = TokenCreate { expires_at: Some(Timestamp(1)), ..ask(Some("old")) };
    let made = store.create(&over).unwrap();
    assert_eq!(store.recognise(made.token.expose()).unwrap(), None);
    assert!(!store.is_live(&made.about.id).unwrap());
    assert_eq!(store.list().unwrap(), [made.about]);
}

#[test]
fn names_are_not_used_twice_and_are_not_ids() {
    let home = tempfile::tempdir().unwrap();
    let store = FileTokenStore::new(home.path());
    store.create(&ask(Some("ci"))).unwrap();
    assert_eq!(store.create(&ask(Some("ci"))).unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(store.create(&ask(Some("4k7m2x9qpa"))).unwrap_err().code, ErrorCode::Invalid);
    let beyond = TokenCreate { scopes: Some(vec![Scope::Admin]), ..ask(None) };
    assert_eq!(store.create(&beyond).unwrap_err().code, ErrorCode::Invalid);
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn those_who_make_tokens_at_once_lose_none() {
    let home = tempfile::tempdir().unwrap();
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for maker in 0..8 {
            let (home, start) = (home.path(), &start);
            scope.spawn(move || {
                let store = FileTokenStore::new(home);
                start.wait();
                for round in 0..10 {
                    let made = store.create(&ask(Some(&format!("t-{maker}-{round}")))).unwrap();
                    assert!(store.recognise(made.token.expose()).unwrap().is_some());
                    if round % 2 == 1 {
                        store.revoke(&made.about.name).unwrap();
                        assert!(store.recognise(made.token.expose()).unwrap().is_none());
                    }
                }
            });
        }
    });
    assert_eq!(FileTokenStore::new(home.path()).list().unwrap().len(), 40);
}

#[test]
fn a_use_is_noted_now_and_then_and_brings_nothing_back() {
    let home = tempfile::tempdir().unwrap();
    let store = FileTokenStore::new(home.path());
    let (kept, gone) = (store.create(&ask(None)).unwrap(), store.create(&ask(None)).unwrap());
    for made in [&kept, &gone] {
        assert!(store.recognise(made.token.expose()).unwrap().is_some());
    }
    store.revoke(&gone.about.name).unwrap();
    store.note_uses().unwrap();
    let listed = store.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].last_used_at.is_some());
    // It was noted just now: the file is left alone.
    let before = fs::metadata(home.path().join("tokens.json")).unwrap().ino();
    assert!(store.recognise(kept.token.expose()).unwrap().is_some());
    store.note_uses().unwrap();
    assert_eq!(fs::metadata(home.path().join("tokens.json")).unwrap().ino(), before);
}

#[test]
fn a_file_that_cannot_be_understood_lets_nobody_in() {
    let home = tempfile::tempdir().unwrap();
    let store = FileTokenStore::new(home.path());
    let made = store.create(&ask(None)).unwrap();
    for broken in ["", "{", r#"{"version":2,"tokens":[]}"#] {
        fs::write(home.path().join("tokens.json"), broken).unwrap();
        let refused = store.recognise(made.token.expose()).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Unavailable, "{broken}");
        assert!(store.create(&ask(None)).is_err(), "{broken}");
    }
}

#[test]
fn what_a_killed_process_left_is_in_nobodys_way() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("tokens.new"), "half of a fi").unwrap();
    let store = FileTokenStore::new(home.path());
    store.create(&ask(None)).unwrap();
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn names_made_of_parts_are_told_apart() {
    assert_eq!(name_digest(&["a", "b"]), name_digest(&["a", "b"]));
    assert_eq!(name_digest(&["a", "b"]).len(), 20);
    for other in [&["ab", ""][..], &["", "ab"], &["b", "a"], &["a"], &["a", "b", ""]] {
        assert_ne!(name_digest(&["a", "b"]), name_digest(other), "{other:?}");
    }
    assert_eq!(base32(&[0xff; 5]), "zzzzzzzz");
    assert_eq!(base32(&[0x80]), "g0");
}
