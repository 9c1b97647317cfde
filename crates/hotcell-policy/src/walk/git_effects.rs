//! What git removes, replaces and writes.

use super::by_option::values_of;
use super::effects::{Effects, has_flag, operands, option};
use super::field::Field;
use super::git::VALUES;
use crate::finding::Touch;

/// Verbs that only look.
const LOOKING: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "grep",
    "ls-files",
    "ls-tree",
    "rev-parse",
    "describe",
    "cat-file",
    "rev-list",
    "shortlog",
    "help",
    "version",
    "show-ref",
    "for-each-ref",
    "name-rev",
    "check-ignore",
    "merge-base",
    "count-objects",
    "fsck",
    "whatchanged",
    "var",
    "range-diff",
];

/// Verbs that write files which their options name.
const WRITING: &[&str] = &[
    "mailsplit",
    "index-pack",
    "fast-import",
    "fast-export",
    "read-tree",
    "bugreport",
    "diagnose",
];

/// Verbs that reach other machines.
const REACHING: &[&str] = &[
    "clone",
    "fetch",
    "pull",
    "push",
    "ls-remote",
    "submodule",
    "remote-http",
    "remote-https",
    "remote-ftp",
    "remote-ftps",
    "lfs",
    "fetch-pack",
    "send-pack",
    "http-fetch",
    "http-push",
    "http-backend",
    "imap-send",
    "send-email",
    "request-pull",
    "svn",
    "p4",
    "cvsimport",
    "cvsexportcommit",
    "archimport",
    "daemon",
    "instaweb",
];

/// Whether a command line of git reaches other machines.
pub(super) fn uses_network(args: &[Field]) -> bool {
    let words = operands(args, VALUES);
    let word = |at: usize| words.get(at).and_then(|word| word.find());
    match word(0) {
        Some("archive") => args.iter().any(|arg| {
            let name = arg.text.split('=').next().unwrap_or_default();
            name.len() > 2 && "--remote".starts_with(name)
        }),
        Some("remote") => matches!(word(1), Some("update" | "show" | "prune" | "set-head")),
        Some(verb) => REACHING.contains(&verb),
        None => false,
    }
}

impl Effects<'_> {
    pub(super) fn git(&mut self) {
        let words = operands(self.args, VALUES);
        let Some(verb) = words.first().and_then(|verb| verb.find()) else {
            return;
        };
        self.finding.destructive |= is_destructive(verb, &words, self.args);
        self.finding.overwrites |= matches!(
            verb,
            "checkout"
                | "switch"
                | "merge"
                | "rebase"
                | "pull"
                | "apply"
                | "am"
                | "cherry-pick"
                | "stash"
                | "mv"
        );
        let args = self.args;
        let mut written: Vec<Field> = Vec::new();
        if !LOOKING.contains(&verb) {
            let before = args.iter().take_while(|arg| !arg.is(verb)).count();
            let before = args.get(..before).unwrap_or_default();
            written.extend(values_of(before, &["-C", "--git-dir", "--work-tree"]));
        }
        written.extend(values_of(args, &["--output"]));
        match verb {
            "archive" | "format-patch" => {
                written.extend(option(args, &["-o", "--output", "--output-directory"]));
            }
            "clone" => {
                let values = ["-b", "--branch", "--depth", "-c", "-o", "-u", "--reference", "-j"];
                let words = operands(args, &values);
                written.extend(words.get(2).map(|path| (*path).clone()));
            }
            "init" | "init-db" => written.extend(words.iter().skip(1).map(|path| (*path).clone())),
            "worktree" if words.get(1).is_some_and(|word| word.is("add") || word.is("move")) => {
                let commit = |word: &&&Field| word.text.ends_with("HEAD");
                let paths = words.iter().skip(2).filter(|word| !commit(word));
                written.extend(paths.map(|path| (*path).clone()));
            }
            "checkout-index" => written.extend(option(args, &["--prefix"])),
            // The patch says where.
            "apply" if args.iter().any(|arg| arg.text.starts_with("--unsafe")) => {
                written.push(Field::unknown());
            }
            "mv" => {
                let into = words.last().map(|path| path.text.as_str()).unwrap_or_default();
                written.extend(words.last().map(|path| (*path).clone()));
                written.extend(words.iter().skip(1).map(|path| {
                    let name = path.text.rsplit('/').next().unwrap_or_default();
                    Field { text: format!("{into}/{name}"), ..(*path).clone() }
                }));
            }
            "bundle" => written.extend(words.get(2).map(|path| (*path).clone())),
            "config" => written.extend(values_of(args, &["-f", "--file"])),
            "merge-file" | "mailinfo" | "mailsplit" | "pack-objects" => {
                written.extend(words.iter().skip(1).map(|path| (*path).clone()));
            }
            _ => {}
        }
        if WRITING.contains(&verb) {
            let values = args.iter().filter_map(|arg| arg.text.split_once('='));
            written.extend(values.map(|(_, value)| Field::known(value)));
            written.extend(values_of(args, &["-o"]));
        }
        for path in written {
            self.touch(&path, Touch::Write);
        }
    }
}

fn is_destructive(verb: &str, words: &[&Field], args: &[Field]) -> bool {
    let has = |wanted: &[&str]| {
        args.iter().any(|arg| arg.find().is_some_and(|text| wanted.contains(&text)))
    };
    let second = words.get(1).and_then(|word| word.find());
    match verb {
        "clean" => has_flag(args, "f", "force"),
        "reset" => has(&["--hard", "--merge", "--keep"]),
        // Paths after a commit are taken from it, whatever is in them.
        "checkout" => {
            has(&["--", "."])
                || has_flag(args, "fp", "force")
                || words.len() > 2 && !has(&["-b", "-B", "--orphan", "-t", "--track"])
                || has(&["--ours", "--theirs", "-B"])
        }
        "switch" => has_flag(args, "fC", "force") || has(&["--discard-changes"]),
        "checkout-index" => has_flag(args, "f", "force"),
        "read-tree" => has(&["--reset"]),
        "restore" | "rm" | "gc" | "prune" | "filter-branch" | "filter-repo" => {
            !has(&["--staged", "--cached"]) || has(&["--worktree"])
        }
        "push" => {
            has_flag(args, "f", "force")
                || args.iter().any(|arg| arg.text.starts_with("--force"))
                || has_flag(args, "d", "delete")
                || has(&["--mirror", "--prune"])
                || words.iter().skip(2).any(|word| word.text.starts_with(['+', ':']))
        }
        "branch" => {
            args.iter().any(|arg| {
                arg.text.starts_with('-')
                    && !arg.text.starts_with("--")
                    && arg.text.contains(['D', 'd'])
            }) || has(&["--delete"])
        }
        "tag" => has_flag(args, "d", "delete"),
        "stash" => matches!(second, Some("drop" | "clear")),
        "worktree" | "remote" | "submodule" => {
            matches!(second, Some("remove" | "rm" | "deinit" | "prune"))
        }
        "reflog" => matches!(second, Some("expire" | "delete")),
        "update-ref" => has_flag(args, "d", ""),
        _ => false,
    }
}
