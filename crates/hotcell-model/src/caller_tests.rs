//! Tests of who sees what has the form of a secret.

use crate::{Caller, ErrorCode, Role, Scope};

#[test]
fn only_who_may_sees_outputs_as_they_are() {
    let person = Caller::local(1000);
    assert!(person.sees_raw());
    assert!(!person.clone().masked().sees_raw());
    assert!(!person.in_role(Role::Agent).sees_raw());
    let operator = Caller::of("operator".to_owned(), Role::Operator);
    assert!(!operator.sees_raw());
    assert!(operator.clone().raw().unwrap().sees_raw());
    for role in [Role::Agent, Role::Auditor] {
        let refused = Caller::of("other".to_owned(), role).raw().unwrap_err();
        assert_eq!(refused.code, ErrorCode::Denied);
        assert!(refused.hint.is_some());
    }
    let mut fewer = operator.raw().unwrap();
    fewer.scopes.retain(|scope| *scope != Scope::Admin);
    assert!(!fewer.sees_raw());
}
