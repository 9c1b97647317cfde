//! Shells and interpreters: text and files that they run.

use super::field::{Field, GAP};
use super::paths::touched;
use super::redirects::is_sink;
use super::run::{Call, is_standard_input};
use super::scripts::{ScriptDeeds, awk, sed};
use super::{Input, Place, Walker};
use crate::finding::{Dynamic, Finding, Kind, Touch};
use crate::shell::Dialect;

const SHELLS: &[&str] =
    &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "rsh", "yash"];

/// Options of shells that take the next argument.
const SHELL_VALUES: &[&str] = &["--rcfile", "--init-file", "-O", "+O", "--emulate"];

/// Interpreters, with the options after which code stands.
const LANGUAGES: &[(&[&str], &[&str])] = &[
    (&["perl"], &["-e", "-E"]),
    (&["ruby", "jruby"], &["-e"]),
    (&["node", "nodejs", "bun"], &["-e", "--eval", "-p", "--print", "-pe"]),
    (&["deno"], &["eval"]),
    (&["php"], &["-r", "-B", "-R", "-E"]),
    (
        &["lua", "luajit", "Rscript", "R", "julia", "elixir", "guile", "scala", "groovy", "ghc"],
        &["-e", "-E"],
    ),
    (&["osascript", "swipl", "erl"], &["-e", "-g", "-eval"]),
    (&["tclsh", "expect"], &["-c"]),
    (&["pwsh", "powershell"], &["-c", "-Command", "-EncodedCommand", "-e"]),
    (&["fish", "csh", "tcsh", "nu", "xonsh", "elvish"], &["-c", "-C"]),
    (&["psql", "mysql", "mariadb"], &["-c", "-e", "-f"]),
    (&["dc", "gnuplot", "octave", "lftp", "ocaml", "racket", "clojure"], &["-e", "-c", "--eval"]),
    (&["sbcl", "irb", "jshell", "ghci", "m4"], &["--eval", "-e"]),
    (
        &["ed", "ex", "gdb", "vi", "vim", "nvim", "emacs"],
        &["-c", "+", "--cmd", "-ex", "--eval", "--command"],
    ),
];

const AWKS: &[&str] = &["awk", "gawk", "mawk", "nawk", "original-awk"];

impl Walker {
    pub(super) fn interprets(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let name = call.name;
        if SHELLS.contains(&name) {
            return self.shell(call, place);
        }
        if is_python(name) {
            return self.python(call, place);
        }
        if AWKS.contains(&name) {
            return self.script_deeds(awk(call), call, place);
        }
        if matches!(name, "sed" | "gsed") {
            return self.script_deeds(sed(call), call, place);
        }
        if name == "sqlite3" {
            // A second operand is code, and commands among it run programs.
            let operands = call.args.iter().filter(|arg| !arg.text.starts_with('-')).count();
            let given = operands > 1 || call.args.iter().any(|arg| arg.is("-cmd"));
            return vec![if given { Dynamic::Language } else { Dynamic::Input }];
        }
        if let Some((_, options)) = LANGUAGES.iter().find(|(names, _)| names.contains(&name)) {
            return self.language(call, options, place);
        }
        Vec::new()
    }

    /// Files that a script writes are found as if they were redirections.
    fn script_deeds(
        &mut self,
        deeds: ScriptDeeds,
        call: &Call<'_>,
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        for file in &deeds.writes {
            let touches = touched(file, Touch::Overwrite, place.state);
            if touches.iter().all(|touch| is_sink(&touch.path.text)) {
                continue;
            }
            let mut finding = Finding::new(Kind::Redirect, format!("> {}", file.value().text));
            finding.as_root = place.reach.as_root;
            finding.via =
                place.reach.through(call.name).via.iter().map(|name| name.to_string()).collect();
            finding.span = Some(self.place(call.span));
            for touch in touches {
                finding.touch(touch.path, touch.how);
            }
            self.push(finding);
        }
        deeds.dynamic
    }

    fn shell(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let dialect = match call.name {
            "sh" | "dash" | "ash" => Dialect::Posix,
            _ => Dialect::Bash,
        };
        let mut args = call.args;
        let mut text_follows = false;
        let mut from_input = false;
        let mut dynamic = Vec::new();
        while let [first, rest @ ..] = args {
            if first.text.contains(GAP) || first.splits {
                if first.text.starts_with(GAP) || first.splits {
                    dynamic.push(Dynamic::Code);
                }
                break;
            }
            let text = first.text.as_str();
            if text == "--" || text == "-" {
                args = rest;
                break;
            }
            if !text.starts_with(['-', '+']) {
                break;
            }
            args = rest;
            if SHELL_VALUES.contains(&text) {
                if text.starts_with("--") {
                    dynamic.push(Dynamic::Script);
                }
                args = rest.get(1..).unwrap_or_default();
            } else if !text.starts_with("--") {
                text_follows |= text.starts_with('-') && text.contains('c');
                from_input |= text.starts_with('-') && text.contains('s');
                if text.contains('k') {
                    dynamic.push(Dynamic::Environment);
                }
                let values = text.bytes().filter(|byte| matches!(byte, b'o' | b'O')).count();
                args = args.get(values..).unwrap_or_default();
            }
        }
        let reach = place.reach.through(call.name);
        let inner = Place { reach: &reach, ..place };
        if text_follows {
            let Some((text, rest)) = args.split_first() else {
                return dynamic;
            };
            let positional = rest
                .iter()
                .map(|arg| arg.find().filter(|_| !arg.splits).map(str::to_owned))
                .collect();
            return self.shell_command(text, positional, dialect, call, inner, dynamic);
        }
        match args.first() {
            Some(file) if !from_input && !is_standard_input(&file.text) => {
                let network = file.network || self.was_fetched(file);
                dynamic.push(of_file(file, network));
                dynamic
            }
            _ => self.shell_input(dialect, call, inner, dynamic),
        }
    }

    fn shell_command(
        &mut self,
        text: &Field,
        positional: Option<Vec<String>>,
        dialect: Dialect,
        call: &Call<'_>,
        place: Place<'_>,
        mut dynamic: Vec<Dynamic>,
    ) -> Vec<Dynamic> {
        if text.find().is_none() || text.splits {
            dynamic.push(Dynamic::Code);
        }
        if text.network {
            dynamic.push(Dynamic::Network);
        }
        if !text.is_blank() {
            let place = Place { span: call.span, ..place };
            let positional = positional.map(|mut list: Vec<String>| {
                if list.is_empty() {
                    list.push(call.name.to_owned());
                }
                list
            });
            match dialect {
                Dialect::Bash => self.shell_text(&text.text, place, dialect, positional),
                Dialect::Posix => self.any_shell_text(&text.text, place, positional),
            }
        }
        dynamic
    }

    /// Walks over text for `sh`, which may be dash, bash, or a busybox that knows a good deal of it: what one
    /// of them reads and the other refuses counts as read.
    pub(super) fn any_shell_text(
        &mut self,
        text: &str,
        place: Place<'_>,
        positional: Option<Vec<String>>,
    ) {
        let matters = std::mem::replace(&mut self.dialect_matters, false);
        let before = self.found.len();
        self.shell_text(text, place, Dialect::Bash, positional.clone());
        if std::mem::replace(&mut self.dialect_matters, matters) {
            let bash = self.found.split_off(before);
            self.shell_text(text, place, Dialect::Posix, positional);
            let posix = self.found.split_off(before);
            for finding in crate::act::in_either(bash, posix) {
                self.push(finding);
            }
        }
    }

    fn shell_input(
        &mut self,
        dialect: Dialect,
        call: &Call<'_>,
        place: Place<'_>,
        mut dynamic: Vec<Dynamic>,
    ) -> Vec<Dynamic> {
        match &place.reach.input {
            Input::Text(text) => {
                if text.contains(GAP) {
                    dynamic.push(Dynamic::Code);
                }
                let reach = place.reach.reading(Input::Unknown);
                let place = Place { span: call.span, reach: &reach, ..place };
                let text = text.clone();
                match dialect {
                    Dialect::Bash => self.shell_text(&text, place, dialect, None),
                    Dialect::Posix => self.any_shell_text(&text, place, None),
                }
            }
            Input::Network => dynamic.extend([Dynamic::Input, Dynamic::Network]),
            Input::Unknown => dynamic.push(Dynamic::Input),
        }
        dynamic
    }

    fn python(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let mut args = call.args;
        let mut dynamic = Vec::new();
        let reach = place.reach.through(call.name);
        let inner = Place { reach: &reach, span: call.span, ..place };
        while let [first, rest @ ..] = args {
            let text = first.text.as_str();
            if first.splits && text.starts_with(GAP) {
                dynamic.push(Dynamic::Code);
                return dynamic;
            }
            if text == "-" || is_standard_input(text) || !text.starts_with('-') {
                break;
            }
            args = rest;
            if text.starts_with("--") {
                continue;
            }
            let letters = &text[1..];
            if let Some(at) = letters.find(['c', 'm', 'W', 'X']) {
                let attached = &letters[at + 1..];
                let value = if attached.is_empty() {
                    args.first().cloned()
                } else {
                    Some(Field { text: attached.to_owned(), ..first.clone() })
                };
                match &letters[at..=at] {
                    "c" => {
                        if let Some(code) = value {
                            dynamic.extend(self.python_code(&code, inner));
                        }
                        return dynamic;
                    }
                    "m" => {
                        let module = value.as_ref().and_then(Field::find).unwrap_or_default();
                        let rest = args.get(usize::from(attached.is_empty())..).unwrap_or_default();
                        return self.python_module(module, rest, inner);
                    }
                    _ if attached.is_empty() => args = args.get(1..).unwrap_or_default(),
                    _ => {}
                }
            }
        }
        let asks =
            |arg: &Field| matches!(arg.find(), Some("-V" | "-VV" | "--version" | "-h" | "--help"));
        if call.args.first().is_some_and(asks) {
            return dynamic;
        }
        match args.first() {
            Some(file) if !file.is("-") && !is_standard_input(&file.text) => {
                let network = file.network || self.was_fetched(file);
                dynamic.push(of_file(file, network));
            }
            _ => match &place.reach.input {
                Input::Text(text) => {
                    let code = Field::known(text);
                    dynamic.extend(self.python_code(&code, inner));
                }
                Input::Network => dynamic.extend([Dynamic::Input, Dynamic::Network]),
                Input::Unknown => dynamic.push(Dynamic::Input),
            },
        }
        dynamic
    }

    /// Modules that run code or files that their arguments name.
    fn python_module(&mut self, module: &str, args: &[Field], place: Place<'_>) -> Vec<Dynamic> {
        let mut dynamic = Vec::new();
        match module {
            "timeit" => {
                for code in args.iter().filter(|arg| !arg.text.starts_with('-')) {
                    dynamic.extend(self.python_code(code, place));
                }
            }
            "pdb" | "trace" | "cProfile" | "profile" | "runpy" | "doctest" | "bdb" => {
                dynamic.push(Dynamic::Script);
            }
            "code" | "IPython" | "asyncio" | "idlelib" => dynamic.push(Dynamic::Input),
            "" => dynamic.push(Dynamic::Name),
            _ => {}
        }
        dynamic
    }

    fn language(&mut self, call: &Call<'_>, code: &[&str], place: Place<'_>) -> Vec<Dynamic> {
        let mut dynamic = Vec::new();
        let has_code = call.args.iter().any(|arg| {
            let text = arg.text.as_str();
            code.iter().any(|option| {
                text == *option
                    || (option.len() == 2 && text.starts_with(option))
                    // Clusters such as `-ne` and `-lane`.
                    || (option.len() == 2
                        && text.starts_with('-')
                        && !text.starts_with("--")
                        && text.ends_with(&option[1..])
                        && text.len() <= 6)
            })
        });
        if has_code {
            dynamic.push(Dynamic::Language);
        }
        if call.args.iter().any(|arg| arg.network) {
            dynamic.push(Dynamic::Network);
        }
        let file = call.args.iter().find(|arg| !arg.text.starts_with('-'));
        match file {
            _ if has_code || code.is_empty() => {}
            Some(file) if self.was_fetched(file) => dynamic.push(Dynamic::Network),
            Some(_) => dynamic.push(Dynamic::Script),
            None if call.args.iter().any(|arg| {
                matches!(arg.find(), Some("-v" | "--version" | "-h" | "--help" | "-V"))
            }) => {}
            None => {
                dynamic.extend([Dynamic::Input, Dynamic::Language]);
                if matches!(place.reach.input, Input::Network) {
                    dynamic.push(Dynamic::Network);
                }
            }
        }
        dynamic
    }
}

/// What is not known of a script in a file; one that another command prints is put together.
pub(super) fn of_file(file: &Field, network: bool) -> Dynamic {
    if network {
        Dynamic::Network
    } else if file.text.starts_with("/dev/fd/") || file.text.starts_with("/proc/self/fd/") {
        Dynamic::Code
    } else {
        Dynamic::Script
    }
}

/// Whether what stands among the arguments of a program may be code.
pub(crate) fn takes_code(name: &str) -> bool {
    let of_language = |(names, _): &(&[&str], &[&str])| names.contains(&name);
    is_python(name)
        || AWKS.contains(&name)
        || matches!(name, "sed" | "gsed" | "sqlite3")
        || LANGUAGES.iter().any(of_language)
}

pub(crate) fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}
