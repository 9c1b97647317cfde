//! Measures what Hotcell promises, in one run and as ratios. Nothing here passes or fails by time.
//!
//! `cargo bench -p hotcell -- [--quick] [--user NAME] [--only PART]...`; see `scripts/bench`.

mod code;
mod containers;
mod dialects;
mod files;
mod floor;
mod guards;
mod load;
mod mcp;
mod memory;
mod neighbour;
mod oneshot;
mod parts;
mod samples;
mod servers;
mod site;
mod table;

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use hotcell_native::CgroupUse;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::containers::DockerEngine;
use crate::parts::{Bench, Part};

/// What was asked for on the command line.
#[derive(Debug, Default)]
struct Asked {
    quick: bool,
    only: Vec<Part>,
    cgroups: CgroupUse,
    /// The ordinary user under which everything is measured a second time.
    user: Option<String>,
    /// Where an earlier process put the programs, when this one runs as that user.
    programs: Option<PathBuf>,
    /// Where the programs of others are that the part `files` compares with.
    peers: Option<PathBuf>,
    original: Option<PathBuf>,
    /// The Docker engine that the part `containers` measures with.
    docker: Option<DockerEngine>,
}

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("--echo") => return mcp::echo::over_stdio(),
        Some("--echo-http") => return mcp::echo::over_http(),
        _ => {}
    }
    let asked = ask(std::env::args().skip(1))?;
    // Some servers open a directory's files all at once.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?;
    let place = tempfile::tempdir()?;
    let (hotcell, floor) = match &asked.programs {
        Some(programs) => (programs.join("hotcell"), programs.join("floor")),
        None => (PathBuf::from(env!("CARGO_BIN_EXE_hotcell")), floor::compile(place.path())?),
    };
    let state = place.path().join("state");
    std::fs::create_dir(&state)?;
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700))?;
    let mut bench = Bench {
        hotcell: &hotcell,
        floor: &floor,
        state: &state,
        files: place.path(),
        peers: asked.peers.as_deref(),
        original: asked.original.as_deref(),
        docker: asked.docker.as_ref(),
        quick: asked.quick,
        cgroups: asked.cgroups,
        rows: Vec::new(),
    };
    let measured = bench.measure(&asked.only);
    table::print(&mut io::stdout().lock(), &title(asked.cgroups), &bench.rows)?;
    measured?;
    match &asked.user {
        Some(user) => again_as(user, &asked, &hotcell, &floor),
        None => Ok(()),
    }
}

fn ask(args: impl Iterator<Item = String>) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            // Given by `cargo bench` itself.
            "--bench" => {}
            "--quick" => asked.quick = true,
            "--no-cgroups" => asked.cgroups = CgroupUse::Off,
            "--only" => asked.only.push(value()?.parse()?),
            "--user" => asked.user = Some(value()?),
            "--programs" => asked.programs = Some(value()?.into()),
            "--peers" => asked.peers = Some(value()?.into()),
            "--original" => asked.original = Some(value()?.into()),
            "--docker" => {
                let (socket, image) = (value()?.into(), value()?);
                asked.docker = Some(DockerEngine { socket, image, port: None });
            }
            other => bail!(
                "unknown argument {other:?}: use --quick, --only PART, --no-cgroups, --user NAME, \
                 --peers DIRECTORY, --original DIRECTORY, --docker SOCKET IMAGE"
            ),
        }
    }
    Ok(asked)
}

fn title(cgroups: CgroupUse) -> String {
    let who = if rustix::process::getuid().is_root() { "root" } else { "an ordinary user" };
    let cgroups = match cgroups {
        CgroupUse::Auto => "",
        CgroupUse::Off => ", without cgroups",
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    format!("As {who}{cgroups}; {cpus} CPUs, load {load} after the run")
}

/// Runs all of it once more as an ordinary user, who needs copies of the programs to reach them.
fn again_as(user: &str, asked: &Asked, hotcell: &Path, floor: &Path) -> Result<()> {
    if !rustix::process::getuid().is_root() {
        bail!("only root can measure as another user: leave --user out");
    }
    let programs = tempfile::tempdir()?;
    let this = std::env::current_exe()?;
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755))?;
    for (from, name) in [(hotcell, "hotcell"), (floor, "floor"), (this.as_path(), "bench")] {
        std::fs::copy(from, programs.path().join(name))?;
    }
    io::stdout().flush()?;
    let mut command = oneshot::program("runuser");
    command.args(["-u", user, "--"]).arg(programs.path().join("bench"));
    command.arg("--programs").arg(programs.path());
    if let Some(peers) = &asked.peers {
        let copied = programs.path().join("peers");
        let status = oneshot::program("cp").arg("-r").arg(peers).arg(&copied).status()?;
        ensure!(status.success(), "copy {}: {status}", peers.display());
        command.arg("--peers").arg(copied);
    }
    command.args(asked.quick.then_some("--quick"));
    command.args((asked.cgroups == CgroupUse::Off).then_some("--no-cgroups"));
    for part in &asked.only {
        command.args(["--only", part.name()]);
    }
    let status = command.stdout(Stdio::inherit()).current_dir("/").status()?;
    ensure!(status.success(), "the run as {user} failed: {status}");
    Ok(())
}
