//! The keys of the configuration that are about the ledger.

use std::path::PathBuf;
use std::time::Duration;

use hotcell_ledger::Sync;

use crate::config_keys::Key;

/// What is said of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LedgerConfig {
    /// The key file; empty for the usual one.
    pub(crate) key_file: PathBuf,
    /// The file of the head; empty for the usual one.
    pub(crate) head_file: PathBuf,
    /// How large a file of entries gets, in MiB.
    pub(crate) segment_mb: u64,
    /// Days that entries are kept; 0 for ever.
    pub(crate) keep_days: u64,
    /// MiB of entries that are kept; 0 for all.
    pub(crate) keep_mb: u64,
    /// Days that entries are kept however much there is.
    pub(crate) floor_days: u64,
    /// MiB of entries past which nobody is served; 0 for any number.
    pub(crate) most_mb: u64,
    /// When entries are on the disk.
    pub(crate) sync: Sync,
}

impl LedgerConfig {
    /// How long entries are kept.
    pub(crate) fn keep(&self) -> Option<Duration> {
        Some(self.keep_days).filter(|days| *days > 0).map(days)
    }

    /// How long they are kept however much there is.
    pub(crate) fn floor(&self) -> Duration {
        days(self.floor_days)
    }
}

fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(86_400))
}

pub(crate) const KEY_FILE: Key = Key {
    name: "ledger.key_file",
    variable: "HOTCELL_LEDGER_KEY_FILE",
    default: "",
    about: "the file with the key that ties the entries of the ledger together, made with the ledger; \
            ledger.key in the state directory unless given",
    set: |config, text| {
        config.ledger.key_file = path(text)?;
        Ok(())
    },
    get: |config| config.ledger.key_file.display().to_string().into(),
};

pub(crate) const HEAD_FILE: Key = Key {
    name: "ledger.head_file",
    variable: "HOTCELL_LEDGER_HEAD_FILE",
    default: "",
    about: "the file that tells how far the ledger goes; ledger.head in the state directory unless given",
    set: |config, text| {
        config.ledger.head_file = path(text)?;
        Ok(())
    },
    get: |config| config.ledger.head_file.display().to_string().into(),
};

pub(crate) const SEGMENT_MB: Key = Key {
    name: "ledger.segment_mb",
    variable: "HOTCELL_LEDGER_SEGMENT_MB",
    default: "16",
    about: "MiB after which the ledger goes on in another file",
    set: |config, text| {
        config.ledger.segment_mb = number(text, 1, 1024)?;
        Ok(())
    },
    get: |config| config.ledger.segment_mb.into(),
};

pub(crate) const KEEP_DAYS: Key = Key {
    name: "ledger.keep_days",
    variable: "HOTCELL_LEDGER_KEEP_DAYS",
    default: "90",
    about: "days after which entries of the ledger are removed; 0 is never",
    set: |config, text| {
        config.ledger.keep_days = number(text, 0, 36_500)?;
        Ok(())
    },
    get: |config| config.ledger.keep_days.into(),
};

pub(crate) const KEEP_MB: Key = Key {
    name: "ledger.keep_mb",
    variable: "HOTCELL_LEDGER_KEEP_MB",
    default: "1024",
    about: "MiB of entries past which the oldest files of the ledger are removed, as far as they are \
            older than ledger.floor_days; 0 is never",
    set: |config, text| {
        config.ledger.keep_mb = number(text, 0, 1 << 30)?;
        Ok(())
    },
    get: |config| config.ledger.keep_mb.into(),
};

pub(crate) const FLOOR_DAYS: Key = Key {
    name: "ledger.floor_days",
    variable: "HOTCELL_LEDGER_FLOOR_DAYS",
    default: "7",
    about: "days for which entries of the ledger are not removed, however much there is; 0 lets \
            whoever calls often enough push out what is older",
    set: |config, text| {
        config.ledger.floor_days = number(text, 0, 36_500)?;
        Ok(())
    },
    get: |config| config.ledger.floor_days.into(),
};

pub(crate) const MOST_MB: Key = Key {
    name: "ledger.most_mb",
    variable: "HOTCELL_LEDGER_MOST_MB",
    default: "16384",
    about: "MiB of entries past which nothing is done for callers that are served, because nothing is \
            old enough to be removed; 0 is any number",
    set: |config, text| {
        config.ledger.most_mb = number(text, 0, 1 << 30)?;
        Ok(())
    },
    get: |config| config.ledger.most_mb.into(),
};

pub(crate) const SYNC: Key = Key {
    name: "ledger.sync",
    variable: "HOTCELL_LEDGER_SYNC",
    default: "off",
    about: "when entries are on the disk: off, when the kernel sees fit; each, before a call is answered",
    set: |config, text| {
        config.ledger.sync = match text {
            "off" => Sync::Off,
            "each" => Sync::Each,
            _ => return Err("it is none of: off, each".to_owned()),
        };
        Ok(())
    },
    get: |config| match config.ledger.sync {
        Sync::Off => "off".into(),
        Sync::Each => "each".into(),
    },
};

fn path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match text.is_empty() || path.is_absolute() {
        true => Ok(path),
        false => Err("it is no path from the root".to_owned()),
    }
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.trim().parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("it is not a whole number from {least} to {most}")),
    }
}
