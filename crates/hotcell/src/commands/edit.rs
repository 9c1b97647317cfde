//! `hotcell edit`: replaces text in a file, or opens the file in an editor.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use hotcell_model::{
    Error, ErrorCode, EtagMatch, FileCall, FileContent, FileEdit, FileEdited, FileRead, FileWrite,
    FileWritten, Precondition, Result, TextEdit,
};
use tokio::sync::oneshot;

use crate::cell_path::CellPath;
use crate::environment::Environment;
use crate::errors::Failure;
use crate::file_args::Edit;
use crate::pieces::local_fault;
use crate::session::Session;
use crate::show::{note, print, print_json};
use crate::signals::LocalSignals;

/// The largest file that is opened in an editor.
const MOST_BYTES: u64 = 16 << 20;
const USUAL_EDITOR: &str = "vi";

/// Changes a file.
pub(super) async fn edit(
    session: &Session,
    args: Edit,
    environment: &Environment,
) -> Result<u8, Failure> {
    let (Some(old), Some(new)) = (args.old, args.new) else {
        let editor = environment.editor.as_deref().unwrap_or(OsStr::new(USUAL_EDITOR));
        return match in_editor(session, &args.file, editor).await? {
            Some(written) if args.json => print_json(&written).map(|()| 0),
            Some(_) => Ok(0),
            None => {
                note("nothing was changed");
                Ok(0)
            }
        };
    };
    let edit = FileEdit {
        path: args.file.path,
        edits: vec![TextEdit { old, new, replace_all: args.all }],
        precondition: Precondition::default(),
        dry_run: args.dry_run,
    };
    let done = session.ask(FileCall::new(args.file.cell, edit.into())).await?;
    let edited: FileEdited = done.result.try_into()?;
    match args.json {
        true => print_json(&edited)?,
        false => print(&edited.diff)?,
    }
    Ok(0)
}

/// Opens a file in an editor and writes it back; none when it stays as it was.
async fn in_editor(
    session: &Session,
    file: &CellPath,
    editor: &OsStr,
) -> Result<Option<FileWritten>, Failure> {
    let read = FileRead { path: file.path.clone(), ..FileRead::default() };
    let call =
        FileCall { most_content: MOST_BYTES, ..FileCall::new(file.cell.clone(), read.into()) };
    let (before, precondition) = match session.ask(call).await {
        Ok(done) => {
            let about: FileContent = done.result.try_into()?;
            let if_match = Some(EtagMatch::Etag(about.etag));
            (done.content, Precondition { if_match, ..Precondition::default() })
        }
        Err(error) if error.code == ErrorCode::NotFound && file.name().is_some() => {
            let if_none_match = Some(EtagMatch::Any);
            (Vec::new(), Precondition { if_none_match, ..Precondition::default() })
        }
        Err(error) => return Err(error.into()),
    };
    let draft = Draft::new(file.name().unwrap_or("file"), &before)?;
    // What is meant for the editor must not end us.
    let _signals = LocalSignals::listen().map_err(Failure::Terminal)?;
    let ended = run(editor, &draft.path).await.map_err(|error| draft.keep(error))?;
    if !ended.success() {
        let error = Error::cancelled(format!("the editor ended with {ended}; nothing was written"));
        if fs::read(&draft.path).is_ok_and(|after| after == before) {
            draft.remove();
            return Err(error.into());
        }
        return Err(draft.keep(error).into());
    }
    let after = fs::read(&draft.path).map_err(|error| local_fault("read", &draft.path, &error))?;
    if after == before {
        draft.remove();
        return Ok(None);
    }
    let write =
        FileWrite { path: file.path.clone(), mode: None, create_parents: true, precondition };
    let call = FileCall { content: after, ..FileCall::new(file.cell.clone(), write.into()) };
    let done = session.ask(call).await.map_err(|error| draft.keep(error))?;
    draft.remove();
    Ok(Some(done.result.try_into()?))
}

/// Lets a person edit a file. The variable may hold arguments too, and so a shell reads it.
#[expect(clippy::disallowed_methods, reason = "a person asked for this program, at this terminal")]
async fn run(editor: &OsStr, file: &Path) -> Result<ExitStatus> {
    let mut script = editor.to_owned();
    script.push(" \"$1\"");
    let mut command = std::process::Command::new("/bin/sh");
    command.arg("-c").arg(script).arg("hotcell").arg(file);
    let cannot = |error: std::io::Error| {
        Error::unavailable(format!("cannot start the editor {}: {error}", editor.display()))
            .hint("name another one in EDITOR, or use --old and --new")
    };
    let (told, ended) = oneshot::channel();
    let wait = move || {
        // Nobody waits any more when the process is about to end.
        let _ = told.send(command.status());
    };
    std::thread::Builder::new().spawn(wait).map_err(cannot)?;
    match ended.await {
        Ok(status) => status.map_err(cannot),
        Err(_) => Err(Error::internal("the thread of the editor broke off")),
    }
}

/// A copy of a file in a directory that only its owner can read.
struct Draft {
    directory: PathBuf,
    path: PathBuf,
}

impl Draft {
    fn new(name: &str, content: &[u8]) -> Result<Self> {
        const ATTEMPTS: u32 = 100;
        let place = std::env::temp_dir();
        for attempt in 0..ATTEMPTS {
            let directory = place.join(format!("hotcell-edit-{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(local_fault("make", &directory, &error)),
            }
            let path = directory.join(name);
            fs::write(&path, content).map_err(|error| local_fault("write", &path, &error))?;
            return Ok(Self { directory, path });
        }
        Err(Error::unavailable(format!("there is no room for a draft in {}", place.display())))
    }

    /// The error with where the text is.
    fn keep(&self, error: Error) -> Error {
        let kept = format!("your text is in {}", self.path.display());
        let hint = match &error.hint {
            Some(hint) => format!("{kept}; {hint}"),
            None => kept,
        };
        error.hint(hint)
    }

    fn remove(&self) {
        // A copy that stays harms nobody.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
