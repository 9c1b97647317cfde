//! Clients that have said that they work in a cell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CellRef, Timestamp};

/// Tells that a client works in a cell, and shows the cell. Wakes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellAttach {
    /// Which.
    pub cell: CellRef,
    /// What the client calls itself.
    pub client_name: Option<String>,
    /// By what it knows its session.
    pub session_id: Option<String>,
}

/// A client that has said so. What it says of itself decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// Who the caller was.
    pub principal: String,
    /// What the client calls itself; empty where it did not say.
    pub client_name: String,
    /// By what it knows its session; empty where it did not say.
    pub session_id: String,
    /// When it said so first.
    pub attached_at: Timestamp,
    /// When it last did.
    pub last_seen: Timestamp,
}
