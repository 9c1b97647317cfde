//! Which target gets which header, and which gets nothing.

use std::sync::Arc;

use hotcell_masking::Masks;
use hotcell_model::{LentSecret, SecretGrant};

use crate::connection::Target;
use crate::lending::{HeaderPlan, Lent, Treatment};

fn lent(grants: &[&str], values: &[(&str, &str)]) -> Lent {
    let grants: Vec<SecretGrant> = grants.iter().map(|grant| grant.parse().unwrap()).collect();
    Lent::new(HeaderPlan { grants, lent: secrets(values), ..HeaderPlan::default() })
}

fn secrets(values: &[(&str, &str)]) -> Vec<LentSecret> {
    let secret = |(name, value): &(&str, &str)| LentSecret {
        name: name.parse().unwrap(),
        value: (*value).to_owned(),
    };
    values.iter().map(secret).collect()
}

/// What is added for a target; none where it is carried as it is.
fn added(lent: &Lent, name: &str, port: u16) -> Result<Option<Vec<String>>, String> {
    match lent.treatment(&Target { name: name.parse().unwrap(), port }) {
        Treatment::AsItIs => Ok(None),
        Treatment::NotHeld(name) => Err(name.to_string()),
        Treatment::Lending(lending) => {
            assert!(lending.headers.iter().all(|(_, value)| value.is_sensitive()));
            let show = |(name, value): &(http::HeaderName, http::HeaderValue)| {
                format!("{name}: {}", value.to_str().unwrap())
            };
            Ok(Some(lending.headers.iter().map(show).collect()))
        }
    }
}

#[test]
fn a_target_gets_its_headers_and_others_are_left_alone() {
    let grants = [
        "a:header=Authorization: Bearer {}@one.test",
        "b:header=X-Key: {}@one.test two.test:8443 http://three.test",
        "c:header=Authorization: Basic {basic:me}@four.test",
        "d",
    ];
    let values =
        [("a", "value-of-a"), ("b", "value-of-b\n"), ("c", "value-of-c"), ("d", "value-of-d")];
    let lent = lent(&grants, &values);
    let one = vec!["authorization: Bearer value-of-a".to_owned(), "x-key: value-of-b".to_owned()];
    assert_eq!(added(&lent, "one.test", 443), Ok(Some(one)));
    let two = Ok(Some(vec!["x-key: value-of-b".to_owned()]));
    assert_eq!(added(&lent, "two.test", 8443), two);
    assert_eq!(added(&lent, "three.test", 80), two);
    let basic = "authorization: Basic bWU6dmFsdWUtb2YtYw==".to_owned();
    assert_eq!(added(&lent, "four.test", 443), Ok(Some(vec![basic])));
    for (name, port) in
        [("one.test", 80), ("two.test", 443), ("three.test", 443), ("x.one.test", 443)]
    {
        assert_eq!(added(&lent, name, port), Ok(None), "{name}:{port}");
    }
}

#[test]
fn without_all_its_values_a_target_is_not_reached() {
    let grants = ["a:header=X-A: {}@one.test", "b:header=X-B: {}@one.test two.test"];
    let lent = lent(&grants, &[("a", "value-of-a")]);
    assert_eq!(added(&lent, "one.test", 443), Err("b".to_owned()));
    assert_eq!(added(&lent, "two.test", 443), Err("b".to_owned()));
    lent.lend(&secrets(&[("a", "value-of-a"), ("b", "value-of-b")]));
    assert!(added(&lent, "one.test", 443).is_ok_and(|it| it.is_some_and(|it| it.len() == 2)));
    // What no header can have is as good as missing, and so is what was taken back.
    lent.lend(&secrets(&[("a", "value-of-a"), ("b", "value\nof\nb")]));
    assert_eq!(added(&lent, "two.test", 443), Err("b".to_owned()));
    lent.lend(&[]);
    assert_eq!(added(&lent, "one.test", 443), Err("a".to_owned()));
}

/// What an answer of a target becomes.
fn masked(lent: &Lent, name: &str, answer: &str) -> String {
    let masks = masks(lent, name);
    let mut masker = hotcell_masking::Masker::default();
    let mut told = masker.take(&masks, answer.as_bytes());
    told.extend(masker.release(&masks));
    String::from_utf8(told).unwrap()
}

fn masks(lent: &Lent, name: &str) -> Arc<Masks> {
    match lent.treatment(&Target { name: name.parse().unwrap(), port: 443 }) {
        Treatment::Lending(lending) => Arc::clone(&lending.masks),
        other @ (Treatment::AsItIs | Treatment::NotHeld(_)) => panic!("{other:?}"),
    }
}

#[test]
fn what_is_known_already_makes_no_new_masks() {
    let grants = ["a:header=X-A: {}@one.test", "b:header=X-B: {}@two.test"];
    let both = [("a", "value-of-a"), ("b", "value-of-b")];
    let lent = lent(&grants, &both);
    let first = masks(&lent, "one.test");
    lent.lend(&secrets(&both));
    // One that is in no header is nothing to a carrier.
    lent.lend(&secrets(&[both[0], both[1], ("c", "value-of-c")]));
    assert!(Arc::ptr_eq(&first, &masks(&lent, "one.test")));
    // One that was taken back is masked all the same, and known when it comes again.
    lent.lend(&secrets(&both[..1]));
    assert!(Arc::ptr_eq(&first, &masks(&lent, "one.test")));
    assert_eq!(added(&lent, "two.test", 443), Err("b".to_owned()));
    lent.lend(&secrets(&both));
    assert!(Arc::ptr_eq(&first, &masks(&lent, "two.test")));
    lent.lend(&secrets(&[both[0], ("b", "other-value")]));
    assert!(!Arc::ptr_eq(&first, &masks(&lent, "one.test")));
}

#[test]
fn the_last_values_of_a_secret_are_masked_and_no_more_are_kept() {
    let grants = ["a:header=X-A: {}@one.test", "b:header=X-B: Basic {basic:me}@one.test"];
    let lent = lent(&grants, &[("a", "value-of-a"), ("b", "value-of-b")]);
    for number in 1..=20 {
        let value = format!("value-{number}-of-a");
        lent.lend(&secrets(&[("a", &value), ("b", "value-of-b")]));
    }
    let all = "value-18-of-a value-19-of-a value-20-of-a value-of-b bWU6dmFsdWUtb2YtYg==";
    let told = masked(&lent, "one.test", all);
    assert!(told.chars().all(|letter| letter == '*' || letter == ' '), "{told}");
    assert_eq!(masked(&lent, "one.test", "value-17-of-a"), "value-17-of-a");
}

#[test]
fn nothing_that_is_printed_for_people_shows_a_value() {
    let lent = lent(&["a:header=X-A: {}@one.test"], &[("a", "value-of-a")]);
    let treatment = lent.treatment(&Target { name: "one.test".parse().unwrap(), port: 443 });
    let shown = format!("{lent:?} {treatment:?} {:?}", secrets(&[("a", "value-of-a")]));
    assert!(shown.contains("one.test") && !shown.contains("value-of-a"), "{shown}");
}
