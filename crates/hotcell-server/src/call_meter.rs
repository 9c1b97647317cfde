//! Counts the calls that are under way and those that were refused, and bounds the former: how many
//! come in a second from each tenant and from all, and how many of each are under way.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use governor::RateLimiter;
use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use hotcell_engine::{Admission, Quota, TenantTable};
use hotcell_model::{At, Caller, Error, ErrorCode, Reach, Result, Tenant};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::call_shares::CallShares;

/// Calls that may be under way at once in one server. One tenant alone has half of them.
const MOST_CALLS: usize = 16_384;

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Refused {
    code: &'static str,
}

/// Something that was asked of the engine, and how it came out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Operation {
    operation: &'static str,
    outcome: &'static str,
}

/// The calls of one server.
#[derive(Debug, Clone)]
pub(crate) struct CallMeter {
    tallies: Arc<Mutex<Tallies>>,
    tenants: Arc<TenantTable>,
    pub(crate) refusals: Family<Refused, Counter>,
    pub(crate) operations: Family<Operation, Counter>,
}

type Pace = RateLimiter<NotKeyed, InMemoryState, MonotonicClock, NoOpMiddleware<Instant>>;

#[derive(Debug, Default)]
struct Tallies {
    under_way: usize,
    by_tenant: HashMap<Tenant, usize>,
    /// As fast as each tenant may call. One that is not bounded has none.
    paces: HashMap<Tenant, Option<Pace>>,
    /// What each has of as many as all may together, if that is bounded.
    shares: Option<CallShares>,
}

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    tallies: Arc<Mutex<Tallies>>,
    tenant: Tenant,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut tallies = lock(&self.tallies);
        tallies.under_way -= 1;
        if let Some(count) = tallies.by_tenant.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                tallies.by_tenant.remove(&self.tenant);
            }
        }
    }
}

fn lock(tallies: &Mutex<Tallies>) -> MutexGuard<'_, Tallies> {
    tallies.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses a call of a tenant that has as many under way as are free. So there is room for whoever
/// comes next, and those who take all they can get have equal parts.
fn leave_room(tallies: &Tallies, tenant: &Tenant) -> Result<()> {
    let own = tallies.by_tenant.get(tenant).copied().unwrap_or_default();
    if own < MOST_CALLS.saturating_sub(tallies.under_way) {
        return Ok(());
    }
    Err(Error::unavailable(format!("{own} calls are under way already"))
        .hint("wait until some of them are answered")
        .retry_after(1))
}

impl CallMeter {
    /// Nothing is under way.
    pub(crate) fn new(tenants: TenantTable, all: &Admission) -> Self {
        let tallies = Tallies { shares: CallShares::new(all), ..Tallies::default() };
        let (tallies, tenants) = (Arc::new(Mutex::new(tallies)), Arc::new(tenants));
        Self { tallies, tenants, refusals: Family::default(), operations: Family::default() }
    }

    /// Counts a call until what it gives is dropped.
    ///
    /// # Errors
    /// `limit_exceeded` when the caller's tenant, or all, call faster than they may; `unavailable` when as many
    /// of its calls as there may be are under way.
    pub(crate) fn begin(&self, caller: &Caller) -> Result<UnderWay> {
        let mut tallies = lock(&self.tallies);
        match caller.reach {
            Reach::Own => {
                leave_room(&tallies, &caller.tenant)?;
                self.keep_pace(&mut tallies, &caller.tenant)?;
                if let Some(shares) = &mut tallies.shares {
                    shares.take(&caller.tenant, Instant::now())?;
                }
            }
            // Whoever keeps house is kept out by nobody.
            Reach::All => {}
        }
        tallies.under_way += 1;
        *tallies.by_tenant.entry(caller.tenant.clone()).or_default() += 1;
        Ok(UnderWay { tallies: Arc::clone(&self.tallies), tenant: caller.tenant.clone() })
    }

    fn keep_pace(&self, tallies: &mut Tallies, tenant: &Tenant) -> Result<()> {
        if !tallies.paces.contains_key(tenant) {
            tallies.paces.insert(tenant.clone(), self.pace(tenant));
        }
        let Some(Some(pace)) = tallies.paces.get(tenant) else { return Ok(()) };
        let Err(not_until) = pace.check() else { return Ok(()) };
        let Some(allowed) = self.tenants.allowed(tenant, Quota::CallsPerS) else { return Ok(()) };
        let wait = not_until.wait_time_from(MonotonicClock.now());
        let message = format!("the tenant makes more than {} calls a second", allowed.limit);
        Err(Error::limit_exceeded(message)
            .hint(format!("call less often, or let the operator raise {}", allowed.key))
            .retry_after(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
            .hit(allowed.key, allowed.limit, allowed.limit))
    }

    /// How fast a tenant may call; no bound for one of which none is said.
    fn pace(&self, tenant: &Tenant) -> Option<Pace> {
        let whole = |quota| {
            let limit = self.tenants.allowed(tenant, quota)?.limit;
            // A tenant that may not call at all is told so by its first call.
            NonZeroU32::new(u32::try_from(limit).unwrap_or(u32::MAX).max(1))
        };
        let per_second = whole(Quota::CallsPerS)?;
        let burst = whole(Quota::CallsBurst).unwrap_or(per_second);
        let quota = governor::Quota::per_second(per_second).allow_burst(burst);
        Some(RateLimiter::direct_with_clock(quota, MonotonicClock))
    }

    /// How many calls are under way.
    pub(crate) fn under_way(&self) -> usize {
        lock(&self.tallies).under_way
    }

    /// Counts an operation that was answered, unless the server asked for it itself. There are as
    /// many names as requests.
    pub(crate) fn answered<T>(
        &self,
        caller: &Caller,
        operation: &'static str,
        answered: &Result<T>,
    ) {
        if caller.at == At::Inside {
            return;
        }
        let outcome = if answered.is_ok() { "ok" } else { "error" };
        self.operations.get_or_create(&Operation { operation, outcome }).inc();
    }

    /// Counts a call that was answered with an error.
    pub(crate) fn refused(&self, code: ErrorCode) {
        self.refusals.get_or_create(&Refused { code: code.as_str() }).inc();
    }
}

#[cfg(test)]
#[path = "call_meter_tests.rs"]
mod tests;
