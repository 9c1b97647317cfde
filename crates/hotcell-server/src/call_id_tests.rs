//! Each request is made by whoever sent it, under the name that it has in the log.

use hotcell_model::{Caller, Role, Scope};
use rmcp::model::{Extensions, RequestId};

use crate::call_id;

#[test]
fn over_http_a_request_is_made_by_whoever_sent_it() {
    let opened = Caller::of("oidc:ada".to_owned(), Role::Operator);
    let sent = Caller {
        scopes: vec![Scope::Read],
        call_id: Some("r-1".to_owned()),
        ..Caller::of("oidc:ada".to_owned(), Role::Agent)
    };
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.extensions.insert(sent.clone());
    let mut extensions = Extensions::new();
    extensions.insert(parts);
    assert_eq!(call_id::caller(&extensions, &RequestId::Number(7), &opened), sent);
}

#[test]
fn elsewhere_it_is_known_by_its_own_id() {
    let local = Caller::local(1000);
    let found = call_id::caller(&Extensions::new(), &RequestId::Number(7), &local);
    assert_eq!(found, Caller { call_id: Some("7".to_owned()), ..local });
}
