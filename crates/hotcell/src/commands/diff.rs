//! `hotcell diff`: what a cell changed in its project.

use std::io::{self, IsTerminal};

use hotcell_model::{ProjectChange, ProjectDiff};

use super::project::{Meant, line, note_unchanged, shown};
use crate::args::Diff;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{harmless, note, print, print_json};

/// Changes that are told at most.
const MOST_CHANGES: u32 = 100_000;
/// Text of changes at most.
const MOST_TEXT: u64 = 64 << 20;

pub(super) async fn diff(session: &Session, args: Diff) -> Result<u8, Failure> {
    let Meant { cell, paths } = Meant::find(session, &args.of).await?;
    let patch_bytes = if args.name_status { 0 } else { MOST_TEXT };
    let asked = ProjectDiff {
        cell,
        paths: paths.clone(),
        limit: MOST_CHANGES,
        skip: 0,
        patch_bytes,
        plan: None,
        leave_out_ignored: false,
    };
    let found = session.ask(asked).await?;
    if args.of.json {
        print_json(&found)?;
        return Ok(0);
    }
    if args.name_status {
        let lines: Vec<String> = found.changes.iter().map(|it| format!("{}\n", line(it))).collect();
        print(lines.concat())?;
    } else {
        print(if io::stdout().is_terminal() { for_terminal(&found.patch) } else { found.patch })?;
    }
    tell_apart(&found.changes);
    if !found.truncated {
        note_unchanged(&paths, found.changes.iter());
    }
    if found.truncated {
        note(&format!("there are more than {MOST_CHANGES} changes"));
    }
    if found.patch_truncated {
        note(&format!("the text of the changes is longer than {} MiB", MOST_TEXT >> 20));
    }
    Ok(0)
}

/// Text of a cell, for a person to read: nothing in it moves the cursor or hides what is there.
fn for_terminal(patch: &str) -> String {
    patch.lines().map(|line| format!("{}\n", harmless(line))).collect()
}

/// Says what somebody should look at before it is applied.
fn tell_apart(changes: &[ProjectChange]) {
    for change in changes.iter().filter(|change| change.guarded.is_some()) {
        let why = change.guarded.as_deref().unwrap_or_default();
        note(&format!("{} is not applied unless named: {why}", shown(&change.path)));
    }
    for change in changes.iter().filter(|change| change.drifted) {
        note(&format!("{} changed on the host meanwhile", shown(&change.path)));
    }
}
