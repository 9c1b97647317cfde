//! Programs that run commands because an option or an operand says so.

use super::effects::has_flag;
use super::field::Field;
use super::run::{Call, joined};
use super::zip::Zip;
use super::{Input, Place, Reach, Walker};
use crate::finding::Dynamic;

/// Programs, and the options of theirs whose values are command lines.
const LINES: &[(&[&str], &[&str])] = &[
    (
        &["tar", "bsdtar", "gtar"],
        &[
            "--to-command",
            "--use-compress-program",
            "-I",
            "--info-script",
            "--new-volume-script",
            "-F",
            "--rsh-command",
            "--rmt-command",
            "--checkpoint-action",
        ],
    ),
    (&["rsync"], &["-e", "--rsh", "--rsync-path"]),
    (&["scp", "sftp"], &["-S", "-D", "-o"]),
    (&["sort", "gsort"], &["--compress-program"]),
    (&["split", "gsplit"], &["--filter"]),
    (&["rg"], &["--pre", "--hostname-bin"]),
    (&["zip"], &[]),
    (&["man"], &["-P", "--pager"]),
    (&["nc", "ncat", "netcat"], &["-e", "-c", "--exec", "--sh-exec"]),
    (&["tcpdump"], &["-z"]),
    (&["nix-shell", "nix"], &["--run", "--command", "-c"]),
    (&["sg", "newgrp", "capsh"], &["-c"]),
    (&["wget"], &["--use-askpass"]),
    (&["install", "ginstall"], &["--strip-program"]),
    (&["go"], &["-exec", "-toolexec", "--exec", "--toolexec"]),
    (&["fzf"], &["--preview"]),
    (&["hyperfine"], &["-p", "--prepare", "-c", "--cleanup", "-s", "--setup", "--conclude"]),
    (&["xterm", "rxvt", "urxvt", "konsole", "gnome-terminal"], &["-e"]),
    (&["logrotate", "inotifywait", "ts"], &[]),
];

/// Programs all of whose operands are command lines.
const OPERANDS: &[&str] = &["hyperfine", "mispipe"];

/// Programs that run the command after an option, with its arguments.
const AFTER: &[(&[&str], &[&str])] = &[
    (&["fd", "fdfind"], &["-x", "--exec", "-X", "--exec-batch"]),
    (&["cmake"], &["-E"]),
    (&["start-stop-daemon"], &["-x", "--exec", "-a", "--startas"]),
];

/// Programs that run the command after a verb; none of them takes what is before it for a command.
const VERBS: &[(&[&str], &[&str])] = &[
    (&["uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "mamba"], &["run"]),
    (&["bundle", "mise", "rbenv", "pyenv", "asdf"], &["exec", "x"]),
    (&["npm", "pnpm", "yarn"], &["exec", "x", "dlx"]),
    (&["direnv"], &["exec"]),
    (&["perf"], &["stat", "record", "trace"]),
    (&["docker", "podman", "kubectl"], &["exec"]),
];
/// Programs that run the command after their options.
const SKIPPING: &[&str] = &[
    "npx",
    "bunx",
    "pnpx",
    "uvx",
    "valgrind",
    "heaptrack",
    "entr",
    "ifne",
    "xvfb-run",
    "rlwrap",
    "screen",
    "choom",
    "uclampset",
    "runcon",
    "cgexec",
    "chpst",
];
/// Options of those that take the next argument.
const SKIPPED_VALUES: &[&str] = &[
    "-n",
    "-p",
    "--package",
    "--with",
    "--python",
    "--name",
    "--prefix",
    "-e",
    "-u",
    "-S",
    "--extra",
    "--group",
    "-w",
    "-g",
];
/// Options of the loader of programs that take the next argument.
const LOADER_VALUES: &[&str] = &[
    "--library-path",
    "--inhibit-rpath",
    "--audit",
    "--preload",
    "--argv0",
    "--glibc-hwcaps-prepend",
    "--glibc-hwcaps-mask",
];
/// Programs that keep others apart: where their options end is not followed.
const ENCLOSING: &[&str] = &["bwrap", "proot", "firejail", "nspawn", "systemd-nspawn", "lxc"];

impl Walker {
    /// What a program runs because of its options. None if it is no program of this kind.
    pub(super) fn runs_by_option(
        &mut self,
        call: &Call<'_>,
        place: Place<'_>,
    ) -> Option<Vec<Dynamic>> {
        let reach = place.reach.through(call.name).reading(Input::Unknown);
        let place = Place { reach: &reach, ..place };
        let mut dynamic = Vec::new();
        let named = |table: &[(&[&str], &'static [&'static str])]| {
            table.iter().find(|(names, _)| names.contains(&call.name)).map(|(_, options)| *options)
        };
        if let Some(options) = named(LINES) {
            return Some(self.lines_of_options(call, options, place));
        }
        if let Some(options) = named(AFTER) {
            let after = |arg: &Field| options.contains(&arg.text.as_str());
            if let Some(at) = call.args.iter().position(after) {
                let rest = call.args.get(at + 1..).unwrap_or_default();
                let rest: Vec<Field> =
                    rest.iter().filter(|arg| !arg.is(";") && !arg.is("--")).cloned().collect();
                self.rest(call, &rest, place, &reach);
            }
            return Some(dynamic);
        }
        if matches!(call.name, "npx" | "npm" | "pnpm" | "yarn") {
            for line in values_of(call.args, &["-c", "--call", "--shell-mode"]) {
                dynamic.extend(self.shell_line(&line, call, place));
            }
        }
        if let Some(verbs) = named(VERBS) {
            let is_verb = |arg: &Field| arg.find().is_some_and(|text| verbs.contains(&text));
            let at = call.args.iter().position(is_verb)?;
            let mut rest = call.args.get(at + 1..).unwrap_or_default();
            // A directory, a container or a pod comes first.
            if matches!(call.name, "direnv" | "docker" | "podman" | "kubectl") {
                rest = skipped(rest, SKIPPED_VALUES);
                rest = rest.get(1..).unwrap_or_default();
            }
            self.after_options(call, rest, SKIPPED_VALUES, place, &reach);
            return Some(dynamic);
        }
        let loader = ["ld-linux", "ld-musl", "ld.so", "ld64.so"];
        if loader.iter().any(|loader| call.name.starts_with(loader)) {
            self.after_options(call, call.args, LOADER_VALUES, place, &reach);
            return Some(dynamic);
        }
        if SKIPPING.contains(&call.name) {
            self.after_options(call, call.args, SKIPPED_VALUES, place, &reach);
            // What takes the next argument in one of them does not in another.
            let first = skipped(call.args, &[]);
            if first.len() != skipped(call.args, SKIPPED_VALUES).len() {
                self.rest(call, first, place, &reach);
            }
            if call.name == "entr" && has_flag(call.args, "s", "") {
                dynamic.extend(self.line(call, first, place));
            }
            return Some(dynamic);
        }
        match call.name {
            "tmux" | "byobu" => {
                let rest = skipped(call.args, SKIPPED_VALUES).get(1..).unwrap_or_default();
                let words = skipped(rest, &["-t", "-s", "-n", "-c"]);
                if !words.is_empty() {
                    dynamic.push(Dynamic::Code);
                    let line = Field::known(&joined(words));
                    dynamic.extend(self.shell_line(&line, call, place));
                }
            }
            "socat" => {
                for arg in call.args {
                    let (kind, line) = arg.text.split_once(':').unwrap_or_default();
                    if matches!(kind.to_ascii_uppercase().as_str(), "EXEC" | "SYSTEM" | "SHELL") {
                        let line = Field { text: line.to_owned(), ..arg.clone() };
                        dynamic.extend(self.shell_line(&line, call, place));
                    }
                }
            }
            "make" | "gmake" => {
                let text = values_of(call.args, &["--eval", "-f", "--file", "--makefile"]);
                let hidden = |value: &Field| {
                    value.is("-") || value.text.contains("/dev/") || value.text.contains(['$', ' '])
                };
                if text.iter().any(hidden)
                    || call.args.iter().any(|arg| arg.text.starts_with("--ev"))
                {
                    dynamic.push(Dynamic::Language);
                }
            }
            "less" | "more" | "view" => {
                if call.args.iter().any(is_pager_command) {
                    dynamic.push(Dynamic::Language);
                }
                // Keys come with variables, of which some are commands.
                let keys = |arg: &Field| {
                    let long = arg.text.starts_with("--");
                    arg.text.starts_with("--les")
                        || !long && arg.text.starts_with('-') && arg.text.contains('k')
                };
                if call.name == "less" && call.args.iter().any(keys) {
                    dynamic.push(Dynamic::Script);
                }
            }
            "run-parts" => dynamic.push(Dynamic::Script),
            name if ENCLOSING.contains(&name) => dynamic.push(Dynamic::Name),
            _ => return None,
        }
        Some(dynamic)
    }

    /// The command lines that options have as their values.
    fn lines_of_options(
        &mut self,
        call: &Call<'_>,
        options: &[&str],
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        let mut dynamic = Vec::new();
        let written = match call.name {
            "tar" | "bsdtar" | "gtar" => {
                dynamic.extend(super::tar::reads_options(call.args).then_some(Dynamic::Script));
                super::tar::modern(call.args)
            }
            _ => call.args.to_vec(),
        };
        if call.name == "zip" {
            for line in Zip::read(call.args).all("TT") {
                dynamic.extend(self.shell_line(line, call, place));
            }
        }
        for value in values_of(&written, options) {
            dynamic.extend(self.value_line(&value, call, place));
        }
        if OPERANDS.contains(&call.name) {
            for operand in call.args.iter().filter(|arg| arg.text.contains([' ', '/'])) {
                dynamic.extend(self.shell_line(operand, call, place));
            }
        }
        dynamic
    }

    fn value_line(&mut self, value: &Field, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let text = match call.name {
            "tar" | "bsdtar" | "gtar" if value.text.starts_with("exec=") => &value.text[5..],
            "scp" | "sftp" if value.text.contains('=') => {
                let (key, text) = value.text.split_once('=').unwrap_or_default();
                if !key.to_ascii_lowercase().ends_with("command") {
                    return Vec::new();
                }
                text
            }
            _ => value.text.as_str(),
        };
        let line = Field { text: text.to_owned(), ..value.clone() };
        self.shell_line(&line, call, place)
    }

    fn after_options(
        &mut self,
        call: &Call<'_>,
        args: &[Field],
        values: &[&str],
        place: Place<'_>,
        reach: &Reach,
    ) {
        self.rest(call, skipped(args, values), place, reach);
    }
}

/// Whether a pager is told to do something else than to go somewhere.
fn is_pager_command(arg: &Field) -> bool {
    let Some(command) = arg.text.strip_prefix('+') else { return false };
    let command = command.trim_start_matches('+');
    let goes = command.chars().all(|letter| letter.is_ascii_digit() || "gGF%p".contains(letter));
    let searches = command.starts_with(['/', '?']) && !command.contains(['!', '|']);
    !goes && !searches
}

/// What follows the options.
fn skipped<'f>(args: &'f [Field], values: &[&str]) -> &'f [Field] {
    let mut rest = args;
    while let [first, after @ ..] = rest {
        if first.is("--") {
            return after;
        }
        if !first.text.starts_with('-') {
            break;
        }
        rest = after;
        if values.contains(&first.text.as_str()) {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    rest
}

/// The values of options, wherever they stand: attached, after `=`, in a cluster, or in the next argument.
/// Long options may be shortened.
pub(super) fn values_of(args: &[Field], options: &[&str]) -> Vec<Field> {
    let mut found = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        let text = arg.text.as_str();
        let next = || args.get(index + 1).cloned();
        let attached = |value: &str| Field { text: value.to_owned(), ..arg.clone() };
        for option in options {
            if text == *option {
                found.extend(next());
            } else if option.starts_with("--") {
                let (name, value) = match text.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (text, None),
                };
                // `--checkpoint` is an option of its own.
                if name.len() > 2 && option.starts_with(name) && name != "--checkpoint" {
                    found.extend(value.map(attached).or_else(next));
                }
            } else if text.starts_with('-')
                && !text.starts_with("--")
                && let Some((_, value)) = text[1..].split_once(&option[1..])
            {
                found.extend(if value.is_empty() { next() } else { Some(attached(value)) });
                // Some programs take the sign for a part of the value.
                found.extend(value.strip_prefix('=').map(attached));
            }
        }
    }
    found
}
