//! Traces in a program that was built without them.

use hotcell_model::{Error, Result};
use tracing_subscriber::layer::Identity;

use super::Collector;

/// There are none.
#[derive(Debug)]
pub enum Traces {}

impl Traces {
    /// Refuses.
    ///
    /// # Errors
    /// `unsupported`.
    pub fn start(collector: Collector) -> Result<Self> {
        Err(Error::unsupported(format!("traces cannot be sent to {collector}"))
            .hint("leave serve.otlp out, or build hotcell with its feature otlp"))
    }

    /// Takes nothing.
    #[must_use]
    pub fn layer(&self) -> Identity {
        match *self {}
    }

    /// Has nothing to send.
    pub fn end(self) {
        match self {}
    }
}
