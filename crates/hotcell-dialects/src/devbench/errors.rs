//! Why something was not done, by the numbers that the original's documents give.

use hotcell_model::{Error, ErrorCode};
use rmcp::ErrorData;

const SERVER_ERROR: i32 = -32000;
const CONTAINER_NOT_FOUND: i32 = -32001;
const IMAGE_NOT_ALLOWED: i32 = -32002;
const EXECUTION_TIMEOUT: i32 = -32003;
const PATH_SECURITY: i32 = -32004;
const FILE_NOT_FOUND: i32 = -32005;
const CONCURRENT_LIMIT: i32 = -32006;
const AUTHENTICATION_REQUIRED: i32 = -32007;
const AUTHORIZATION_FAILED: i32 = -32008;
const RESOURCE_EXHAUSTED: i32 = -32009;
const CONFLICT: i32 = -32010;
const INVALID_PARAMS: i32 = -32602;

/// What is told with a status of HTTP.
pub(super) fn of_status(status: u16) -> Option<i32> {
    match status {
        401 => Some(AUTHENTICATION_REQUIRED),
        403 => Some(AUTHORIZATION_FAILED),
        _ => None,
    }
}

/// What was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// A container that is to be made.
    Spawn,
    /// A command that is to be run.
    Start,
    /// Files of a container that is there.
    Files,
    /// Anything else.
    Rest,
}

impl About {
    /// How an answer of the engine is told.
    pub(super) fn refused(self) -> impl FnOnce(Error) -> Refused {
        move |error| Refused { code: self.code(&error), error }
    }

    fn code(self, error: &Error) -> i32 {
        match (error.code, self) {
            (ErrorCode::Invalid, _) => INVALID_PARAMS,
            (ErrorCode::NotFound, Self::Files) => FILE_NOT_FOUND,
            // The program or the directory that was given.
            (ErrorCode::NotFound, Self::Start) => INVALID_PARAMS,
            (ErrorCode::Denied, _) if error.scope.is_some() => AUTHORIZATION_FAILED,
            (ErrorCode::Denied, Self::Spawn) => IMAGE_NOT_ALLOWED,
            (ErrorCode::Denied, Self::Files) => PATH_SECURITY,
            (ErrorCode::Denied, Self::Start | Self::Rest) => AUTHORIZATION_FAILED,
            (ErrorCode::LimitExceeded, Self::Start) => CONCURRENT_LIMIT,
            (ErrorCode::LimitExceeded, Self::Spawn | Self::Files | Self::Rest) => {
                RESOURCE_EXHAUSTED
            }
            (ErrorCode::Conflict, _) => CONFLICT,
            (ErrorCode::Timeout, _) => EXECUTION_TIMEOUT,
            (ErrorCode::NotFound, Self::Spawn | Self::Rest)
            | (
                ErrorCode::Cancelled
                | ErrorCode::Unsupported
                | ErrorCode::Unavailable
                | ErrorCode::Internal,
                _,
            ) => SERVER_ERROR,
        }
    }
}

/// Why something was not done.
#[derive(Debug)]
pub(super) struct Refused {
    code: i32,
    error: Error,
}

impl Refused {
    /// There is no such container.
    pub(super) fn no_container(name: &str) -> Self {
        let error = Error::not_found(format!("Container {name} not found"));
        Self { code: CONTAINER_NOT_FOUND, error }
    }

    /// There is no such execution.
    pub(super) fn no_exec(name: &str) -> Self {
        let error = Error::not_found(format!("Execution {name} not found"));
        Self { code: SERVER_ERROR, error }
    }

    /// There is no such snapshot.
    pub(super) fn no_snapshot(id: &str) -> Self {
        let error = Error::not_found(format!("Snapshot {id} not found"));
        Self { code: SERVER_ERROR, error }
    }

    /// A path leads out of the workspace.
    pub(super) fn outside(path: &str) -> Self {
        let error = Error::denied(format!("Path {path} is outside of /workspace"));
        Self { code: PATH_SECURITY, error }
    }

    /// The same for what an archive holds: one entry that may not be unpacked is a matter of paths.
    pub(super) fn in_archive(self) -> Self {
        let is_entry = self.error.message.starts_with("cannot unpack");
        match self.error.code == ErrorCode::Invalid && is_entry {
            true => Self { code: PATH_SECURITY, ..self },
            false => self,
        }
    }

    pub(super) fn is_of(&self, code: ErrorCode) -> bool {
        self.error.code == code
    }

    /// As the caller is told.
    pub(super) fn told(self) -> ErrorData {
        let message = self.error.message.clone();
        let mut data = serde_json::to_value(self.error).unwrap_or_default();
        if let Some(fields) = data.as_object_mut() {
            fields.remove("message");
        }
        ErrorData::new(rmcp::model::ErrorCode(self.code), message, Some(data))
    }
}

/// What is wrong with what was given.
impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        About::Rest.refused()(error)
    }
}

#[cfg(test)]
mod tests {
    use hotcell_model::{Error, ErrorCode};

    use super::About;

    #[test]
    fn failures_have_the_numbers_of_the_documents() {
        let cases = [
            (ErrorCode::Invalid, About::Rest, -32602),
            (ErrorCode::NotFound, About::Files, -32005),
            (ErrorCode::NotFound, About::Start, -32602),
            (ErrorCode::NotFound, About::Spawn, -32000),
            (ErrorCode::Denied, About::Spawn, -32002),
            (ErrorCode::Denied, About::Files, -32004),
            (ErrorCode::Denied, About::Start, -32008),
            (ErrorCode::LimitExceeded, About::Start, -32006),
            (ErrorCode::LimitExceeded, About::Files, -32009),
            (ErrorCode::Conflict, About::Files, -32010),
            (ErrorCode::Timeout, About::Start, -32003),
            (ErrorCode::Timeout, About::Files, -32003),
            (ErrorCode::Unavailable, About::Rest, -32000),
        ];
        for (code, about, number) in cases {
            let told = about.refused()(Error { code, ..Error::internal("why") }).told();
            assert_eq!(told.code.0, number, "{code:?} {about:?}");
        }
    }
}
