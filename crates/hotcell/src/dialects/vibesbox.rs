//! What vibesbox was without being told.

use hotcell_model::RequestedLimits;

/// The original had the network, and let through what is on a list.
pub(super) const DEFAULTS: &[(&str, &str)] =
    &[("serve.allow", "*"), ("policy.profile", "allowlist")];

/// What its container might use.
pub(super) const LIMITS: RequestedLimits = RequestedLimits {
    memory_mb: Some(512),
    cpus: Some(0.5),
    pids: Some(100),
    disk_mb: None,
    disk_files: None,
};
