//! How many calls a second a server takes from all tenants together, in equal parts for those who
//! call: one that floods has its part, and leaves the others theirs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hotcell_engine::Admission;
use hotcell_model::{Error, Result, Tenant};

const KEY: &str = "admission.calls_per_s";
/// Whoever has not called for so long has no part, if it has not saved up calls for longer.
const CALLS: Duration = Duration::from_secs(1);

/// The parts of those who call.
#[derive(Debug)]
pub(crate) struct CallShares {
    per_second: u32,
    burst: u32,
    parts: HashMap<Tenant, Part>,
}

/// What a tenant has left.
#[derive(Debug)]
struct Part {
    calls: f64,
    at: Instant,
}

impl CallShares {
    /// Nobody has called yet; none where that is not bounded.
    pub(crate) fn new(all: &Admission) -> Option<Self> {
        let per_second = all.calls_per_s?;
        let burst = all.calls_burst.unwrap_or(per_second);
        Some(Self { per_second, burst, parts: HashMap::new() })
    }

    /// Takes a call of a tenant from its part.
    ///
    /// # Errors
    /// `limit_exceeded` when nothing is left of it.
    pub(crate) fn take(&mut self, tenant: &Tenant, now: Instant) -> Result<()> {
        let (per_second, burst) = (f64::from(self.per_second), f64::from(self.burst));
        // By then a part is full again, so that nothing is won by a pause.
        let idle = CALLS.max(Duration::from_secs_f64(burst / per_second));
        self.parts
            .retain(|whose, part| whose == tenant || now.saturating_duration_since(part.at) < idle);
        let others = self.parts.keys().filter(|whose| *whose != tenant).count();
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 tenants")]
        let sharing = (others + 1) as f64;
        let most = (burst / sharing).max(1.0);
        let part = self.parts.entry(tenant.clone()).or_insert(Part { calls: most, at: now });
        let gained = now.saturating_duration_since(part.at).as_secs_f64() * per_second / sharing;
        part.calls = (part.calls + gained).min(most);
        part.at = now;
        if part.calls >= 1.0 {
            part.calls -= 1.0;
            return Ok(());
        }
        let wait = Duration::from_secs_f64((1.0 - part.calls) * sharing / per_second);
        let limit = u64::from(self.per_second);
        Err(Error::limit_exceeded(format!(
            "the server takes {limit} calls a second from all, and the tenant has had its part"
        ))
        .hint(format!("call less often, or let the operator raise {KEY}"))
        .retry_after(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
        .hit(KEY, limit, limit))
    }
}

#[cfg(test)]
#[path = "call_shares_tests.rs"]
mod tests;
