//! What a server over HTTP is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hotcell_auth::Oidc;
use hotcell_model::{Caller, Error, Result, TokenStore};

use super::token::Token;

/// Somebody who may call with a token that the settings name.
#[derive(Debug, Clone)]
pub struct Principal {
    /// On whose behalf the engine is asked.
    pub caller: Caller,
    /// What proves it.
    pub token: Token,
}

/// A user of this machine who may call over a unix socket.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Who the kernel has to say is at the other end.
    pub uid: u32,
    /// On whose behalf the engine is asked.
    pub caller: Caller,
}

/// Who may call.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// On whose behalf those call who prove nothing; nobody may when left out.
    pub open: Option<Caller>,
    /// Those whose tokens the settings name.
    pub principals: Vec<Principal>,
    /// Where other tokens are kept.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// An issuer whose tokens are taken.
    pub oidc: Option<Arc<Oidc>>,
    /// Users of this machine, for a server at a unix socket.
    pub peers: Vec<Peer>,
    /// What callers mean by default whom the settings do not name; without a default cell each has
    /// one of its own.
    pub usual: Caller,
}

impl AccessSettings {
    /// Lets in whoever reaches the server, on behalf of one.
    #[must_use]
    pub fn open(caller: Caller) -> Self {
        Self {
            usual: Caller { default_cell: None, ..caller.clone() },
            open: Some(caller),
            principals: Vec::new(),
            tokens: None,
            oidc: None,
            peers: Vec::new(),
        }
    }
}

/// What a server over HTTP is told.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Who may call.
    pub access: AccessSettings,
    /// Names beside the loopback ones under which the server is reached, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins beside the loopback ones whose pages may call; they get CORS headers.
    pub allowed_origins: Vec<String>,
    /// Where MCP is spoken beside `/mcp`.
    pub mcp_path: String,
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
    /// MCP sessions at once; of callers whom the settings do not name each has a quarter at most.
    pub sessions: usize,
    /// Callers at once for whom something is kept.
    pub callers: usize,
    /// How long something is kept for a caller without a session.
    pub caller_idle: Duration,
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
            callers: 1024,
            caller_idle: Duration::from_secs(600),
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
        if address.ip().is_loopback() || self.access.open.is_none() {
            return Ok(());
        }
        Err(Error::denied(format!("anybody who reaches {address} could run commands here")).hint(
            "make a token with `hotcell token create`, or name one with http.token_file or \
             HOTCELL_HTTP_TOKEN, or an issuer with auth.oidc.issuer; or serve on 127.0.0.1",
        ))
    }
}
