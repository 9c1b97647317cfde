//! Commands that run other commands: `env`, `sudo`, `xargs`, `find -exec`, `timeout`…

use super::field::{Field, GAP};
use super::options::{Options, Spec, options};
use super::run::{Call, joined, unsure};
use super::variables::is_decisive;
use super::wrapper_options::{ENV, FLOCK, SCRIPT, SSH, SU, SUDO, WATCH, WRAPPERS, Wrapper, XARGS};
use super::{Input, Place, Reach, Walker};
use crate::finding::Dynamic;
use crate::shell::Dialect;

impl Walker {
    /// Walks over what a command runs in turn. What cannot be known of that is returned.
    pub(super) fn runs_others(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        match call.name {
            "env" => self.env(call, place),
            "sudo" | "doas" => self.sudo(call, place),
            "su" | "runuser" => self.su(call, place),
            "xargs" => self.xargs(call, place),
            "find" | "gfind" => self.find_exec(call, place),
            "parallel" => self.parallel(call, place),
            "watch" => {
                let given = options(WATCH, call.args);
                let reach = place.reach.through("watch");
                let mut dynamic = given.dynamic();
                if given.has(&["x", "exec"]) {
                    self.rest(call, given.rest, place, &reach);
                } else {
                    dynamic.extend(self.line(call, given.rest, Place { reach: &reach, ..place }));
                }
                dynamic
            }
            "flock" => self.flock(call, place),
            "script" => self.text_option(call, options(SCRIPT, call.args), place),
            "ssh" | "autossh" | "mosh" => self.ssh(call, place),
            "busybox" | "toybox" => self.applet(call, place),
            "git" => self.git_settings(call, place),
            "at" | "batch" | "crontab" => self.scheduled(call, place),
            name => match WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
                Some(wrapper) => self.wrapped(call, wrapper, place),
                None => match self.runs_by_option(call, place) {
                    Some(dynamic) => dynamic,
                    None => self.interprets(call, place),
                },
            },
        }
    }

    /// Runs the rest of a command line.
    pub(super) fn rest(
        &mut self,
        call: &Call<'_>,
        rest: &[Field],
        place: Place<'_>,
        reach: &Reach,
    ) {
        if !rest.is_empty() {
            let mut state = place.state.clone();
            self.run_with(rest, &[], call.span, &mut state, reach);
        }
    }

    fn wrapped(&mut self, call: &Call<'_>, wrapper: &Wrapper, place: Place<'_>) -> Vec<Dynamic> {
        let given = options(wrapper.spec, call.args);
        let operands = given.rest.get(..wrapper.operands).unwrap_or(given.rest);
        let mut dynamic = given.dynamic();
        if unsure(operands) {
            dynamic.push(Dynamic::Name);
        }
        let mut rest = given.rest.get(wrapper.operands..).unwrap_or_default();
        // `setarch x86_64 CMD`, and a `--` after operands.
        if call.name == "setarch"
            && rest.first().is_some_and(|first| !first.text.contains('/'))
            && rest.len() > 1
        {
            rest = &rest[1..];
        }
        if rest.first().is_some_and(|first| first.is("--")) {
            rest = &rest[1..];
        }
        let mut reach = place.reach.through(call.name);
        if matches!(call.name, "pkexec" | "fakeroot") {
            reach.as_root = true;
        }
        if matches!(call.name, "gosu" | "su-exec") {
            reach.as_root = operands.first().is_none_or(|user| {
                user.find().is_none_or(|user| user.starts_with("root") || user.starts_with('0'))
            });
        }
        let starts_shell = rest.is_empty() && matches!(call.name, "chroot" | "unshare" | "nsenter");
        self.rest(call, rest, place, &reach);
        if starts_shell {
            dynamic.push(Dynamic::Input);
        }
        dynamic
    }

    fn env(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let given = options(ENV, call.args);
        let mut dynamic = Vec::new();
        let mut rest: Vec<Field> = Vec::new();
        for text in given.all(&["S", "split-string"]) {
            if text.find().is_none() || text.text.contains(['\\', '$', '\'', '"', '#']) {
                dynamic.push(Dynamic::Code);
            }
            let words = text.text.split_ascii_whitespace();
            rest.extend(words.map(|word| Field::known(word.trim_matches(['\'', '"']))));
        }
        rest.extend_from_slice(given.rest);
        let mut state = place.state.clone();
        let mut sets = Vec::new();
        let mut start = 0;
        // What `-S` put there may have options of its own.
        while let Some(field) = rest.get(start) {
            if let Some((name, value)) = field.text.split_once('=') {
                sets.push(name.to_owned());
                if field.find().is_some() {
                    self.value_of(name, value, call.span, &state, place.reach);
                }
            } else if !(field.is("-") || field.text.starts_with('-')) {
                break;
            } else if field.text.len() > 1 {
                let inner = options(ENV, &rest[start..]);
                if inner.unsure || inner.has(&["S", "split-string"]) {
                    dynamic.push(Dynamic::Code);
                }
                start = rest.len() - inner.rest.len();
                continue;
            }
            start += 1;
        }
        if sets.iter().any(|name| is_decisive(name) || name.contains(GAP)) {
            dynamic.push(Dynamic::Environment);
        }
        if given.unsure {
            dynamic.push(Dynamic::Name);
        }
        if let Some(directory) = given.find(&["C", "chdir"]) {
            state.change_directory(directory.find());
            state = state.succeeded();
        }
        let rest = rest.get(start..).unwrap_or_default();
        if !rest.is_empty() {
            let (name, reach) = (given.find(&["a", "argv0"]).cloned(), place.reach.through("env"));
            self.called_otherwise(name, rest, call.span, &state, &reach);
            self.run_with(rest, &sets, call.span, &mut state, &place.reach.through("env"));
        }
        dynamic
    }

    fn sudo(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let spec = if call.name == "sudo" { SUDO } else { Spec { short: "Lnsa:C:u:", long: "" } };
        let given = options(spec, call.args);
        let mut rest = given.rest;
        let mut reach = place.reach.through(call.name);
        let user = given.find(&["u", "user"]).map(|user| user.find().unwrap_or("root").to_owned());
        reach.as_root = user.is_none_or(|user| user == "root" || user == "#0");
        let mut sets = Vec::new();
        while let [first, after @ ..] = rest
            && let Some((name, value)) = first.text.split_once('=')
            && !name.contains('/')
        {
            sets.push(name.to_owned());
            if first.find().is_some() {
                self.value_of(name, value, call.span, place.state, &reach);
            }
            rest = after;
        }
        let mut dynamic = given.dynamic();
        if given.has(&["s", "i", "shell", "login"]) {
            dynamic.extend(self.line(call, rest, Place { reach: &reach, ..place }));
            return dynamic;
        }
        if sets.iter().any(|name| is_decisive(name)) {
            dynamic.push(Dynamic::Environment);
        }
        let mut state = place.state.clone();
        if let Some(directory) = given.find(&["D", "chdir"]) {
            state.change_directory(directory.find());
            state = state.succeeded();
        }
        if !rest.is_empty() && !given.has(&["e", "edit", "l", "list"]) {
            self.run_with(rest, &sets, call.span, &mut state, &reach);
        }
        dynamic
    }

    fn su(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let mut reach = place.reach.through(call.name);
        let mut dynamic = Vec::new();
        let mut texts: Vec<Field> = Vec::new();
        let mut operands: Vec<&Field> = Vec::new();
        let mut args = call.args;
        let mut user = None;
        // Options may follow operands.
        loop {
            let given = options(SU, args);
            if given.unsure {
                dynamic.push(Dynamic::Name);
            }
            texts.extend(given.all(&["c", "command", "session-command"]).cloned());
            user = given.find(&["u", "user"]).cloned().or(user);
            let Some((first, after)) = given.rest.split_first() else { break };
            if call.name == "runuser" && user.is_some() {
                reach.as_root = user.as_ref().is_some_and(|user| user.is("root"));
                self.rest(call, given.rest, place, &reach);
                return dynamic;
            }
            operands.push(first);
            args = after;
        }
        let user = operands.iter().find(|operand| !operand.is("-"));
        reach.as_root = user.is_none_or(|user| user.find().is_none_or(|user| user == "root"));
        for text in &texts {
            dynamic.extend(self.shell_line(text, call, Place { reach: &reach, ..place }));
        }
        if texts.is_empty() {
            dynamic.push(Dynamic::Input);
        }
        dynamic
    }

    /// A text that a shell runs, which may not be known.
    pub(super) fn shell_line(
        &mut self,
        text: &Field,
        call: &Call<'_>,
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        let mut dynamic = Vec::new();
        if text.find().is_none() {
            dynamic.push(Dynamic::Code);
        }
        if text.network {
            dynamic.push(Dynamic::Network);
        }
        if !text.is_blank() {
            self.shell_text(&text.text, Place { span: call.span, ..place }, Dialect::Bash, None);
        }
        dynamic
    }

    /// Words that are joined for a shell.
    pub(super) fn line(
        &mut self,
        call: &Call<'_>,
        words: &[Field],
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        if words.is_empty() {
            return vec![Dynamic::Input];
        }
        let mut text = Field::known(&joined(words));
        text.network = words.iter().any(|arg| arg.network);
        let mut dynamic = self.shell_line(&text, call, place);
        if unsure(words) {
            dynamic.push(Dynamic::Code);
        }
        dynamic
    }

    fn text_option(
        &mut self,
        call: &Call<'_>,
        given: Options<'_>,
        place: Place<'_>,
    ) -> Vec<Dynamic> {
        let reach = place.reach.through(call.name);
        let place = Place { reach: &reach, ..place };
        let mut dynamic = Vec::new();
        let mut found = false;
        // `script FILE -c TEXT`: options may follow operands.
        let mut rest = given.rest;
        let mut more = given;
        loop {
            for text in more.all(&["c", "command"]) {
                found = true;
                dynamic.extend(self.shell_line(text, call, place));
            }
            if more.unsure {
                dynamic.push(Dynamic::Name);
            }
            let Some((_, after)) = rest.split_first() else { break };
            more = options(SCRIPT, after);
            rest = more.rest;
        }
        if !found {
            dynamic.push(Dynamic::Input);
        }
        dynamic
    }

    fn flock(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let given = options(FLOCK, call.args);
        let reach = place.reach.through(call.name);
        let place = Place { reach: &reach, ..place };
        let rest = given.rest.get(1..).unwrap_or_default();
        let mut dynamic = given.dynamic();
        for text in given.all(&["c", "command"]) {
            dynamic.extend(self.shell_line(text, call, place));
        }
        match rest {
            [option, text, ..] if matches!(option.find(), Some("-c" | "--command")) => {
                dynamic.extend(self.shell_line(text, call, place));
            }
            _ => self.rest(call, rest, place, &reach),
        }
        dynamic
    }

    fn xargs(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let given = options(XARGS, call.args);
        let reach = place.reach.through("xargs").reading(Input::Unknown);
        let mut rest = given.rest.to_vec();
        if rest.is_empty() {
            return Vec::new();
        }
        let replaced = given.find(&["I", "replace", "i", "J"]).map(|field| field.text.clone());
        let known = match &place.reach.input {
            Input::Text(text)
                if !text.contains(['\'', '"', '\\', GAP]) && !given.has(&["a", "arg-file"]) =>
            {
                Some(text)
            }
            Input::Text(_) | Input::Network | Input::Unknown => None,
        };
        let network = matches!(place.reach.input, Input::Network);
        let gap = || Field { network, ..Field::unknown() };
        if let Some(pattern) = replaced {
            let pattern = if pattern.is_empty() { "{}".to_owned() } else { pattern };
            for field in &mut rest {
                if field.text.contains(&pattern) {
                    field.text = field.text.replace(&pattern, &GAP.to_string());
                    field.network |= network;
                }
            }
        } else if let Some(text) = known
            && text.split_ascii_whitespace().count() <= 256
        {
            rest.extend(text.split_ascii_whitespace().map(Field::known));
        } else {
            rest.push(gap());
        }
        self.rest(call, &rest, place, &reach);
        let mut dynamic = given.dynamic();
        let slot = given.find(&["process-slot-var"]);
        if slot.is_some_and(|name| is_decisive(&name.text) || name.text.contains(GAP)) {
            dynamic.push(Dynamic::Environment);
        }
        dynamic
    }

    fn find_exec(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let mut dynamic = Vec::new();
        let starts =
            call.args.iter().take_while(|arg| !arg.text.starts_with(['-', '(', '!'])).count();
        let unfiltered = call.args.get(starts).is_some_and(|arg| arg.text.starts_with("-exec"));
        let mut args = call.args.iter();
        while let Some(arg) = args.next() {
            if arg.text.starts_with(GAP) && arg.splits {
                dynamic.push(Dynamic::Name);
            }
            if !matches!(arg.find(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                continue;
            }
            let mut inner: Vec<Field> = Vec::new();
            let mut plus = false;
            for field in args.by_ref() {
                let ends = field.is(";") || (field.is("+") && plus);
                if ends {
                    break;
                }
                plus = field.is("{}");
                let mut field = field.clone();
                match call.args.first().filter(|_| unfiltered && starts == 1) {
                    // What is found first is where it starts.
                    Some(start) if field.is("{}") => field = start.clone(),
                    _ => field.text = field.text.replace("{}", &GAP.to_string()),
                }
                inner.push(field);
            }
            let mut state = place.state.clone();
            if arg.text.ends_with("dir") {
                state.change_directory(None);
            }
            let reach = place.reach.through("find").reading(Input::Unknown);
            if !inner.is_empty() {
                self.run_with(&inner, &[], call.span, &mut state, &reach);
            }
        }
        dynamic
    }

    fn parallel(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let spec = Spec {
            short: "j:P:k0a:d:I:n:N:L:l:X:mqs:S:tuvxi::",
            long: "jobs= max-procs= keep-order null arg-file= delimiter= colsep= max-args= max-replace-args= dry-run eta bar progress joblog= halt= retries= timeout= delay= tmpdir= results= pipe block= sshlogin= will-cite verbose ungroup line-buffer tag quote no-notice",
        };
        let given = options(spec, call.args);
        let end = given
            .rest
            .iter()
            .position(|arg| arg.text.starts_with("::::") || arg.text.starts_with(":::"));
        let words = given.rest.get(..end.unwrap_or(given.rest.len())).unwrap_or_default();
        if words.is_empty() {
            return vec![Dynamic::Input];
        }
        let mut text = joined(words).replace("{}", &GAP.to_string());
        text.push(' ');
        text.push(GAP);
        let reach = place.reach.through("parallel").reading(Input::Unknown);
        self.shell_line(&Field::known(&text), call, Place { reach: &reach, ..place })
    }

    fn ssh(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let given = options(SSH, call.args);
        let reach = place.reach.through(call.name);
        let mut dynamic = given.dynamic();
        for option in given.all(&["o"]) {
            if let Some((key, text)) = option.text.split_once(['=', ' '])
                && matches!(
                    key.to_ascii_lowercase().as_str(),
                    "proxycommand" | "localcommand" | "knownhostscommand"
                )
            {
                dynamic.extend(self.shell_line(
                    &Field::known(text),
                    call,
                    Place { reach: &reach, ..place },
                ));
            }
        }
        let mut rest = given.rest.get(1..).unwrap_or_default();
        if rest.first().is_some_and(|first| first.is("--")) {
            rest = &rest[1..];
        }
        if rest.is_empty() {
            if !given.has(&["N", "W"]) {
                dynamic.push(Dynamic::Input);
            }
            return dynamic;
        }
        dynamic.extend(self.line(call, rest, Place { reach: &reach, ..place }));
        dynamic
    }

    fn applet(&mut self, call: &Call<'_>, place: Place<'_>) -> Vec<Dynamic> {
        let listing =
            call.args.first().and_then(Field::find).is_some_and(|first| first.starts_with("--"));
        if listing {
            return Vec::new();
        }
        let reach = place.reach.through(call.name);
        self.rest(call, call.args, place, &reach);
        Vec::new()
    }
}
