//! The id by which the lines of the log that concern one call are found.

use std::fmt;

use http::HeaderMap;
use http::header::HeaderName;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tracing::Span;

/// The header that carries it, both ways.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST: usize = 64;

/// What a call is named in the log.
#[derive(Debug, Clone)]
pub(crate) struct CallId(String);

impl CallId {
    /// The id that the client chose, if it is one; else a fresh one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let plain = |text: &&str| {
            (1..=LONGEST).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
        };
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(plain);
        Self(given.map_or_else(fresh, str::to_owned))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn fresh() -> String {
    // Without randomness the log is worse, and nothing else.
    format!("{:016x}", getrandom::u64().unwrap_or_default())
}

/// What the log says around everything that concerns a call of a tool. It is there at every level
/// of the log that says anything.
pub(crate) fn span(context: &RequestContext<RoleServer>, tool: &str) -> Span {
    let over_http = context.extensions.get::<http::request::Parts>();
    match over_http.and_then(|parts| parts.extensions.get::<CallId>()) {
        Some(id) => tracing::error_span!("call", request_id = %id, tool),
        None => tracing::error_span!("call", request_id = %context.id, tool),
    }
}

/// Where the caller of a tool reaches the server over HTTP: under the name that it used itself,
/// which was checked before.
pub(crate) fn site(context: &RequestContext<RoleServer>) -> Option<String> {
    let parts = context.extensions.get::<http::request::Parts>()?;
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        Some(_) | None => "http",
    };
    Some(format!("{scheme}://{}", text("host")?))
}
