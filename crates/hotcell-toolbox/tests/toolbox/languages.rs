//! Stubs as real Python and real TypeScript read them.

#![expect(clippy::disallowed_methods, reason = "the languages are what is compared with")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotcell_toolbox::{Catalog, Observations, ToolTree, Trust, seeded_policy};
use serde_json::{Map, Value, json};

use crate::{fixture, hostile};

/// Parses and compiles every stub below a directory, and tells those that are no Python.
const PARSE: &str = r#"
import ast, pathlib, sys
bad = 0
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.pyi")):
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
        compile(text, str(path), "exec")
    except Exception as error:
        bad += 1
        print(path, error)
        continue
    allowed = (ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign)
    for node in tree.body:
        call = isinstance(node, ast.Assign) and getattr(node.value.func, "id", None) != "TypedDict"
        if not isinstance(node, allowed) or call or getattr(node, "module", "typing") != "typing":
            bad += 1
            print(path, "holds code:", ast.unparse(node)[:200])
sys.exit(bad > 0)
"#;

/// Tells the arguments of the example in every full stub below a directory.
const EXAMPLES: &str = r#"
import ast, json, pathlib, sys
given = {}
for path in pathlib.Path(sys.argv[1]).rglob("*.pyi"):
    if path.name == "__init__.pyi":
        continue
    function = ast.parse(path.read_text(encoding="utf-8")).body[-1]
    line = ast.get_docstring(function).split("Example: ")[1]
    call = ast.parse(line).body[0].value
    assert call.func.id == function.name == path.stem
    values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    given[path.parent.name + "/" + path.stem] = values
print(json.dumps(given))
"#;

/// Writes all files of the tree of a catalog.
fn write_tree(catalog: &Catalog, to: &Path) -> usize {
    let mut observations = Observations::default();
    for (at, tool) in catalog.tools().enumerate() {
        let nasty =
            json!({ "class": at, "a b": [1, "x", null], "\"\"\"": { "x": 1.5 }, "id": "1" });
        observations.learn(catalog, tool.key(), &nasty);
    }
    let policy = |key: &_| {
        let tool = catalog.find_by_key(key).unwrap();
        seeded_policy(tool.listing(), Trust::Annotations)
    };
    let tree = ToolTree::new(catalog, &observations, &policy);
    let paths = tree.paths();
    for path in &paths {
        let file = to.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = tree.read(path).unwrap();
        assert!(text.len() < 1 << 20, "{path} has {} bytes", text.len());
        fs::write(file, text).unwrap();
    }
    paths.len()
}

/// Says loudly that something is missing, or fails where it is required.
pub(crate) fn skip(why: &str) {
    let required = std::env::var("HOTCELL_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == "stubs"), "stubs is required: {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED {test}: {why}");
    if let Some(list) = std::env::var_os("HOTCELL_TEST_SKIPS") {
        let mut list = fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{test}: {why}").unwrap();
    }
}

/// What Python says of the stubs below a directory; nothing where there is no Python.
fn python_says(below: &Path) -> Option<Result<(), String>> {
    let Ok(output) = Command::new("python3").args(["-I", "-c", PARSE]).arg(below).output() else {
        skip("there is no python3");
        return None;
    };
    Some(if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    })
}

/// What the TypeScript compiler says of the declarations below a directory, if it is installed.
fn typescript_says(below: &Path) -> Option<Result<(), String>> {
    let tools = std::env::var_os("HOTCELL_TEST_TOOLS").map(PathBuf::from);
    let compiler = tools.map(|tools| tools.join("typescript/node_modules/typescript/bin/tsc"));
    let Some(compiler) = compiler.filter(|compiler| compiler.exists()) else {
        skip("HOTCELL_TEST_TOOLS names no TypeScript compiler (see CONTRIBUTING.md)");
        return None;
    };
    let settings = json!({
        "compilerOptions": { "strict": true, "noEmit": true, "target": "es2022", "lib": ["es2022"],
            "types": [], "module": "nodenext", "skipLibCheck": false },
        "include": ["**/*.d.ts"],
    });
    fs::write(below.join("tsconfig.json"), settings.to_string()).unwrap();
    let output = Command::new("node").arg(compiler).arg("-p").arg(below).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said.chars().take(4_000).collect()) })
}

#[test]
fn stubs_of_ordinary_tools_are_python_and_typescript() {
    let directory = tempfile::tempdir().unwrap();
    assert!(write_tree(&fixture::catalog(), directory.path()) > 500);
    for said in [python_says(directory.path()), typescript_says(directory.path())] {
        assert_eq!(said.unwrap_or(Ok(())), Ok(()));
    }
}

#[test]
fn examples_are_what_the_schema_says() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = fixture::catalog();
    write_tree(&catalog, directory.path());
    let python =
        Command::new("python3").args(["-I", "-c", EXAMPLES]).arg(directory.path()).output();
    let Ok(output) = python else { return skip("there is no python3") };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let given: Map<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(given.len(), catalog.tools().count());
    for (name, arguments) in given {
        let (server, tool) = name.split_once('/').unwrap();
        let tool = catalog.find(server, tool).unwrap();
        tool.arguments(arguments.as_object().unwrap().clone()).unwrap();
        if !tool.positional().is_empty() {
            tool.arguments(Map::new()).unwrap_err();
        }
    }
}

#[test]
fn stubs_of_hostile_tools_are_python_and_typescript_without_code() {
    let directory = tempfile::tempdir().unwrap();
    assert!(write_tree(&hostile::catalog(), directory.path()) > 600);
    for said in [python_says(directory.path()), typescript_says(directory.path())] {
        assert_eq!(said.unwrap_or(Ok(())), Ok(()));
    }
}

#[test]
fn what_is_no_stub_is_found_out() {
    for text in ["def f(:\n", "import os\n", "x = os.system('id')\n", "print(1)\n", "\"\0\"\n"] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("bad.pyi"), text).unwrap();
        assert!(python_says(directory.path()).is_none_or(|said| said.is_err()), "{text}");
    }
    for text in ["export function f(: string;", "export type A = A | B;", "export const x = f();"] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("bad.d.ts"), text).unwrap();
        assert!(typescript_says(directory.path()).is_none_or(|said| said.is_err()), "{text}");
    }
}
