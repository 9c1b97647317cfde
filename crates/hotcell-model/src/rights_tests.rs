//! Who may do what.

use crate::{
    Caller, CellAdopt, Collect, Diagnose, ExecList, Probe, Reconcile, Request, Role, Scope, Tenant,
};

fn list() -> Request {
    ExecList { cell: None, status: None, limit: 1, cursor: None }.into()
}

#[test]
fn a_scope_beyond_the_role_gives_nothing() {
    let mut agent = Caller::of("a".to_owned(), Role::Agent);
    agent.scopes = Scope::ALL.to_vec();
    assert!(agent.may(Scope::Run));
    assert!(!agent.may(Scope::Admin));
    assert!(!agent.may(Scope::Audit));
}

#[test]
fn a_role_without_its_scope_may_not() {
    let mut operator = Caller::of("o".to_owned(), Role::Operator);
    operator.scopes = vec![Scope::Read];
    assert!(operator.may(Scope::Read));
    assert!(!operator.may(Scope::Run));
}

#[test]
fn looking_and_operating_need_different_scopes() {
    assert_eq!(list().needs(), Some(Scope::Read));
    assert_eq!(Request::from(Diagnose).needs(), Some(Scope::Admin));
    assert_eq!(Request::from(Probe).needs(), None);
}

#[test]
fn keeping_house_is_what_a_server_does_by_itself_anyway() {
    assert!(Request::from(Reconcile).keeps_house());
    assert!(Request::from(Collect::default()).keeps_house());
    for other in [CellAdopt.into(), Diagnose.into(), Probe.into(), list()] {
        assert!(!Request::keeps_house(&other), "{other:?}");
    }
    let agent = Caller::of("a".to_owned(), Role::Agent);
    assert!(!agent.keeps_house && agent.clone().keeping_house().keeps_house);
    assert!(!agent.keeping_house().may(Scope::Admin));
}

#[test]
fn names_of_tenants_are_plain() {
    assert_eq!("team-7".parse::<Tenant>().unwrap().as_str(), "team-7");
    let long = "a".repeat(64);
    for bad in ["", "-a", "A", "a/b", "a b", "ä", long.as_str()] {
        assert!(bad.parse::<Tenant>().is_err(), "{bad:?}");
    }
}
