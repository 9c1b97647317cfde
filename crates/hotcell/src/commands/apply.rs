//! `hotcell apply`: what a cell changed, for the real files.

use hotcell_model::{DriftedFiles, ProjectApply};

use super::project::{Meant, line, note_unchanged, shown};
use crate::args::Apply;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{note, print, print_json};

pub(super) async fn apply(session: &Session, args: Apply) -> Result<u8, Failure> {
    let Meant { cell, paths } = Meant::find(session, &args.of).await?;
    let drifted = if args.force { DriftedFiles::Replace } else { DriftedFiles::Refuse };
    let asked = ProjectApply {
        cell,
        paths: paths.clone(),
        drifted,
        expected: None,
        leave_out_ignored: false,
    };
    let done = session.ask(asked).await?;
    if args.of.json {
        print_json(&done)?;
        return Ok(0);
    }
    let lines: Vec<String> = done.applied.iter().map(|it| format!("{}\n", line(it))).collect();
    print(lines.concat())?;
    note_unchanged(&paths, done.applied.iter().chain(&done.held_back));
    for change in &done.held_back {
        let why = change.guarded.as_deref().unwrap_or_default();
        note(&format!("{} was left out: {why}", shown(&change.path)));
    }
    if !done.held_back.is_empty() {
        note("what makes this machine run something is applied only when its path is given");
    }
    Ok(0)
}
