//! `hotcell cp`: files and directories into a cell, out of one, or from one to another.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hotcell_model::{
    Compression, Error, ErrorCode, FileCall, FileEntry, FileExport, FileImport, FileKind, FileList,
    FileOp, FileRead, FileResult, FileStat, FileStream, FileWrite, FileWritten, FilesPacked,
    Precondition,
};
use serde_json::json;

use super::pack::pack;
use super::unpack::unpack;
use crate::cell_path::{CellPath, Place};
use crate::errors::Failure;
use crate::file_args::Cp;
use crate::pieces::{self, Pieces, Taker, fetch, local_fault};
use crate::session::Session;
use crate::show::{note, print, print_json};
use crate::signals::LocalSignals;

const USUAL_MODE: u32 = 0o644;

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copied {
    files: u64,
    bytes: u64,
}

/// What is at a path of a cell; links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Directory,
    File { mode: u32 },
    Nothing,
}

/// Copies.
pub(super) async fn cp(session: &Session, args: Cp) -> Result<u8, Failure> {
    let signals = LocalSignals::listen().map_err(Failure::Terminal)?;
    if let Place::Cell(from) = &args.from {
        session.look_for(&from.cell).await?;
    }
    let mut work = Copying { session, signals };
    let copied = match (&args.from, &args.to) {
        (Place::Cell(from), Place::Cell(to)) => Box::pin(work.across(from, to)).await?,
        (Place::Cell(from), Place::Local(to)) => Box::pin(work.out(from, to)).await?,
        (Place::Cell(from), Place::Dash) => Box::pin(work.print(from)).await?,
        (Place::Local(from), Place::Cell(to)) => Box::pin(work.bring(from, to)).await?,
        (Place::Dash, Place::Cell(to)) => Box::pin(work.take_input(to)).await?,
        (Place::Local(_) | Place::Dash, Place::Local(_) | Place::Dash) => {
            return Err(Error::invalid(format!(
                "neither {} nor {} is in a cell",
                args.from, args.to
            ))
            .hint("write CELL:PATH for a path in a cell, or :PATH for the default cell")
            .into());
        }
    };
    if args.json {
        let Copied { files, bytes } = copied;
        let (from, to) = (args.from.to_string(), args.to.to_string());
        print_json(&json!({ "from": from, "to": to, "files": files, "bytes": bytes }))?;
    }
    Ok(0)
}

/// What a copy works with.
struct Copying<'a> {
    session: &'a Session,
    signals: LocalSignals,
}

impl Copying<'_> {
    /// From a cell to a cell.
    async fn across(&mut self, from: &CellPath, to: &CellPath) -> Result<Copied, Failure> {
        let found = self.find(from).await?;
        let (read, write) = match found {
            Found::Nothing => return Err(absent(from)),
            Found::Directory => {
                let to = self.settle(to, from.name(), found).await?;
                let import = FileImport { path: to.path.clone(), ..FileImport::default() };
                (export(from), stream(&to, import))
            }
            Found::File { mode } => {
                let to = self.settle(to, from.name(), found).await?;
                (stream(from, read(from)), stream(&to, write(&to, Some(mode))))
            }
        };
        let passing = pieces::pass(self.session, read, write);
        let result = match self.signals.unless_told_to_leave(passing).await {
            Ok(passed) => passed?,
            Err(signal) => return Err(Failure::ToldToLeave(signal)),
        };
        match found {
            Found::Directory => Ok(packed(result.try_into()?)),
            Found::File { .. } | Found::Nothing => Ok(written(result.try_into()?)),
        }
    }

    /// From this machine to a cell.
    async fn bring(&mut self, from: &Path, to: &CellPath) -> Result<Copied, Failure> {
        let tried = |error: io::Error| local_fault("read", from, &error);
        let about = fs::metadata(from).map_err(tried)?;
        let name = name(from)?;
        if about.is_dir() {
            let to = self.settle(to, name.as_deref(), Found::Directory).await?;
            let directory = from.to_owned();
            let pieces = pieces::made_by(move |writer| pack(&directory, writer)).map_err(tried)?;
            let import = FileImport { path: to.path.clone(), ..FileImport::default() };
            let result = self.send(stream(&to, import), pieces, &from.to_string_lossy()).await?;
            return Ok(packed(result.try_into()?));
        }
        let mode = about.permissions().mode() & 0o777;
        let to = self.settle(to, name.as_deref(), Found::File { mode }).await?;
        let pieces = File::open(from).and_then(pieces::read_from).map_err(tried)?;
        let stream = stream(&to, write(&to, about.is_file().then_some(mode)));
        let result = self.send(stream, pieces, &from.to_string_lossy()).await?;
        Ok(written(result.try_into()?))
    }

    /// From our standard input to a file of a cell.
    async fn take_input(&mut self, to: &CellPath) -> Result<Copied, Failure> {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::Terminal)?;
        let pieces = pieces::read_from(File::from(input)).map_err(Failure::Terminal)?;
        let result = self.send(stream(to, write(to, None)), pieces, "standard input").await?;
        Ok(written(result.try_into()?))
    }

    /// From a cell to our standard output; a directory as an archive.
    async fn print(&mut self, from: &CellPath) -> Result<Copied, Failure> {
        let stream = match self.find(from).await? {
            Found::Nothing => return Err(absent(from)),
            Found::Directory => export(from),
            Found::File { .. } => stream(from, read(from)),
        };
        let mut bytes = 0;
        let printing = pieces::receive(self.session, stream, async |piece| {
            bytes += piece.len() as u64;
            print(piece)
        });
        match self.signals.unless_told_to_leave(printing).await {
            Ok(printed) => printed?,
            Err(signal) => return Err(Failure::ToldToLeave(signal)),
        };
        Ok(Copied { files: 1, bytes })
    }

    /// From a cell to this machine.
    async fn out(&mut self, from: &CellPath, to: &Path) -> Result<Copied, Failure> {
        let found = self.find(from).await?;
        let is_directory = to.is_dir();
        let target = match (is_directory, from.name()) {
            (true, Some(name)) => to.join(name),
            (_, _) => to.to_owned(),
        };
        match found {
            Found::Nothing => Err(absent(from)),
            Found::Directory => self.directory_out(from, &target).await,
            Found::File { mode } => self.file_out(from, &target, mode).await,
        }
    }

    async fn file_out(
        &mut self,
        from: &CellPath,
        target: &Path,
        mode: u32,
    ) -> Result<Copied, Failure> {
        let tried = |error: io::Error| local_fault("write", target, &error);
        let before = fs::metadata(target).ok();
        let is_special = before.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir());
        let stream = stream(from, read(from));
        if is_special {
            let mut file = OpenOptions::new().write(true).open(target).map_err(tried)?;
            let taker = Taker::start(move |mut reader| io::copy(&mut reader, &mut file));
            let ours = (self.session, &mut self.signals);
            let (_, bytes) = fetch(ours, stream, taker.map_err(tried)?, target).await?;
            return Ok(Copied { files: 1, bytes });
        }
        // A link stays, and leads to the new content.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let fresh = Fresh::beside(&target);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode & 0o777)
            .open(&fresh.path)
            .map_err(tried)?;
        let taker = Taker::start(move |mut reader| io::copy(&mut reader, &mut file));
        let ours = (self.session, &mut self.signals);
        let (_, bytes) = fetch(ours, stream, taker.map_err(tried)?, &target).await?;
        if let Some(before) = before {
            fs::set_permissions(&fresh.path, before.permissions()).map_err(tried)?;
        }
        fs::rename(&fresh.path, &target).map_err(tried)?;
        Ok(Copied { files: 1, bytes })
    }

    async fn directory_out(&mut self, from: &CellPath, target: &Path) -> Result<Copied, Failure> {
        let tried = |error: io::Error| local_fault("write", target, &error);
        // What is not there yet comes at once or not at all; what is there is added to.
        let fresh = match fs::symlink_metadata(target) {
            Ok(_) => None,
            Err(_) => Some(Fresh::beside(target)),
        };
        let directory = fresh.as_ref().map_or(target, |fresh| &fresh.path).to_owned();
        if fresh.is_some() {
            fs::create_dir(&directory).map_err(tried)?;
        }
        let taker = Taker::start(move |reader| unpack(reader, &directory)).map_err(tried)?;
        let ours = (self.session, &mut self.signals);
        let (_, unpacked) = fetch(ours, export(from), taker, target).await?;
        if let Some(fresh) = fresh {
            fs::rename(&fresh.path, target).map_err(tried)?;
        }
        if unpacked.left_out > 0 {
            note(&format!(
                "{} entries are neither file, directory nor link: left out",
                unpacked.left_out
            ));
        }
        Ok(Copied { files: unpacked.files, bytes: unpacked.bytes })
    }

    async fn send(
        &mut self,
        stream: FileStream,
        pieces: Pieces,
        what: &str,
    ) -> Result<FileResult, Failure> {
        let sending = pieces::send(self.session, stream, pieces, what);
        match self.signals.unless_told_to_leave(sending).await {
            Ok(sent) => sent,
            Err(signal) => Err(Failure::ToldToLeave(signal)),
        }
    }

    /// Where something of this name goes: into a directory that is there, or under the name that
    /// was given.
    async fn settle(
        &self,
        to: &CellPath,
        name: Option<&str>,
        what: Found,
    ) -> Result<CellPath, Failure> {
        let Some(name) = name else { return Ok(to.clone()) };
        let is_directory = self.find(to).await? == Found::Directory;
        let is_meant_so = to.ends_with_slash() && what != Found::Directory;
        Ok(if is_directory || is_meant_so { to.join(name) } else { to.clone() })
    }

    async fn find(&self, path: &CellPath) -> Result<Found, Failure> {
        let ask = |op: FileOp| self.session.ask(FileCall::new(path.cell.clone(), op));
        let list = FileList { path: path.path.clone(), limit: 1, ..FileList::default() };
        match ask(list.into()).await {
            Ok(_) => return Ok(Found::Directory),
            Err(error) if error.code == ErrorCode::NotFound => {
                return self.absent_or_refused(path).await;
            }
            Err(error) if error.code == ErrorCode::Conflict => {}
            Err(error) => return Err(error.into()),
        }
        let entry: FileEntry = match ask(FileStat { path: path.path.clone() }.into()).await {
            Ok(done) => done.result.try_into()?,
            // A part of the path before it is no directory.
            Err(error) if error.code == ErrorCode::Conflict => return Ok(Found::Nothing),
            Err(error) => return Err(error.into()),
        };
        // A link has no mode of its own.
        let mode = if entry.kind == FileKind::Symlink { USUAL_MODE } else { entry.mode };
        Ok(Found::File { mode: mode & 0o777 })
    }

    /// It may be the cell that is not there.
    async fn absent_or_refused(&self, path: &CellPath) -> Result<Found, Failure> {
        let root = FileStat { path: "/".to_owned() };
        self.session.ask(FileCall::new(path.cell.clone(), root.into())).await?;
        Ok(Found::Nothing)
    }
}

fn stream(place: &CellPath, op: impl Into<FileOp>) -> FileStream {
    FileStream { cell: place.cell.clone(), op: op.into() }
}

fn read(from: &CellPath) -> FileRead {
    FileRead { path: from.path.clone(), ..FileRead::default() }
}

fn write(to: &CellPath, mode: Option<u32>) -> FileWrite {
    FileWrite {
        path: to.path.clone(),
        mode,
        create_parents: true,
        precondition: Precondition::default(),
    }
}

fn export(from: &CellPath) -> FileStream {
    let compression = Compression::None;
    stream(from, FileExport { path: from.path.clone(), compression, ..FileExport::default() })
}

fn absent(path: &CellPath) -> Failure {
    Error::not_found(format!("there is nothing at {path}"))
        .hint("list what there is with `hotcell ls`")
        .into()
}

fn written(written: FileWritten) -> Copied {
    Copied { files: 1, bytes: written.size }
}

fn packed(packed: FilesPacked) -> Copied {
    Copied { files: packed.files, bytes: packed.bytes }
}

/// The last name of a path of this machine; none where that is no name of its own, as of `.`.
fn name(path: &Path) -> Result<Option<String>, Error> {
    let ends_with_dot = path.as_os_str().as_encoded_bytes().ends_with(b"/.");
    let Some(name) = path.file_name().filter(|_| !ends_with_dot) else { return Ok(None) };
    match name.to_str() {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(Error::invalid(format!("the name of {} is no text", path.display()))
            .hint("name the copy: CELL:PATH")),
    }
}

/// Something new beside where it is to be; what is left of it is removed.
struct Fresh {
    path: PathBuf,
}

impl Fresh {
    fn beside(target: &Path) -> Self {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let path = target.with_file_name(format!(".{name}.hotcell-{}", std::process::id()));
        Self { path }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // It is not there any more when all went well.
        let _ = match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&self.path),
            Ok(_) => fs::remove_file(&self.path),
            Err(error) => Err(error),
        };
    }
}
