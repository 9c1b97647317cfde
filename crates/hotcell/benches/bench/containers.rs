//! Cells in containers, beside native ones and beside what the engine's own tools do.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::oneshot;
use crate::parts::Bench;
use crate::samples::{Samples, Shot, Turns, take_turns};
use crate::site::Site;
use crate::table::{Row, times};

const FILE_BYTES: usize = 1 << 20;

/// A Docker engine to measure with.
#[derive(Debug, Clone)]
pub(crate) struct DockerEngine {
    pub(crate) socket: PathBuf,
    pub(crate) image: String,
    /// A port that leads to the socket, by which the engine is one of another machine.
    pub(crate) port: Option<u16>,
}

impl DockerEngine {
    /// The same engine behind a port of the loopback device, for as long as this process lives.
    fn behind_port(&self) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let socket = self.socket.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that is not served notices.
                let _ = lead(client, &socket);
            }
        });
        Ok(Self { port: Some(port), ..self.clone() })
    }

    fn docker(&self, args: &[&str]) -> Result<Duration> {
        let mut command = oneshot::program("docker");
        command.arg("--host").arg(format!("unix://{}", self.socket.display())).args(args);
        oneshot::timed(&mut command)
    }
}

/// A container of the engine's own tools, removed in the end.
struct Plain<'a> {
    engine: &'a DockerEngine,
    name: String,
}

impl<'a> Plain<'a> {
    fn start(engine: &'a DockerEngine) -> Result<Self> {
        let plain = Self { engine, name: format!("hotcell-bench-{}", std::process::id()) };
        let run = ["run", "-d", "--network", "none", "--name", &plain.name, &engine.image];
        engine.docker(&[run.as_slice(), &["sleep", "3600"]].concat())?;
        Ok(plain)
    }
}

impl Drop for Plain<'_> {
    fn drop(&mut self) {
        // It ends by itself otherwise.
        let _ = self.engine.docker(&["rm", "-f", &self.name]);
    }
}

impl Bench<'_> {
    /// What a cell in a container costs.
    pub(crate) fn containers(&mut self, native: &Site) -> Result<()> {
        let Some(engine) = self.docker.cloned() else {
            self.rows.push(Row::new("cells in containers", "skipped: no Docker engine"));
            return Ok(());
        };
        let state = self.state.join("containers");
        std::fs::create_dir_all(&state)?;
        let docker = Site::open_docker(&state, self.hotcell, &engine)?;
        self.containers_spawn(native, &docker, &engine)?;
        let plain = Plain::start(&engine)?;
        let ((ours, _), (theirs, _)) = (native.spawn(None)?, docker.spawn(None)?);
        let in_plain = ["exec", &plain.name, "sh", "-c", "true"];
        let turns = Turns { rounds: self.rounds(20), in_a_row: 5 };
        let shots: [Shot<'_>; 3] = [
            Box::new(|| native.exec(&ours)),
            Box::new(|| docker.exec(&theirs)),
            Box::new(|| engine.docker(&in_plain)),
        ];
        let [exec, in_container, by_tool] = take_turns(turns, shots)?;
        self.add("exec `sh -c true`, native cell", &exec, String::new(), "");
        let ratio = format!(
            "{}, `docker exec` takes {:.0} ×",
            times(in_container.ratio_to(&exec), "native"),
            by_tool.ratio_to(&in_container)
        );
        let promise = "≤ 1.5 × native, 50 × below `docker exec`";
        self.add("exec `sh -c true`, cell in a container", &in_container, ratio, promise);
        self.add("`docker exec` of the same", &by_tool, String::new(), "");

        let calls = self.rounds(1000).max(64);
        let shots: [Shot<'_>; 2] = [
            Box::new(|| timed(|| native.exec_many(&ours, calls, 64))),
            Box::new(|| timed(|| docker.exec_many(&theirs, calls, 64))),
        ];
        let [many, in_container] = take_turns(Turns { rounds: 3, in_a_row: 1 }, shots)?;
        let rate = |samples: &Samples| calls as f64 / samples.p50().as_secs_f64();
        let row = Row::new(
            "execs a second in a container, 64 in flight",
            format!("{:.0}/s", rate(&in_container)),
        );
        let row = row.spread(format!("native {:.0}/s", rate(&many)));
        self.rows.push(row.ratio(times(rate(&in_container) / rate(&many), "native")));
        self.containers_files((native, &ours), (&docker, &theirs), &plain)?;
        self.containers_far((native, &ours), &engine)?;
        native.kill(&ours)?;
        docker.kill(&theirs)
    }

    /// What the same costs at an engine that is reached over a port.
    fn containers_far(
        &mut self,
        (native, ours): (&Site, &hotcell_model::CellId),
        engine: &DockerEngine,
    ) -> Result<()> {
        let state = self.state.join("far-containers");
        std::fs::create_dir_all(&state)?;
        let far = Site::open_docker(&state, self.hotcell, &engine.behind_port()?)?;
        // With this the engine has the program.
        far.spawn_and_kill()?;
        let run = ["run", "--rm", "--network", "none", &engine.image, "true"];
        let shots: [Shot<'_>; 2] =
            [Box::new(|| far.spawn_and_kill()), Box::new(|| engine.docker(&run))];
        let turns = Turns { rounds: self.rounds(10), in_a_row: 1 };
        let [spawned, by_tool] = take_turns(turns, shots)?;
        let ratio = times(spawned.ratio_to(&by_tool), "`docker run`");
        self.add("cold spawn at another machine, until ready", &spawned, ratio, "");
        let (theirs, _) = far.spawn(None)?;
        let shots: [Shot<'_>; 2] = [Box::new(|| native.exec(ours)), Box::new(|| far.exec(&theirs))];
        let turns = Turns { rounds: self.rounds(20), in_a_row: 5 };
        let [exec, at_far] = take_turns(turns, shots)?;
        let ratio = times(at_far.ratio_to(&exec), "native");
        self.add("exec `sh -c true` at another machine, over loopback", &at_far, ratio, "");
        far.kill(&theirs)
    }

    fn containers_spawn(
        &mut self,
        native: &Site,
        docker: &Site,
        engine: &DockerEngine,
    ) -> Result<()> {
        let run = ["run", "--rm", "--network", "none", &engine.image, "true"];
        let pool =
            Site::open_pooled(&self.state.join("pooled-containers"), self.hotcell, Some(engine))?;
        let shots: [Shot<'_>; 4] = [
            Box::new(|| native.spawn_and_kill()),
            Box::new(|| docker.spawn_and_kill()),
            Box::new(|| engine.docker(&run)),
            Box::new(|| pool.claim_and_kill()),
        ];
        let turns = Turns { rounds: self.rounds(20), in_a_row: 1 };
        let [cold, in_container, by_tool, claimed] = take_turns(turns, shots)?;
        pool.end_pool()?;
        self.add("cold spawn, native", &cold, String::new(), "");
        let ratio = times(in_container.ratio_to(&by_tool), "`docker run`");
        self.add("cold spawn in a container, until ready", &in_container, ratio, "");
        self.add("`docker run --rm IMAGE true`", &by_tool, String::new(), "");
        let ratio = format!("`docker run` takes {:.0} ×", by_tool.ratio_to(&claimed));
        self.add("a cell in a container that was ready", &claimed, ratio, "≤ 20 ms");
        Ok(())
    }

    fn containers_files(
        &mut self,
        (native, ours): (&Site, &hotcell_model::CellId),
        (docker, theirs): (&Site, &hotcell_model::CellId),
        plain: &Plain<'_>,
    ) -> Result<()> {
        let content = vec![b'x'; FILE_BYTES];
        let here = self.files.join("copied");
        std::fs::write(&here, &content)?;
        let here = here.to_str().context("a path that is no text")?.to_owned();
        let there = format!("{}:/tmp/copied", plain.name);
        let back = self.files.join("back").to_string_lossy().into_owned();
        let turns = Turns { rounds: self.rounds(20), in_a_row: 3 };
        let shots: [Shot<'_>; 3] = [
            Box::new(|| native.write_file(ours, &content)),
            Box::new(|| docker.write_file(theirs, &content)),
            Box::new(|| plain.engine.docker(&["cp", &here, &there])),
        ];
        let [write, in_container, by_tool] = take_turns(turns, shots)?;
        self.compare("write of 1 MB", &write, &in_container, &by_tool);
        let shots: [Shot<'_>; 3] = [
            Box::new(|| native.read_file(ours, FILE_BYTES)),
            Box::new(|| docker.read_file(theirs, FILE_BYTES)),
            Box::new(|| plain.engine.docker(&["cp", &there, &back])),
        ];
        let [read, in_container, by_tool] = take_turns(turns, shots)?;
        ensure!(Path::new(&back).exists(), "docker cp copied nothing");
        self.compare("read of 1 MB", &read, &in_container, &by_tool);
        Ok(())
    }

    fn compare(&mut self, what: &str, native: &Samples, ours: &Samples, tool: &Samples) {
        let ratio = format!(
            "{}, `docker cp` takes {:.0} ×",
            times(ours.ratio_to(native), "native"),
            tool.ratio_to(ours)
        );
        self.add(&format!("{what} in a container"), ours, ratio, "");
    }
}

/// Carries a connection to a socket and back, on two threads.
fn lead(client: TcpStream, socket: &Path) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let engine = UnixStream::connect(socket)?;
    let (mut from_client, mut to_client) = (client.try_clone()?, client);
    let (mut from_engine, mut to_engine) = (engine.try_clone()?, engine);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_engine);
        let _ = to_engine.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_engine, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}
