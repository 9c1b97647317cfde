//! The one error that callers see, and the one table of what its codes mean elsewhere.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::HeldId;

/// A result with the public error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The closed set of reasons for which a request can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request itself is wrong; sending it again cannot help.
    Invalid,
    /// What the request names does not exist.
    NotFound,
    /// The request contradicts the present state.
    Conflict,
    /// A rule forbids it.
    Denied,
    /// A limit or quota is used up.
    LimitExceeded,
    /// It took longer than allowed.
    Timeout,
    /// The caller cancelled it.
    Cancelled,
    /// This machine or driver cannot do it.
    Unsupported,
    /// It cannot be done now; later it may.
    Unavailable,
    /// A fault of Hotcell.
    Internal,
}

impl ErrorCode {
    /// The code as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status that carries it.
    #[must_use]
    pub fn http_status(self) -> u16 {
        self.row().1
    }

    /// The JSON-RPC error code that carries it.
    #[must_use]
    pub fn json_rpc(self) -> i32 {
        self.row().2
    }

    /// The exit code with which a command of the CLI ends.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        self.row().3
    }

    /// The one table: wire name, HTTP status, JSON-RPC code, CLI exit code.
    const fn row(self) -> (&'static str, u16, i32, u8) {
        match self {
            Self::Invalid => ("invalid", 400, -32602, 2),
            Self::NotFound => ("not_found", 404, -32001, 3),
            Self::Conflict => ("conflict", 409, -32002, 4),
            Self::Denied => ("denied", 403, -32003, 5),
            Self::LimitExceeded => ("limit_exceeded", 429, -32004, 6),
            Self::Timeout => ("timeout", 504, -32005, 7),
            Self::Cancelled => ("cancelled", 499, -32006, 8),
            Self::Unsupported => ("unsupported", 501, -32007, 9),
            Self::Unavailable => ("unavailable", 503, -32008, 10),
            Self::Internal => ("internal", 500, -32603, 70),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a request failed: lowercase, no period, with the value that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct Error {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// What was tried, with which value, and what went wrong.
    pub message: String,
    /// What the caller can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Seconds after which the same request may be done, where that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// The bound that it came up against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Box<QuotaHit>>,
    /// The call as it is held, where a person has to approve it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Box<HeldId>>,
    /// The scope that the caller has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Box<str>>,
}

/// A bound that is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaHit {
    /// The key of the configuration that says it.
    pub key: String,
    /// How much there may be.
    pub limit: u64,
    /// How much there is.
    pub current: u64,
}

macro_rules! constructors {
    ($($name:ident => $code:ident),* $(,)?) => {
        $(
            #[doc = concat!("An error with the code `", stringify!($name), "`.")]
            #[must_use]
            pub fn $name(message: impl Into<String>) -> Self {
                Self {
                    code: ErrorCode::$code,
                    message: message.into(),
                    hint: None,
                    retry_after_s: None,
                    quota: None,
                    held: None,
                    scope: None,
                }
            }
        )*
    };
}

impl Error {
    constructors! {
        invalid => Invalid,
        not_found => NotFound,
        conflict => Conflict,
        denied => Denied,
        limit_exceeded => LimitExceeded,
        timeout => Timeout,
        cancelled => Cancelled,
        unsupported => Unsupported,
        unavailable => Unavailable,
        internal => Internal,
    }

    /// An argument has a value that is not accepted: `limit must be between 1 and 50, not 0`.
    #[must_use]
    pub fn argument(name: &str, must_be: impl fmt::Display, value: impl fmt::Display) -> Self {
        Self::invalid(format!("{name} must be {must_be}, not {value}"))
    }

    /// The same error with when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds.max(1));
        self
    }

    /// The same error with the bound that was come up against.
    #[must_use]
    pub fn hit(mut self, key: impl Into<String>, limit: u64, current: u64) -> Self {
        self.quota = Some(Box::new(QuotaHit { key: key.into(), limit, current }));
        self
    }

    /// The same error with the call that is held.
    #[must_use]
    pub fn held(mut self, held: HeldId) -> Self {
        self.held = Some(Box::new(held));
        self
    }

    /// A caller has no scope for a request.
    #[must_use]
    pub fn without_scope(request: &str, scope: &str, principal: &str) -> Self {
        let message = format!("{request} needs the scope {scope:?}, which {principal} has not");
        let error = Self::denied(message)
            .hint("ask the operator for a token with that scope, or let the operator do it");
        Self { scope: Some(scope.into()), ..error }
    }

    /// The same error with a word on what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
