//! Files that make the host run something: hooks, settings of tools, editor tasks.
//!
//! What a cell wrote there would run outside of it, by itself, the next time somebody works in the
//! project. Sources, makefiles and the like run only when somebody runs them, and are not meant.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories whose every file is read by a tool that runs commands from it.
const DIRECTORIES: [(&str, &str); 21] = [
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
    (".continue", "settings of an agent, which may run commands"),
    (".helix", "settings of an editor, which may run code"),
    (".hg", "hooks and settings of Mercurial"),
    (".jj", "settings of Jujutsu"),
    (".kiro", "settings of an agent, which may run commands"),
    (".opencode", "settings of an agent, which may run commands"),
    (".qwen", "settings of an agent, which may run commands"),
    (".vim", "settings of an editor, which may run code"),
    (".windsurf", "settings of an agent, which may run commands"),
    (".yarn", "programs that yarn runs"),
];

/// Files of that kind.
const FILES: [(&str, &str); 23] = [
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
    (".aider.conf.yml", "settings of an agent, which may run commands"),
    (".npmrc", "says what npm runs"),
    (".yarnrc", "says what yarn runs"),
    (".yarnrc.yml", "says what yarn runs"),
    ("lefthook.yaml", "hooks of git"),
    ("opencode.json", "servers that an agent starts"),
    ("opencode.jsonc", "servers that an agent starts"),
    ("mise.local.toml", "run by mise in this directory"),
];

/// What in the directory of a git repository says what git runs.
const OF_GIT: [&str; 7] =
    ["commondir", "config", "config.worktree", "gitdir", "hooks", "modules", "worktrees"];

/// What else makes a directory a repository.
const OF_REPOSITORY: [&str; 2] = ["objects", "refs"];

/// Why a path of a project could make the host run something, by its name. `has` tells whether there
/// is something at a path, for the cell or for the host.
pub(super) fn by_name(
    path: &Path,
    is_directory: bool,
    has: impl Fn(&Path) -> bool,
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
        let above: PathBuf = names[..place].iter().collect();
        let in_git = names[..place].iter().any(|name| same(name, ".git"));
        // Git takes any directory for a repository that looks like one, whatever it is called.
        let is_among = |known: &[&str]| known.iter().any(|known| same(name, known));
        if is_among(&OF_GIT) && (in_git || has(&above.join("HEAD"))) {
            return Some("hooks and settings of git");
        }
        let mut parts = OF_GIT.iter().chain(&OF_REPOSITORY);
        if is_last && same(name, "HEAD") && !in_git && parts.any(|part| has(&above.join(part))) {
            return Some("makes the directory a repository of git");
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
