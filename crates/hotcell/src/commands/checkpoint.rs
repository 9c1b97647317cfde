//! `hotcell checkpoint`: states of a cell's files.

use hotcell_model::{
    ChangeKind, CheckpointCompare, CheckpointCreate, CheckpointDelete, CheckpointList,
    CheckpointMeans, CheckpointRestore,
};

use crate::args::{CheckpointAction, DiffCheckpoint, OneCheckpoint};
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{note, print, print_json};
use crate::values::bytes;

/// Changes that are told at most.
const MOST_CHANGES: u32 = 10_000;
/// As a patch, so much of them.
const MOST_PATCH_BYTES: u32 = 8 << 20;

pub(super) async fn checkpoint(session: &Session, action: CheckpointAction) -> Result<u8, Failure> {
    match action {
        CheckpointAction::Create(args) => {
            let made = session.ask(CheckpointCreate { cell: args.cell }).await?;
            if args.json { print_json(&made)? } else { print(format!("{}\n", made.id))? }
        }
        CheckpointAction::List(args) => {
            let list = session.ask(CheckpointList { cell: args.cell }).await?;
            if args.json {
                print_json(&list)?;
            } else {
                for checkpoint in list.checkpoints {
                    let means = match checkpoint.means {
                        CheckpointMeans::Stacked => "stacked",
                        CheckpointMeans::Copied => "copied",
                    };
                    let size = checkpoint.bytes.map(bytes).unwrap_or_default();
                    let (id, at) = (checkpoint.id, checkpoint.created_at);
                    let automatic = if checkpoint.automatic { "  automatic" } else { "" };
                    print(format!("{id}  {at}  {means}  {size}{automatic}\n"))?;
                }
            }
        }
        CheckpointAction::Diff(args) => diff(session, args).await?,
        CheckpointAction::Restore(args) => {
            let OneCheckpoint { cell, checkpoint, json } = args.one;
            let restore = CheckpointRestore { cell, checkpoint, force: args.force };
            let restored = session.ask(restore).await?;
            if json { print_json(&restored)? } else { print(format!("{}\n", restored.id))? }
        }
        CheckpointAction::Delete(OneCheckpoint { cell, checkpoint, json }) => {
            let deleted = session.ask(CheckpointDelete { cell, checkpoint }).await?;
            if json { print_json(&deleted)? } else { print(format!("{}\n", deleted.id))? }
        }
    }
    Ok(0)
}

async fn diff(session: &Session, args: DiffCheckpoint) -> Result<(), Failure> {
    let OneCheckpoint { cell, checkpoint, json } = args.one;
    let patch_bytes = args.content.then_some(MOST_PATCH_BYTES);
    let limit = MOST_CHANGES;
    let compare = CheckpointCompare { cell, checkpoint, limit, skip: 0, patch_bytes };
    let diff = session.ask(compare).await?;
    if json {
        print_json(&diff)?;
        return Ok(());
    }
    if let Some(patch) = diff.patch {
        print(patch.text)?;
        if patch.truncated || diff.truncated {
            note(&format!(
                "there are more changes than {MOST_CHANGES} paths and {MOST_PATCH_BYTES} bytes"
            ));
        }
        return Ok(());
    }
    for change in &diff.changes {
        let letter = match change.change {
            ChangeKind::Added => 'A',
            ChangeKind::Changed => 'M',
            ChangeKind::Removed => 'D',
        };
        let slash = if change.directory { "/" } else { "" };
        print(format!("{letter} {}{slash}\n", change.path))?;
    }
    if diff.truncated {
        note(&format!("there are more than {MOST_CHANGES} changes"));
    }
    Ok(())
}
