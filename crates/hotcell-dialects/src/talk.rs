//! Calls of tools that ask the engine more than one thing.

use std::pin::Pin;

use async_trait::async_trait;
use hotcell_model::{Error, ExecResult, ExecRun, Query, Reply, Request, Result};
use rmcp::ErrorData;
use rmcp::model::CallToolResult;

/// What the caller of a tool is told: a result, which may say that it failed, or an error of the
/// protocol.
pub type Told = std::result::Result<CallToolResult, ErrorData>;

/// A call at work.
pub type Telling = Pin<Box<dyn Future<Output = Told> + Send>>;

/// A call that asks several things, one after another.
pub type Talk = Box<dyn FnOnce(Box<dyn Asking>) -> Telling + Send + Sync>;

/// Whether output is passed on while a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// As notifications of progress, to a client that wants them.
    Shown,
    /// Not before its end.
    Silent,
}

/// The engine, as far as a dialect reaches it: on behalf of whoever calls.
#[async_trait]
pub trait Asking: Send + Sync {
    /// Asks for something that is not waited for.
    ///
    /// # Errors
    /// What the engine says.
    async fn call(&self, request: Request) -> Result<Reply>;

    /// Runs a command and waits for it. It is ended if the caller cancels the call.
    ///
    /// # Errors
    /// What the engine says.
    async fn run(&self, run: ExecRun, progress: Progress) -> Result<ExecResult>;

    /// What happened at the server and how things stand, as far as the caller may see it: the text that
    /// Prometheus reads.
    ///
    /// # Errors
    /// The caller may not see it, or what the engine says.
    async fn metrics(&self) -> Result<String>;
}

impl dyn Asking + '_ {
    /// Asks for something, and takes the answer out of the reply.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn ask<Q: Query>(&self, query: Q) -> Result<Q::Answer> {
        let reply = self.call(query.into()).await?;
        Q::answer(reply).ok_or_else(|| Error::internal("the reply to another request came"))
    }
}
