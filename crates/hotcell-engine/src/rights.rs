//! Whether a caller may ask for something at all.

use hotcell_model::{Caller, Error, Request, Result};

/// Refuses what the caller has no scope for.
pub(crate) fn check(caller: &Caller, request: &Request) -> Result<()> {
    if caller.keeps_house && request.keeps_house() {
        return Ok(());
    }
    let Some(scope) = request.needs().filter(|scope| !caller.may(*scope)) else { return Ok(()) };
    Err(Error::without_scope(request.name(), scope.as_str(), &caller.principal))
}
