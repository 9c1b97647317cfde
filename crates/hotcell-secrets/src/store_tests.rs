//! Secrets are kept sealed, whole, and open with their own key alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use hotcell_model::{ErrorCode, SecretName, SecretSource, SecretStore, SecretValue, Tenant};

use crate::{ElsewhereSource, SealedStore};

fn store(home: &Path) -> SealedStore {
    SealedStore::new(home.join("secrets"), home.join("keys/key"), BTreeMap::new())
}

fn main() -> Tenant {
    Tenant::default()
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
    assert_eq!(first.list(&main()).unwrap(), []);
    assert!(!home.path().join("keys").exists(), "a look makes no key");
    first.set(&main(), &name("one"), &value("the first value")).unwrap();
    first.set(&main(), &name("two"), &value("another")).unwrap();
    first.set(&main(), &name("one"), &value("the second value")).unwrap();
    let second = store(home.path());
    assert_eq!(second.resolve(&main(), &name("one")).unwrap().expose(), "the second value");
    let names: Vec<String> =
        second.list(&main()).unwrap().iter().map(|secret| secret.name.to_string()).collect();
    assert_eq!(names, ["one", "two"]);
    second.remove(&main(), &name("one")).unwrap();
    assert_eq!(first.resolve(&main(), &name("one")).unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(first.remove(&main(), &name("one")).unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(first.resolve(&main(), &name("two")).unwrap().expose(), "another");
}

#[test]
fn the_file_holds_no_value_and_is_its_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    store(home.path()).set(&main(), &name("one"), &value("find-me-if-you-can")).unwrap();
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
    store.set(&main(), &name("one"), &value("the first value")).unwrap();
    let (key, file) = (home.path().join("keys/key"), home.path().join("secrets/secrets.sealed"));
    let right = fs::read(&key).unwrap();
    fs::write(&key, "00".repeat(32)).unwrap();
    let error = store.resolve(&main(), &name("one")).unwrap_err();
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("another key"), "{error}");
    // Nothing is written over what cannot be opened.
    assert!(store.set(&main(), &name("two"), &value("another")).is_err());
    fs::write(&key, "no key").unwrap();
    assert_eq!(store.list(&main()).unwrap_err().code, ErrorCode::Invalid);
    fs::remove_file(&key).unwrap();
    assert!(store.set(&main(), &name("two"), &value("another")).is_err());
    assert!(!key.exists(), "a new key cannot open what the old one sealed");
    fs::write(&key, &right).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(store.list(&main()).unwrap_err().code, ErrorCode::Denied);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(store.resolve(&main(), &name("one")).unwrap().expose(), "the first value");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(store.resolve(&main(), &name("one")).is_err());
    fs::write(&file, b"hotcell secrets 2\nwhatever").unwrap();
    assert!(store.list(&main()).unwrap_err().message.contains("format"));
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
    assert_eq!(store.resolve(&main(), &name("set")).unwrap().expose(), "of a variable");
    assert_eq!(store.resolve(&main(), &name("file")).unwrap().expose(), "of a file");
    let error = store.resolve(&main(), &name("unset")).unwrap_err();
    assert!(error.message.contains("TOKEN"), "{error}");
    assert_eq!(
        store.set(&main(), &name("set"), &value("x")).unwrap_err().code,
        ErrorCode::Conflict
    );
    assert_eq!(store.remove(&main(), &name("file")).unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(store.list(&main()).unwrap()[0].source, SecretSource::File);
    fs::remove_file(file).unwrap();
    assert_eq!(store.resolve(&main(), &name("file")).unwrap_err().code, ErrorCode::Unavailable);
}

#[test]
fn several_who_set_at_once_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let store = store(home.path());
            scope.spawn(move || {
                store.set(&main(), &name(&format!("n{number}")), &value("some value")).unwrap();
            });
        }
    });
    assert_eq!(store(home.path()).list(&main()).unwrap().len(), 16);
}

#[test]
fn each_tenant_has_its_own_secrets_and_none_of_another() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = BTreeMap::from([(
        name("lent"),
        ElsewhereSource::Env { variable: "TOKEN".to_owned(), value: Some(value("of main")) },
    )]);
    let store = SealedStore::new(home.path().join("s"), home.path().join("k"), elsewhere);
    let (a, b): (Tenant, Tenant) = ("a".parse().unwrap(), "b".parse().unwrap());
    store.set(&main(), &name("key"), &value("main's value")).unwrap();
    store.set(&a, &name("key"), &value("a's value")).unwrap();
    assert_eq!(store.resolve(&main(), &name("key")).unwrap().expose(), "main's value");
    assert_eq!(store.resolve(&a, &name("key")).unwrap().expose(), "a's value");
    let unknown = store.resolve(&b, &name("nothing")).unwrap_err();
    let foreign = store.resolve(&b, &name("key")).unwrap_err();
    assert_eq!(foreign.message, unknown.message.replace("nothing", "key"));
    assert_eq!(foreign.code, ErrorCode::NotFound);
    assert_eq!(store.remove(&b, &name("key")).unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(store.list(&b).unwrap(), []);
    assert_eq!(store.list(&a).unwrap().len(), 1);
    assert_eq!(store.list(&main()).unwrap().len(), 2);
    // What the settings name is that of main; another tenant may have a secret of that name.
    assert_eq!(store.resolve(&a, &name("lent")).unwrap_err().code, ErrorCode::NotFound);
    store.set(&a, &name("lent"), &value("a's own")).unwrap();
    assert_eq!(store.resolve(&main(), &name("lent")).unwrap().expose(), "of main");
    store.remove(&a, &name("key")).unwrap();
    assert_eq!(store.resolve(&main(), &name("key")).unwrap().expose(), "main's value");
}
