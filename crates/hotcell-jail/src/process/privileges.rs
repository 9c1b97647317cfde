//! What nobody in a cell can get back.

use std::io;

use rustix::io::Errno;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::{Step, StepError};

/// Gives up every capability of this thread.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

/// By what privileges are kept from whatever is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// By everything there is.
    All,
    /// By `no_new_privs`: this process has no privilege by which it could do more.
    NoNewPrivs,
}

/// Makes sure that nothing started by this process can ever gain a privilege: `no_new_privs`, an
/// empty bounding set, and securebits under which uid 0 means nothing. This process keeps the
/// capabilities it has.
///
/// # Errors
/// The kernel refused a step.
pub fn lock_privileges(locks: Locks) -> Result<(), StepError> {
    rustix::thread::set_no_new_privs(true).step(|| "set no_new_privs".to_owned())?;
    if locks == Locks::NoNewPrivs {
        return rustix::thread::clear_ambient_capability_set()
            .step(|| "clear ambient capabilities".to_owned());
    }
    for capability in 0..=63_u32 {
        // SAFETY: prctl with plain numbers. EINVAL tells that the kernel has no more of them.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if result != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINVAL) {
                break;
            }
            return Err(error)
                .step(|| format!("drop capability {capability} from the bounding set"));
        }
    }
    rustix::thread::clear_ambient_capability_set()
        .step(|| "clear ambient capabilities".to_owned())?;
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(bits).step(|| "lock securebits".to_owned())
}

/// Makes this process unreadable for every other one in its namespace.
///
/// # Errors
/// The kernel refused.
pub fn hide_self() -> Result<(), StepError> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .step(|| "make pid 1 non-dumpable".to_owned())
}
