//! The cell that `diff`, `apply` and `discard` are about, and the paths they mean.

use std::fs;
use std::path::{Component, Path, PathBuf};

use hotcell_model::{
    Cell, CellInfo, CellRef, ChangeKind, Error, ErrorCode, ProjectChange, ProjectPaths, Result,
    Workspace,
};

use crate::args::ProjectOf;
use crate::default_cell::names_of_project;
use crate::session::Session;
use crate::show::{note, one_line};

/// A cell with a project, and what of it is meant.
#[derive(Debug)]
pub(super) struct Meant {
    pub(super) cell: CellRef,
    pub(super) paths: ProjectPaths,
}

impl Meant {
    /// Finds the cell and reads the paths, which are relative to this directory if that is in the
    /// project, and to the project otherwise.
    pub(super) async fn find(session: &Session, args: &ProjectOf) -> Result<Self> {
        let here = std::env::current_dir().and_then(fs::canonicalize).map_err(|error| {
            Error::invalid(format!("this directory cannot be read: {error}"))
                .hint("change to another one")
        })?;
        let cell = match &args.cell {
            Some(cell) => session.ask(CellInfo { cell: cell.clone() }).await?.cell,
            None => cell_of(session, &here).await?,
        };
        let Some(Workspace { dir, .. }) = &cell.workspace else {
            return Err(Error::invalid(format!(
                "the workspace of cell {} is no directory of the host",
                cell.id
            ))
            .hint("make a cell on one with `hotcell run --workspace DIR`"));
        };
        let paths = args.paths.iter().map(|path| within(path, dir, &here));
        let mut paths = paths.collect::<Result<ProjectPaths>>()?;
        if paths.iter().any(|path| path.as_os_str().is_empty()) {
            // The project itself is everything.
            paths.clear();
        }
        Ok(Self { cell: cell.id.into(), paths })
    }
}

/// Says which of the paths that were given have no changes.
pub(super) fn note_unchanged<'a>(
    paths: &ProjectPaths,
    changes: impl Iterator<Item = &'a ProjectChange> + Clone,
) {
    for path in paths {
        if !changes.clone().any(|change| Path::new(&change.path).starts_with(path)) {
            note(&format!("{}: the cell has no changes there", shown(&path.to_string_lossy())));
        }
    }
}

/// The cell that works on this directory, or on the nearest one that it is in.
async fn cell_of(session: &Session, here: &Path) -> Result<Cell> {
    for directory in here.ancestors() {
        for alias in names_of_project(directory, "") {
            match session.ask(CellInfo { cell: CellRef::Alias(alias) }).await {
                Ok(details) => {
                    // Anybody can give a cell that name.
                    let works_on = |workspace: &Workspace| workspace.dir == directory;
                    if details.cell.workspace.as_ref().is_some_and(works_on) {
                        return Ok(details.cell);
                    }
                }
                Err(error) if error.code == ErrorCode::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Err(Error::not_found(format!("no cell works on {}", here.display()))
        .hint("make one with `hotcell run --workspace . CMD`, or name one with --cell"))
}

/// A path as the project has it.
pub(super) fn within(path: &Path, dir: &Path, here: &Path) -> Result<PathBuf> {
    let base = if here.starts_with(dir) { here } else { dir };
    let outside = || {
        Error::invalid(format!("{} is not in {}", path.display(), dir.display()))
            .hint("name files and directories of the project")
    };
    let mut whole = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => whole.push(part),
        }
    }
    let inside = whole.strip_prefix(dir).or_else(|_| whole.strip_prefix("/workspace"));
    let inside = inside.map_err(|_| outside())?;
    if inside.to_str().is_none() {
        return Err(Error::invalid(format!("{} is no text", path.display()))
            .hint("name the directory that it is in"));
    }
    Ok(inside.to_owned())
}

/// A change in a line.
pub(super) fn line(change: &ProjectChange) -> String {
    let letter = match change.change {
        ChangeKind::Added => 'A',
        ChangeKind::Changed => 'M',
        ChangeKind::Removed => 'D',
    };
    let slash = if change.directory { "/" } else { "" };
    format!("{letter} {}{slash}", shown(&change.path))
}

/// A path without what a terminal would act upon.
pub(super) fn shown(path: &str) -> String {
    one_line(path, usize::MAX)
}
