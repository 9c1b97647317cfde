//! Secrets are kept sealed, whole, and open with their own key alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use hotcell_model::{ErrorCode, SecretName, SecretSource, SecretStore, SecretValue};

use crate::{ElsewhereSource, SealedStore};

fn store(home: &Path) -> SealedStore {
    SealedStore::new(home.join("secrets"), home.join("keys/key"), BTreeMap::new())
}

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

fn value(text: &str) -> SecretValue {
    SecretValue::new(text.as_bytes().to_vec()).unwrap()
}

#[test]
fn what_is_set_is_resolved_by_another_process_until_it_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let first = store(home.path());
    assert_eq!(first.list().unwrap(), []);
    assert!(!home.path().join("keys").exists(), "a look makes no key");
    first.set(&name("one"), &value("the first value")).unwrap();
    first.set(&name("two"), &value("another")).unwrap();
    first.set(&name("one"), &value("the second value")).unwrap();
    let second = store(home.path());
    assert_eq!(second.resolve(&name("one")).unwrap().expose(), "the second value");
    let names: Vec<String> =
        second.list().unwrap().iter().map(|secret| secret.name.to_string()).collect();
    assert_eq!(names, ["one", "two"]);
    second.remove(&name("one")).unwrap();
    assert_eq!(first.resolve(&name("one")).unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(first.remove(&name("one")).unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(first.resolve(&name("two")).unwrap().expose(), "another");
}

#[test]
fn the_file_holds_no_value_and_is_its_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    store(home.path()).set(&name("one"), &value("find-me-if-you-can")).unwrap();
    for file in ["secrets/secrets.sealed", "secrets/lock", "keys/key"] {
        let path = home.path().join(file);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{file}");
        let bytes = fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("find-me"), "{file}");
    }
}

#[test]
fn another_key_a_missing_one_and_a_changed_file_are_told_apart_from_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    store.set(&name("one"), &value("the first value")).unwrap();
    let (key, file) = (home.path().join("keys/key"), home.path().join("secrets/secrets.sealed"));
    let right = fs::read(&key).unwrap();
    fs::write(&key, "00".repeat(32)).unwrap();
    let error = store.resolve(&name("one")).unwrap_err();
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("another key"), "{error}");
    // Nothing is written over what cannot be opened.
    assert!(store.set(&name("two"), &value("another")).is_err());
    fs::write(&key, "no key").unwrap();
    assert_eq!(store.list().unwrap_err().code, ErrorCode::Invalid);
    fs::remove_file(&key).unwrap();
    assert!(store.set(&name("two"), &value("another")).is_err());
    assert!(!key.exists(), "a new key cannot open what the old one sealed");
    fs::write(&key, &right).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(store.list().unwrap_err().code, ErrorCode::Denied);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(store.resolve(&name("one")).unwrap().expose(), "the first value");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(store.resolve(&name("one")).is_err());
    fs::write(&file, b"hotcell secrets 2\nwhatever").unwrap();
    assert!(store.list().unwrap_err().message.contains("format"));
}

#[test]
fn values_come_from_elsewhere_where_the_settings_say_so() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("value");
    fs::write(&file, "of a file\n").unwrap();
    let env = |value: Option<&str>| ElsewhereSource::Env {
        variable: "TOKEN".to_owned(),
        value: value.map(self::value),
    };
    let elsewhere = BTreeMap::from([
        (name("set"), env(Some("of a variable"))),
        (name("unset"), env(None)),
        (name("file"), ElsewhereSource::File(file.clone())),
    ]);
    let store = SealedStore::new(home.path().join("s"), home.path().join("k"), elsewhere);
    assert_eq!(store.resolve(&name("set")).unwrap().expose(), "of a variable");
    assert_eq!(store.resolve(&name("file")).unwrap().expose(), "of a file");
    let error = store.resolve(&name("unset")).unwrap_err();
    assert!(error.message.contains("TOKEN"), "{error}");
    assert_eq!(store.set(&name("set"), &value("x")).unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(store.remove(&name("file")).unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(store.list().unwrap()[0].source, SecretSource::File);
    fs::remove_file(file).unwrap();
    assert_eq!(store.resolve(&name("file")).unwrap_err().code, ErrorCode::Unavailable);
}

#[test]
fn several_who_set_at_once_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let store = store(home.path());
            scope.spawn(move || {
                store.set(&name(&format!("n{number}")), &value("some value")).unwrap();
            });
        }
    });
    assert_eq!(store(home.path()).list().unwrap().len(), 16);
}
