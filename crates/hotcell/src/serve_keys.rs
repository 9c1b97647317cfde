//! The keys of the configuration that are about what a server makes of what is left out.

use crate::config_keys::{Key, bound};
use crate::values;

pub(crate) const LIMITS_MEMORY: Key = Key {
    name: "limits.memory_mb",
    variable: "HOTCELL_LIMITS_MEMORY_MB",
    default: "0",
    about: "MiB of memory of cells whose requests name none; 0 for 4096, at most half of the machine's",
    set: |config, text| {
        config.usual_limits.memory_mb = bound(text)?;
        Ok(())
    },
    get: |config| config.usual_limits.memory_mb.unwrap_or_default().into(),
};

pub(crate) const LIMITS_CPUS: Key = Key {
    name: "limits.cpus",
    variable: "HOTCELL_LIMITS_CPUS",
    default: "0",
    about: "CPUs of cells whose requests name none; 0 for all of the machine's",
    set: |config, text| {
        config.usual_limits.cpus = match text.trim() {
            "0" => None,
            text => Some(values::cpus(text)?),
        };
        Ok(())
    },
    get: |config| config.usual_limits.cpus.unwrap_or_default().into(),
};

pub(crate) const LIMITS_PIDS: Key = Key {
    name: "limits.pids",
    variable: "HOTCELL_LIMITS_PIDS",
    default: "0",
    about: "processes and threads of cells whose requests name none; 0 for 1024",
    set: |config, text| {
        let pids = bound(text)?.map(u32::try_from).transpose();
        config.usual_limits.pids = pids.map_err(|_| "it is too large".to_owned())?;
        Ok(())
    },
    get: |config| config.usual_limits.pids.unwrap_or_default().into(),
};

pub(crate) const HTTP_PATH: Key = Key {
    name: "http.path",
    variable: "HOTCELL_HTTP_PATH",
    default: "/mcp",
    about: "where MCP is spoken over HTTP, beside /mcp",
    set: |config, text| {
        let path = text.trim_end_matches('/');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
        if !path.starts_with('/') || path.contains("//") || !path.bytes().all(plain) {
            return Err("it is no path such as /mcp, of letters, digits, - _ . ~ and /".to_owned());
        }
        let first = path.split('/').nth(1).unwrap_or_default();
        if ["health", "ready", "metrics", "v1", "cells", ".well-known"].contains(&first) {
            return Err(format!("something else is at /{first}"));
        }
        config.http.path = path.to_owned();
        Ok(())
    },
    get: |config| config.http.path.clone().into(),
};
