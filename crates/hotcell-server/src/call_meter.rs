//! Counts the calls that are under way and those that were refused, and bounds the former.

use std::sync::Arc;

use hotcell_model::{Error, ErrorCode, Result};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Calls that may be under way at once in one server.
const MOST_CALLS: usize = 8192;

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Refused {
    code: &'static str,
}

/// The calls of one server.
#[derive(Debug, Clone)]
pub(crate) struct CallMeter {
    free: Arc<Semaphore>,
    pub(crate) refusals: Family<Refused, Counter>,
}

impl Default for CallMeter {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MOST_CALLS)), refusals: Family::default() }
    }
}

impl CallMeter {
    /// Counts a call until what it gives is dropped.
    ///
    /// # Errors
    /// `unavailable` when as many as there may be are under way.
    pub(crate) fn begin(&self) -> Result<SemaphorePermit<'_>> {
        self.free.try_acquire().map_err(|_| {
            Error::unavailable(format!("{MOST_CALLS} calls are under way already"))
                .hint("wait until some of them are answered")
        })
    }

    /// How many calls are under way.
    pub(crate) fn under_way(&self) -> usize {
        MOST_CALLS - self.free.available_permits()
    }

    /// Counts a call that was answered with an error.
    pub(crate) fn refused(&self, code: ErrorCode) {
        self.refusals.get_or_create(&Refused { code: code.as_str() }).inc();
    }
}
