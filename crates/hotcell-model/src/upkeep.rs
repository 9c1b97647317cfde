//! Keeping house: what is known and what is there are brought together, and what is over goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Compares the index with what drivers have and mends what differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reconcile;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Reconciled {
    /// Cells of which drivers have something.
    pub discovered: u64,
    /// Of these, cells that the index did not know and that can be used again.
    pub adopted: u64,
    /// Cells that were over, or half made or half removed, and are gone now.
    pub cleaned_up: u64,
    /// Remains that belonged to no cell, and are gone now.
    pub orphaned: u64,
    /// Cells of which no driver has anything any more; their records stay for a while.
    pub missing: u64,
    /// What could not be done.
    pub errors: Vec<String>,
}

/// Removes what is over or that nobody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Collect {
    /// Whether it is only told what would be removed.
    pub dry_run: bool,
}

/// What kind of thing is collected.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Collectable {
    /// Cells whose time is over.
    Cells,
    /// Files of ended cells that were kept long enough.
    Volumes,
    /// Records of ended cells that were kept long enough.
    Records,
    /// Output of execs that ended long ago in cells that are still there.
    Logs,
    /// Notes of clients that were not seen for long.
    Attachments,
    /// Images that no cell began with and nobody used for long.
    Images,
    /// Layers that no image, cell or checkpoint is made of.
    Layers,
    /// What processes that died left half done: pulls and imports that nobody goes on with.
    Temporary,
}

impl Collectable {
    /// The kind as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cells => "cells",
            Self::Volumes => "volumes",
            Self::Records => "records",
            Self::Logs => "logs",
            Self::Attachments => "attachments",
            Self::Images => "images",
            Self::Layers => "layers",
            Self::Temporary => "temporary",
        }
    }
}

/// How much of one kind was removed, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// What.
    pub kind: Collectable,
    /// How many.
    pub count: u64,
    /// What they had on disk, as far as that is known.
    pub bytes: u64,
}

/// What was collected, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// Whether nothing was removed.
    pub dry_run: bool,
    /// Whether there is so little room on the disk that more was removed than usual.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disk_pressure: bool,
    /// By kind; those of which there was nothing are left out.
    pub removed: Vec<Removed>,
    /// What could not be removed.
    pub errors: Vec<String>,
}

impl Collected {
    /// Counts one thing more.
    pub fn add(&mut self, kind: Collectable, bytes: u64) {
        self.add_all(Removed { kind, count: 1, bytes });
    }

    /// Counts several things more.
    pub fn add_all(&mut self, more: Removed) {
        if more.count == 0 {
            return;
        }
        match self.removed.iter_mut().find(|removed| removed.kind == more.kind) {
            Some(removed) => {
                removed.count += more.count;
                removed.bytes = removed.bytes.saturating_add(more.bytes);
            }
            None => {
                self.removed.push(more);
                self.removed.sort_by_key(|removed| removed.kind);
            }
        }
    }
}

/// How thoroughly what nobody needs is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thrift {
    /// Whether it is only told.
    pub dry_run: bool,
    /// Seconds after their last use at which images go that no cell began with; never when left out.
    pub image_keep_s: Option<u64>,
}
