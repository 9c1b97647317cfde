//! The operations on checkpoints and forks of cells, in the same form as the others.

use hotcell_model::{Cells, Checkpoint, CheckpointDiff, Checkpoints};
use http::Method;

use super::asked::{CompareCheckpoint, ForkCell, RestoreCheckpoint};
use super::checkpoints;
use super::table::{Operation, Shown, reference, whole};

pub(super) const CHECKPOINT_OPERATIONS: &[Operation] = &[
    Operation {
        method: Method::GET,
        path: "/v1/cells/{cell}/checkpoints",
        name: "listCheckpoints",
        about: "List a cell's checkpoints, the oldest first.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Checkpoints>),
        answer: |call| Box::pin(checkpoints::list(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/cells/{cell}/checkpoints",
        name: "createCheckpoint",
        about: "Keep the present state of a cell's files, /tmp left out.",
        query: None,
        body: None,
        statuses: &[201],
        shown: Shown::Json(reference::<Checkpoint>),
        answer: |call| Box::pin(checkpoints::create(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/cells/{cell}/checkpoints/{checkpoint}/diff",
        name: "compareCheckpoint",
        about: "Tell which files were added, changed or removed since a checkpoint.",
        query: Some(whole::<CompareCheckpoint>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<CheckpointDiff>),
        answer: |call| Box::pin(checkpoints::diff(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/cells/{cell}/checkpoints/{checkpoint}/restore",
        name: "restoreCheckpoint",
        about: "Bring a cell's files back to a checkpoint.",
        query: None,
        body: Some(reference::<RestoreCheckpoint>),
        statuses: &[200],
        shown: Shown::Json(reference::<Checkpoint>),
        answer: |call| Box::pin(checkpoints::restore(call)),
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/cells/{cell}/checkpoints/{checkpoint}",
        name: "deleteCheckpoint",
        about: "Forget a checkpoint; the cell's files stay as they are.",
        query: None,
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<Checkpoint>),
        answer: |call| Box::pin(checkpoints::delete(call)),
    },
    Operation {
        method: Method::POST,
        path: "/v1/cells/{cell}/forks",
        name: "forkCell",
        about: "Make cells that begin with the files of another; changes are not shared.",
        query: None,
        body: Some(reference::<ForkCell>),
        statuses: &[201],
        shown: Shown::Json(reference::<Cells>),
        answer: |call| Box::pin(checkpoints::fork(call)),
    },
];
