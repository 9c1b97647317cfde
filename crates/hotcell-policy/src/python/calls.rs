//! Imports and calls, and what well-known ones do.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprCall, Stmt};

use super::names::Names;
use super::{Analysis, Deed, Started, span};
use crate::finding::{Dynamic, Finding, Kind, Touch, Value};
use crate::walk::{Field, is_decisive};

/// Modules that are there to use the network.
const NETWORK: &[&str] = &[
    "socket",
    "ssl",
    "socketserver",
    "urllib.request",
    "urllib3",
    "http.client",
    "http.server",
    "ftplib",
    "smtplib",
    "telnetlib",
    "poplib",
    "imaplib",
    "nntplib",
    "xmlrpc",
    "requests",
    "httpx",
    "aiohttp",
    "websocket",
    "websockets",
    "paramiko",
    "fabric",
    "boto3",
    "botocore",
    "grpc",
    "pycurl",
    "asyncssh",
    "scapy",
    "dns",
    "zmq",
    "pika",
    "redis",
    "psycopg2",
    "pymongo",
    "mysql",
    "openai",
    "anthropic",
    "google.cloud",
];

/// Calls that run a text in a shell.
const SHELL: &[&str] = &[
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "commands.getoutput",
    "asyncio.create_subprocess_shell",
    "pexpect.spawn",
    "pexpect.run",
    "invoke.run",
    "pty.spawn",
    "popen2.popen2",
];
const SUBPROCESS: &[&str] = &[
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.Popen",
];
/// Calls that run code that is not looked at.
const OPAQUE: &[(&str, Dynamic)] = &[
    ("pickle.load", Dynamic::Code),
    ("pickle.loads", Dynamic::Code),
    ("marshal.loads", Dynamic::Code),
    ("marshal.load", Dynamic::Code),
    ("dill.loads", Dynamic::Code),
    ("dill.load", Dynamic::Code),
    ("code.interact", Dynamic::Input),
    ("breakpoint", Dynamic::Input),
    ("pdb.set_trace", Dynamic::Input),
    ("runpy.run_path", Dynamic::Script),
    ("runpy.run_module", Dynamic::Script),
    ("types.FunctionType", Dynamic::Code),
    ("types.CodeType", Dynamic::Code),
    ("ctypes.CDLL", Dynamic::Language),
    ("ctypes.PyDLL", Dynamic::Language),
    ("ctypes.cdll.LoadLibrary", Dynamic::Language),
    ("cffi.FFI", Dynamic::Language),
    ("code.InteractiveInterpreter().runcode", Dynamic::Code),
    ("code.InteractiveInterpreter().runsource", Dynamic::Code),
    ("code.InteractiveConsole", Dynamic::Input),
    ("yaml.load", Dynamic::Code),
    ("yaml.unsafe_load", Dynamic::Code),
    ("shelve.open", Dynamic::Code),
    ("joblib.load", Dynamic::Code),
    ("torch.load", Dynamic::Code),
    ("os.putenv", Dynamic::Environment),
    ("os.environ.update", Dynamic::Environment),
    ("os.environ.setdefault", Dynamic::Environment),
    ("os.environ.__setitem__", Dynamic::Environment),
    ("sys.path.insert", Dynamic::Environment),
    ("sys.path.append", Dynamic::Environment),
    ("site.addsitedir", Dynamic::Environment),
    ("importlib.machinery.SourceFileLoader", Dynamic::Script),
    ("importlib.util.spec_from_file_location", Dynamic::Script),
];

/// What calls do to paths: which argument, and how.
const FILES: &[(&str, &[usize], Touch)] = &[
    ("os.remove", &[0], Touch::Remove),
    ("os.unlink", &[0], Touch::Remove),
    ("os.rmdir", &[0], Touch::Remove),
    ("os.removedirs", &[0], Touch::Remove),
    ("os.truncate", &[0], Touch::Remove),
    ("shutil.rmtree", &[0], Touch::Tree),
    ("os.rename", &[1], Touch::Overwrite),
    ("os.renames", &[1], Touch::Overwrite),
    ("os.replace", &[1], Touch::Overwrite),
    ("shutil.move", &[1], Touch::Overwrite),
    ("shutil.copy", &[1], Touch::Overwrite),
    ("shutil.copy2", &[1], Touch::Overwrite),
    ("shutil.copyfile", &[1], Touch::Overwrite),
    ("shutil.copytree", &[1], Touch::Overwrite),
    ("shutil.unpack_archive", &[1], Touch::Overwrite),
    ("os.mkdir", &[0], Touch::Write),
    ("os.makedirs", &[0], Touch::Write),
    ("os.symlink", &[1], Touch::Write),
    ("os.link", &[1], Touch::Write),
    ("os.chmod", &[0], Touch::Write),
    ("os.chown", &[0], Touch::Write),
    ("urllib.request.urlretrieve", &[1], Touch::Overwrite),
    ("zipfile.ZipFile().extractall", &[0], Touch::Overwrite),
    ("zipfile.ZipFile().extract", &[1], Touch::Overwrite),
    ("tarfile.open().extractall", &[0], Touch::Overwrite),
    ("tarfile.open().extract", &[1], Touch::Overwrite),
];
/// What methods do to the path they belong to, if they are called so on something that is not known.
const METHODS: &[(&str, Touch)] = &[
    ("write_text", Touch::Overwrite),
    ("write_bytes", Touch::Overwrite),
    ("unlink", Touch::Remove),
    ("rmdir", Touch::Remove),
    ("rmtree", Touch::Tree),
];
const OPENS: &[&str] = &[
    "open",
    "io.open",
    "io.FileIO",
    "_io.open",
    "_io.FileIO",
    "codecs.open",
    "gzip.open",
    "bz2.open",
    "lzma.open",
    "os.fdopen",
    "zipfile.ZipFile",
    "tarfile.open",
];
const EVALS: &[&str] = &[
    "eval",
    "exec",
    "compile",
    "timeit.timeit",
    "timeit.repeat",
    "timeit.Timer",
    "cProfile.run",
    "profile.run",
    "pdb.run",
];

/// No more than so many imports, calls and commands are looked at.
const MOST_DEEDS: usize = 20_000;

/// Finds what a module does.
pub(super) fn deeds(suite: &[Stmt]) -> Analysis {
    let names = Names::of(suite);
    let mut calls = Calls { names: &names, analysis: Analysis::default() };
    calls.visit_body(suite);
    calls.analysis
}

struct Calls<'n, 'a> {
    names: &'n Names<'a>,
    analysis: Analysis,
}

fn is_network(module: &str) -> bool {
    NETWORK.iter().any(|known| {
        module
            .strip_prefix(known)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('('))
    })
}

impl<'a> Calls<'_, 'a> {
    fn push(&mut self, finding: Finding) {
        self.add(Deed::Found(Box::new(finding)));
    }

    fn add(&mut self, deed: Deed) {
        if self.analysis.deeds.len() < MOST_DEEDS {
            self.analysis.deeds.push(deed);
        } else {
            self.analysis.more = true;
        }
    }

    fn import(&mut self, module: &str, stmt: &Stmt) {
        let mut finding = Finding::named(Kind::Import, module).at(stmt);
        finding.network = is_network(module).then(Vec::new);
        self.push(finding);
    }

    fn argument(&self, call: &'a ExprCall, index: usize, names: &[&str]) -> Option<&'a Expr> {
        let by_name = call.arguments.keywords.iter().find(|keyword| {
            keyword.arg.as_ref().is_some_and(|name| names.contains(&name.as_str()))
        });
        call.arguments.args.get(index).or(by_name.map(|keyword| &keyword.value))
    }

    fn text_argument(&self, call: &'a ExprCall, index: usize, names: &[&str]) -> Field {
        let starred = call.arguments.args.iter().take(index + 1).any(Expr::is_starred_expr);
        let argument = self.argument(call, index, names).filter(|_| !starred);
        argument.map_or_else(Field::unknown, |arg| self.names.text(arg))
    }

    fn call(&mut self, call: &'a ExprCall, name: &str) {
        let mut finding = Finding::named(Kind::Call, name).at(call);
        finding.args =
            call.arguments.args.iter().take(16).map(|arg| self.names.text(arg).value()).collect();
        if is_network(name) || name == "asyncio.open_connection" {
            let hosts = call.arguments.args.iter().take(4);
            finding.network = Some(hosts.filter_map(|arg| host(&self.names.text(arg))).collect());
        }
        if name == "os.chdir" || name == "os.fchdir" {
            self.analysis.moves = true;
        }
        if let Some((_, what)) = OPAQUE.iter().find(|(known, _)| *known == name) {
            finding.is_dynamic(*what);
        }
        if name.starts_with("ctypes.pythonapi") {
            finding.is_dynamic(Dynamic::Language);
        }
        self.imports_by_name(call, name, &mut finding);
        self.files(call, name, &mut finding);
        let started = self.started(call, name, &mut finding);
        self.push(finding);
        let directory = call
            .arguments
            .keywords
            .iter()
            .find(|keyword| keyword.arg.as_ref().is_some_and(|name| name.as_str() == "cwd"))
            .map(|keyword| self.names.text(&keyword.value));
        for started in started {
            self.add(Deed::Starts(started, span(call), directory.clone()));
        }
    }

    fn imports_by_name(&mut self, call: &'a ExprCall, name: &str, finding: &mut Finding) {
        if matches!(name, "__import__" | "importlib.import_module" | "importlib.__import__") {
            let module = self.text_argument(call, 0, &["name"]);
            match module.find() {
                Some(module) => {
                    let mut import = Finding::named(Kind::Import, module).at(call);
                    import.network = is_network(module).then(Vec::new);
                    self.push(import);
                }
                None => finding.is_dynamic(Dynamic::Name),
            }
        }
        if name == "getattr"
            && let [object, attribute, ..] = &call.arguments.args[..]
            && !self.names.full(object).is_empty()
            && self.names.text(attribute).find().is_none()
        {
            finding.is_dynamic(Dynamic::Name);
        }
    }

    fn files(&mut self, call: &'a ExprCall, name: &str, finding: &mut Finding) {
        if let Some((_, indexes, how)) = FILES.iter().find(|(known, ..)| *known == name) {
            for index in *indexes {
                let path = self.text_argument(
                    call,
                    *index,
                    &["dst", "path", "name", "filename", "target"],
                );
                touch(finding, &path, *how);
            }
        }
        if OPENS.contains(&name) {
            let mode = match self.argument(call, 1, &["mode"]) {
                Some(mode) => self.names.text(mode),
                None => Field::known("r"),
            };
            let path = self.text_argument(call, 0, &["file", "filename", "name"]);
            if let Some(how) = how_opened(&mode.text) {
                touch(finding, &path, how);
            }
        }
        if name == "fileinput.input" && self.argument(call, 3, &["inplace"]).is_some() {
            touch(finding, &self.text_argument(call, 0, &["files"]), Touch::Overwrite);
        }
        if name == "os.open" && self.argument(call, 1, &["flags"]).is_some() {
            let path = self.text_argument(call, 0, &["path"]);
            touch(finding, &path, Touch::Write);
        }
        if let Some(method) = name.strip_prefix("pathlib.Path().") {
            let path = if let Expr::Attribute(attribute) = call.func.as_ref() {
                self.names.text(&attribute.value)
            } else {
                Field::unknown()
            };
            match method {
                "open" => {
                    let mode = self.argument(call, 0, &["mode"]).map(|mode| self.names.text(mode));
                    let mode = mode.unwrap_or_else(|| Field::known("r"));
                    if let Some(how) = how_opened(&mode.text) {
                        touch(finding, &path, how);
                    }
                }
                "rename" | "replace" => {
                    touch(finding, &self.text_argument(call, 0, &["target"]), Touch::Overwrite)
                }
                "touch" | "mkdir" | "symlink_to" | "hardlink_to" | "chmod" => {
                    touch(finding, &path, Touch::Write)
                }
                _ => {
                    if let Some((_, how)) = METHODS.iter().find(|(known, _)| *known == method) {
                        touch(finding, &path, *how);
                    }
                }
            }
        }
    }

    fn started(&mut self, call: &'a ExprCall, name: &str, finding: &mut Finding) -> Vec<Started> {
        if EVALS.contains(&name) {
            let code = self.text_argument(call, 0, &["source", "stmt", "statement"]);
            if code.find().is_some() {
                return vec![Started::Code(code)];
            }
            finding.is_dynamic(Dynamic::Code);
            return Vec::new();
        }
        if SHELL.contains(&name) {
            let text = self.text_argument(call, 0, &["cmd", "command"]);
            if text.find().is_none() && self.names.elements(&call.func).is_none() {
                finding.is_dynamic(Dynamic::Code);
            }
            return vec![Started::Text(text)];
        }
        if SUBPROCESS.contains(&name) {
            return self.subprocess(call, finding);
        }
        let args = &call.arguments.args[..];
        let skip = match name {
            "asyncio.create_subprocess_exec" => 0,
            "os.execl" | "os.execle" | "os.execlp" | "os.execlpe" => 1,
            "os.spawnl" | "os.spawnle" | "os.spawnlp" | "os.spawnlpe" => 2,
            "os.execv" | "os.execve" | "os.execvp" | "os.execvpe" | "os.posix_spawn"
            | "os.posix_spawnp" => {
                return self.program(args.first(), args.get(1), finding);
            }
            "os.spawnv" | "os.spawnve" | "os.spawnvp" | "os.spawnvpe" => {
                return self.program(args.get(1), args.get(2), finding);
            }
            _ => return Vec::new(),
        };
        let mut argv: Vec<Field> = args.iter().skip(skip).map(|arg| self.names.text(arg)).collect();
        if skip > 0
            && let Some(path) = args.get(skip - 1)
        {
            let path = self.names.text(path);
            if argv.is_empty() {
                argv.push(path);
            } else {
                argv[0] = path;
            }
        }
        vec![Started::Program(argv)]
    }

    fn program(
        &self,
        path: Option<&'a Expr>,
        list: Option<&'a Expr>,
        finding: &mut Finding,
    ) -> Vec<Started> {
        let path = path.map_or_else(Field::unknown, |path| self.names.text(path));
        let mut argv = vec![path];
        match list.and_then(|list| self.names.elements(list)) {
            Some(elements) => {
                argv.extend(elements.iter().skip(1).map(|element| self.names.text(element)))
            }
            None => {
                finding.is_dynamic(Dynamic::Code);
                argv.push(Field::unknown());
            }
        }
        vec![Started::Program(argv)]
    }

    fn subprocess(&mut self, call: &'a ExprCall, finding: &mut Finding) -> Vec<Started> {
        let shell = call
            .arguments
            .keywords
            .iter()
            .find(|keyword| keyword.arg.as_ref().is_none_or(|name| name.as_str() == "shell"));
        let in_shell = shell.is_some_and(|keyword| {
            keyword.value.as_boolean_literal_expr().is_none_or(|literal| literal.value)
        });
        let named = |wanted: &str| {
            call.arguments
                .keywords
                .iter()
                .find(|keyword| keyword.arg.as_ref().is_some_and(|name| name.as_str() == wanted))
        };
        if named("env").is_some_and(|keyword| self.sets_decisive(&keyword.value)) {
            finding.is_dynamic(Dynamic::Environment);
        }
        if let Some(program) = named("executable") {
            // What is started is this, whatever the arguments call it.
            let list = self.argument(call, 0, &["args"]);
            return self.program(Some(&program.value), list, finding);
        }
        let Some(command) = self.argument(call, 0, &["args"]) else {
            finding.is_dynamic(Dynamic::Code);
            return Vec::new();
        };
        if let Some(elements) = self.names.elements(command) {
            let fields: Vec<Field> = elements
                .iter()
                .map(|element| {
                    if element.is_starred_expr() {
                        Field::unknown()
                    } else {
                        self.names.text(element)
                    }
                })
                .collect();
            if in_shell && let Some(first) = fields.first() {
                return vec![Started::Text(first.clone())];
            }
            return vec![Started::Program(fields)];
        }
        if let Expr::Call(inner) = command
            && self.names.full(&inner.func).iter().any(|name| name == "shlex.split")
            && let Some(text) = inner.arguments.args.first()
        {
            return vec![Started::Text(self.names.text(text))];
        }
        let text = self.names.text(command);
        if text.find().is_none() {
            finding.is_dynamic(Dynamic::Code);
        }
        if in_shell || text.find().is_none() {
            vec![Started::Text(text)]
        } else {
            vec![Started::Program(vec![text])]
        }
    }

    /// Whether an expression for an environment may set what decides what runs.
    fn sets_decisive(&self, env: &'a Expr) -> bool {
        let Expr::Dict(dict) = env else {
            return false;
        };
        dict.items.iter().filter_map(|item| item.key.as_ref()).any(|key| {
            let name = self.names.text(key);
            name.find().is_none_or(is_decisive)
        })
    }

    /// `os.environ["PATH"] = …`
    fn assigned(&mut self, target: &'a Expr) {
        if let Expr::Subscript(subscript) = target
            && self.names.full(&subscript.value).iter().any(|name| name == "os.environ")
        {
            let key = self.names.text(&subscript.slice);
            let mut finding = Finding::named(Kind::Call, "os.environ").at(target);
            finding.sets = key.find().map(str::to_owned).into_iter().collect();
            if key.find().is_none_or(is_decisive) {
                finding.is_dynamic(Dynamic::Environment);
            }
            self.push(finding);
        }
    }

    /// A function that is handed on instead of being called.
    fn handed_on(&mut self, expr: &'a Expr) {
        for name in self.names.full(expr) {
            let name = name.as_str();
            let runs = SHELL.contains(&name)
                || SUBPROCESS.contains(&name)
                || EVALS.contains(&name)
                || name.starts_with("os.exec")
                || name.starts_with("os.spawn");
            let removes = FILES.iter().any(|(known, _, how)| {
                *known == name && matches!(how, Touch::Remove | Touch::Tree)
            });
            if runs || removes {
                let mut finding = Finding::named(Kind::Call, name).at(expr);
                finding.what = format!("{name}, handed on");
                if runs {
                    finding.is_dynamic(Dynamic::Code);
                }
                finding.destructive = removes;
                self.push(finding);
            }
        }
    }
}

fn touch(finding: &mut Finding, path: &Field, how: Touch) {
    finding.destructive |= matches!(how, Touch::Remove | Touch::Tree);
    finding.touch(path.value(), how);
}

fn how_opened(mode: &str) -> Option<Touch> {
    if mode.contains('w') || mode.contains('\0') {
        Some(Touch::Overwrite)
    } else if mode.contains(['a', 'x', '+']) {
        Some(Touch::Write)
    } else {
        None
    }
}

fn host(field: &Field) -> Option<Value> {
    let (_, rest) = field.text.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    Some(Field::known(host).value())
}

impl<'a> Visitor<'a> for Calls<'_, 'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Import(import) = stmt {
            for alias in &import.names {
                self.import(alias.name.as_str(), stmt);
            }
        } else if let Stmt::ImportFrom(import) = stmt {
            let module = import.module.as_ref().map(|module| module.as_str()).unwrap_or_default();
            let dots = ".".repeat(usize::try_from(import.level).unwrap_or(1).min(16));
            for alias in &import.names {
                let name = alias.name.as_str();
                let full = if name == "*" {
                    format!("{dots}{module}")
                } else if module.is_empty() {
                    format!("{dots}{name}")
                } else {
                    format!("{dots}{module}.{name}")
                };
                self.import(&full, stmt);
            }
        } else if let Stmt::Assign(assign) = stmt
            && assign.targets.iter().any(Expr::is_subscript_expr)
        {
            for target in &assign.targets {
                self.assigned(target);
            }
        } else if let Stmt::Assign(assign) = stmt
            && assign.targets.iter().all(Expr::is_name_expr)
            && (assign.value.is_name_expr() || assign.value.is_attribute_expr())
        {
            // Another name for the same, which is followed.
            return;
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr {
            let mut full = self.names.full(&call.func);
            full.sort();
            full.dedup();
            for name in &full {
                self.call(call, name);
            }
            if full.is_empty() {
                if let Expr::Attribute(method) = call.func.as_ref()
                    && let Some((_, how)) =
                        METHODS.iter().find(|(known, _)| *known == method.attr.as_str())
                {
                    let mut finding =
                        Finding::named(Kind::Call, &format!("?.{}", method.attr.as_str())).at(call);
                    touch(&mut finding, &Field::unknown(), *how);
                    self.push(finding);
                }
                self.visit_expr(&call.func);
            } else if let Expr::Attribute(method) = call.func.as_ref() {
                self.visit_expr(&method.value);
            } else if let Expr::Subscript(subscript) = call.func.as_ref() {
                self.visit_expr(&subscript.value);
                self.visit_expr(&subscript.slice);
            } else if call.func.is_call_expr() {
                self.visit_expr(&call.func);
            }
            self.visit_arguments(&call.arguments);
            return;
        }
        if expr.is_name_expr() || expr.is_attribute_expr() || expr.is_subscript_expr() {
            self.handed_on(expr);
        }
        walk_expr(self, expr);
    }
}
