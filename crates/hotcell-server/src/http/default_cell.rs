//! The cell that a caller over HTTP means when it names none.

use hotcell_auth::name_digest;
use hotcell_model::{Caller, Tenant};

/// Characters of a principal's own name that are kept.
const NAME_LENGTH: usize = 32;

/// The same caller with a cell of its own, unless it has one. No two callers have the same: what
/// tells them apart cannot be chosen so that it is another's.
pub(super) fn with_own_cell(caller: Caller) -> Caller {
    if caller.default_cell.is_some() {
        return caller;
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = caller.principal.chars().take(NAME_LENGTH).map(plain).collect();
    let alias = match is_of_settings(&caller) {
        true => format!("http-{name}"),
        false => {
            let digest = name_digest(&[caller.tenant.as_str(), &caller.principal]);
            format!("{name}-{digest}")
        }
    };
    match alias.parse() {
        Ok(alias) => caller.with_default_cell(alias),
        Err(_) => caller,
    }
}

/// Whether its name is one of those few that the settings give; none of them looks like another.
fn is_of_settings(caller: &Caller) -> bool {
    let is_local = |uid: &str| uid.bytes().all(|byte| byte.is_ascii_digit()) && uid.len() <= 10;
    caller.tenant.as_str() == Tenant::DEFAULT
        && (caller.principal == "bearer"
            || caller.principal.strip_prefix("local:").is_some_and(is_local))
}
