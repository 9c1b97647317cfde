//! What a server over HTTP is told.

use std::net::SocketAddr;
use std::time::Duration;

use hotcell_model::{Caller, Error, Result};

use super::token::Token;

/// Somebody who may call.
#[derive(Debug, Clone)]
pub struct Principal {
    /// On whose behalf the engine is asked.
    pub caller: Caller,
    /// What proves it; whoever reaches the server when left out.
    pub token: Option<Token>,
}

/// What a server over HTTP is told.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Who may call.
    pub principals: Vec<Principal>,
    /// Names beside the loopback ones under which the server is reached, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins beside the loopback ones whose pages may call; they get CORS headers.
    pub allowed_origins: Vec<String>,
    /// How long calls that are under way may take when the server is to end.
    pub drain: Duration,
    /// What it bears.
    pub limits: HttpLimits,
}

/// What a server over HTTP bears.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// Connections at once.
    pub connections: usize,
    /// MCP sessions at once, for each principal.
    pub sessions: usize,
    /// The longest body of a request.
    pub body_bytes: usize,
    /// The longest body of a request that sends a file or an archive.
    pub upload_bytes: u64,
    /// How long the head of a request may take, and how long a connection may idle before it.
    pub head_time: Duration,
    /// How long the body of a request may take.
    pub body_time: Duration,
    /// How long a client may leave unread what it is sent.
    pub stall_time: Duration,
    /// How long a session may go without a message.
    pub session_idle: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            sessions: 1024,
            body_bytes: 16 << 20,
            upload_bytes: 4 << 30,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            stall_time: Duration::from_secs(60),
            session_idle: Duration::from_secs(12 * 3600),
        }
    }
}

impl HttpSettings {
    /// Checks that whoever reaches this address has to prove who they are, unless only this
    /// machine does.
    ///
    /// # Errors
    /// `denied` otherwise.
    pub fn check_address(&self, address: SocketAddr) -> Result<()> {
        if address.ip().is_loopback() || self.principals.iter().all(|one| one.token.is_some()) {
            return Ok(());
        }
        Err(Error::denied(format!("anybody who reaches {address} could run commands here")).hint(
            "put a token into a file and name it with http.token_file, or set HOTCELL_HTTP_TOKEN; \
             or serve on 127.0.0.1",
        ))
    }
}
