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
use tokio::task::JoinSet;

#[tokio::test]
async fn docker_keeps_the_driver_contract() -> Result<()> {
    run_contract(Way::Socket).await
}

/// The same engine, as one of another machine: nothing of its files is seen from here.
#[tokio::test]
async fn docker_at_another_machine_keeps_the_driver_contract() -> Result<()> {
    run_contract(Way::Network).await
}

/// How the engine is reached.
#[derive(Clone, Copy)]
enum Way {
    Socket,
    Network,
}

async fn run_contract(way: Way) -> Result<()> {
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
    match way {
        Way::Socket => {
            let address = format!("unix://{socket}");
            run_driver_contract(move || place(&program, &socket, &address, &image)).await
        }
        Way::Network => {
            let (address, _carried) = carry_port(&socket)?;
            run_driver_contract(move || place(&program, &socket, &address, &image)).await
        }
    }
}

/// A port that leads to a socket, for as long as what comes with it is kept.
fn carry_port(socket: &str) -> Result<(String, JoinSet<()>)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = format!("tcp://{}", listener.local_addr()?);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (mut carried, socket) = (JoinSet::new(), socket.to_owned());
    carried.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut from, _)) = listener.accept().await {
            let socket = socket.clone();
            connections.spawn(async move {
                if let Ok(mut to) = tokio::net::UnixStream::connect(socket).await {
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                }
            });
        }
    });
    Ok((address, carried))
}

/// A state directory for one case.
fn place(program: &Path, socket: &str, address: &str, image: &str) -> Result<DriverPlace> {
    let directory = tempfile::tempdir()?;
    let state = directory.path().join("state");
    fs::create_dir(&state)?;
    let mut engine = EngineSettings::new("here", address.parse()?);
    // What the cases let cells reach is on this machine.
    "host".clone_into(&mut engine.network);
    let settings = DockerSettings {
        state_dir: state.clone(),
        program: program.to_owned(),
        engines: Ok(vec![engine]),
        image: Some(image.to_owned()),
        credentials: hotcell_docker::DockerConfig::default(),
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
        let id = id.trim_matches('"');
        remove_programs(&socket, id)?;
        let label = format!("dev.hotcell.state={id}");
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

/// Removes the copies of the program that stay for the next cell of a state directory.
fn remove_programs(socket: &str, state: &str) -> Result<()> {
    let filters = format!("%7B%22label%22%3A%5B%22dev.hotcell.program={state}%22%5D%7D");
    let answer = ask(socket, &format!("/volumes?filters={filters}"))?;
    for part in answer.split("\"Name\":\"").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        call(socket, "DELETE", &format!("/volumes/{name}"))?;
    }
    Ok(())
}

/// What the engine says to a question, without any client of ours.
fn ask(socket: &str, path: &str) -> Result<String> {
    let answer = call(socket, "GET", path)?;
    if !answer.contains(" 200 ") {
        bail!("{path}: {answer}");
    }
    Ok(answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.trim().to_owned()))
}

fn call(socket: &str, method: &str, path: &str) -> Result<String> {
    let mut stream = UnixStream::connect(socket).context("connect to the engine")?;
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: docker\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
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
