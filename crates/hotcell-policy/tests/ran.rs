//! Whatever real shells run of a script was found in it before, or said to be unknown.
//!
//! Scripts are made at random and run by bash and dash with a `PATH` that has nothing in it but small
//! programs that write down their names. Those that run others (`env`, `xargs`, …) write down theirs too
//! and go on as the real ones.

#![expect(clippy::disallowed_methods, reason = "the shells are what is compared with")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hotcell_policy::{Act, Dynamic, Kind, Policy};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Programs that write down their name and nothing else.
const PLAIN: &[&str] = &["aa", "bb", "cc", "dd2", "rm", "ls", "true", "false", "echo2"];
/// Programs that run others, and where the real ones are.
const REAL: &[&str] = &[
    "env", "xargs", "timeout", "nice", "nohup", "setsid", "stdbuf", "find", "bash", "sh", "cat",
    "time",
];
const SCRIPTS: u32 = 400;

struct Stage {
    directory: tempfile::TempDir,
    runs: Cell<u32>,
}

fn real(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
}

fn program(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

impl Stage {
    fn new() -> Result<Self, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let bin = directory.path().join("bin");
        fs::create_dir(&bin)?;
        fs::create_dir(directory.path().join("work"))?;
        fs::write(directory.path().join("work/file"), "one two\n")?;
        for name in PLAIN {
            let end = if *name == "false" { "exit 1" } else { "exit 0" };
            program(&bin.join(name), &format!("#!/bin/sh\necho {name} >> \"$RAN\"\n{end}\n"))?;
        }
        for name in REAL {
            let Some(path) = real(name) else { continue };
            let text =
                format!("#!/bin/sh\necho {name} >> \"$RAN\"\nexec {} \"$@\"\n", path.display());
            program(&bin.join(name), &text)?;
        }
        Ok(Self { directory, runs: Cell::new(0) })
    }

    /// The names of all programs that a shell runs for a script.
    fn run(&self, shell: &Path, script: &str) -> io::Result<BTreeSet<String>> {
        // What an earlier script left running writes elsewhere.
        self.runs.set(self.runs.get() + 1);
        let log = self.directory.path().join(format!("ran-{}", self.runs.get()));
        fs::write(&log, "")?;
        let real_timeout = real("timeout").ok_or_else(|| io::Error::other("no timeout"))?;
        Command::new(real_timeout)
            .args(["-k", "1", "5"])
            .arg(shell)
            .args(["-c", script])
            .env_clear()
            .env("RAN", &log)
            .env("PATH", self.directory.path().join("bin"))
            .current_dir(self.directory.path().join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        Ok(fs::read_to_string(&log)?.lines().map(str::to_owned).collect())
    }
}

/// The names that are found in a script, and whether something in it is said to be unknown.
fn found(policy: &Policy, act: &Act<'_>) -> (BTreeSet<String>, bool) {
    let verdict = policy.decide(act);
    let unknown = |what: &Dynamic| {
        matches!(what, Dynamic::Name | Dynamic::Code | Dynamic::Input | Dynamic::Unparsable)
    };
    let dynamic = verdict.parts.iter().any(|part| part.finding.dynamic.iter().any(unknown));
    let names = verdict
        .parts
        .iter()
        .filter(|part| matches!(part.finding.kind, Kind::Command))
        .filter_map(|part| part.finding.name.clone())
        .collect();
    (names, dynamic)
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(&["aa", "bb", "cc", "dd2", "rm", "ls"][..]).prop_map(str::to_owned),
        1 => Just("a''a".to_owned()),
        1 => Just("\"bb\"".to_owned()),
        1 => Just("\\cc".to_owned()),
        1 => Just("'dd2'".to_owned()),
        1 => Just("r\\\nm".to_owned()),
        1 => Just("$'\\x72m'".to_owned()),
        1 => Just("{aa,x}".to_owned()),
        1 => Just("$v".to_owned()),
        1 => Just("${v}".to_owned()),
        1 => Just("\"$v\"".to_owned()),
        1 => Just("${w:-bb}".to_owned()),
        1 => Just("a$e".to_owned()),
    ]
}

fn argument() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "x",
            "-f",
            "'a b'",
            "\"c $v\"",
            "$v",
            "*",
            "~",
            "$((1+2))",
            "a\\ b",
            "${#v}",
            "\"`true`\"",
            "$'\\n'",
            "{1,2}",
            "${v:+y}",
            "\"${w:-z}\"",
            "--",
            "=",
            "x=y",
            "#c",
            "a#b",
            "'#'",
            "!",
            "[a",
            "2",
        ][..],
    )
    .prop_map(str::to_owned)
}

fn simple() -> impl Strategy<Value = String> {
    let arguments = prop::collection::vec(argument(), 0..3);
    let assign = prop::sample::select(&["", "", "", "v=cc ", "q=1 ", "e=a "][..]);
    let redirect = prop::sample::select(
        &["", "", "", " >/dev/null", " 2>&1", " <file", " 2>/dev/null", " >&2", " &>/dev/null"][..],
    );
    (assign, name(), arguments, redirect).prop_map(|(assign, name, arguments, redirect)| {
        format!("{assign}{name} {}{redirect}", arguments.join(" "))
    })
}

fn assignment() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "v=aa",
            "v=bb",
            "v='rm x'",
            "v=$(true)",
            "export v=cc",
            "v=",
            "e=a",
            "unset v",
            "read v <file",
            "v=a; v=${v}a",
            "set -- aa bb",
            "f() { v=dd2; }",
            "f() { rm; }; f",
            "e=a v=a$e",
            "local=1",
            "v+=a",
            "declare v=aa",
            "IFS=:",
        ][..],
    )
    .prop_map(str::to_owned)
}

/// Quotes text so that the shell hands it on as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn one_line(script: &str) -> bool {
    !script.contains('\n') && !script.contains('#')
}

fn script() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![4 => simple(), 1 => assignment()];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| format!("{a}\n{b}")),
            two.clone().prop_map(|(a, b)| format!("{a}\n{b} &\nwait")),
            two.clone().prop_map(|(a, b)| format!("{{ {a}\n}} && {{ {b}\n}}")),
            two.clone().prop_map(|(a, b)| format!("{{ {a}\n}} || {{ {b}\n}}")),
            two.clone().prop_map(|(a, b)| format!("{{ {a}\n}} | {{ {b}\n}}")),
            two.clone().prop_map(|(a, b)| format!("if {a}\nthen {b}\nelse {a}\nfi")),
            two.clone().prop_map(|(a, b)| format!("for v in aa bb 'rm x'; do {a}\n{b}\ndone")),
            two.clone()
                .prop_map(|(a, b)| format!("i=; while [ \"$i\" != xx ]; do i=x$i\n{a}\n{b}\ndone")),
            two.clone().prop_map(|(a, b)| format!("case $v in aa|b*) {a}\n;; *) {b}\n;; esac")),
            two.clone().prop_map(|(a, b)| format!("f() {{ {a}\n}}\n{b}\nf")),
            two.prop_map(|(a, b)| format!("aa() {{ {a}\n}}\n{b}\naa\nunset -f aa\naa")),
            inner.clone().prop_map(|a| format!("( {a}\n)")),
            inner.clone().prop_map(|a| format!("! {{ {a}\n}}")),
            inner.clone().prop_map(|a| format!("cc \"$({a}\n)\"")),
            inner.clone().prop_map(|a| format!("cc $({a}\n)")),
            inner.clone().prop_map(|a| format!("v=$({a}\n)")),
            inner.clone().prop_map(|a| format!("cc ${{w:-$({a}\n)}}")),
            inner.clone().prop_map(|a| format!("cc $((1 + $({a}\n) 0))")),
            inner.clone().prop_map(|a| {
                let text = a.replace('\\', "\\\\").replace('`', "\\`").replace('$', "\\$");
                format!("cc `{text}\n`")
            }),
            inner.clone().prop_map(|a| format!("cat <<E\n$({a}\n)\nE")),
            inner.clone().prop_map(|a| format!("cat <<'E'\n$({a}\n)\nE")),
            inner.clone().prop_map(|a| format!("eval {}", quoted(&a))),
            inner.clone().prop_map(|a| format!("sh -c {}", quoted(&a))),
            inner.clone().prop_map(|a| format!("bash -ec {}", quoted(&a))),
            inner.clone().prop_map(|a| format!("sh <<'EOT'\n{a}\nEOT")),
            inner.clone().prop_map(|a| format!("sh -c {} x rm -f", quoted(&format!("$1 y\n{a}")))),
            inner.clone().prop_map(|a| format!("trap {} EXIT", quoted(&a))),
            inner.clone().prop_map(|a| format!("command {a}")),
            inner.clone().prop_map(|a| format!("env q=1 {a}")),
            inner.clone().prop_map(|a| format!("env -u q {a}")),
            inner.clone().prop_map(|a| format!("timeout 5 {a}")),
            inner.clone().prop_map(|a| format!("nice -n 1 {a}")),
            inner.clone().prop_map(|a| format!("stdbuf -o L {a}")),
            inner.clone().prop_map(|a| format!("find file -exec {a} \\;")),
            inner
                .clone()
                .prop_filter("one line", |a| one_line(a))
                .prop_map(|a| format!("xargs {a} <file")),
            inner.clone().prop_map(|a| format!("exec {a}")),
            inner.clone().prop_map(|a| format!("cc <(\n{a}\n)")),
            inner.clone().prop_map(|a| format!("[[ x = $({a}\n) ]]")),
            inner.clone().prop_map(|a| format!("(( 1 + $({a}\n) 0 ))")),
            inner.clone().prop_map(|a| format!("q=(1 $({a}\n))")),
            inner.prop_map(|a| format!("time {a}")),
        ]
    })
}

#[test]
fn nothing_runs_that_was_not_found() -> Result<(), Box<dyn Error>> {
    let stage = Stage::new()?;
    let policy = Policy::parse(None, "open")?;
    let shells = [real("bash"), real("dash")];
    let (Some(bash), Some(dash)) = (&shells[0], &shells[1]) else {
        return Err("bash and dash are needed".into());
    };
    // As many others as one likes: HOTCELL_SCRIPTS=5000.
    let others = std::env::var("HOTCELL_SCRIPTS").ok().and_then(|count| count.parse().ok());
    let cases = others.unwrap_or(SCRIPTS);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = match others {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let exact = Cell::new(0_u32);
    let commands = Cell::new(0_usize);
    let result = runner.run(&script(), |text| {
        let directory = None;
        for (shell, act) in [
            (bash, Act::Shell { text: &text, as_root: false, directory }),
            (dash, Act::AnyShell { text: &text, as_root: false, directory }),
        ] {
            let (names, dynamic) = found(&policy, &act);
            if dynamic {
                // What ran may then be anything; what is certain is shown by the others.
                continue;
            }
            let ran =
                stage.run(shell, &text).map_err(|error| TestCaseError::fail(error.to_string()))?;
            exact.set(exact.get() + 1);
            commands.set(commands.get() + ran.len());
            let missed: Vec<&String> = ran.difference(&names).collect();
            prop_assert!(
                missed.is_empty(),
                "{} ran {missed:?}, found were {names:?}",
                shell.display()
            );
        }
        Ok(())
    });
    if let Err(error) = result {
        return Err(error.to_string().into());
    }
    let (exact, commands) = (exact.get(), commands.get());
    println!("{exact} runs without anything unknown ran {commands} different commands");
    assert!(exact >= SCRIPTS / 2, "only {exact} runs were of use");
    assert!(commands >= 500, "only {commands} commands ran");
    Ok(())
}

#[test]
fn the_comparison_can_fail() -> Result<(), Box<dyn Error>> {
    let stage = Stage::new()?;
    let bash = real("bash").ok_or("bash is needed")?;
    let ran = stage.run(&bash, "aa | (bb; env cc); eval 'rm x'")?;
    let expected: BTreeSet<String> =
        ["aa", "bb", "cc", "env", "rm"].iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(ran, expected);
    Ok(())
}
