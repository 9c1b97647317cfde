//! What a persistent cell leaves when it is ended: its files, until somebody wants them or nobody did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Alias, CellId, CellRef, Tenant, Timestamp};

/// The files of a persistent cell that was ended, with its checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// The cell whose files they are.
    pub cell: CellId,
    /// Whose they are; left out for the tenant `main`.
    #[serde(default, skip_serializing_if = "Tenant::is_default")]
    #[schemars(with = "String")]
    pub tenant: Tenant,
    /// The name that the cell had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// The driver whose cell it was.
    pub driver: String,
    /// The root file system that the cell started from.
    pub image: String,
    /// Since when it is kept.
    pub kept_at: Timestamp,
    /// When it is removed; left out where it is kept until it is removed by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What it has on disk, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

/// Several of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeList {
    /// Newest first.
    pub volumes: Vec<Volume>,
}

/// Lists what ended cells left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VolumesList;

/// Brings an ended cell back with its files. Its name must be free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRestore {
    /// Which, by its id.
    pub cell: CellRef,
}

/// Removes what an ended cell left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRemove {
    /// Which, by its id.
    pub cell: CellRef,
}
