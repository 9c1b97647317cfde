//! Programs that run commands because an option or their input says so: git, tar, rsync, at.

use super::field::{Field, GAP};
use super::run::{Call, joined};
use super::{Input, Place, Walker};
use crate::finding::Dynamic;

impl Walker {
    /// Settings of git on its command line that name commands.
    pub(super) fn git_settings(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let reach = place.reach.through("git");
        let mut dynamic = Vec::new();
        let mut args = call.args.iter();
        while let Some(arg) = args.next() {
            let Some(text) = arg.find() else { continue };
            match text {
                "-c" => {
                    let Some(setting) = args.next() else { break };
                    let Some((key, value)) = setting.text.split_once('=') else { continue };
                    let key = key.to_ascii_lowercase();
                    let alias = key.starts_with("alias.") && value.starts_with('!');
                    let names = [
                        "core.pager",
                        "core.sshcommand",
                        "core.editor",
                        "core.fsmonitor",
                        "diff.external",
                        "core.askpass",
                        "core.gitproxy",
                        "sequence.editor",
                        "gpg.program",
                    ];
                    let command = names.contains(&key.as_str())
                        || key.ends_with(".command")
                        || key.ends_with(".textconv")
                        || key.starts_with("credential.") && value.starts_with('!')
                        || key.starts_with("pager.");
                    if alias || command {
                        let text = Field::known(value.trim_start_matches('!'));
                        dynamic.extend(self.shell_line(
                            &text,
                            call,
                            Place { reach: &reach, ..place },
                        ));
                    } else if key.contains(GAP) || key == "core.hookspath" || key == "include.path"
                    {
                        dynamic.push(Dynamic::Environment);
                    }
                }
                "-C" | "--git-dir" | "--work-tree" | "--namespace" => {
                    args.next();
                }
                "bisect" | "submodule" | "rebase" | "filter-branch" => {
                    let rest: Vec<Field> = args.by_ref().cloned().collect();
                    dynamic.extend(self.git_runs(
                        text,
                        &rest,
                        call,
                        Place { reach: &reach, ..place },
                    ));
                }
                _ if text.starts_with('-') => {}
                _ => break,
            }
        }
        dynamic
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
            ("submodule", [each, inner @ ..]) if each.is("foreach") => {
                let inner = match inner {
                    [option, inner @ ..]
                        if matches!(option.find(), Some("--recursive" | "-q" | "--quiet")) =>
                    {
                        inner
                    }
                    all => all,
                };
                self.shell_line(&Field::known(&joined(inner)), call, place)
            }
            ("rebase" | "filter-branch", rest) => {
                let mut dynamic = Vec::new();
                let mut rest = rest.iter();
                while let Some(arg) = rest.next() {
                    let text = match arg.text.split_once('=') {
                        Some(("--exec", text)) => Some(text.to_owned()),
                        _ if arg.is("-x") || arg.is("--exec") || arg.text.ends_with("-filter") => {
                            rest.next().map(|text| text.text.clone())
                        }
                        _ => None,
                    };
                    if let Some(text) = text {
                        dynamic.extend(self.shell_line(&Field::known(&text), call, place));
                    }
                }
                dynamic
            }
            _ => Vec::new(),
        }
    }

    /// Options of `tar` and `rsync` that name programs.
    pub(super) fn program_options(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let reach = place.reach.through(call.name);
        let place = Place { reach: &reach, ..place };
        let mut dynamic = Vec::new();
        let mut args = call.args.iter().peekable();
        while let Some(arg) = args.next() {
            let text = arg.text.as_str();
            let value = match text.split_once('=') {
                Some(("--checkpoint-action", action)) => {
                    action.strip_prefix("exec=").map(str::to_owned)
                }
                Some((
                    "--to-command"
                    | "--use-compress-program"
                    | "--rsh"
                    | "--rsync-path"
                    | "--info-script"
                    | "--new-volume-script"
                    | "--rmt-command"
                    | "--rsh-command",
                    value,
                )) => Some(value.to_owned()),
                _ => None,
            };
            let mut next = || args.peek().map(|next| next.text.clone());
            let value = match text {
                "--checkpoint-action" => {
                    next().and_then(|action| action.strip_prefix("exec=").map(str::to_owned))
                }
                "--to-command"
                | "--use-compress-program"
                | "--rsh"
                | "--rsync-path"
                | "--info-script" => next(),
                "-I" if call.name.ends_with("tar") => next(),
                "-F" if call.name == "tar" => next(),
                "-e" if call.name == "rsync" => next(),
                "-S" if matches!(call.name, "scp" | "sftp") => next(),
                _ => value,
            };
            if let Some(value) = value {
                dynamic.extend(self.shell_line(&Field::known(&value), call, place));
            }
        }
        dynamic
    }

    pub(super) fn scheduled(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let reach = place.reach.through(call.name).reading(Input::Unknown);
        if call.name == "crontab" {
            let reads = call.args.is_empty()
                || call.args.iter().any(|arg| !arg.text.starts_with('-') || arg.is("-"));
            return if reads { vec![Dynamic::Input] } else { Vec::new() };
        }
        if call.args.iter().any(|arg| matches!(arg.find(), Some("-l" | "-d" | "-r" | "-c"))) {
            return Vec::new();
        }
        match &place.reach.input {
            Input::Text(text) => {
                let text = Field::known(text);
                self.shell_line(&text, call, Place { reach: &reach, ..place })
            }
            Input::Network => vec![Dynamic::Input, Dynamic::Network],
            Input::Unknown => vec![Dynamic::Input],
        }
    }
}
