//! `hotcell discard`: a project as the host has it.

use hotcell_model::ProjectDiscard;

use super::project::{Meant, line, note_unchanged};
use crate::args::Discard;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{print, print_json};

pub(super) async fn discard(session: &Session, args: Discard) -> Result<u8, Failure> {
    let Meant { cell, paths } = Meant::find(session, &args.of).await?;
    let done = session.ask(ProjectDiscard { cell, paths: paths.clone(), expected: None }).await?;
    if args.of.json {
        print_json(&done)?;
        return Ok(0);
    }
    let lines: Vec<String> = done.discarded.iter().map(|it| format!("{}\n", line(it))).collect();
    print(lines.concat())?;
    note_unchanged(&paths, done.discarded.iter());
    Ok(0)
}
