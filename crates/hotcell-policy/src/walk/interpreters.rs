//! Shells and interpreters: text and files that they run.

use super::field::{Field, GAP};
use super::run::{Call, is_standard_input};
use super::{Input, Place, Walker};
use crate::finding::Dynamic;
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
    (&["psql", "mysql", "sqlite3"], &[]),
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
            return awk(call);
        }
        if matches!(name, "sed" | "gsed") {
            return sed(call);
        }
        if let Some((_, options)) = LANGUAGES.iter().find(|(names, _)| names.contains(&name)) {
            return self.language(call, options, place);
        }
        Vec::new()
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
                dynamic.push(if network { Dynamic::Network } else { Dynamic::Script });
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
                    "m" => return dynamic,
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
                dynamic.push(if network { Dynamic::Network } else { Dynamic::Script });
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

pub(crate) fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Programs of awk run commands by `system`, by pipes and by `getline`.
fn awk(call: &Call<'_>) -> Vec<Dynamic> {
    let mut dynamic = Vec::new();
    let mut args = call.args.iter();
    let mut program: Option<&Field> = None;
    while let Some(arg) = args.next() {
        let text = arg.text.as_str();
        match text {
            "-f" | "--file" | "-E" | "--exec" | "-i" | "--include" | "-l" | "--load" => {
                dynamic.push(Dynamic::Script)
            }
            "-F" | "-v" | "--field-separator" | "--assign" => {
                args.next();
                continue;
            }
            "-e" | "--source" => {
                program = args.next();
                break;
            }
            _ if text.starts_with("-f") || text.starts_with("--file=") => {
                dynamic.push(Dynamic::Script)
            }
            _ if text.starts_with('-') => continue,
            _ => {
                program = Some(arg);
                break;
            }
        }
        if !dynamic.is_empty() {
            return dynamic;
        }
    }
    match program {
        Some(program) if program.find().is_none() => dynamic.push(Dynamic::Code),
        Some(program) => {
            let text = without_strings(&program.text);
            let plain = text.replace("||", "");
            if text.contains("system")
                || plain.contains('|')
                || text.contains("getline")
                || text.contains('@')
            {
                dynamic.push(Dynamic::Language);
            }
        }
        None => {}
    }
    dynamic
}

/// The text of a program without what stands in its strings.
fn without_strings(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    let mut escaped = false;
    for letter in text.chars() {
        if escaped {
            escaped = false;
        } else if letter == '\\' {
            escaped = true;
        } else if letter == '"' {
            within = !within;
        } else if !within {
            out.push(letter);
        }
    }
    out
}

/// Scripts of GNU sed run commands by `e`.
fn sed(call: &Call<'_>) -> Vec<Dynamic> {
    let mut scripts: Vec<&Field> = Vec::new();
    let mut dynamic = Vec::new();
    let mut args = call.args.iter();
    let mut operands = Vec::new();
    while let Some(arg) = args.next() {
        match arg.text.as_str() {
            "-e" | "--expression" => scripts.extend(args.next()),
            "-f" | "--file" => {
                args.next();
                dynamic.push(Dynamic::Script);
            }
            text if text.starts_with('-') => {
                if !text.starts_with("--") && text.contains('f') {
                    dynamic.push(Dynamic::Script);
                } else if !text.starts_with("--") && text.ends_with('e') {
                    scripts.extend(args.next());
                } else if text.starts_with("--expression=") {
                    scripts.push(arg);
                }
            }
            _ => operands.push(arg),
        }
    }
    if scripts.is_empty() && dynamic.is_empty() {
        scripts.extend(operands.first());
    }
    for script in scripts {
        let text = script.text.strip_prefix("--expression=").unwrap_or(&script.text);
        if text.contains(GAP) {
            dynamic.push(Dynamic::Code);
        } else if sed_runs(text) {
            dynamic.push(Dynamic::Language);
        }
    }
    dynamic
}

fn sed_runs(script: &str) -> bool {
    script.split([';', '\n', '{', '}']).any(|command| {
        let command = command.trim_start_matches(|letter: char| {
            letter.is_ascii_digit()
                || letter.is_whitespace()
                || matches!(letter, '$' | ',' | '!' | '~' | '+')
        });
        if command == "e" || command.starts_with("e ") || command.starts_with("e\t") {
            return true;
        }
        let command = match command.strip_prefix('/') {
            // An address by pattern: what follows its end.
            Some(rest) => rest.split_once('/').map_or("", |(_, after)| after.trim_start()),
            None => command,
        };
        if command.starts_with("e ") || command == "e" {
            return true;
        }
        let Some(rest) = command.strip_prefix('s') else {
            return false;
        };
        let Some(delimiter) = rest.chars().next() else {
            return false;
        };
        let parts: Vec<&str> = rest.split(delimiter).collect();
        parts.len() >= 4 && parts.last().is_some_and(|flags| flags.contains('e'))
    })
}
