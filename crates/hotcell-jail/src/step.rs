//! Errors that name the step that failed.

use std::io;

/// A step towards a cell that failed, and with what.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct StepError {
    /// What was tried, with which value.
    pub step: String,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

/// Gives a failure the name of the step.
pub trait Step<T> {
    /// Names the step in case it failed.
    ///
    /// # Errors
    /// The failure, with its name.
    fn step(self, name: impl FnOnce() -> String) -> Result<T, StepError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, name: impl FnOnce() -> String) -> Result<T, StepError> {
        self.map_err(|error| StepError { step: name(), source: error.into() })
    }
}
