//! What those are told who were not let in, and where they find out how to be: RFC 6750 and 9728.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::response::Response;
use hotcell_auth::Oidc;
use hotcell_model::{Error, Scope};
use http::header::{CACHE_CONTROL, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use super::answer::{Refusal, json as json_answer};
use super::routes::MCP;

/// Where a resource server describes itself; the path of what it describes may follow.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
const AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// How often the log tells of those who were not let in.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Nobody was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unknown {
    /// No token came.
    WithoutToken,
    /// A token came that is nobody's; why is for the log alone.
    WrongToken(String),
    /// A token came that is good but for this scope, which each must have.
    LacksScope(String),
    /// It cannot be found out whose it is.
    Unavailable(String),
}

impl Unknown {
    pub(super) fn wrong(why: &str) -> Self {
        Self::WrongToken(why.to_owned())
    }

    /// What such a caller is told: of a wrong token nothing that helps to find a right one.
    pub(super) fn refusal(&self) -> Refusal {
        let error = match self {
            Self::WithoutToken => Error::denied("the request has no bearer token")
                .hint("send a token of the server in the header `Authorization: Bearer TOKEN`"),
            Self::WrongToken(_) => Error::denied("the bearer token does not open this server")
                .hint("it may be over, revoked, or for another server; the server's log says more"),
            Self::LacksScope(scope) => {
                return Error::denied(format!("the bearer token has not the scope {scope:?}"))
                    .hint("ask its issuer for a token with that scope")
                    .into();
            }
            Self::Unavailable(_) => {
                return Error::unavailable("it cannot be found out now whose the bearer token is")
                    .hint("try again; if it lasts, the server's log says why")
                    .into();
            }
        };
        Refusal::new(StatusCode::UNAUTHORIZED, error)
    }

    /// Says in the head of an answer how to prove who one is.
    pub(super) fn challenge(&self, head: &mut HeaderMap, asked: &HeaderMap, oidc: Option<&Oidc>) {
        let error = match self {
            Self::WithoutToken => "",
            Self::WrongToken(_) => r#", error="invalid_token""#,
            Self::LacksScope(_) => r#", error="insufficient_scope""#,
            Self::Unavailable(_) => return,
        };
        // Scopes are asked of an issuer; other tokens have what the operator gave them.
        let details = oidc.map(|_| details(asked, oidc, &[Scope::Read, Scope::Run]));
        let details = details.unwrap_or_default();
        put(head, &format!(r#"Bearer realm="hotcell"{error}{details}"#));
    }
}

/// Why a caller that is known may not do something.
pub(super) fn lacking(needs: &[Scope]) -> Refusal {
    let names: Vec<&str> = needs.iter().map(|scope| scope.as_str()).collect();
    Error::denied(format!("this needs the scope {}, which the caller has not", names.join(" or ")))
        .hint("ask the operator for a token with that scope")
        .into()
}

/// Says in the head of an answer which scope would have been needed.
pub(super) fn insufficient(
    head: &mut HeaderMap,
    asked: &HeaderMap,
    oidc: Option<&Oidc>,
    needs: &[Scope],
) {
    let details = details(asked, oidc, needs);
    put(head, &format!(r#"Bearer realm="hotcell", error="insufficient_scope"{details}"#));
}

fn details(asked: &HeaderMap, oidc: Option<&Oidc>, needs: &[Scope]) -> String {
    let own = || needs.iter().map(|scope| scope.as_str().to_owned()).collect();
    let scopes = oidc.map_or_else(own, |oidc| oidc.settings().names_of(needs));
    let scope = match scopes.as_slice() {
        [] => String::new(),
        scopes => format!(r#", scope="{}""#, scopes.join(" ")),
    };
    match oidc.and_then(|oidc| place(oidc, asked)) {
        Some((origin, path)) => {
            format!(r#"{scope}, resource_metadata="{origin}{WELL_KNOWN}{path}""#)
        }
        None => scope,
    }
}

fn put(head: &mut HeaderMap, challenge: &str) {
    if let Ok(value) = HeaderValue::from_str(challenge) {
        head.insert(WWW_AUTHENTICATE, value);
    }
}

/// Where the server is, as clients know it: its origin, and the path of MCP. What a client says of
/// itself there comes back to that client alone; its Host was checked before.
fn place(oidc: &Oidc, asked: &HeaderMap) -> Option<(String, String)> {
    if let Some(resource) = &oidc.settings().resource {
        let uri: http::Uri = resource.parse().ok()?;
        let origin = format!("{}://{}", uri.scheme_str()?, uri.authority()?);
        return Some((origin, uri.path().trim_end_matches('/').to_owned()));
    }
    let text = |name: &str| asked.get(name).and_then(|value| value.to_str().ok());
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        Some(_) | None => "http",
    };
    let host = asked.get(HOST)?.to_str().ok()?;
    Some((format!("{scheme}://{host}"), MCP.to_owned()))
}

/// The description of this server, where one asks for it and an issuer is set.
pub(super) fn described(path: &str, asked: &HeaderMap, oidc: Option<&Oidc>) -> Option<Response> {
    let rest = path.strip_prefix(WELL_KNOWN)?;
    let oidc = oidc?;
    let (origin, own_path) = place(oidc, asked)?;
    let resource = match rest {
        "" | "/" => origin,
        rest if rest == own_path => format!("{origin}{own_path}"),
        _ => return None,
    };
    let settings = oidc.settings();
    let mut response = json_answer(
        StatusCode::OK,
        &json!({
            "resource": resource,
            "authorization_servers": [settings.issuer],
            "scopes_supported": settings.names_of(&Scope::ALL),
            "bearer_methods_supported": ["header"],
            "resource_name": "Hotcell",
        }),
    );
    response.headers_mut().insert(CACHE_CONTROL, AN_HOUR);
    Some(response)
}

/// Those who were not let in, as the log tells of them: now and then, however many there are.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    since: u64,
}

impl Strangers {
    /// Notes one.
    pub(super) fn note(&self, unknown: &Unknown) {
        let why = match unknown {
            Unknown::WithoutToken => "no token came",
            Unknown::LacksScope(_) => "a token lacks a scope that each must have",
            Unknown::WrongToken(why) | Unknown::Unavailable(why) => why,
        };
        tracing::debug!(why, "a caller was not let in");
        if *unknown == Unknown::WithoutToken {
            // So clients ask how to prove who they are.
            return;
        }
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.since += 1;
        if told.at.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
            return;
        }
        let times = std::mem::take(&mut told.since);
        told.at = Some(Instant::now());
        tracing::warn!(times, why, "callers were not let in; this is the last reason");
    }
}
