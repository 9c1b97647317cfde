//! From what a caller asked for to a program, its arguments and its environment.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use hotcell_jail::process::{Groups, Identity};
use hotcell_jail::shown::CALLS_PROGRAMS;
use hotcell_jail::trusted::{BUNDLE, OWN_CERTIFICATE};
use hotcell_jail::workdir;
use hotcell_link::{CELL_VARIABLE, Plan, Root};
use hotcell_model::{Code, CodeLanguage, Command, Error, ExecSpec, Result, SecretForm};
use hotcell_runner::{READER, Warmth};
use rustix::fs::{Access, access};
use rustix::process::{Resource, Rlimit};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PYTHON: &str = "python3";
const NODE: &str = "node";
const OPEN_FILES: u64 = 65_536;
const OPEN_FILES_SOFT: u64 = 1024;

/// Where programs look for whom to trust; some know those that everybody trusts by themselves.
const TRUSTING: [(&str, &str); 6] = [
    ("SSL_CERT_FILE", BUNDLE),
    ("CURL_CA_BUNDLE", BUNDLE),
    ("REQUESTS_CA_BUNDLE", BUNDLE),
    ("GIT_SSL_CAINFO", BUNDLE),
    ("CARGO_HTTP_CAINFO", BUNDLE),
    ("NODE_EXTRA_CA_CERTS", OWN_CERTIFICATE),
];

/// A program that is known to be there, ready to be started.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    /// The same by name.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) cwd: OwnedFd,
    pub(crate) identity: Identity,
    pub(crate) rlimits: Vec<(Resource, Rlimit)>,
}

/// Looks everything up in the cell as it is now.
pub(crate) fn prepare(plan: &Plan, spec: &ExecSpec) -> Result<Prepared> {
    if spec.as_root && !plan.ids.root {
        let refused = Error::unsupported(
            "as_root needs an id 0 that is the cell's own, and this cell has none",
        );
        match &plan.root {
            Root::Host(_) => return Err(refused.hint("a cell of level process has the user's id alone; let the machine make user namespaces, see `hotcell doctor`")),
            Root::Container => return Err(refused.hint("a container has one user and no capabilities; use an image that has what is needed, or a cell of the native driver")),
            Root::Own => {}
        }
        return Err(refused.hint(match (&plan.spec.workspace, plan.ids.setgroups) {
            (Some(_), _) => "use a cell without a directory of the host as its workspace, or run hotcell as root",
            (None, false) => "give the user subordinate ids (`usermod --add-subuids`) and install newuidmap, or run as root",
            (None, true) => "run hotcell as a user with subordinate ids, or as root with the power to mount (CAP_SYS_ADMIN)",
        }));
    }
    if let Command::Code(Code { session: Some(turn), .. }) = &spec.command
        && (spec.as_root || spec.pty.is_some())
    {
        // One process serves all its runs, and it is the cell's ordinary user.
        return Err(Error::invalid(format!(
            "code in session {} runs neither as root nor in a terminal",
            turn.name
        ))
        .hint("run it without a session"));
    }
    let shell = shell();
    let env = environment(plan, spec, shell);
    let argv = match &spec.command {
        Command::Shell(text) => vec![shell.to_owned(), "-c".to_owned(), text.clone()],
        Command::Argv(words) => words.clone(),
        Command::Code(Code { language: CodeLanguage::Python, .. }) => {
            let arguments = hotcell_runner::arguments(Warmth::Cold).map(str::to_owned);
            std::iter::once(PYTHON.to_owned()).chain(arguments).collect()
        }
        Command::Code(Code {
            language: CodeLanguage::Typescript | CodeLanguage::Javascript,
            ..
        }) => {
            vec![NODE.to_owned()]
        }
    };
    let name = argv.first().ok_or_else(|| Error::invalid("the command is empty"))?;
    let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let asked = Path::new("/workspace").join(&spec.cwd);
    let cwd_text = asked.to_string_lossy();
    let cwd_path = plan.root.find(&asked);
    let mut program = find_program(plan, name, path, &cwd_path);
    let mut argv = argv;
    let mut rlimits = rlimits(plan);
    if let Command::Code(code) = &spec.command
        && code.language.is_script()
    {
        let node = program.map_err(|error| without_node(code.language, &error))?;
        argv = script_argv(code.language, node, spec);
        rlimits.extend(script_rlimits(spec));
        program = Ok(format!("/proc/self/fd/{READER}"));
    }
    let program = program?;
    let cwd = workdir::open_directory(&cwd_path).map_err(|error| {
        Error::not_found(format!("cannot start in {cwd_text}: {error}"))
            .hint("directories are the cell's own; the host's are not visible in it")
    })?;
    Ok(Prepared {
        program: c_string("the program", program)?,
        argv: c_strings("an argument", argv)?,
        env: c_strings("a variable", env.iter().map(|(k, v)| format!("{k}={v}")))?,
        variables: env,
        cwd,
        identity: identity(plan, spec.as_root),
        rlimits,
    })
}

/// The command line of a script: this program reads it and then becomes node.
fn script_argv(language: CodeLanguage, node: String, spec: &ExecSpec) -> Vec<String> {
    let heap = spec.code.memory_mb.map(|mb| format!("--max-old-space-size={}", (mb / 2).max(1)));
    let runner = hotcell_runner::script_arguments().map(str::to_owned);
    ["hotcell", "script", language.as_str()]
        .map(str::to_owned)
        .into_iter()
        .chain([node])
        .chain(heap)
        .chain(runner)
        .collect()
}

/// Node cannot set limits on itself.
fn script_rlimits(spec: &ExecSpec) -> Vec<(Resource, Rlimit)> {
    let bound = |resource, soft: u64, hard: u64| {
        let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        (resource, Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) })
    };
    let memory = spec.code.memory_mb.map(|mb| mb.saturating_mul(1 << 20));
    let cpu = spec.code.cpu_ms.map(|time| time.div_ceil(1000));
    memory
        .map(|bytes| bound(Resource::Data, bytes, bytes))
        .into_iter()
        .chain(cpu.map(|seconds| bound(Resource::Cpu, seconds, seconds.saturating_add(1))))
        .collect()
}

fn without_node(language: CodeLanguage, error: &Error) -> Error {
    let language = language.as_str();
    Error::not_found(format!("the cell has no node, which runs {language}: {}", error.message))
        .hint("use python; or install node 18 or newer in the cell, or make a cell from an image that has it")
}

/// What a zygote is started with: none of what is the cell's or a caller's own.
pub(crate) fn prepare_zygote(plan: &Plan) -> Result<Prepared> {
    let env: BTreeMap<String, String> =
        [("PATH", DEFAULT_PATH), ("HOME", "/home/cell"), ("LANG", "C.UTF-8")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
    let cwd = Path::new("/");
    let argv = hotcell_runner::arguments(Warmth::Zygote).map(str::to_owned);
    let argv = std::iter::once(PYTHON.to_owned()).chain(argv);
    let program = find_program(plan, PYTHON, DEFAULT_PATH, cwd)?;
    let directory = workdir::open_directory(cwd)
        .map_err(|error| Error::not_found(format!("cannot start in /: {error}")))?;
    Ok(Prepared {
        program: c_string("the program", program)?,
        argv: c_strings("an argument", argv)?,
        env: c_strings("a variable", env.iter().map(|(k, v)| format!("{k}={v}")))?,
        variables: env,
        cwd: directory,
        identity: identity(plan, false),
        rlimits: rlimits(plan),
    })
}

fn identity(plan: &Plan, as_root: bool) -> Identity {
    let (uid, gid) = if as_root { (0, 0) } else { (plan.ids.uid, plan.ids.gid) };
    let groups = if plan.ids.setgroups { Groups::Cleared } else { Groups::Kept };
    Identity { uid, gid, groups }
}

fn environment(plan: &Plan, spec: &ExecSpec, shell: &str) -> BTreeMap<String, String> {
    let (user, home) = if spec.as_root { ("root", "/root") } else { ("cell", "/home/cell") };
    let mut env: BTreeMap<String, String> = [
        ("PATH", DEFAULT_PATH),
        ("HOME", home),
        ("USER", user),
        ("LOGNAME", user),
        ("LANG", "C.UTF-8"),
        ("SHELL", shell),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    if plan.spec.secrets.iter().any(|grant| matches!(grant.form, SecretForm::Header(_))) {
        for (name, file) in TRUSTING {
            env.insert(name.to_owned(), file.to_owned());
        }
    }
    if plan.spec.workspace.is_some() {
        // The owner and inode of the host's files differ in the cell: without this, `git status`
        // would compare them all. Nor does it write an index that it has only refreshed: that would
        // be the cell's version, and hide the one of the user from then on.
        for (name, value) in [
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.checkStat"),
            ("GIT_CONFIG_VALUE_0", "minimal"),
        ] {
            env.insert(name.to_owned(), value.to_owned());
        }
    }
    if spec.pty.is_some() {
        env.insert("TERM".to_owned(), "xterm-256color".to_owned());
    }
    if plan.fds.calls.is_some() {
        // Behind whatever the cell has by this name.
        env.insert("PATH".to_owned(), format!("{DEFAULT_PATH}:{CALLS_PROGRAMS}"));
    }
    if let Root::Host(_) = &plan.root {
        for (name, path) in [("HOME", home), ("TMPDIR", "/tmp"), ("WORKSPACE", "/workspace")] {
            let found = plan.root.find(Path::new(path));
            env.insert(name.to_owned(), found.to_string_lossy().into_owned());
        }
    }
    env.extend(plan.spec.env.clone());
    env.extend(spec.env.clone());
    if let Root::Host(_) = &plan.root {
        // By this the keeper knows what a supervisor that was killed has left behind.
        env.insert(CELL_VARIABLE.to_owned(), plan.spec.id.to_string());
    }
    env
}

fn shell() -> &'static str {
    if is_program(Path::new("/bin/bash")) { "/bin/bash" } else { "/bin/sh" }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn find_program(plan: &Plan, name: &str, path: &str, cwd: &Path) -> Result<String> {
    if name.contains('/') {
        let whole = cwd.join(plan.root.find(Path::new(name)));
        return if whole.exists() {
            Ok(whole.to_string_lossy().into_owned())
        } else {
            Err(Error::not_found(format!("there is no program {name} in the cell"))
                .hint("paths are the cell's own; the host's files are not visible in it"))
        };
    }
    path.split(':')
        .map(|directory| cwd.join(directory).join(name))
        .find(|candidate| is_program(candidate))
        .map(|found| found.to_string_lossy().into_owned())
        .ok_or_else(|| {
            Error::not_found(format!("command not found in the cell: {name}"))
                .hint(format!("looked in {path}; shell text is given as one word"))
        })
}

fn c_string(what: &str, text: String) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{what} has a NUL byte in it")))
}

fn c_strings(what: &str, texts: impl IntoIterator<Item = String>) -> Result<Vec<CString>> {
    texts.into_iter().map(|text| c_string(what, text)).collect()
}

fn rlimits(plan: &Plan) -> Vec<(Resource, Rlimit)> {
    let both = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    let files = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(OPEN_FILES);
    let files = files.min(OPEN_FILES);
    let soft = files.min(OPEN_FILES_SOFT);
    let mut limits = vec![(Resource::Nofile, Rlimit { current: Some(soft), maximum: Some(files) })];
    if let Some(pids) = plan.rlimit_pids {
        limits.push((Resource::Nproc, both(u64::from(pids))));
    }
    limits
}
