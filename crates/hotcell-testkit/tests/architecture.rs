//! Checks the shape of the workspace: who may depend on whom, where `unsafe` may be, what files look like.

mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::workspace::{array, metadata, text, workspace_root};

/// Which crates of the workspace a crate may use; a crate that is not listed may not exist.
const MAY_USE: &[(&str, &[&str])] = &[
    ("hotcell-model", &[]),
    ("hotcell-brief", &[]),
    ("hotcell-jail", &[]),
    ("hotcell-masking", &[]),
    ("hotcell-link", &["hotcell-model"]),
    ("hotcell-journal", &["hotcell-model"]),
    ("hotcell-place", &["hotcell-model"]),
    ("hotcell-dialects", &["hotcell-model"]),
    ("hotcell-policy", &[]),
    ("hotcell-runner", &["hotcell-model"]),
    ("hotcell-script", &["hotcell-runner"]),
    ("hotcell-secrets", &["hotcell-model"]),
    ("hotcell-ledger", &["hotcell-model", "hotcell-secrets"]),
    ("hotcell-store", &["hotcell-model"]),
    ("hotcell-toolbox", &["hotcell-brief", "hotcell-model"]),
    ("hotcell-egress", &["hotcell-jail", "hotcell-masking", "hotcell-model"]),
    ("hotcell-auth", &["hotcell-egress", "hotcell-model"]),
    ("hotcell-downstream", &["hotcell-egress", "hotcell-masking", "hotcell-model"]),
    ("hotcell-files", &["hotcell-link", "hotcell-model"]),
    ("hotcell-images", &["hotcell-model"]),
    ("hotcell-registry", &["hotcell-egress", "hotcell-images", "hotcell-model"]),
    ("hotcell-relay", &["hotcell-journal", "hotcell-place"]),
    (
        "hotcell-supervisor",
        &[
            "hotcell-files",
            "hotcell-jail",
            "hotcell-journal",
            "hotcell-link",
            "hotcell-masking",
            "hotcell-model",
            "hotcell-runner",
        ],
    ),
    (
        "hotcell-keeper",
        &["hotcell-egress", "hotcell-jail", "hotcell-link", "hotcell-model", "hotcell-place"],
    ),
    (
        "hotcell-native",
        &[
            "hotcell-egress",
            "hotcell-images",
            "hotcell-jail",
            "hotcell-journal",
            "hotcell-keeper",
            "hotcell-link",
            "hotcell-model",
            "hotcell-place",
            "hotcell-registry",
        ],
    ),
    (
        "hotcell-docker",
        &[
            "hotcell-egress",
            "hotcell-jail",
            "hotcell-keeper",
            "hotcell-link",
            "hotcell-model",
            "hotcell-place",
            "hotcell-registry",
            "hotcell-relay",
        ],
    ),
    ("hotcell-kube", &["hotcell-link", "hotcell-model"]),
    (
        "hotcell-engine",
        &[
            "hotcell-brief",
            "hotcell-journal",
            "hotcell-link",
            "hotcell-masking",
            "hotcell-model",
            "hotcell-policy",
            "hotcell-runner",
            "hotcell-toolbox",
        ],
    ),
    (
        "hotcell-server",
        &["hotcell-auth", "hotcell-brief", "hotcell-dialects", "hotcell-engine", "hotcell-model"],
    ),
    ("hotcell-testkit", &["hotcell-journal", "hotcell-link", "hotcell-model"]),
    (
        "hotcell",
        &[
            "hotcell-auth",
            "hotcell-dialects",
            "hotcell-docker",
            "hotcell-downstream",
            "hotcell-engine",
            "hotcell-jail",
            "hotcell-journal",
            "hotcell-kube",
            "hotcell-ledger",
            "hotcell-link",
            "hotcell-model",
            "hotcell-native",
            "hotcell-policy",
            "hotcell-script",
            "hotcell-secrets",
            "hotcell-server",
            "hotcell-store",
            "hotcell-supervisor",
            "hotcell-toolbox",
        ],
    ),
];

/// What the tests of a crate may use beyond what its program may; the testkit is open to all.
const TESTS_MAY_USE: &[(&str, &[&str])] =
    &[("hotcell-engine", &["hotcell-ledger", "hotcell-store"])];

/// Crates from outside that only some of ours may name in their dependencies.
const ONLY_USED_BY: &[(&str, &[&str])] = &[
    ("anyhow", &["hotcell", "hotcell-testkit"]),
    ("clap", &["hotcell"]),
    ("rusqlite", &["hotcell-store"]),
];

/// Crates from outside that may not be reached at all, directly or through others.
const NEVER_REACHES: &[(&str, &[&str])] = &[
    ("hotcell-model", &["libc", "mio", "rustix", "tokio"]),
    ("hotcell-brief", &["libc", "mio", "rustix", "tokio"]),
    ("hotcell-images", &["mio", "tokio"]),
    ("hotcell-journal", &["mio", "tokio"]),
    ("hotcell-jail", &["futures", "mio", "tokio"]),
    ("hotcell-masking", &["libc", "mio", "rustix", "tokio"]),
    ("hotcell-policy", &["mio", "rustix", "tokio"]),
    ("hotcell-runner", &["libc", "mio", "rustix", "tokio"]),
    ("hotcell-toolbox", &["libc", "mio", "rustix", "tokio"]),
];

const TESTKIT: &str = "hotcell-testkit";
const UNSAFE_CRATE: &str = "hotcell-jail";
const MAX_LINES: usize = 800;
const FORBIDDEN_NAMES: &[&str] =
    &["common", "core", "helper", "helpers", "manager", "service", "util", "utils"];

/// How a crate uses another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    InProgram,
    InTests,
}

/// One crate of the workspace and what its manifest names.
#[derive(Debug)]
struct Member {
    name: String,
    uses: Vec<(String, Use)>,
}

#[test]
fn crates_depend_only_in_the_allowed_directions() -> Result<()> {
    let found: Vec<String> = members(&metadata()?)?.iter().flat_map(direction_faults).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn no_runtime_is_reached_from_the_synchronous_crates() -> Result<()> {
    let metadata = metadata()?;
    let reachable = reachable_by_member(&metadata)?;
    let mut found = Vec::new();
    for (from, banned) in NEVER_REACHES {
        let reached = reachable.get(*from).with_context(|| format!("{from} is not a member"))?;
        found.extend(banned.iter().filter(|name| reached.contains(**name)).map(|name| {
            format!("{from} reaches {name}: see `cargo tree -p {from} -i {name} -e normal`")
        }));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn sources_keep_the_house_rules() -> Result<()> {
    let crates = workspace_root()?.join("crates");
    let mut found = Vec::new();
    let mut seen = 0;
    for path in rust_files(&crates)? {
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        found.extend(source_faults(path.strip_prefix(&crates)?, &text));
        seen += 1;
    }
    ensure!(seen > 10, "only {seen} sources were found below {}", crates.display());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn every_source_is_compiled() -> Result<()> {
    let crates = workspace_root()?.join("crates");
    let mut found = Vec::new();
    for member in members(&metadata()?)? {
        let mut sources = Vec::new();
        for path in rust_files(&crates.join(&member.name))? {
            let text = fs::read_to_string(&path)?;
            sources.push((path.strip_prefix(&crates)?.to_path_buf(), text));
        }
        found.extend(uncompiled(&sources));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn the_check_of_compiled_sources_can_fail() {
    let source = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let mut sources = vec![
        source("hotcell-model/src/lib.rs", "mod id;\n#[path = \"odd_tests.rs\"]\nmod tests;\n"),
        source("hotcell-model/src/id.rs", "//! Ids.\n"),
        source("hotcell-model/src/odd_tests.rs", "//! Odd ones.\n"),
        source("hotcell-model/tests/all.rs", "//! All.\n"),
    ];
    assert_eq!(uncompiled(&sources), Vec::<String>::new());
    sources.push(source("hotcell-model/src/id_tests.rs", "//! mod id_tests is in no module.\n"));
    assert_eq!(uncompiled(&sources).len(), 1);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() -> Result<()> {
    let crates = workspace_root()?.join("crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&crates)? {
        let manifest = entry?.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("read {}", manifest.display()))?;
        if !text.contains("[lints]\nworkspace = true") {
            found.push(format!("{}: lacks `[lints] workspace = true`", manifest.display()));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn every_dependency_is_named_by_a_source() -> Result<()> {
    let crates = workspace_root()?.join("crates");
    let mut found = Vec::new();
    for member in members(&metadata()?)? {
        let mut sources = String::new();
        for path in rust_files(&crates.join(&member.name))? {
            sources.push_str(&fs::read_to_string(&path)?);
        }
        found.extend(unused(&member, &sources));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    Ok(())
}

#[test]
fn the_check_of_uses_can_fail() {
    let uses = [("serde-json", Use::InProgram), ("tokio", Use::InTests)];
    let uses = uses.map(|(name, how)| (name.to_owned(), how)).to_vec();
    let member = Member { name: "hotcell-model".to_owned(), uses };
    assert_eq!(unused(&member, "use serde_json::Value;\ntokio::spawn(a());"), Vec::<String>::new());
    let faults = unused(&member, "use serde::Value;\nlet my_tokio_x = 1;");
    assert!(faults.len() == 2 && faults[1].contains("tokio"), "{faults:?}");
}

#[test]
fn the_checks_of_directions_can_fail() {
    let member = |name: &str, uses: &[(&str, Use)]| Member {
        name: name.to_owned(),
        uses: uses.iter().map(|(name, how)| ((*name).to_owned(), *how)).collect(),
    };
    for (bad, expected) in [
        (member("hotcell-engine", &[("hotcell-store", Use::InProgram)]), "may not use"),
        (member("hotcell-engine", &[("hotcell-native", Use::InTests)]), "may not use"),
        (member("hotcell-engine", &[("hotcell", Use::InProgram)]), "may not use"),
        (member("hotcell", &[(TESTKIT, Use::InProgram)]), "dev-dependency"),
        (member("hotcell-engine", &[("rusqlite", Use::InProgram)]), "only hotcell-store"),
        (member("hotcell-odds", &[]), "not in the table"),
    ] {
        let faults = direction_faults(&bad);
        assert!(faults.len() == 1 && faults[0].contains(expected), "{bad:?} gave {faults:?}");
    }
    let good = member("hotcell-store", &[(TESTKIT, Use::InTests), ("rusqlite", Use::InProgram)]);
    assert_eq!(direction_faults(&good), Vec::<String>::new());
}

#[test]
fn the_checks_of_sources_can_fail() {
    let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
    for (path, text, expected) in [
        ("hotcell-model/src/id.rs", "use std::fmt;\n", "//!"),
        ("hotcell-model/src/id.rs", "//! Ids.\nfn a() { unsafe { b() } }\n", "unsafe"),
        ("hotcell-model/src/id.rs", "//! Ids.\n#[unsafe(no_mangle)]\nfn a() {}\n", "unsafe"),
        ("hotcell-model/src/id.rs", "//! Ids.\n#![allow(unsafe_code)]\n", "unsafe"),
        ("hotcell-model/src/utils.rs", "//! Odds.\n", "utils"),
        ("hotcell-model/src/manager/mod.rs", "//! Odds.\n", "manager"),
        ("hotcell-model/src/id.rs", &long, "lines"),
    ] {
        let faults = source_faults(Path::new(path), text);
        assert!(faults.len() == 1 && faults[0].contains(expected), "{path} gave {faults:?}");
    }
    for (path, text) in [
        ("hotcell-jail/src/clone.rs", "//! Clones.\nfn a() { unsafe { b() } }\n"),
        (
            "hotcell-model/src/id.rs",
            "//! Ids.\n// unsafe is elsewhere\nconst A: &str = \"unsafe\";\n",
        ),
        ("hotcell/tests/e2e/main.rs", "mod run;\n"),
    ] {
        assert_eq!(source_faults(Path::new(path), text), Vec::<String>::new(), "{path}");
    }
}

fn direction_faults(member: &Member) -> Vec<String> {
    let name = member.name.as_str();
    let Some(allowed) = row(MAY_USE, name) else {
        return vec![format!("{name} is not in the table of crates: decide what it may use")];
    };
    let mut found = Vec::new();
    for (used, how) in &member.uses {
        let used = used.as_str();
        let granted = match how {
            Use::InProgram => allowed.contains(&used),
            Use::InTests => {
                let more = row(TESTS_MAY_USE, name).unwrap_or_default();
                used == TESTKIT || allowed.contains(&used) || more.contains(&used)
            }
        };
        if used == TESTKIT && !granted {
            found.push(format!("{name} uses {used} outside its tests: make it a dev-dependency"));
        } else if used.starts_with("hotcell") && !granted {
            found.push(format!("{name} may not use {used}; it may use {allowed:?}"));
        }
        if let Some(owners) = row(ONLY_USED_BY, used)
            && *how == Use::InProgram
            && !owners.contains(&name)
        {
            found.push(format!("{name} uses {used}: only {} may", owners.join(", ")));
        }
    }
    found
}

/// What a crate's manifest names and none of its sources does.
fn unused(member: &Member, sources: &str) -> Vec<String> {
    let is_part = |byte: char| byte.is_alphanumeric() || byte == '_';
    let words: BTreeSet<&str> = sources.split(|each| !is_part(each)).collect();
    let names = member.uses.iter().map(|(name, _)| name);
    let unused = names.filter(|name| !words.contains(name.replace('-', "_").as_str()));
    unused.map(|name| format!("{} names {name} and does not use it", member.name)).collect()
}

fn row(table: &[(&str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(known, _)| *known == name).map(|(_, row)| *row)
}

fn source_faults(path: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let shown = path.display();
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    if parts.get(1) == Some(&"src") && !text.starts_with("//!") {
        found.push(format!("{shown}: does not start with a `//!` sentence on what it owns"));
    }
    if parts.first() != Some(&UNSAFE_CRATE)
        && let Some(line) = text.lines().position(names_unsafe)
    {
        found.push(format!("{shown}:{}: unsafe outside {UNSAFE_CRATE}", line + 1));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        found.push(format!("{shown}: {lines} lines, more than {MAX_LINES}: split it"));
    }
    for part in &parts {
        let module = part.strip_suffix(".rs").unwrap_or(part);
        if FORBIDDEN_NAMES.contains(&module) {
            found.push(format!("{shown}: `{module}` says nothing: name it by what it owns"));
        }
    }
    found
}

/// The files among those of one crate that neither cargo nor another file compiles.
fn uncompiled(sources: &[(PathBuf, String)]) -> Vec<String> {
    let is_module = |path: &Path| {
        let named = if path.ends_with("mod.rs") { path.parent() } else { Some(path) };
        let name = named.and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
        let (module, file) = (format!("mod {name};"), format!("{name}.rs\"]"));
        let names = |line: &str| line.ends_with(&module) || line.ends_with(&file);
        sources.iter().any(|(_, text)| text.lines().any(names))
    };
    sources
        .iter()
        .filter(|(path, _)| !is_target(path) && !is_module(path))
        .map(|(path, _)| format!("{}: no file of its crate has it as a module", path.display()))
        .collect()
}

/// Whether cargo compiles a file by itself.
fn is_target(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().skip(1).filter_map(|part| part.to_str()).collect();
    matches!(
        parts[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// Whether a line of code says `unsafe`, or lifts the lint against it; comments and text in quotes do not count.
fn names_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split('"')
        .step_by(2)
        .flat_map(|outside_quotes| {
            outside_quotes.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        })
        .any(|word| word == "unsafe" || word == "unsafe_code")
}

fn rust_files(below: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![below.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn members(metadata: &Value) -> Result<Vec<Member>> {
    let ids: BTreeSet<&str> =
        array(&metadata["workspace_members"])?.iter().filter_map(Value::as_str).collect();
    let mut members = Vec::new();
    for package in array(&metadata["packages"])? {
        if !ids.contains(text(&package["id"])?) {
            continue;
        }
        let mut uses = Vec::new();
        for dependency in array(&package["dependencies"])? {
            let how = match dependency["kind"].as_str() {
                Some("dev") => Use::InTests,
                _ => Use::InProgram,
            };
            uses.push((text(&dependency["name"])?.to_owned(), how));
        }
        members.push(Member { name: text(&package["name"])?.to_owned(), uses });
    }
    ensure!(members.len() > 5, "cargo metadata named only {} members", members.len());
    Ok(members)
}

/// For each member the names of all packages that its program is built from, its tests left out.
fn reachable_by_member(metadata: &Value) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut names = BTreeMap::new();
    for package in array(&metadata["packages"])? {
        names.insert(text(&package["id"])?, text(&package["name"])?);
    }
    let mut edges = BTreeMap::new();
    for node in array(&metadata["resolve"]["nodes"])? {
        let mut next = Vec::new();
        for dependency in array(&node["deps"])? {
            let kinds = array(&dependency["dep_kinds"])?;
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                next.push(text(&dependency["pkg"])?);
            }
        }
        edges.insert(text(&node["id"])?, next);
    }
    let mut reachable = BTreeMap::new();
    for start in array(&metadata["workspace_members"])? {
        let start = text(start)?;
        let mut seen = BTreeSet::new();
        let mut ahead = vec![start];
        while let Some(id) = ahead.pop() {
            if seen.insert(id) {
                ahead.extend(edges.get(id).into_iter().flatten());
            }
        }
        let reached = seen.iter().filter_map(|id| names.get(id)).map(|name| (*name).to_owned());
        reachable.insert(names[start].to_owned(), reached.collect());
    }
    Ok(reachable)
}
