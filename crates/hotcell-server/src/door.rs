//! What every connection shares: the engine, and how its callers speak to it.

use std::sync::Arc;
use std::time::Duration;

use hotcell_engine::{Answer, Engine, ExecStream};
use hotcell_model::{Caller, CellAdopt, Error, ExecFollow, ExecId, Query, Reply, Request, Result};
use tokio_util::sync::CancellationToken;

use crate::dialect::Dialect;

/// How soon it is looked again at the soonest for cells that nobody holds.
const ADOPT_PAUSE: Duration = Duration::from_millis(200);

/// One way into the engine.
#[derive(Debug, Clone)]
pub struct Door {
    engine: Arc<Engine>,
    pub(crate) dialect: Arc<dyn Dialect>,
    /// Done when nobody is to wait any more: what runs goes on, whoever waits is told so.
    pub(crate) closing: CancellationToken,
}

impl Door {
    /// A door that speaks a dialect.
    #[must_use]
    pub fn new(engine: Arc<Engine>, dialect: Arc<dyn Dialect>) -> Self {
        Self { engine, dialect, closing: CancellationToken::new() }
    }

    /// Takes over what other servers leave, for as long as this one serves.
    pub(crate) async fn adopt_cells(self, caller: Caller) {
        let orphan_grace = Duration::from_secs(self.engine.settings().orphan_grace_s);
        let pause = (orphan_grace / 4).max(ADOPT_PAUSE);
        loop {
            if let Err(error) = self.ask(&caller, CellAdopt).await {
                tracing::warn!(%error, "cells that other servers left are not taken over");
            }
            tokio::time::sleep(pause).await;
        }
    }

    pub(crate) async fn call(&self, caller: &Caller, request: Request) -> Result<Reply> {
        match self.engine.call(caller, request).await? {
            Answer::Reply(reply) => Ok(reply),
            Answer::Stream(_) => Err(Error::internal("a stream answered a call")),
        }
    }

    pub(crate) async fn ask<Q: Query>(&self, caller: &Caller, query: Q) -> Result<Q::Answer> {
        self.engine.ask(caller, query).await
    }

    pub(crate) async fn follow(&self, caller: &Caller, request: ExecFollow) -> Result<ExecStream> {
        self.engine.follow(caller, request).await
    }

    pub(crate) fn fresh_exec_id(&self) -> Result<ExecId> {
        self.engine.fresh_exec_id()
    }
}
