//! The keys of the configuration that are about what a server makes of what is left out.

use crate::config_keys::{Key, bound};
use crate::values;
use hotcell_server::ResultForm;

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

pub(crate) const MCP_RESULTS: Key = Key {
    name: "mcp.results",
    variable: "HOTCELL_MCP_RESULTS",
    default: "auto",
    about: "what results of tools consist of: text; both, text and structured content; auto, by the client",
    set: |config, text| {
        config.client_rules.form = match text {
            "auto" => None,
            "text" => Some(ResultForm::Text),
            "both" => Some(ResultForm::Both),
            _ => return Err("it is none of auto, text, both".to_owned()),
        };
        Ok(())
    },
    get: |config| {
        match config.client_rules.form {
            None => "auto",
            Some(ResultForm::Text) => "text",
            Some(ResultForm::Both) => "both",
        }
        .into()
    },
};

pub(crate) const MCP_WAIT: Key = Key {
    name: "mcp.wait_s",
    variable: "HOTCELL_MCP_WAIT_S",
    default: "auto",
    about: "seconds that exec_run and code_run wait for the end if a call does not say; auto: 20, and less \
            for clients that give up earlier",
    set: |config, text| {
        config.client_rules.terms.wait_s = client_wait(text)?;
        Ok(())
    },
    get: |config| client_wait_text(config.client_rules.terms.wait_s).into(),
};

pub(crate) const MCP_MOST_WAIT: Key = Key {
    name: "mcp.most_wait_s",
    variable: "HOTCELL_MCP_MOST_WAIT_S",
    default: "auto",
    about: "the longest wait of a call in seconds; auto: 50, and less for clients that give up earlier",
    set: |config, text| {
        config.client_rules.terms.most_wait_s = client_wait(text)?;
        Ok(())
    },
    get: |config| client_wait_text(config.client_rules.terms.most_wait_s).into(),
};

/// The longest wait that can be set: an hour.
const MOST_WAIT_S: f64 = 3600.0;

fn client_wait(text: &str) -> Result<Option<f64>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let seconds = text.trim().parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.0..=MOST_WAIT_S).contains(seconds));
    seconds.map(Some).ok_or_else(|| format!("it is neither auto nor 0 to {MOST_WAIT_S} seconds"))
}

fn client_wait_text(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "auto".to_owned(), |seconds| seconds.to_string())
}
