//! How much of what callers send is held at once: so much in all, of which nobody takes more than is
//! left for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotcell_model::{Error, Tenant};
use http::StatusCode;

use super::answer::Refusal;

/// What the bodies of requests that are read or answered may come to in one server.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// What there is of it.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyRooms(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_tenant: HashMap<Tenant, usize>,
}

/// What one request has of it, until this is dropped.
#[derive(Debug)]
pub(super) struct BodyRoom {
    rooms: BodyRooms,
    tenant: Tenant,
    bytes: Mutex<usize>,
}

impl BodyRooms {
    pub(super) fn of(&self, tenant: &Tenant) -> BodyRoom {
        BodyRoom { rooms: self.clone(), tenant: tenant.clone(), bytes: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyRoom {
    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// `unavailable` when no more is left than the tenant has.
    pub(super) fn take(&self, more: usize) -> Result<(), Refusal> {
        let mut taken = self.rooms.taken();
        let own = taken.by_tenant.get(&self.tenant).copied().unwrap_or_default();
        if own + more > MOST_BYTES.saturating_sub(taken.all) {
            let error = Error::unavailable("as much as can be held of requests is under way")
                .hint("wait until some requests are answered, and send fewer large ones at once")
                .retry_after(1);
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error));
        }
        taken.all += more;
        *taken.by_tenant.entry(self.tenant.clone()).or_default() += more;
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += more;
        Ok(())
    }
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        if bytes == 0 {
            return;
        }
        let mut taken = self.rooms.taken();
        taken.all -= bytes;
        if let Some(own) = taken.by_tenant.get_mut(&self.tenant) {
            *own -= bytes;
            if *own == 0 {
                taken.by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
#[path = "body_room_tests.rs"]
mod tests;
