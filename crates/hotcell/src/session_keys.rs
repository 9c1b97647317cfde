//! The keys of the configuration that are about sessions of code.

use crate::config_keys::{Key, count};
use crate::values;

pub(crate) const TTL_S: Key = Key {
    name: "code.session_ttl_s",
    variable: "HOTCELL_CODE_SESSION_TTL_S",
    default: "1800",
    about: "seconds without a run after which a session of code ends; it also ends when its cell falls asleep",
    set: |config, text| {
        config.sessions.ttl_s = values::whole_seconds(text)?;
        Ok(())
    },
    get: |config| config.sessions.ttl_s.into(),
};

pub(crate) const MOST: Key = Key {
    name: "code.most_sessions",
    variable: "HOTCELL_CODE_MOST_SESSIONS",
    default: "8",
    about: "sessions of code that a cell keeps; one more ends the one that was idle longest",
    set: |config, text| {
        config.sessions.most = count(text, 1024)?;
        Ok(())
    },
    get: |config| config.sessions.most.into(),
};

pub(crate) const MEMORY_MB: Key = Key {
    name: "code.session_memory_mb",
    variable: "HOTCELL_CODE_SESSION_MEMORY_MB",
    default: "1024",
    about: "MiB that a session of code may hold between runs; with more it ends",
    set: |config, text| {
        config.sessions.memory_bytes = u64::from(count(text, 1 << 20)?) << 20;
        Ok(())
    },
    get: |config| (config.sessions.memory_bytes >> 20).into(),
};
