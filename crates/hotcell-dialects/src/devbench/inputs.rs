//! What tools are given.

use std::collections::BTreeMap;

use hotcell_model::{Checked, Error, Result};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Spawn {
    pub(super) image: String,
    #[serde(default)]
    pub(super) persistent: bool,
    pub(super) alias: Option<String>,
    pub(super) ttl_s: Option<u64>,
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Attach {
    pub(super) target: String,
    pub(super) client_name: String,
    pub(super) session_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Kill {
    pub(super) container_id: String,
    #[serde(default)]
    pub(super) force: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListContainers {
    #[serde(default)]
    pub(super) include_stopped: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct OfContainer {
    pub(super) container_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct OfSnapshot {
    pub(super) snapshot_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct SpawnFromSnapshot {
    pub(super) snapshot_id: String,
    #[serde(default)]
    pub(super) persistent: bool,
    pub(super) alias: Option<String>,
    pub(super) ttl_s: Option<u64>,
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExecStart {
    pub(super) container_id: String,
    pub(super) cmd: Vec<String>,
    #[serde(default = "workspace")]
    pub(super) cwd: String,
    pub(super) env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) as_root: bool,
    #[serde(default = "timeout_s")]
    pub(super) timeout_s: u32,
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExecPoll {
    pub(super) exec_id: String,
    #[serde(default)]
    pub(super) after_seq: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct OfExec {
    pub(super) exec_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExecSignal {
    pub(super) exec_id: String,
    #[serde(default = "sigterm")]
    pub(super) signal: String,
}

/// How content is written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Encoding {
    #[default]
    #[serde(rename = "utf-8", alias = "utf8", alias = "text")]
    Text,
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsRead {
    pub(super) container_id: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) encoding: Encoding,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsWrite {
    pub(super) container_id: String,
    pub(super) path: String,
    pub(super) content: String,
    #[serde(default)]
    pub(super) encoding: Encoding,
    #[serde(alias = "if_match")]
    pub(super) if_match_etag: Option<String>,
    pub(super) mode: Option<u32>,
    #[serde(default = "yes")]
    pub(super) create_parents: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsDelete {
    pub(super) container_id: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) recursive: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsStat {
    pub(super) container_id: String,
    pub(super) path: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsList {
    pub(super) container_id: String,
    #[serde(default = "workspace")]
    pub(super) path: String,
    #[serde(default)]
    pub(super) recursive: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsBatch {
    pub(super) container_id: String,
    pub(super) operations: Vec<Operation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OperationType {
    Read,
    Write,
    Delete,
    Move,
    Copy,
}

impl OperationType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Copy => "copy",
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Operation {
    pub(super) op_type: OperationType,
    pub(super) path: String,
    pub(super) content: Option<String>,
    #[serde(default)]
    pub(super) encoding: Encoding,
    pub(super) dest_path: Option<String>,
    #[serde(alias = "if_match")]
    pub(super) if_match_etag: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsTarRead {
    pub(super) container_id: String,
    #[serde(default = "workspace")]
    pub(super) path: String,
    #[serde(default)]
    pub(super) include_globs: Vec<String>,
    #[serde(default)]
    pub(super) exclude_globs: Vec<String>,
    #[serde(default = "yes")]
    pub(super) compress: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct FsTarWrite {
    pub(super) container_id: String,
    #[serde(default = "workspace")]
    pub(super) dest: String,
    pub(super) content: String,
    #[serde(default)]
    pub(super) include_globs: Vec<String>,
    #[serde(default)]
    pub(super) exclude_globs: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PolicyCheck {
    image: Option<String>,
    cmd: Option<Vec<String>>,
    #[serde(default)]
    pub(super) as_root: bool,
}

impl PolicyCheck {
    pub(super) fn checked(&self) -> Result<Checked> {
        match (&self.image, &self.cmd) {
            (Some(image), None) => Ok(Checked::Image(image.clone())),
            (None, Some(cmd)) => Ok(Checked::Argv(cmd.clone())),
            (Some(_), Some(_)) | (None, None) => {
                Err(Error::invalid("Input validation error: give either image or cmd"))
            }
        }
    }
}

fn workspace() -> String {
    "/workspace".to_owned()
}

fn timeout_s() -> u32 {
    600
}

fn sigterm() -> String {
    "SIGTERM".to_owned()
}

fn yes() -> bool {
    true
}
