//! The flags that every command has.

use std::path::PathBuf;

use clap::Args;

use crate::config::Overrides;
use crate::dialects::DialectName;

/// Flags of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Read this configuration file instead of the usual one.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    config: Option<PathBuf>,
    /// Keep cells, logs and the index in this directory.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    state_dir: Option<PathBuf>,
    /// Log to stderr what this filter lets through: off, error, warn, info, debug, trace.
    #[arg(long, global = true, value_name = "FILTER", help_heading = "Global options")]
    log: Option<String>,
    /// How lines of the log look: text, json.
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    log_format: Option<String>,
    /// Work on what belongs to this tenant; what others have does not exist then.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    tenant: Option<String>,
}

impl From<Global> for Overrides {
    fn from(global: Global) -> Self {
        Self {
            file: global.config,
            state_dir: global.state_dir,
            log: global.log,
            log_format: global.log_format,
            tenant: global.tenant,
            dialect: DialectName::default(),
        }
    }
}
