//! What the tests need of this machine, and what they do where it is absent.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use super::kind::{self, User};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Something that a machine may lack; named as in `HOTCELL_REQUIRE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Cells on this kernel.
    Native,
    /// Cells made by an ordinary user.
    Rootless,
    /// Limits kept by a control group.
    Cgroup,
    /// What packs the program and checks the package.
    Packaging,
    /// Programs of others that speak to ours.
    Clients,
    /// Agents of others that are driven with a scripted model.
    Agents,
    /// Servers of others whose tools code calls.
    ToolServers,
    /// Packages that code works with.
    Runner,
    /// A Docker engine.
    Docker,
    /// A registry of images.
    Registry,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Rootless => "rootless",
            Self::Cgroup => "cgroup",
            Self::Packaging => "packaging",
            Self::Clients => "clients",
            Self::Agents => "agents",
            Self::ToolServers => "tool-servers",
            Self::Runner => "runner",
            Self::Docker => "docker",
            Self::Registry => "registry",
        }
    }
}

/// What was found; where it was not, the test is skipped loudly, or fails if it is required.
pub(crate) fn require<T>(need: Need, found: Result<T, String>) -> Option<T> {
    let reason = match found {
        Ok(found) => return Some(found),
        Err(reason) => reason,
    };
    let required = setting("HOTCELL_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == need.name());
    assert!(!is_required, "{} is required: {reason}", need.name());
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(list) = setting("HOTCELL_TEST_SKIPS") {
        let mut list = fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{test}: {reason}").unwrap();
    }
    None
}

/// A setting of the tests.
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The socket of the Docker engine to test with, and the image that it has.
pub(crate) fn docker() -> Option<(String, String)> {
    Some((setting("HOTCELL_TEST_DOCKER")?, setting("HOTCELL_TEST_DOCKER_IMAGE")?))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whoever runs the tests.
pub(super) fn own_user() -> Result<User, String> {
    let uid = rustix::process::getuid().as_raw();
    kind::find(|user| user.uid == uid).ok_or_else(|| format!("uid {uid} has no name"))
}

/// Whether a user may make namespaces; not by what is tested.
pub(super) fn user_namespaces_work(user: &User) -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--mount", "--map-root-user", "true"]);
    unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    if is_root() {
        unshare.uid(user.uid).gid(user.gid);
    }
    unshare.status().is_ok_and(|status| status.success())
}

/// Whether Landlock is there and as of Linux 6.12.
pub(super) fn landlock_stands_alone() -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next(), numbers.next());
    // Where the list cannot be read it is taken to be there.
    let modules = read("/sys/kernel/security/lsm");
    version >= (Some(6), Some(12)) && (modules.is_empty() || modules.contains("landlock"))
}

/// The program under test, at a place where every user can read it.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let built = setting("HOTCELL_TEST_BIN")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_hotcell")), PathBuf::from);
        if is_root() { readable_copy(&built) } else { built }
    })
}

/// The pid 1 of an attacker, which is built with the tests.
pub(crate) fn hostile_program() -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("examples/hostile_supervisor");
    let missing = || format!("{} is not built: cargo build --examples", built.display());
    require(Need::Native, built.exists().then(|| built.clone()).ok_or_else(missing))
}

/// Where the programs of others are installed.
pub(crate) fn clients() -> Option<PathBuf> {
    let found = setting("HOTCELL_TEST_CLIENTS")
        .ok_or_else(|| "HOTCELL_TEST_CLIENTS is not set (see CONTRIBUTING.md)".to_owned());
    require(Need::Clients, found).map(PathBuf::from)
}

/// Where agents of others are installed.
pub(crate) fn agents() -> Option<PathBuf> {
    let found = setting("HOTCELL_TEST_AGENTS")
        .ok_or_else(|| "HOTCELL_TEST_AGENTS is not set (see CONTRIBUTING.md)".to_owned());
    require(Need::Agents, found).map(PathBuf::from)
}

/// Where the servers of others are installed whose tools code calls.
pub(crate) fn tool_servers() -> Option<PathBuf> {
    let found = setting("HOTCELL_TEST_TOOL_SERVERS")
        .ok_or_else(|| "HOTCELL_TEST_TOOL_SERVERS is not set (see CONTRIBUTING.md)".to_owned());
    require(Need::ToolServers, found).map(PathBuf::from)
}

/// Where packages of Python lie that make tables and figures.
pub(crate) fn python_packages() -> Option<PathBuf> {
    let found = setting("HOTCELL_TEST_PYTHON").and_then(|python| {
        let library = Path::new(&python).parent()?.parent()?.join("lib");
        let versions = fs::read_dir(library).ok()?.flatten();
        let mut places = versions.map(|entry| entry.path().join("site-packages"));
        places.find(|place| place.join("pandas").is_dir() && place.join("matplotlib").is_dir())
    });
    let why = "HOTCELL_TEST_PYTHON names no python3 with pandas (see CONTRIBUTING.md)";
    require(Need::Runner, found.ok_or_else(|| why.to_owned()))
}

/// Where all worlds of a user find what their cells start from, so that it is made once for each
/// build of the program and not once for each test.
pub(super) fn shared_bases(user: &User) -> Option<PathBuf> {
    if !is_root() {
        return None;
    }
    let bases = program().with_file_name(format!("bases-{}", user.uid));
    // Another test may have been quicker.
    let _ = fs::create_dir(&bases);
    chown(&bases, Some(user.uid), Some(user.gid)).unwrap();
    Some(bases)
}

/// One copy of each build, whichever test comes first; those of earlier days go.
fn readable_copy(built: &Path) -> PathBuf {
    let source = fs::metadata(built).unwrap_or_else(|error| {
        panic!("the program under test is not at {}: {error}", built.display())
    });
    let all = std::env::temp_dir().join("hotcell-e2e-program");
    let name = format!("{:x}-{:x}-{:x}", source.ino(), source.mtime(), source.mtime_nsec());
    let program = all.join(&name).join("hotcell");
    if program.exists() {
        return program;
    }
    fs::create_dir_all(&all).unwrap();
    let draft = tempfile::Builder::new().prefix("draft-").tempdir_in(&all).unwrap();
    for directory in [all.as_path(), draft.path()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let copy = draft.path().join("hotcell");
    // By another process: had this one the file open for writing, what it starts meanwhile would
    // have it too, and no file that is being written can be run.
    let copied = Command::new("cp").arg(built).arg(&copy).status().unwrap();
    assert!(copied.success(), "the program under test cannot be copied");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    // Whoever is second finds a directory that is not empty in the way, and uses it.
    let _ = fs::rename(draft.path(), all.join(&name));
    for entry in fs::read_dir(&all).unwrap().flatten() {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|at| at.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > DAY)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    program
}
