//! What cargo knows of the workspace.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) fn workspace_root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    Ok(root.context("the crate lies two levels below the root")?.to_path_buf())
}

/// What cargo knows of the workspace and of everything it is built from on this machine.
#[expect(clippy::disallowed_methods, reason = "the question can only be put to cargo")]
pub(crate) fn metadata() -> Result<Value> {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(["--filter-platform", "host-tuple"])
        .current_dir(workspace_root()?)
        .output()
        .context("run cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub(crate) fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("cargo metadata lacks a list it should have")
}

pub(crate) fn text(value: &Value) -> Result<&str> {
    value.as_str().context("cargo metadata lacks a text it should have")
}
