//! Who is let in, by what, and who is not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_model::{
    AccessToken, Caller, Error, Result, Role, Scope, Tenant, Timestamp, TokenCreate, TokenCreated,
    TokenId, TokenName, TokenStore,
};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::access::{Access, Admitted, PeerUid};
use super::challenge::Unknown;
use super::lease::Term;
use super::settings::{AccessSettings, HttpSettings, Peer, Principal};
use super::{HttpLimits, Token};

const FIRST: &str = "first-token-of-sixteen";
const SECOND: &str = "second-token-of-sixteen";

fn caller(name: &str) -> Caller {
    Caller::of(name.to_owned(), Role::Agent)
}

fn principal(name: &str, token: &str) -> Principal {
    Principal { caller: caller(name), token: Token::new(token).unwrap() }
}

/// Nobody is let in without a token.
fn shut(principals: Vec<Principal>) -> AccessSettings {
    AccessSettings { open: None, principals, ..AccessSettings::open(caller("local:1000")) }
}

fn with(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
}

async fn admit(access: &Access, value: &str) -> Result<Admitted, Unknown> {
    access.admit(&with(value), None).await
}

/// One token that can be taken back, and a way to be out of order.
#[derive(Debug)]
struct OneToken {
    text: &'static str,
    about: Mutex<Option<AccessToken>>,
}

const TEXT: &str = "hc_4k7m2x9qpa_of-a-test";

impl OneToken {
    fn new(role: Role, scopes: Vec<Scope>) -> Self {
        let about = AccessToken {
            id: "4k7m2x9qpa".parse().unwrap(),
            name: "ci".parse().unwrap(),
            tenant: "team-7".parse().unwrap(),
            role,
            scopes,
            created_at: Timestamp(0),
            expires_at: None,
            last_used_at: None,
        };
        Self { text: TEXT, about: Mutex::new(Some(about)) }
    }

    fn revoke(&self) {
        *self.about.lock().unwrap() = None;
    }
}

impl TokenStore for OneToken {
    fn create(&self, _: &TokenCreate) -> Result<TokenCreated> {
        Err(Error::unsupported("not here"))
    }

    fn list(&self) -> Result<Vec<AccessToken>> {
        Ok(self.about.lock().unwrap().iter().cloned().collect())
    }

    fn revoke(&self, _: &TokenName) -> Result<AccessToken> {
        Err(Error::unsupported("not here"))
    }

    fn recognise(&self, text: &str) -> Result<Option<AccessToken>> {
        if text == "hc_broken" {
            return Err(Error::unavailable("the file is broken"));
        }
        Ok(self.about.lock().unwrap().clone().filter(|_| text == self.text))
    }

    fn is_live(&self, _: &TokenId) -> Result<bool> {
        Ok(self.about.lock().unwrap().is_some())
    }

    fn note_uses(&self) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_token_tells_who_calls() {
    let access = Access::new(shut(vec![principal("first", FIRST), principal("second", SECOND)]));
    let admitted = async |value: &str| admit(&access, value).await.map(|it| it.caller.principal);
    assert_eq!(admitted(&format!("Bearer {FIRST}")).await, Ok("first".to_owned()));
    assert_eq!(admitted(&format!("bearer  {SECOND} ")).await, Ok("second".to_owned()));
    let longer = format!("Bearer {FIRST}x");
    for wrong in ["Bearer ", "Bearer x", "Bearer first-token-of-sixteeN", longer.as_str()] {
        assert!(matches!(admitted(wrong).await, Err(Unknown::WrongToken(_))), "{wrong}");
    }
    for none in ["Basic Zmlyc3Q6c2Vjb25k", "Bearer", FIRST] {
        assert_eq!(admitted(none).await, Err(Unknown::WithoutToken), "{none}");
    }
    let nothing = access.admit(&HeaderMap::new(), None).await;
    assert_eq!(nothing.err(), Some(Unknown::WithoutToken));
}

#[tokio::test]
async fn without_tokens_everybody_is_the_one_who_started_the_server() {
    let access = Access::new(AccessSettings::open(caller("local:1000")));
    let admitted = access.admit(&HeaderMap::new(), None).await.unwrap().caller;
    assert_eq!(admitted.principal, "local:1000");
    assert_eq!(admitted.default_cell.unwrap().as_str(), "http-local-1000");
}

#[tokio::test]
async fn a_kept_token_brings_tenant_role_and_scopes() {
    let store = Arc::new(OneToken::new(Role::Agent, vec![Scope::Read]));
    let access = Access::new(AccessSettings { tokens: Some(store), ..shut(Vec::new()) });
    let admitted = admit(&access, &format!("Bearer {TEXT}")).await.unwrap();
    let Caller { principal, tenant, role, scopes, .. } = admitted.caller.clone();
    assert_eq!((principal.as_str(), tenant.as_str(), role), ("token:ci", "team-7", Role::Agent));
    assert_eq!(scopes, [Scope::Read]);
    assert!(admitted.caller.may(Scope::Read) && !admitted.caller.may(Scope::Run));
    let wrong = admit(&access, "Bearer hc_4k7m2x9qpa_wrong").await.err();
    let unknown = admit(&access, "Bearer hc_0000000000_wrong").await.err();
    // Nothing tells which of the two it was.
    assert!(matches!(wrong, Some(Unknown::WrongToken(_))), "{wrong:?}");
    assert_eq!(wrong, unknown);
    let broken = admit(&access, "Bearer hc_broken").await.err();
    assert!(matches!(broken, Some(Unknown::Unavailable(_))), "{broken:?}");
}

#[tokio::test]
async fn a_wrong_token_is_refused_also_where_none_is_needed() {
    let store = Arc::new(OneToken::new(Role::Agent, vec![Scope::Read]));
    let open = AccessSettings::open(caller("local:1000"));
    let access = Access::new(AccessSettings { tokens: Some(store), ..open });
    let known = admit(&access, &format!("Bearer {TEXT}")).await.unwrap();
    assert_eq!(known.caller.principal, "token:ci");
    for wrong in ["hc_4k7m2x9qpa_wrong", "junk", "", "a.b.c"] {
        let refused = admit(&access, &format!("Bearer {wrong}")).await.err();
        assert!(matches!(refused, Some(Unknown::WrongToken(_))), "{wrong}: {refused:?}");
    }
    assert!(access.admit(&HeaderMap::new(), None).await.is_ok());
    let mut two = with(&format!("Bearer {TEXT}"));
    two.append(AUTHORIZATION, HeaderValue::from_static("Bearer junk"));
    assert!(matches!(access.admit(&two, None).await.err(), Some(Unknown::WrongToken(_))));
}

#[tokio::test]
async fn a_lease_ends_with_its_token() {
    let store = Arc::new(OneToken::new(Role::Agent, vec![Scope::Read]));
    let tokens: Arc<dyn TokenStore> = Arc::clone(&store) as _;
    let access = Access::new(AccessSettings { tokens: Some(tokens), ..shut(Vec::new()) });
    let admitted = admit(&access, &format!("Bearer {TEXT}")).await.unwrap();
    let over = async || tokio::time::timeout(Duration::ZERO, admitted.lease.over()).await.is_ok();
    access.look();
    access.end(&Term::Token("0000000000".parse().unwrap()));
    assert!(!over().await && !admitted.lease.is_over());
    assert!(access.is_live(admitted.lease.term()));
    let again = admit(&access, &format!("Bearer {TEXT}")).await.unwrap();
    access.end(again.lease.term());
    assert!(again.lease.is_over() && admitted.lease.is_over());
    let admitted = admit(&access, &format!("Bearer {TEXT}")).await.unwrap();
    let over = async || tokio::time::timeout(Duration::ZERO, admitted.lease.over()).await.is_ok();
    store.revoke();
    access.look();
    assert!(over().await);
    assert!(!access.is_live(admitted.lease.term()));
    assert!(access.is_live(&Term::Lasting));
}

#[tokio::test]
async fn at_a_socket_the_kernel_says_who_calls() {
    let peers = vec![Peer { uid: 7, caller: caller("local:7").in_role(Role::Auditor) }];
    let access = Access::new(AccessSettings { peers, ..shut(Vec::new()) });
    let admitted = access.admit(&HeaderMap::new(), Some(PeerUid(7))).await.unwrap().caller;
    assert_eq!((admitted.principal.as_str(), admitted.role), ("local:7", Role::Auditor));
    assert!(access.knows(PeerUid(7)) && !access.knows(PeerUid(8)));
    assert!(access.admit(&HeaderMap::new(), Some(PeerUid(8))).await.is_err());
    // Whoever brings a token there has to bring a right one.
    assert!(access.admit(&with("Bearer junk"), Some(PeerUid(7))).await.is_err());
    assert!(access.admit(&HeaderMap::new(), None).await.is_err());
}

#[tokio::test]
async fn no_two_callers_have_the_same_cell() {
    let own = |principal: &str, tenant: &str| {
        let tenant: Tenant = tenant.parse().unwrap();
        let caller = Caller { tenant, ..caller(principal) };
        super::default_cell::with_own_cell(caller).default_cell.unwrap().to_string()
    };
    // As before there were others.
    assert_eq!(own("bearer", "main"), "http-bearer");
    assert_eq!(own("local:0", "main"), "http-local-0");
    let long = "x".repeat(200);
    let principals = [
        "bearer",
        "local:0",
        "token:a",
        "token-a",
        "oidc:a",
        "oidc:a@b",
        "oidc:a-b",
        "oidc:",
        "local:x",
        "local:99999999999",
        &long,
        &format!("{long}y"),
    ];
    let mut seen = std::collections::HashSet::new();
    for tenant in ["main", "other"] {
        for principal in principals {
            assert!(seen.insert(own(principal, tenant)), "{principal} of {tenant}");
        }
    }
    let chosen = caller("oidc:a").with_default_cell("work".parse().unwrap());
    assert_eq!(super::default_cell::with_own_cell(chosen).default_cell.unwrap().as_str(), "work");
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
    let settings = |access: AccessSettings| HttpSettings {
        mcp_path: "/mcp".to_owned(),
        access,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        drain: Duration::ZERO,
        limits: HttpLimits::default(),
    };
    let open = settings(AccessSettings::open(caller("local:1000")));
    for address in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80"] {
        assert!(open.check_address(address.parse().unwrap()).is_ok(), "{address}");
    }
    for address in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[2001:db8::1]:80"] {
        let address = address.parse().unwrap();
        let error = open.check_address(address).unwrap_err();
        assert!(error.hint.unwrap().contains("http.token_file"), "{address}");
        assert!(settings(shut(Vec::new())).check_address(address).is_ok(), "{address}");
    }
}
