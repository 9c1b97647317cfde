//! Which target gets which header, and which gets nothing.

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

#[test]
fn nothing_that_is_printed_for_people_shows_a_value() {
    let lent = lent(&["a:header=X-A: {}@one.test"], &[("a", "value-of-a")]);
    let treatment = lent.treatment(&Target { name: "one.test".parse().unwrap(), port: 443 });
    let shown = format!("{lent:?} {treatment:?} {:?}", secrets(&[("a", "value-of-a")]));
    assert!(shown.contains("one.test") && !shown.contains("value-of-a"), "{shown}");
}
