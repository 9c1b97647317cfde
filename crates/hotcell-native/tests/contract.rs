//! The contract of every driver, on bare Linux: as whoever runs the tests, and as ordinary users.

#![expect(
    clippy::disallowed_methods,
    reason = "the test script tells by variables where things are, and users are changed by a program"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use hotcell_model::{Driver, IsolationLevel, RequiredIsolation};
use hotcell_native::{CgroupUse, NativeDriver, NativeSettings};
use hotcell_testkit::driver_contract::{DriverPlace, run_driver_contract};

#[tokio::test]
async fn native_keeps_the_driver_contract() -> Result<()> {
    keeps_the_contract(CgroupUse::Auto).await
}

#[tokio::test]
async fn native_keeps_the_driver_contract_without_cgroups() -> Result<()> {
    keeps_the_contract(CgroupUse::Off).await
}

#[test]
fn native_keeps_the_driver_contract_with_subordinate_ids() -> Result<()> {
    keeps_the_contract_as("HOTCELL_TEST_USER", &[])
}

#[test]
fn native_keeps_the_driver_contract_with_a_single_id() -> Result<()> {
    keeps_the_contract_as("HOTCELL_TEST_USER_SINGLE", &[])
}

#[test]
fn native_keeps_the_driver_contract_without_namespaces() -> Result<()> {
    let in_a_container = ["python3", "-c", AS_IN_A_CONTAINER];
    keeps_the_contract_as("HOTCELL_TEST_USER_SINGLE", &in_a_container)
}

/// Runs a program under the filter of a container engine, which forbids namespaces.
const AS_IN_A_CONTAINER: &str = include_str!("../../../scripts/as-in-a-container.py");
/// Set where cells of the least level are to be tested.
const LEVEL: &str = "HOTCELL_TEST_LEVEL";

async fn keeps_the_contract(cgroups: CgroupUse) -> Result<()> {
    let Some(program) = program() else {
        return skip(
            "native",
            "there is no hotcell program: `cargo build -p hotcell`, or set HOTCELL_TEST_BIN",
        );
    };
    run_driver_contract(move || place(&program, cgroups)).await
}

/// A state directory for one case.
fn place(program: &Path, cgroups: CgroupUse) -> Result<DriverPlace> {
    let directory = tempfile::tempdir()?;
    let state = directory.path().join("state");
    fs::create_dir(&state)?;
    let level = match std::env::var(LEVEL) {
        Ok(level) if level == IsolationLevel::Process.as_str() => IsolationLevel::Process,
        Ok(_) | Err(_) => IsolationLevel::default(),
    };
    let settings = NativeSettings {
        state_dir: state.clone(),
        own_files: Vec::new(),
        program: program.to_owned(),
        cgroups,
        required: RequiredIsolation { level, layers: Vec::new() },
        egress: hotcell_native::EgressSettings::default(),
        together: hotcell_native::Together::default(),
        registries: hotcell_native::RegistrySettings::default(),
        scan: None,
        pull_watch: Arc::new(hotcell_model::Unwatched),
    };
    let cells = Mutex::new(BTreeSet::new());
    let look = move || {
        let mut cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
        // A cell's directory goes with the cell; its name is what groups are found by.
        cells.extend(names_in(&state.join("native/cells")));
        let mut left: Vec<String> = names_in(&state.join("native/cells"));
        left.extend(names_in(&state.join("native/ids")).into_iter().filter(|name| name != "lock"));
        left.extend(processes_with(&state));
        left.extend(mounts_of(&state)?);
        left.extend(cells.iter().flat_map(|cell| groups_of(cell)));
        Ok(left)
    };
    let records = directory.path().join("records");
    fs::create_dir(&records)?;
    let open = move || {
        // Moved in: the directory lives as long as the place does.
        let _ = &directory;
        Ok(Arc::new(NativeDriver::new(settings.clone())) as Arc<dyn Driver>)
    };
    Ok(DriverPlace::new(records, open).with_left_behind(look))
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Other processes that have something below a directory open; as far as this user may look.
fn processes_with(directory: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let numbers = names_in(Path::new("/proc")).into_iter();
    let others = numbers.filter(|name| name.parse::<u32>().is_ok() && *name != own);
    others.filter(|pid| has_open(pid, directory)).map(|pid| format!("process {pid}")).collect()
}

fn has_open(pid: &str, directory: &Path) -> bool {
    let process = Path::new("/proc").join(pid);
    let descriptors =
        names_in(&process.join("fd")).into_iter().map(|fd| process.join("fd").join(fd));
    let links = descriptors.chain(["exe", "cwd", "root"].map(|name| process.join(name)));
    links.filter_map(|link| fs::read_link(link).ok()).any(|target| target.starts_with(directory))
}

fn mounts_of(directory: &Path) -> Result<Vec<String>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let directory = directory.to_string_lossy();
    let below = table.lines().filter(|line| line.contains(&*directory));
    Ok(below.map(|line| format!("mount {line}")).collect())
}

fn groups_of(cell: &str) -> Vec<String> {
    let controllers = names_in(Path::new("/sys/fs/cgroup")).into_iter().chain([String::new()]);
    let places = controllers.map(|name| Path::new("/sys/fs/cgroup").join(name).join("hotcell"));
    let groups = places.map(|place| place.join(cell)).filter(|group| group.exists());
    groups.map(|group| format!("cgroup {}", group.display())).collect()
}

/// Runs the contract once more in a process of an ordinary user, named by a variable.
fn keeps_the_contract_as(variable: &str, around: &[&str]) -> Result<()> {
    let Ok(user) = std::env::var(variable) else {
        return skip("rootless", &format!("{variable} names no user"));
    };
    let Some(program) = program() else {
        return skip("rootless", "there is no hotcell program");
    };
    // Copies, because the user may not reach where they were built.
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let (tests, hotcell) = (directory.path().join("contract"), directory.path().join("hotcell"));
    fs::copy(std::env::current_exe()?, &tests)?;
    fs::copy(program, &hotcell)?;
    let output = Command::new("runuser")
        .args(["-u", &user, "--"])
        .args(around)
        .arg(&tests)
        .args(["--exact", "native_keeps_the_driver_contract", "--nocapture"])
        .env("HOTCELL_TEST_BIN", &hotcell)
        .env(LEVEL, if around.is_empty() { "" } else { IsolationLevel::Process.as_str() })
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .context("run as another user")?;
    let words =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "as {user}: {}", words.join("\n"));
    ensure!(words[0].contains("1 passed"), "as {user} nothing was tested: {}", words.join("\n"));
    Ok(())
}

/// The program that keepers and supervisors are: as told, or as built beside this test.
fn program() -> Option<PathBuf> {
    if let Some(told) = std::env::var_os("HOTCELL_TEST_BIN") {
        return Some(told.into());
    }
    let this = std::env::current_exe().ok()?;
    let beside = this.parent()?.parent()?.join("hotcell");
    beside.exists().then_some(beside)
}

/// Says loudly what is not tested; an error where it must be.
fn skip(what: &str, why: &str) -> Result<()> {
    let required = std::env::var("HOTCELL_REQUIRE").unwrap_or_default();
    if required.split(',').any(|word| word.trim() == what) {
        bail!("HOTCELL_REQUIRE names {what}, but {why}");
    }
    let line = format!("skipped: the driver contract of the native driver: {why}\n");
    if let Some(file) = std::env::var_os("HOTCELL_TEST_SKIPS") {
        fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())?;
    }
    std::io::stderr().write_all(line.as_bytes())?;
    Ok(())
}
