//! Each claim is checked, and each by itself keeps a token out.

use hotcell_model::{Role, Scope, Tenant, Timestamp};
use serde_json::{Value, json};

use crate::claims::{judge, lacked_scope};
use crate::oidc::Identity;
use crate::settings::{OidcSettings, RoleRule, ScopeRule, TenantRule};
use crate::testing::{AUDIENCE, settings};

const ISSUER: &str = "https://id.example.org";
const NOW: u64 = 1_800_000_000;

fn good() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": NOW, "nbf": NOW, "exp": NOW + 300,
        "scope": "openid hotcell:read hotcell:run",
    })
}

fn judged(settings: &OidcSettings, claims: &Value) -> Result<Identity, String> {
    judge(settings, claims.as_object().unwrap(), Timestamp(NOW * 1000))
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = good();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = good();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[test]
fn a_token_in_order_says_who_its_bearer_is() {
    let identity = judged(&settings(ISSUER), &good()).unwrap();
    let expected = Identity {
        principal: "oidc:ada".to_owned(),
        tenant: Tenant::default(),
        role: Role::Agent,
        scopes: vec![Scope::Read, Scope::Run],
        expires_at: Timestamp((NOW + 330) * 1000),
    };
    assert_eq!(identity, expected);
}

#[test]
fn it_holds_from_its_beginning_to_its_end() {
    let settings = settings(ISSUER);
    for (claim, good_at, bad_at) in
        [("exp", NOW - 29, NOW - 30), ("nbf", NOW + 30, NOW + 31), ("iat", NOW + 30, NOW + 31)]
    {
        assert!(judged(&settings, &with(claim, json!(good_at))).is_ok(), "{claim}");
        assert!(judged(&settings, &with(claim, json!(bad_at))).is_err(), "{claim}");
        for nonsense in [json!("soon"), json!(-1), json!(null), json!([NOW])] {
            assert!(
                judged(&settings, &with(claim, nonsense.clone())).is_err(),
                "{claim} {nonsense}"
            );
        }
    }
    assert!(judged(&settings, &with("exp", json!(NOW as f64 + 0.5))).is_ok());
    assert!(judged(&settings, &without("exp")).is_err());
    assert!(judged(&settings, &without("nbf")).is_ok());
    assert!(judged(&settings, &without("iat")).is_ok());
}

#[test]
fn it_is_by_the_issuer_and_for_us() {
    let settings = settings(ISSUER);
    for other in ["https://id.example.org/", "https://id.example.com", "https://ID.example.org", ""]
    {
        assert!(judged(&settings, &with("iss", json!(other))).is_err(), "{other}");
    }
    assert!(judged(&settings, &without("iss")).is_err());
    assert!(judged(&settings, &with("iss", json!([ISSUER]))).is_err());
    assert!(judged(&settings, &with("aud", json!(["other", AUDIENCE]))).is_ok());
    let longer = format!("{AUDIENCE}/more");
    for other in
        [json!("other"), json!([]), json!(longer), json!(format!("x {AUDIENCE}")), json!(1)]
    {
        assert!(judged(&settings, &with("aud", other.clone())).is_err(), "{other}");
    }
    assert!(judged(&settings, &without("aud")).is_err());
}

#[test]
fn its_bearer_has_a_name() {
    let settings = settings(ISSUER);
    for bad in [json!(""), json!("a b"), json!("a\nb"), json!(7), json!("x".repeat(256))] {
        assert!(judged(&settings, &with("sub", bad.clone())).is_err(), "{bad}");
    }
    assert!(judged(&settings, &without("sub")).is_err());
    let by_mail = OidcSettings { principal_claim: "email".to_owned(), ..settings };
    let named = judged(&by_mail, &with("email", json!("ada@example.org"))).unwrap();
    assert_eq!(named.principal, "oidc:ada@example.org");
    assert!(judged(&by_mail, &good()).is_err());
}

#[test]
fn whoever_belongs_to_no_tenant_is_not_put_to_one() {
    let claim = TenantRule::Claim("tenant".to_owned());
    let settings = OidcSettings { tenant: claim, ..settings(ISSUER) };
    let found = judged(&settings, &with("tenant", json!("team-7"))).unwrap();
    assert_eq!(found.tenant.as_str(), "team-7");
    for bad in [json!(""), json!("Team"), json!("a/b"), json!(["team-7"]), json!(null)] {
        assert!(judged(&settings, &with("tenant", bad.clone())).is_err(), "{bad}");
    }
    assert!(judged(&settings, &good()).is_err());
}

#[test]
fn roles_come_from_a_claim_by_the_operators_table() {
    let roles =
        vec![("cell-admins".to_owned(), Role::Operator), ("audit".to_owned(), Role::Auditor)];
    let rule = |roles| RoleRule::Claim { claim: "groups".to_owned(), roles };
    let strict = OidcSettings { role: rule(roles.clone()), ..settings(ISSUER) };
    let role = |settings: &OidcSettings, value: Value| {
        judged(settings, &with("groups", value)).map(|identity| identity.role)
    };
    assert_eq!(role(&strict, json!(["staff", "cell-admins"])), Ok(Role::Operator));
    assert_eq!(role(&strict, json!("audit")), Ok(Role::Auditor));
    assert!(role(&strict, json!(["staff"])).is_err());
    assert!(role(&strict, json!("cell-admins audit")).is_err());
    assert!(judged(&strict, &good()).is_err());
    let open = [roles, vec![("*".to_owned(), Role::Agent)]].concat();
    let open = OidcSettings { role: rule(open), ..settings(ISSUER) };
    assert_eq!(role(&open, json!(["staff"])), Ok(Role::Agent));
    assert_eq!(judged(&open, &good()).map(|identity| identity.role), Ok(Role::Agent));
}

#[test]
fn scopes_are_those_that_are_ours() {
    let settings = settings(ISSUER);
    let scopes = |name: &str, value: Value| {
        let mut claims = without("scope");
        claims[name] = value;
        judged(&settings, &claims).unwrap().scopes
    };
    assert_eq!(
        scopes("scope", json!("hotcell:run hotcell:read hotcell:run")),
        [Scope::Read, Scope::Run]
    );
    assert_eq!(scopes("scp", json!(["hotcell:metrics"])), [Scope::Metrics]);
    for none in ["", "openid", "read run", "hotcell:everything", "xhotcell:read", "HOTCELL:read"] {
        assert!(scopes("scope", json!(none)).is_empty(), "{none}");
    }
    assert!(judged(&settings, &without("scope")).unwrap().scopes.is_empty());
}

#[test]
fn scopes_may_be_those_of_the_role_and_some_be_required() {
    let settings = OidcSettings {
        scopes: ScopeRule::Role,
        required_scopes: vec!["openid".to_owned(), "mail".to_owned()],
        ..settings(ISSUER)
    };
    let mut claims = without("scope");
    claims["scp"] = json!(["openid"]);
    let lacked = |claims: &Value| lacked_scope(&settings, claims.as_object().unwrap());
    assert_eq!(lacked(&claims), Some("mail"));
    claims["scope"] = json!("mail");
    assert_eq!(lacked(&claims), None);
    assert_eq!(settings.names_of(&[Scope::Read]), ["openid", "mail"]);
    let claimed = OidcSettings { scopes: ScopeRule::Claimed, ..settings.clone() };
    assert_eq!(claimed.names_of(&[Scope::Read]), ["openid", "mail", "hotcell:read"]);
    assert_eq!(judged(&settings, &claims).unwrap().scopes, Role::Agent.scopes());
}
