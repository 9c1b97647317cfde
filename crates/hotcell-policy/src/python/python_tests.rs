//! What is found in Python code, and what is not.

use super::{PythonError, python_syntax};
use crate::{Act, Decision, Kind, Policy, Verdict};

fn decide(profile: &str, code: &str) -> Verdict {
    let policy = Policy::parse(None, profile).unwrap();
    policy.decide(&Act::Python { code, as_root: false, directory: Some("/workspace") })
}

/// Names of what is found, with `!` for what destroys and `~` for what cannot be known.
fn found(code: &str) -> Vec<String> {
    let mark = |holds: bool, sign: &str| if holds { sign.to_owned() } else { String::new() };
    decide("open", code)
        .parts
        .iter()
        .map(|part| {
            let finding = &part.finding;
            let kind = match finding.kind {
                Kind::Import => "import ",
                Kind::Call => "call ",
                Kind::Text => "text",
                Kind::Command
                | Kind::Function
                | Kind::Redirect
                | Kind::Image
                | Kind::Egress
                | Kind::Secret
                | Kind::Tool
                | Kind::File => "",
            };
            let name = finding.name.clone().unwrap_or_default();
            let destroys = mark(finding.destructive, "!");
            format!("{kind}{name}{destroys}{}", mark(!finding.dynamic.is_empty(), "~"))
        })
        .collect()
}

#[test]
fn imports_and_calls_are_found_by_their_full_names() {
    for (code, expected) in [
        ("import os as o\no.system('id')", "import os, call os.system, id"),
        ("from os import system as s\ns('id')", "import os.system, call os.system, id"),
        ("from os import *\nsystem('id')", "import os, call os.system, id"),
        ("import os\nrun = os.system\nrun('id')", "import os, call os.system, id"),
        ("import os\ngetattr(os, 'system')('id')", "import os, call os.system, id, call getattr"),
        ("__import__('os').system('id')", "call os.system, id, import os, call __import__"),
        ("import sys\nsys.modules['os'].system('id')", "import sys, call os.system, id"),
        ("import os\nvars(os)['system']('id')", "import os, call os.system, id, call vars"),
        ("__builtins__.eval(x)", "call eval~"),
        (
            "import importlib\nimportlib.import_module(x)",
            "import importlib, call importlib.import_module~",
        ),
        ("def f():\n  o.system('id')\nimport os as o", "call os.system, id, import os"),
        ("import os\nlist(map(os.system, xs))", "import os, call os.system~"),
    ] {
        assert_eq!(found(code).join(", "), expected, "{code}");
    }
}

#[test]
fn commands_are_walked() {
    for (code, expected) in [
        ("import subprocess\nsubprocess.run(['rm', '-rf', '/'])", "rm!"),
        ("import subprocess\nsubprocess.run('a | rm x', shell=True)", "a, rm!"),
        ("import subprocess\nsubprocess.run('rm x')", "rm x"),
        ("import subprocess\ncmd = ['rm', 'x']\nsubprocess.check_call(cmd)", "rm!"),
        ("import os\ncmd = 'rm x'\nos.system(cmd)", "rm!"),
        ("import os\nos.system('rm ' + x)", "rm!"),
        ("import os\nos.system(f'rm {x}')", "rm!"),
        ("import os\nos.system('rm %s' % x)", "rm!"),
        ("import os\nos.execvp('rm', ['rm', 'x'])", "rm!"),
        ("import os\nos.execlp('rm', 'rm', 'x')", "rm!"),
        ("exec('import os; os.system(\"rm x\")')", "rm!"),
        (
            "import asyncio\nasync def f():\n  await asyncio.create_subprocess_exec('rm', 'x')",
            "rm!",
        ),
    ] {
        let names = found(code);
        let commands: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !name.starts_with("import ") && !name.starts_with("call "))
            .collect();
        assert_eq!(commands.join(", "), expected, "{code}");
    }
    // A name that is bound twice may stand for either.
    assert!(
        found("import os\nc = 'ls'\nc = 'rm x'\nos.system(c)")
            .contains(&"call os.system~".to_owned())
    );
}

#[test]
fn files_and_hosts_are_found() {
    let paths = |code: &str| -> Vec<String> {
        let verdict = decide("open", code);
        let touches = verdict.parts.iter().flat_map(|part| part.finding.touches.clone());
        touches.map(|touch| touch.path.text).collect()
    };
    assert_eq!(paths("open('a', 'w')"), ["/workspace/a"]);
    assert_eq!(paths("open('a')"), [""; 0]);
    assert_eq!(paths("open('a', mode='rb')"), [""; 0]);
    assert_eq!(paths("with open('/etc/x', 'a') as f: f.write('')"), ["/etc/x"]);
    assert_eq!(paths("from pathlib import Path\nPath('/etc/x').write_text('')"), ["/etc/x"]);
    assert_eq!(paths("from pathlib import Path\np = Path('/etc/x')\np.unlink()"), ["/etc/x"]);
    assert_eq!(paths("import shutil\nshutil.rmtree('b')"), ["/workspace/b"]);
    assert_eq!(paths("import os\nos.chdir('/')\nopen('x', 'w')"), ["x"]);
    assert!(decide("open", "import shutil\nshutil.rmtree('b')").destructive);
    assert!(decide("open", "open('a', 'w')").overwrites);
    let verdict = decide("open", "import urllib.request as r\nr.urlopen('https://example.org/x')");
    let hosts = verdict.parts.iter().filter_map(|part| part.finding.network.clone()).flatten();
    assert_eq!(hosts.map(|host| host.text).collect::<Vec<_>>(), ["example.org"]);
}

#[test]
fn text_is_no_finding() {
    for code in [
        "x = 'eval'",
        "print('os.system(1)')",
        "'''import os\nos.system(1)'''",
        "# eval(1)",
        "class A:\n  def eval(self): pass\nA().eval()",
        "def eval2(x): return x\neval2(1)",
        "d = {'exec': 1}\nd['exec']",
        "model.eval()",
        "s = 'a'.replace('a', 'b')",
    ] {
        assert_eq!(found(code), [""; 0], "{code}");
    }
}

#[test]
fn lines_are_told() {
    let verdict = decide("careful", "import os\n\nos.remove('x')\n");
    assert_eq!(verdict.deciding().unwrap().finding.line, Some(3));
}

#[test]
fn errors_of_syntax_have_a_place() {
    let error = python_syntax("x = 1\nprint('a'\n").unwrap_err();
    assert!(error.line >= 2, "{error}");
    let PythonError { line, column, ref message, .. } =
        python_syntax("a = (1 +\n\tb c)").unwrap_err();
    assert_eq!((line, column), (2, 4), "{message}");
    let error = python_syntax("if x\n  y").unwrap_err();
    assert_eq!(error.caret().lines().count(), 2);
    assert_eq!(python_syntax("x = 1"), Ok(()));
}

#[test]
fn hostile_code_is_refused_in_time() {
    for code in [
        "(".repeat(100_000),
        "[".repeat(100_000) + &"]".repeat(100_000),
        "-".repeat(1_000_000) + "1",
        "not ".repeat(250_000) + "1",
        "a".to_owned() + &".a".repeat(500_000),
        "f".to_owned() + &"()".repeat(500_000),
        "1".to_owned() + &"+1".repeat(500_000),
        "lambda: ".repeat(100_000) + "1",
        "x if y else ".repeat(80_000) + "z",
        "f'{".repeat(1_000),
    ] {
        assert!(python_syntax(&code).is_err());
    }
    // Long is not deep.
    let list = format!("x = [{}]", "1, ".repeat(200_000));
    assert_eq!(python_syntax(&list), Ok(()));
    assert_eq!(python_syntax(&"x = 1\n".repeat(150_000)), Ok(()));
}

#[test]
fn ways_around_names_are_followed() {
    for code in [
        "__builtins__['exec'](\"import os; os.remove('x')\")",
        "globals()['__builtins__']['exec'](\"import os; os.remove('x')\")",
        "import timeit; timeit.timeit(\"import os; os.remove('x')\")",
        "import subprocess; subprocess.run(['ls', 'x'], executable='/bin/rm')",
        "import subprocess; subprocess.run(['ls', 'x'], executable=f)",
        "import yaml; yaml.load(x)",
        "import code; code.InteractiveInterpreter().runcode(x)",
        "import tarfile; tarfile.open('a').extractall('/etc')",
        "import io; io.FileIO('/etc/x', 'w')",
        "import fileinput; fileinput.input('/etc/x', inplace=True)",
    ] {
        assert_eq!(decide("careful", code).decision, Decision::Ask, "{code}");
    }
    for code in [
        "import os; os.environ['PATH'] = '/tmp'",
        "import os; os.environ[x] = '/tmp'",
        "import os; os.putenv('LD_PRELOAD', 'x')",
        "import sys; sys.path.insert(0, '/tmp')",
        "import subprocess; subprocess.run(['ls'], env={'LD_PRELOAD': 'x'})",
        "import ctypes; ctypes.pythonapi.x()",
    ] {
        assert_eq!(decide("allowlist", code).decision, Decision::Deny, "{code}");
    }
    for code in [
        "import os; os.environ['FOO'] = 'x'",
        "import subprocess; subprocess.run(['ls'], env={'LANG': 'C'})",
        "import fileinput; fileinput.input('/etc/x')",
        "import tarfile; tarfile.open('a').extractall('/tmp/x')",
    ] {
        assert_eq!(decide("allowlist", code).decision, Decision::Allow, "{code}");
    }
}
