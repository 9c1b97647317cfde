//! The contract of every driver, on a Docker engine.

#![expect(
    clippy::disallowed_methods,
    reason = "the test script tells by variables where things are"
)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hotcell_docker::{DockerDriver, DockerSettings, EngineSettings};
use hotcell_model::{Driver, RequiredIsolation};
use hotcell_testkit::driver_contract::{DriverPlace, run_driver_contract};

#[tokio::test]
async fn docker_keeps_the_driver_contract() -> Result<()> {
    let (Ok(socket), Ok(image)) =
        (std::env::var("HOTCELL_TEST_DOCKER"), std::env::var("HOTCELL_TEST_DOCKER_IMAGE"))
    else {
        return skip("HOTCELL_TEST_DOCKER names no socket of a Docker engine");
    };
    let Some(program) = program() else {
        return skip(
            "there is no hotcell program: `cargo build -p hotcell`, or set HOTCELL_TEST_BIN",
        );
    };
    run_driver_contract(move || place(&program, &socket, &image)).await
}

/// A state directory for one case.
fn place(program: &Path, socket: &str, image: &str) -> Result<DriverPlace> {
    let directory = tempfile::tempdir()?;
    let state = directory.path().join("state");
    fs::create_dir(&state)?;
    let settings = DockerSettings {
        state_dir: state.clone(),
        program: program.to_owned(),
        engines: Ok(vec![EngineSettings::new("here", format!("unix://{socket}").parse()?)]),
        image: Some(image.to_owned()),
        scan: None,
        runtime: None,
        required: RequiredIsolation::default(),
        egress: hotcell_egress::EgressSettings::default(),
    };
    let records = directory.path().join("records");
    fs::create_dir(&records)?;
    let socket = socket.to_owned();
    let look = move || {
        let Ok(id) = fs::read_to_string(state.join("docker/id.json")) else {
            return Ok(Vec::new());
        };
        let label = format!("dev.hotcell.state={}", id.trim_matches('"'));
        let filters = format!("%7B%22label%22%3A%5B%22{label}%22%5D%7D");
        let asked = [
            (format!("/containers/json?all=1&filters={filters}"), "[]"),
            (format!("/volumes?filters={filters}"), "\"Volumes\":[]"),
        ];
        let mut left = Vec::new();
        for (path, nothing) in asked {
            let answer = ask(&socket, &path)?;
            if !answer.contains(nothing) && !answer.contains("\"Volumes\":null") {
                left.push(answer);
            }
        }
        let cells = fs::read_dir(state.join("docker/cells")).into_iter().flatten().flatten();
        left.extend(cells.map(|entry| entry.path().display().to_string()));
        Ok(left)
    };
    let open = move || {
        // Moved in: the directory lives as long as the place does.
        let _ = &directory;
        Ok(Arc::new(DockerDriver::new(settings.clone())) as Arc<dyn Driver>)
    };
    Ok(DriverPlace::new(records, open).with_left_behind(look))
}

/// What the engine says to a question, without any client of ours.
fn ask(socket: &str, path: &str) -> Result<String> {
    let mut stream = UnixStream::connect(socket).context("connect to the engine")?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if !answer.contains(" 200 ") {
        bail!("{path}: {answer}");
    }
    Ok(answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.trim().to_owned()))
}

/// The program that supervisors are: as told, or as built beside this test.
fn program() -> Option<PathBuf> {
    if let Some(told) = std::env::var_os("HOTCELL_TEST_BIN") {
        return Some(told.into());
    }
    let this = std::env::current_exe().ok()?;
    let beside = this.parent()?.parent()?.join("hotcell");
    beside.exists().then_some(beside)
}

/// Says loudly what is not tested; an error where it must be.
fn skip(why: &str) -> Result<()> {
    let required = std::env::var("HOTCELL_REQUIRE").unwrap_or_default();
    if required.split(',').any(|word| word.trim() == "docker") {
        bail!("HOTCELL_REQUIRE names docker, but {why}");
    }
    let line = format!("skipped: the driver contract of the docker driver: {why}\n");
    if let Some(file) = std::env::var_os("HOTCELL_TEST_SKIPS") {
        fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())?;
    }
    std::io::stderr().write_all(line.as_bytes())?;
    Ok(())
}
