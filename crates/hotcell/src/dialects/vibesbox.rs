//! What vibesbox was without being told.

/// The original had the network, let through what is on a list, and ran in a container that might use this
/// much.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("serve.allow", "*"),
    ("policy.profile", "vibesbox"),
    ("limits.memory_mb", "512"),
    ("limits.cpus", "0.5"),
    ("limits.pids", "100"),
];
