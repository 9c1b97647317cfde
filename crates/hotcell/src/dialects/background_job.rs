//! The variables of mcp-background-job.

use std::path::PathBuf;

use hotcell_model::LIMITS;

use super::{Means, Variable, whole};

/// The original had the network, and refused what it took to be dangerous.
pub(super) const DEFAULTS: &[(&str, &str)] =
    &[("serve.allow", "*"), ("policy.profile", "dangerous")];

pub(super) const WORKING_DIR: &str = "MCP_BG_WORKING_DIR";
const MEBIBYTE: u64 = 1 << 20;

pub(super) const VARIABLES: &[Variable] = &[
    Variable {
        name: "MCP_BG_MAX_JOBS",
        means: Means::Own(|dialect, text| {
            dialect.jobs.most_jobs = u32::try_from(whole(text, 1, 100)?).unwrap_or(u32::MAX);
            Ok(())
        }),
    },
    Variable {
        name: "MCP_BG_MAX_OUTPUT_SIZE",
        means: Means::Own(|dialect, text| {
            dialect.jobs.output_bytes = bytes(text)?;
            Ok(())
        }),
    },
    Variable {
        name: "MCP_BG_JOB_TIMEOUT",
        means: Means::Own(|dialect, text| {
            dialect.jobs.timeout_s = Some(whole(text, 1, LIMITS.max_seconds)?);
            Ok(())
        }),
    },
    Variable {
        name: "MCP_BG_CLEANUP_INTERVAL",
        means: Means::Own(|dialect, text| {
            dialect.jobs.keep_s = whole(text, 10, 3600)?;
            Ok(())
        }),
    },
    Variable {
        name: "MCP_BG_ALLOWED_COMMANDS",
        means: Means::Key("policy.lines", |text| Ok(lines(text))),
    },
    Variable {
        name: WORKING_DIR,
        means: Means::Own(|dialect, text| {
            dialect.directory = Some(PathBuf::from(text));
            Ok(())
        }),
    },
];

/// A size: bytes, or mebibytes with `MB` behind them.
fn bytes(text: &str) -> Result<u64, String> {
    let upper = text.trim().to_ascii_uppercase();
    let (least, most) = (1024, 100 * MEBIBYTE);
    let size = match upper.strip_suffix("MB") {
        Some(number) => whole(number, 1, most / MEBIBYTE).map(|number| number * MEBIBYTE),
        None => whole(&upper, least, most),
    };
    size.map_err(|_| format!("it is no size from {least} bytes to 100MB, such as 1048576 or 10MB"))
}

/// The original tells no capitals from small letters, and splits at every comma.
fn lines(text: &str) -> String {
    let patterns = text.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
    patterns.map(|pattern| format!("(?i:{pattern})")).collect::<Vec<_>>().join(",")
}
