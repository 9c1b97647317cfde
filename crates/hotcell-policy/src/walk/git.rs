//! What git runs because its command line says so.

use super::by_option::values_of;
use super::field::{Field, GAP};
use super::run::{Call, joined};
use super::{Place, Walker};
use crate::finding::Dynamic;

/// Options of git before its verb that take the next argument.
pub(crate) const VALUES: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--config-env",
    "--attr-source",
    "--shallow-file",
    "--super-prefix",
];
/// The last parts of the names of settings that are commands.
const COMMANDS: &[&str] = &[
    "pager",
    "editor",
    "fsmonitor",
    "external",
    "askpass",
    "gitproxy",
    "program",
    "textconv",
    "clean",
    "smudge",
    "process",
    "driver",
    "helper",
    "uploadpack",
    "receivepack",
    "vcs",
    "packobjectshook",
    "recentobjectshook",
    "difffilter",
    "tunnel",
    "httpd",
];
/// Settings that say where else git looks for what it runs.
const PLACES: &[&str] = &[
    "hookspath",
    "path",
    "templatedir",
    "attributesfile",
    "insteadof",
    "allow",
    "worktree",
    "smtpserver",
];
/// Options of verbs whose values are commands.
const LINES: &[&str] = &[
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--extcmd",
    "--open-files-in-pager",
    "--sendmail-cmd",
    "--to-cmd",
    "--cc-cmd",
    "--tool-cmd",
];

/// Verbs of git itself; another is an alias or a program that somebody put there.
const OWN: &str = "add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config count-objects credential daemon describe diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch filter-repo fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep hash-object help hook http-backend http-fetch http-push imap-send index-pack init init-db instaweb interpret-trailers last-modified lfs log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-redundant pack-refs patch-id prune prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote remote-ftp remote-ftps remote-http remote-https repack replace replay repo request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule svn switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree write-tree";

/// Options with which a repository is made with the settings of others, or where nothing guards its own.
const MADE_ELSEWHERE: &[&str] = &["--template", "--bare", "--separate-git-dir", "--mirror"];

fn is_made_elsewhere(args: &[Field]) -> bool {
    let elsewhere = |arg: &Field| {
        let name = arg.text.split('=').next().unwrap_or_default();
        name.len() > 2 && MADE_ELSEWHERE.iter().any(|option| option.starts_with(name))
            || arg.text.starts_with(GAP)
    };
    args.iter().take_while(|arg| !arg.is("--")).any(elsewhere)
}

fn is_git_directory(path: &Field) -> bool {
    path.find().is_some_and(|path| path.trim_end_matches('/').rsplit('/').next() == Some(".git"))
}

fn is_own(verb: &str) -> bool {
    OWN.split(' ').any(|own| own == verb)
}

impl Walker {
    /// Settings, verbs and options of git that name commands.
    pub(super) fn git_settings(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let reach = place.reach.through("git");
        let place = Place { reach: &reach, ..place };
        let mut dynamic = Vec::new();
        let mut args = call.args.iter();
        while let Some(arg) = args.next() {
            let text = arg.text.as_str();
            match text {
                "-c" => {
                    if let Some(setting) = args.next() {
                        dynamic.extend(self.git_setting(setting, call, place));
                    }
                }
                _ if text.starts_with("--exec-path=") || text.starts_with("--config-env") => {
                    dynamic.push(Dynamic::Environment);
                    if text == "--config-env" {
                        args.next();
                    }
                }
                // Settings that lie anywhere else than in `.git` are written without a word.
                "--bare" => dynamic.push(Dynamic::Environment),
                _ if text.split('=').next() == Some("--git-dir") => {
                    let value = match text.split_once('=') {
                        Some((_, value)) => Some(Field { text: value.to_owned(), ..arg.clone() }),
                        None => args.next().cloned(),
                    };
                    if !value.is_some_and(|value| is_git_directory(&value)) {
                        dynamic.push(Dynamic::Environment);
                    }
                }
                _ if VALUES.contains(&text) => {
                    args.next();
                }
                _ if text.starts_with('-') => {}
                _ => {
                    let rest: Vec<Field> = args.cloned().collect();
                    dynamic.extend(self.git_verb(text, &rest, call, place));
                    break;
                }
            }
        }
        dynamic
    }

    fn git_verb(
        &mut self,
        verb: &str,
        rest: &[Field],
        call: &Call<'_>,
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        let mut dynamic = self.git_runs(verb, rest, call, place);
        let mut lines = values_of(rest, LINES);
        match verb {
            "config" => dynamic.extend(self.git_config(rest, call, place)),
            "clone" => {
                for setting in values_of(rest, &["-c", "--config"]) {
                    dynamic.extend(self.git_setting(&setting, call, place));
                }
                lines.extend(values_of(rest, &["-u"]));
                if is_made_elsewhere(rest) {
                    dynamic.push(Dynamic::Environment);
                }
            }
            "init" | "init-db" if is_made_elsewhere(rest) => dynamic.push(Dynamic::Environment),
            "grep" => {
                let clusters = rest.iter().filter(|arg| !arg.text.starts_with("--"));
                let letters = clusters.filter_map(|arg| arg.text.strip_prefix('-'));
                let attached = letters.filter_map(|letters| Some(letters.split_once('O')?.1));
                lines.extend(attached.filter(|line| !line.is_empty()).map(Field::known));
            }
            // They run tools by their names, or git with whatever settings follow.
            "mergetool" | "instaweb" | "maintenance" | "for-each-repo" => {
                dynamic.push(Dynamic::Script);
            }
            "difftool" => {
                dynamic.push(Dynamic::Script);
                lines.extend(values_of(rest, &["-x"]));
            }
            "rebase" => lines.extend(values_of(rest, &["-x"])),
            "web--browse" => lines.extend(values_of(rest, &["-b", "--browser"])),
            "merge-index" => {
                lines.extend(rest.iter().find(|arg| !arg.text.starts_with('-')).cloned())
            }
            "remote-ext" => lines.extend(rest.get(1).cloned()),
            _ if verb.contains(GAP) => dynamic.push(Dynamic::Name),
            _ if !is_own(verb) => dynamic.push(Dynamic::Script),
            _ => {}
        }
        // `ext::` is a transport that is a command.
        let transports = rest.iter().filter_map(|arg| arg.text.strip_prefix("ext::"));
        lines.extend(transports.map(|line| Field::known(&line.replace("% ", " "))));
        for line in lines {
            dynamic.extend(self.shell_line(&line, call, place));
        }
        dynamic
    }

    /// A setting as `NAME=VALUE`.
    fn git_setting(&mut self, setting: &Field, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let Some((key, value)) = setting.text.split_once('=') else {
            let unknown = setting.text.contains(GAP);
            return if unknown { vec![Dynamic::Environment] } else { Vec::new() };
        };
        let value = Field { text: value.to_owned(), ..setting.clone() };
        self.git_set(key, &value, call, place)
    }

    fn git_set(
        &mut self,
        key: &str,
        value: &Field,
        call: &Call<'_>,
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        let key = key.to_ascii_lowercase();
        let last = key.rsplit('.').next().unwrap_or_default();
        let text = value.text.as_str();
        let alias = key.starts_with("alias.") && text.starts_with('!');
        let update = last == "update" && text.starts_with('!');
        let helper = last != "helper" || text.starts_with(['!', '/']);
        // What is on or off is no command.
        let switched = matches!(text, "true" | "false" | "");
        let is_command = COMMANDS.contains(&last)
            || last.ends_with("command")
            || last.ends_with("cmd")
            || key.starts_with("pager.");
        let command = is_command && helper && !switched;
        if key.starts_with("alias.") && !alias {
            let line = Field { text: format!("git {text}"), ..value.clone() };
            return self.shell_line(&line, call, place);
        }
        if alias || update || command {
            let line = Field { text: text.trim_start_matches('!').to_owned(), ..value.clone() };
            return self.shell_line(&line, call, place);
        }
        if key.contains(GAP) || PLACES.contains(&last) {
            return vec![Dynamic::Environment];
        }
        Vec::new()
    }

    /// `git config`: what is set there is run by a later git.
    fn git_config(&mut self, rest: &[Field], call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let values = ["-f", "--file", "--blob", "--type", "--default"];
        let mut words: Vec<&Field> = Vec::new();
        let mut args = rest.iter();
        while let Some(arg) = args.next() {
            if values.contains(&arg.text.as_str()) {
                args.next();
            } else if !arg.text.starts_with('-') {
                words.push(arg);
            }
        }
        if words.first().is_some_and(|first| matches!(first.find(), Some("set" | "add"))) {
            words.remove(0);
        }
        let renames =
            |arg: &Field| matches!(arg.find(), Some("rename-section" | "--rename-section"));
        match words.as_slice() {
            _ if rest.iter().any(|arg| renames(arg) || arg.text.starts_with("--ren")) => {
                vec![Dynamic::Environment]
            }
            [key, value, ..] => self.git_set(&key.text, value, call, place),
            _ if rest.iter().any(|arg| arg.is("-e") || arg.is("--edit")) => vec![Dynamic::Input],
            _ => Vec::new(),
        }
    }

    fn git_runs(
        &mut self,
        verb: &str,
        rest: &[Field],
        call: &Call<'_>,
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        match (verb, rest) {
            ("bisect", [run, inner @ ..]) if run.is("run") => {
                self.rest(call, inner, place, place.reach);
                Vec::new()
            }
            ("submodule", rest) => {
                let Some(at) = rest.iter().position(|arg| arg.is("foreach")) else {
                    return Vec::new();
                };
                let inner = rest.get(at + 1..).unwrap_or_default();
                let options = inner.iter().take_while(|arg| arg.text.starts_with('-')).count();
                let inner = inner.get(options..).unwrap_or_default();
                self.shell_line(&Field::known(&joined(inner)), call, place)
            }
            ("filter-branch", rest) => {
                let mut dynamic = Vec::new();
                let mut rest = rest.iter();
                while let Some(arg) = rest.next() {
                    if arg.text.ends_with("-filter") || arg.is("--setup") {
                        let line = rest.next().cloned().unwrap_or_default();
                        dynamic.extend(self.shell_line(&line, call, place));
                    }
                }
                dynamic
            }
            _ => Vec::new(),
        }
    }
}
