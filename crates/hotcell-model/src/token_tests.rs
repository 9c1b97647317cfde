//! What a token may be called, and what its bearer may do.

use crate::{
    AccessToken, Role, Scope, Tenant, Timestamp, TokenCreate, TokenId, TokenName, TokenText,
};

fn create(role: Role, scopes: Option<Vec<Scope>>) -> TokenCreate {
    TokenCreate { name: None, tenant: Tenant::default(), role, scopes, expires_at: None }
}

#[test]
fn a_token_may_what_its_role_may_unless_told() {
    let granted = create(Role::Auditor, None).granted().unwrap();
    assert_eq!(granted, [Scope::Metrics, Scope::Audit]);
    let less = create(Role::Agent, Some(vec![Scope::Read, Scope::Read])).granted().unwrap();
    assert_eq!(less, [Scope::Read]);
}

#[test]
fn a_token_cannot_have_more_than_its_role() {
    for (role, scope) in [
        (Role::Agent, Scope::Admin),
        (Role::Agent, Scope::Audit),
        (Role::Auditor, Scope::Read),
        (Role::Auditor, Scope::Admin),
    ] {
        let error = create(role, Some(vec![scope])).granted().unwrap_err();
        assert!(error.message.contains(scope.as_str()), "{error}");
    }
    assert!(create(Role::Operator, Some(Vec::new())).granted().is_err());
}

#[test]
fn names_of_tokens_are_plain() {
    assert_eq!("ci.main_2".parse::<TokenName>().unwrap().as_str(), "ci.main_2");
    let long = "a".repeat(64);
    for bad in ["", "-a", ".a", "a/b", "a b", "ä", long.as_str()] {
        assert!(bad.parse::<TokenName>().is_err(), "{bad:?}");
    }
}

#[test]
fn a_token_ends_at_its_time() {
    let id = TokenId::from_random(7);
    let mut token = AccessToken {
        name: TokenName::from(&id),
        id,
        tenant: Tenant::default(),
        role: Role::Agent,
        scopes: Vec::new(),
        created_at: Timestamp(0),
        expires_at: Some(Timestamp(1000)),
        last_used_at: None,
    };
    assert!(!token.is_over(Timestamp(999)));
    assert!(token.is_over(Timestamp(1000)));
    token.expires_at = None;
    assert!(!token.is_over(Timestamp(u64::MAX)));
    assert_eq!(token.principal(), format!("token:{}", token.id));
}

#[test]
fn the_text_of_a_token_is_not_shown() {
    let text = TokenText::new("very-secret".to_owned());
    assert!(!format!("{text:?}").contains("very-secret"));
    assert_eq!(text.expose(), "very-secret");
}
