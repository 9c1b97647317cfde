//! Files that make the host run something: hooks, settings of tools, editor tasks.
//!
//! What a cell wrote there would run outside of it, by itself, the next time somebody works in the
//! project. Sources, makefiles and the like run only when somebody runs them, and are not meant.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories whose every file is read by a tool that runs commands from it.
const DIRECTORIES: [(&str, &str); 11] = [
    (".claude", "settings of an agent, which may run commands"),
    (".codex", "settings of an agent, which may run commands"),
    (".cursor", "settings of an agent, which may run commands"),
    (".devcontainer", "a container that an editor starts"),
    (".fleet", "tasks of an editor"),
    (".gemini", "settings of an agent, which may run commands"),
    (".githooks", "hooks of git"),
    (".husky", "hooks of git"),
    (".idea", "tasks of an editor"),
    (".vscode", "tasks of an editor"),
    (".zed", "tasks of an editor"),
];

/// Files of that kind.
const FILES: [(&str, &str); 15] = [
    (".dir-locals.el", "settings of an editor, which may run code"),
    (".envrc", "run by direnv in this directory"),
    (".exrc", "settings of an editor, which may run code"),
    (".gdbinit", "run by gdb in this directory"),
    (".lldbinit", "run by lldb in this directory"),
    (".lvimrc", "settings of an editor, which may run code"),
    (".mcp.json", "servers that an agent starts"),
    (".mise.toml", "run by mise in this directory"),
    (".nvim.lua", "settings of an editor, which may run code"),
    (".nvimrc", "settings of an editor, which may run code"),
    (".pre-commit-config.yaml", "hooks of git"),
    (".tool-versions", "programs that a version manager puts into the path"),
    (".vimrc", "settings of an editor, which may run code"),
    ("lefthook.yml", "hooks of git"),
    ("mise.toml", "run by mise in this directory"),
];

/// What in the directory of a git repository says what git runs.
const OF_GIT: [&str; 5] = ["config", "config.worktree", "hooks", "modules", "worktrees"];

/// Why a path of a project could make the host run something, by its name. `is_repository` tells
/// whether a directory of the project is that of a git repository, whatever its name.
pub(super) fn by_name(
    path: &Path,
    is_directory: bool,
    is_repository: impl Fn(&Path) -> bool,
) -> Option<&'static str> {
    let names: Vec<&OsStr> = path.iter().collect();
    for (place, name) in names.iter().enumerate() {
        let is_last = place + 1 == names.len();
        if let Some((_, why)) = DIRECTORIES.iter().find(|(known, _)| same(name, known)) {
            return Some(why);
        }
        if is_last {
            if let Some((_, why)) = FILES.iter().find(|(known, _)| same(name, known)) {
                return Some(why);
            }
            if ends_with(name, ".code-workspace") {
                return Some("tasks of an editor");
            }
            if same(name, ".git") && !is_directory {
                return Some("says where the repository is");
            }
        }
        let of_git = OF_GIT.iter().any(|known| same(name, known));
        if of_git && place > 0 {
            let above: PathBuf = names[..place].iter().collect();
            let in_git = names[..place].iter().any(|name| same(name, ".git"));
            if in_git || is_repository(&above) {
                return Some("hooks and settings of git");
            }
        }
    }
    None
}

/// Some file systems take letters of either case for the same.
fn same(name: &OsStr, known: &str) -> bool {
    name.as_bytes().eq_ignore_ascii_case(known.as_bytes())
}

fn ends_with(name: &OsStr, end: &str) -> bool {
    let (name, end) = (name.as_bytes(), end.as_bytes());
    name.len() >= end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

/// Whether a directory is that of a git repository, by what is in it.
pub(super) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("objects") || has("commondir"))
}

/// What of a project that a cell writes to itself must stay as it is, at its top.
pub(super) fn kept_in(dir: &Path) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = DIRECTORIES.iter().map(|(name, _)| PathBuf::from(name)).collect();
    kept.extend(FILES.iter().map(|(name, _)| PathBuf::from(name)));
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    if is_file(&dir.join(".git")) {
        kept.push(PathBuf::from(".git"));
    } else {
        kept.extend(OF_GIT.iter().map(|name| Path::new(".git").join(name)));
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    kept.extend(names.filter(|name| ends_with(name, ".code-workspace")).map(PathBuf::from));
    kept
}
