//! Who is let in, and who is not.

use hotcell_model::Caller;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::access::{Access, Unknown};
use super::settings::{HttpSettings, Principal};
use super::{HttpLimits, Token};

const FIRST: &str = "first-token-of-sixteen";
const SECOND: &str = "second-token-of-sixteen";

fn principal(name: &str, token: Option<&str>) -> Principal {
    Principal {
        caller: Caller::of(name.to_owned()),
        token: token.map(|text| Token::new(text).unwrap()),
    }
}

fn with(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
}

#[test]
fn a_token_tells_who_calls() {
    let access =
        Access::new(vec![principal("first", Some(FIRST)), principal("second", Some(SECOND))]);
    let admitted = |value: &str| access.admit(&with(value)).map(|one| one.caller.principal);
    assert_eq!(admitted(&format!("Bearer {FIRST}")), Ok("first".to_owned()));
    assert_eq!(admitted(&format!("bearer  {SECOND} ")), Ok("second".to_owned()));
    let longer = format!("Bearer {FIRST}x");
    for wrong in ["Bearer ", "Bearer x", "Bearer first-token-of-sixteeN", longer.as_str()] {
        assert_eq!(admitted(wrong), Err(Unknown::WrongToken), "{wrong}");
    }
    for none in ["Basic Zmlyc3Q6c2Vjb25k", "Bearer", FIRST] {
        assert_eq!(admitted(none), Err(Unknown::WithoutToken), "{none}");
    }
    assert_eq!(access.admit(&HeaderMap::new()).err(), Some(Unknown::WithoutToken));
}

#[test]
fn without_tokens_everybody_is_the_one_who_started_the_server() {
    let access = Access::new(vec![principal("local:1000", None)]);
    let admitted = access.admit(&HeaderMap::new()).map(|one| one.caller.principal);
    assert_eq!(admitted, Ok("local:1000".to_owned()));
}

#[test]
fn a_token_is_long_and_never_shown() {
    let token = Token::new(&format!(" {FIRST}\n")).unwrap();
    assert!(token.is(FIRST.as_bytes()));
    assert!(!format!("{token:?}").contains(FIRST));
    for wrong in ["", "short", "has a space in the middle", "ümlaut-ümlaut-ümlaut"] {
        let error = Token::new(wrong).unwrap_err();
        assert!(wrong.is_empty() || !error.message.contains(wrong), "{error}");
    }
}

#[test]
fn only_loopback_needs_no_token() {
    let settings = |token| HttpSettings {
        principals: vec![principal("somebody", token)],
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        drain: std::time::Duration::ZERO,
        limits: HttpLimits::default(),
    };
    for address in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80"] {
        assert!(settings(None).check_address(address.parse().unwrap()).is_ok(), "{address}");
    }
    for address in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[2001:db8::1]:80"] {
        let address = address.parse().unwrap();
        let error = settings(None).check_address(address).unwrap_err();
        assert!(error.hint.unwrap().contains("http.token_file"), "{address}");
        assert!(settings(Some(FIRST)).check_address(address).is_ok(), "{address}");
    }
}
