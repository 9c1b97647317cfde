//! `hotcell ls`: what is in a directory of a cell.

use std::fmt::Write;

use hotcell_model::{
    ErrorCode, FileCall, FileEntries, FileEntry, FileKind, FileList, FileResult, FileStat, Result,
};
use serde_json::{Value, json};

use crate::cell_path::CellPath;
use crate::errors::Failure;
use crate::file_args::Ls;
use crate::session::Session;
use crate::show::{one_line, print, print_json};

const PAGE: u32 = 10_000;

/// Lists a directory, or shows a file.
pub(super) async fn ls(session: &Session, args: Ls) -> Result<u8, Failure> {
    let directory = &args.directory.0;
    session.look_for(&directory.cell).await?;
    let mut list = FileList {
        path: directory.path.clone(),
        recursive: args.recursive,
        glob: args.glob.clone(),
        limit: PAGE,
        names_only: !args.long && !args.json,
        ..FileList::default()
    };
    let mut all = Vec::new();
    loop {
        let call = FileCall::new(directory.cell.clone(), list.clone().into());
        let page = match session.ask(call).await {
            Ok(done) => done.result,
            Err(error) if error.code == ErrorCode::Conflict => match file(session, directory).await
            {
                Ok(entry) => return show(&args, vec![entry]),
                Err(_) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        list.cursor = if let FileResult::Names(page) = page {
            let lines = page.names.iter().map(|name| one_line(name, usize::MAX) + "\n");
            print(lines.collect::<String>())?;
            page.next_cursor
        } else {
            // Also from a supervisor that knows of no names alone.
            let page = FileEntries::try_from(page)?;
            match args.json {
                true => all.extend(page.entries),
                false => print(text(&page.entries, &args))?,
            }
            page.next_cursor
        };
        if list.cursor.is_none() {
            break;
        }
    }
    match args.json {
        true => show(&args, all),
        false => Ok(0),
    }
}

async fn file(session: &Session, path: &CellPath) -> Result<FileEntry> {
    let stat = FileStat { path: path.path.clone() };
    let done = session.ask(FileCall::new(path.cell.clone(), stat.into())).await?;
    done.result.try_into()
}

fn show(args: &Ls, entries: Vec<FileEntry>) -> Result<u8, Failure> {
    match args.json {
        true => {
            let entries: Vec<Value> = entries.iter().map(as_json).collect();
            print_json(&json!({ "entries": entries }))?;
        }
        false => print(text(&entries, args))?,
    }
    Ok(0)
}

/// An entry as the server shows it: with its mode in octal.
fn as_json(entry: &FileEntry) -> Value {
    let mut shown = serde_json::to_value(entry).unwrap_or_default();
    shown["mode"] = format!("{:o}", entry.mode).into();
    shown
}

fn text(entries: &[FileEntry], args: &Ls) -> String {
    let mut text = String::new();
    let widest = entries.iter().map(|entry| entry.size).max().unwrap_or(0).to_string().len();
    for entry in entries {
        let name = name(entry, args);
        // Writing to a string cannot fail.
        let _ = match args.long {
            true => writeln!(
                text,
                "{} {:>widest$} {} {name}",
                mode(entry),
                entry.size,
                &entry.modified.to_string()[..16].replace('T', " "),
            ),
            false => writeln!(text, "{name}"),
        };
    }
    text
}

/// The path below the directory that is listed, with what it is at its end.
fn name(entry: &FileEntry, args: &Ls) -> String {
    let names = entry.path.split('/').filter(|name| !name.is_empty());
    let depth = match args.recursive {
        true => depth(&args.directory.0.path),
        false => names.clone().count().saturating_sub(1),
    };
    let below: Vec<&str> = names.skip(depth).collect();
    let shown = match below.is_empty() {
        true => one_line(&entry.path, usize::MAX),
        false => one_line(&below.join("/"), usize::MAX),
    };
    match (entry.kind, &entry.target) {
        (FileKind::Directory, _) => format!("{shown}/"),
        (FileKind::Symlink, Some(target)) if args.long => {
            format!("{shown} -> {}", one_line(target, usize::MAX))
        }
        (FileKind::File | FileKind::Symlink | FileKind::Other, _) => shown,
    }
}

/// How many names the absolute path of a directory has.
fn depth(path: &str) -> usize {
    let mut depth = if path.starts_with('/') { 0 } else { 1 };
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => depth = usize::saturating_sub(depth, 1),
            _ => depth += 1,
        }
    }
    depth
}

/// As `ls -l` shows it.
fn mode(entry: &FileEntry) -> String {
    let kind = match entry.kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Other => '?',
    };
    let mut shown = String::from(kind);
    for (bits, special, letter) in [
        (entry.mode >> 6, entry.mode & 0o4000, 's'),
        (entry.mode >> 3, entry.mode & 0o2000, 's'),
        (entry.mode, entry.mode & 0o1000, 't'),
    ] {
        shown.push(if bits & 4 == 0 { '-' } else { 'r' });
        shown.push(if bits & 2 == 0 { '-' } else { 'w' });
        shown.push(match (bits & 1, special) {
            (0, 0) => '-',
            (0, _) => letter.to_ascii_uppercase(),
            (_, 0) => 'x',
            (_, _) => letter,
        });
    }
    shown
}
