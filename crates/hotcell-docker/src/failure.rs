//! What a Docker engine says when something cannot be done.

use bollard::errors::Error as DockerError;
use hotcell_model::Error;

/// What an engine answers for what is not there.
pub(crate) const NOT_FOUND: u16 = 404;
/// What it answers for what is there already, or being removed.
pub(crate) const CONFLICT: u16 = 409;

/// The status that an engine answered with; none where it did not answer.
pub(crate) fn status(error: &DockerError) -> Option<u16> {
    if let DockerError::DockerResponseServerError { status_code, .. } = error {
        Some(*status_code)
    } else {
        None
    }
}

/// The error of a step that failed at the engine of this address.
pub(crate) fn failed(what: &str, address: &str, error: &DockerError) -> Error {
    if let DockerError::DockerResponseServerError { message, .. } = error {
        let message = message.trim();
        let failed = Error::unavailable(format!("the Docker engine cannot {what}: {message}"));
        return match message.contains("no space left on device") {
            true => failed.hint("free space on the disk of the Docker engine"),
            false => failed,
        };
    }
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        // Clients say less and less the further up one looks.
        why = deeper.to_string();
        cause = deeper.source();
    }
    Error::unavailable(format!("cannot {what} at the Docker engine {address}: {why}"))
        .hint("is the engine running, and may this user talk to it? see `hotcell doctor`")
}
