//! The port to servers of others whose tools code may call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Reply, Request, Result, Timestamp};

/// What every declared server offers.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolListings {
    /// It grows whenever a list changes.
    pub version: u64,
    /// By name.
    pub servers: Vec<ServerTools>,
}

/// What one server offers. All of it but the name and the trust is the server's own word.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTools {
    /// The name by which the operator declared it.
    pub name: String,
    /// What it says of itself.
    pub about: Option<String>,
    /// Its tools as it listed them, each with a name that no other of them has.
    pub tools: Arc<[Value]>,
    /// Whether the operator takes its annotations for true.
    pub trusted: bool,
    /// Whether the operator lets its tools be called without approval.
    pub allowed: bool,
    /// Why nothing is known of its tools.
    pub fault: Option<Error>,
}

/// A call of a tool, by the names on the wire. Its arguments were checked already.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The server's name.
    pub server: String,
    /// The tool's name, as the server lists it.
    pub tool: String,
    /// What it is called with.
    pub arguments: Map<String, Value>,
    /// How long it may take, a start of the server included; as the server's declaration says if
    /// `None`, and never longer.
    pub timeout: Option<Duration>,
}

/// What a tool answered. It is the server's own word.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// What programs read.
    pub structured: Option<Value>,
    /// Blocks of content, as they came.
    pub content: Vec<Value>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// How long it is as JSON.
    pub bytes: u64,
}

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ServerState {
    /// It was not needed yet, or not for a while.
    Idle,
    /// It is about to be there.
    Starting,
    /// It takes calls.
    Ready,
    /// It ended or did not start, and is left alone for a while.
    BackingOff {
        /// Until when.
        until: Timestamp,
    },
    /// It ended or did not start; whoever needs it next starts it.
    Failed,
}

/// How a server has been doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStanding {
    /// Its name.
    pub name: String,
    /// What it is doing.
    #[serde(flatten)]
    pub state: ServerState,
    /// How often it was started again after it ended by itself.
    pub restarts: u64,
    /// Calls that were made.
    pub calls: u64,
    /// Those of them that failed, by the server's word or without an answer.
    pub errors: u64,
    /// The last thing that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The servers that the operator declared, whoever calls. They are started when they are needed.
#[async_trait]
pub trait ToolServers: Send + Sync + std::fmt::Debug {
    /// What every declared server offers. One that was never listed is started for it; one that
    /// cannot be is there with its fault. If it is cancelled, what was being started goes on.
    /// Those that were never listed are started, and take so long at most.
    async fn listings(&self, within: Duration) -> Arc<ToolListings>;

    /// What is known of every declared server already. None is started: one that was never listed
    /// is there with a fault.
    async fn known_listings(&self) -> Arc<ToolListings>;

    /// Calls a tool, once. If it is cancelled or takes too long the server is told so, and may have
    /// done it all the same.
    ///
    /// # Errors
    /// `not_found` for a server that is not declared or a tool that it does not have; `invalid` when
    /// the server refuses the arguments; `limit_exceeded` for an answer that is too long; `timeout`;
    /// `unavailable` when the server cannot be started or ends meanwhile.
    async fn call(&self, call: ToolCall) -> Result<ToolAnswer>;

    /// Waits until the version has passed this one.
    async fn changed(&self, since: u64) -> u64;

    /// How each server has been doing.
    fn standing(&self) -> Vec<ServerStanding>;
}

/// The name under which code finds Hotcell's own tools. No server may be declared by it.
pub const OWN_SERVER: &str = "hotcell";

/// Reads what came of a call of one of Hotcell's own tools.
pub type OwnValue = Box<dyn FnOnce(Result<Reply>) -> Result<Value> + Send>;

/// A call of one of Hotcell's own tools.
pub struct OwnCall {
    /// What it asks of the engine.
    pub request: Request,
    /// What code gets of the reply.
    pub value: OwnValue,
}

impl std::fmt::Debug for OwnCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnCall").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Hotcell's own tools, as code may call them. It only translates.
pub trait OwnTools: Send + Sync + std::fmt::Debug {
    /// The tools, each as a server lists it.
    fn tools(&self) -> Arc<[Value]>;

    /// What a call of a tool asks of the engine.
    ///
    /// # Errors
    /// There is no such tool, or its arguments are wrong.
    fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<OwnCall>;
}
