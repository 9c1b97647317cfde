//! The bundle and what registries are told: packed from the real program, held to their schemas.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::world::{Kind, Need, World, program, require, setting};

/// Where the bundle of a release would be.
const RELEASE: &str = "https://github.com/hotcell/hotcell/releases/download/v0/";
/// Prints name, mode and time of every file of an archive.
const LIST: &str = "import sys, json, zipfile\n\
    files = zipfile.ZipFile(sys.argv[1]).infolist()\n\
    print(json.dumps([[f.filename, f.external_attr >> 16, f.date_time[0]] for f in files]))";
/// Checks a document against a schema of the registry.
const VALIDATE: &str = "import sys, json, pathlib, jsonschema, importlib.util\n\
    package = pathlib.Path(importlib.util.find_spec('skillsaw').origin).parent\n\
    dated = 'v' + sys.argv[1].replace('-', '_')\n\
    schema = package / 'schemas' / 'mcp_registry' / dated / 'server.schema.json'\n\
    document = json.load(open(sys.argv[2]))\n\
    schema = json.loads(schema.read_text())\n\
    assert document['$schema'] == schema['$id'], schema['$id']\n\
    jsonschema.Draft7Validator(schema).validate(document)";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[track_caller]
fn succeeded(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn python() -> Option<&'static str> {
    let found = Command::new("python3").arg("--version").output();
    let found = found.ok().filter(|output| output.status.success());
    require(Need::Packaging, found.map(|_| "python3").ok_or("there is no python3".to_owned()))
}

/// A tool that `scripts/test` has installed.
fn tool(path: &str) -> Option<PathBuf> {
    let found = match setting("HOTCELL_TEST_TOOLS").map(|tools| Path::new(&tools).join(path)) {
        None => Err("HOTCELL_TEST_TOOLS is not set (see CONTRIBUTING.md)".to_owned()),
        Some(tool) if !tool.exists() => Err(format!("{} is not installed", tool.display())),
        Some(tool) => Ok(tool),
    };
    require(Need::Packaging, found)
}

/// Packs the program under test; the bundle and the entry for a registry.
fn pack(python: &str, out: &Path) -> (PathBuf, PathBuf) {
    let mut bundle = Command::new(python);
    bundle.arg(root().join("scripts/bundle")).arg("--bin").arg(program());
    let printed = succeeded(bundle.arg("--out").arg(out).args(["--url", RELEASE]));
    let mut lines = printed.lines().map(PathBuf::from);
    let both = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(lines.next(), None);
    both
}

#[test]
fn the_bundle_holds_the_program_that_its_manifest_tells_of() {
    let Some(python) = python() else { return };
    let Some(world) = World::enter(Kind::Root) else { return };
    let out = tempfile::tempdir().unwrap();
    let (bundle, entry) = pack(python, out.path());
    let listed = succeeded(Command::new(python).args(["-c", LIST]).arg(&bundle));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let expected = json!([
        ["manifest.json", 0o100_644, 1980],
        ["LICENSE", 0o100_644, 1980],
        ["bin/hotcell", 0o100_755, 1980],
    ]);
    assert_eq!(listed, expected);

    let unpacked = out.path().join("unpacked");
    succeeded(Command::new(python).args(["-m", "zipfile", "-e"]).arg(&bundle).arg(&unpacked));
    let same = |one: &Path, other: &Path| fs::read(one).unwrap() == fs::read(other).unwrap();
    assert!(same(&unpacked.join("bin/hotcell"), program()), "it is another program");
    assert!(same(&unpacked.join("manifest.json"), &root().join("bundle/manifest.json")));
    assert!(same(&unpacked.join("LICENSE"), &root().join("LICENSE")));

    let entry: Value = serde_json::from_slice(&fs::read(entry).unwrap()).unwrap();
    let package = &entry["packages"][0];
    let name = bundle.file_name().unwrap().to_str().unwrap();
    assert_eq!(package["identifier"], format!("{RELEASE}{name}"));
    let sum = succeeded(Command::new("sha256sum").arg(&bundle));
    assert_eq!(package["fileSha256"].as_str(), sum.split(' ').next());

    let manifest = fs::read(unpacked.join("manifest.json")).unwrap();
    check_tools(&world, &serde_json::from_slice(&manifest).unwrap());
}

/// Starts the server as the manifest says and compares what it lists.
fn check_tools(world: &World, manifest: &Value) {
    let cell = manifest["user_config"]["cell"]["default"].as_str().unwrap();
    let args = manifest["server"]["mcp_config"]["args"].as_array().unwrap();
    let args = args.iter().map(|arg| match arg.as_str().unwrap() {
        "${user_config.cell}" => cell,
        other => other,
    });
    let mut server = world.hotcell([]).args(args).start_with_input();
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ] {
        server.write(format!("{message}\n").as_bytes());
    }
    server.await_stdout("\"tools\":[");
    let answers = server.finish().succeeded().stdout();
    let mut answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = answers.find(|answer| answer["id"] == 2).unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    let listed: Vec<Value> = tools
        .map(|tool| json!({"name": tool["name"], "description": tool["description"]}))
        .collect();
    assert_eq!(manifest["tools"], json!(listed), "bundle/manifest.json tells of other tools");
}

#[test]
fn the_same_program_gives_the_same_bundle() {
    let Some(python) = python() else { return };
    let out = tempfile::tempdir().unwrap();
    let (first, _) = pack(python, &out.path().join("a"));
    let (second, _) = pack(python, &out.path().join("b"));
    assert!(fs::read(first).unwrap() == fs::read(second).unwrap());
}

#[test]
fn a_program_that_needs_more_than_itself_is_not_packed() {
    let Some(python) = python() else { return };
    let out = tempfile::tempdir().unwrap();
    for (file, problem) in [("/bin/sh", "statically"), (file!(), "no program")] {
        let mut bundle = Command::new(python);
        bundle.current_dir(root()).arg("scripts/bundle").args(["--bin", file]);
        let refused = output(bundle.arg("--out").arg(out.path()));
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(problem), "{refused:?}");
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn the_manifest_fits_its_schema() {
    let Some(validator) = tool("npm/node_modules/@anthropic-ai/mcpb/dist/cli/cli.js") else {
        return;
    };
    let manifest = root().join("bundle/manifest.json");
    succeeded(Command::new("node").arg(&validator).arg("validate").arg(&manifest));
    let out = tempfile::tempdir().unwrap();
    let broken = out.path().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&broken, text.replace("\"author\"", "\"writer\"")).unwrap();
    let refused = output(Command::new("node").arg(&validator).arg("validate").arg(&broken));
    assert!(!refused.status.success(), "the check cannot fail");
}

#[test]
fn what_a_registry_is_given_fits_its_schema() {
    let Some(python) = tool("validators/bin/python3") else { return };
    let out = tempfile::tempdir().unwrap();
    let (_, entry) = pack(python.to_str().unwrap(), out.path());
    let validate =
        |path: &Path| output(Command::new(&python).args(["-c", VALIDATE, "2025-12-11"]).arg(path));
    for path in [root().join("server.json"), entry.clone()] {
        let checked = validate(&path);
        assert!(checked.status.success(), "{}: {checked:?}", path.display());
    }
    let broken =
        fs::read_to_string(&entry).unwrap().replace("fileSha256\": \"", "fileSha256\": \"X");
    fs::write(&entry, broken).unwrap();
    assert!(!validate(&entry).status.success(), "the check cannot fail");
}
