//! The servers that are compared, and how each of them is asked for the same thing.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::sample_tree::{ENTRIES, FILES, MATCHES, NEEDLE, TEXT_BYTES, entry_name, text};
use crate::mcp::{StdioTalk, Talk};
use crate::oneshot::program;

pub(super) const HOTCELL: &str = "hotcell";
pub(super) const PEERS: [Peer; 2] = [Peer::ServerFilesystem, Peer::RustMcpFilesystem];

/// Something to do with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Read,
    Write,
    ListNames,
    ListSizes,
    Search,
}

/// A server that others made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peer {
    /// `@modelcontextprotocol/server-filesystem`, on Node.
    ServerFilesystem,
    /// `rust-mcp-filesystem`, in Rust.
    RustMcpFilesystem,
}

/// A server, and the calls by which it does each task.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) talk: StdioTalk,
    pub(super) calls: Vec<Call>,
}

/// A call that does a task.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) task: Task,
    /// What is special about it.
    pub(super) manner: &'static str,
    pub(super) call: Value,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ServerFilesystem => "server-filesystem",
            Self::RustMcpFilesystem => "rust-mcp-filesystem",
        }
    }

    /// Starts it on a directory.
    pub(super) fn start(self, tools: Option<&Path>, root: &Path) -> Result<Contender> {
        let tools = tools.context("not installed")?;
        let mut command = match self {
            Self::ServerFilesystem => {
                let package = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
                let script = tools.join(package);
                ensure!(script.exists(), "not installed");
                let mut command = program("node");
                command.arg(script);
                command
            }
            Self::RustMcpFilesystem => {
                let binary = tools.join("bin/rust-mcp-filesystem");
                ensure!(binary.exists(), "not installed");
                let mut command = program(binary);
                command.arg("--allow-write");
                command
            }
        };
        command.arg(root).stderr(std::process::Stdio::null());
        let talk = StdioTalk::over(command, json!({}))?;
        let place = root.to_str().context("a place that is no text")?;
        Ok(Contender { name: self.name(), talk, calls: self.calls(place) })
    }

    fn calls(self, root: &str) -> Vec<Call> {
        let call = |task, manner, tool: &str, arguments: Value| Call {
            task,
            manner,
            call: json!({ "name": tool, "arguments": arguments }),
        };
        let many = json!({ "path": format!("{root}/many") });
        let written = json!({ "path": format!("{root}/written.txt"), "content": text() });
        let mut calls = vec![
            call(Task::Read, "", "read_text_file", json!({ "path": format!("{root}/text.txt") })),
            call(Task::Write, "(no fsync)", "write_file", written),
            call(Task::ListNames, "", "list_directory", many.clone()),
            call(Task::ListSizes, "", "list_directory_with_sizes", many),
        ];
        match self {
            // It searches names alone.
            Self::ServerFilesystem => {}
            Self::RustMcpFilesystem => {
                let path = format!("{root}/tree");
                let wanted = json!({ "path": path, "pattern": "**/*", "query": NEEDLE });
                calls.push(call(Task::Search, "", "search_files_content", wanted));
            }
        }
        calls
    }
}

impl Contender {
    /// Ours, which has the same files in its cell.
    pub(super) fn hotcell(talk: StdioTalk) -> Self {
        let call = |task, tool: &str, arguments: Value| Call {
            task,
            manner: "",
            call: json!({ "name": tool, "arguments": arguments }),
        };
        let names = json!({ "path": "many", "limit": ENTRIES, "names_only": true });
        let calls = vec![
            call(Task::Read, "fs_read", json!({ "path": "text.txt", "limit": TEXT_BYTES })),
            call(Task::Write, "fs_write", json!({ "path": "written.txt", "content": text() })),
            call(Task::ListNames, "fs_list", names),
            call(Task::ListSizes, "fs_list", json!({ "path": "many", "limit": ENTRIES })),
            call(Task::Search, "fs_search", json!({ "path": "tree", "pattern": NEEDLE })),
        ];
        Self { name: HOTCELL, talk, calls }
    }

    pub(super) fn stop(self) -> Result<()> {
        self.talk.stop()
    }
}

impl Call {
    /// Checks that an answer is all of it.
    pub(super) fn check(&self, answer: &str) -> Result<()> {
        let (least, sign) = match self.task {
            Task::Read => (TEXT_BYTES, "line 0000000: the".to_owned()),
            Task::Write => (0, "written.txt".to_owned()),
            Task::ListNames | Task::ListSizes => {
                (ENTRIES * entry_name(0).len(), entry_name(ENTRIES - 1))
            }
            Task::Search => {
                (MATCHES * NEEDLE.len(), format!("{NEEDLE}({})", FILES - FILES / MATCHES))
            }
        };
        if answer.len() < least || !answer.contains(&sign) {
            let begin: String = answer.chars().take(300).collect();
            bail!("an answer of {} bytes without {sign:?}: {begin}", answer.len());
        }
        Ok(())
    }
}
