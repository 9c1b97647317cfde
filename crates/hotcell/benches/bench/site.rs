//! An engine on a state directory of its own, as a server would have it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hotcell_docker::{DockerDriver, DockerSettings, EngineAddress, EngineSettings};
use hotcell_engine::{Engine, ExecEvent, PoolSettings, Settings};
use hotcell_model::{
    Caller, CellId, CellInfo, CellKill, CellSpawn, Command, Driver, EndCause, ExecFollow,
    ExecResult, ExecRun, ExecState, FileCall, FileOp, FileRead, FileWrite, Keep, KillWait, Pace,
    RequestedLimits, Role, Tenant,
};
use hotcell_native::{CgroupUse, NativeDriver, NativeSettings};
use hotcell_store::SqliteStore;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::containers::DockerEngine;
use crate::{code, guards};

const POLL: Duration = Duration::from_millis(20);
/// How long a pool takes to be full at most.
const FULL_WITHIN_MS: u32 = 30_000;

/// What stands between a caller and what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guards {
    /// Nothing: it is the operator.
    None,
    /// Policy, redaction and ledger, as for an agent that is served.
    All,
}

/// The engine of this process.
pub(crate) struct Site {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Arc<Engine>,
    pub(crate) state: PathBuf,
    caller: Caller,
}

/// Short commands that are run all the time.
pub(crate) struct Flood {
    counter: Arc<AtomicUsize>,
    tasks: JoinSet<Result<()>>,
}

impl Flood {
    /// Ends it; how many there were. None of them may have failed.
    pub(crate) fn stop(mut self) -> Result<usize> {
        if let Some(ended) = self.tasks.try_join_next() {
            ended??;
        }
        Ok(self.counter.load(Ordering::Relaxed))
    }
}

fn native(state: &Path, hotcell: &Path, cgroups: CgroupUse) -> NativeDriver {
    NativeDriver::new(NativeSettings {
        state_dir: state.to_owned(),
        own_files: Vec::new(),
        program: hotcell.to_owned(),
        cgroups,
        required: hotcell_model::RequiredIsolation::default(),
        egress: hotcell_native::EgressSettings::default(),
        together: hotcell_native::Together::default(),
        registries: hotcell_native::RegistrySettings::default(),
        scan: None,
        pull_watch: Arc::new(hotcell_model::Unwatched),
    })
}

fn containers(state: &Path, hotcell: &Path, docker: &DockerEngine) -> DockerDriver {
    let address = match docker.port {
        Some(port) => EngineAddress::Tcp { host: "127.0.0.1".to_owned(), port },
        None => EngineAddress::Unix { path: docker.socket.clone() },
    };
    DockerDriver::new(DockerSettings {
        state_dir: state.to_owned(),
        program: hotcell.to_owned(),
        engines: Ok(vec![EngineSettings::new("bench", address)]),
        image: Some(docker.image.clone()),
        credentials: hotcell_docker::DockerConfig::default(),
        scan: None,
        runtime: None,
        required: hotcell_model::RequiredIsolation::default(),
        egress: hotcell_native::EgressSettings::default(),
    })
}

impl Site {
    pub(crate) fn open(
        state: &Path,
        hotcell: &Path,
        cgroups: CgroupUse,
        guards: Guards,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let store = runtime.block_on(async { SqliteStore::open(state) })?;
        let driver = native(state, hotcell, cgroups);
        let settings = Settings { redact_shapes: guards == Guards::All, ..Settings::default() };
        let mut engine =
            Engine::new(state.to_owned(), Arc::new(store), vec![Arc::new(driver)], settings);
        let local = Caller::local(rustix::process::getuid().as_raw());
        let caller = match guards {
            Guards::None => local,
            Guards::All => {
                guards::put_into(&mut engine, state)?;
                code::put_into(&mut engine)?;
                local.in_role(Role::Agent)
            }
        };
        Ok(Self { runtime, engine: Arc::new(engine), state: state.to_owned(), caller })
    }

    /// An engine whose cells are in containers.
    pub(crate) fn open_docker(state: &Path, hotcell: &Path, docker: &DockerEngine) -> Result<Self> {
        Self::open_with(
            state,
            Arc::new(containers(state, hotcell, docker)),
            PoolSettings::default(),
        )
    }

    /// An engine that keeps cells ready, in containers if there is an engine for them.
    pub(crate) fn open_pooled(
        state: &Path,
        hotcell: &Path,
        docker: Option<&DockerEngine>,
    ) -> Result<Self> {
        std::fs::create_dir_all(state)?;
        let driver: Arc<dyn Driver> = match docker {
            Some(docker) => Arc::new(containers(state, hotcell, docker)),
            None => Arc::new(native(state, hotcell, CgroupUse::Auto)),
        };
        let site = Self::open_with(state, driver, PoolSettings { size: 2, ..Default::default() })?;
        let keep = async { site.engine.keep_house(Tenant::default()) };
        site.runtime.block_on(keep);
        Ok(site)
    }

    fn open_with(state: &Path, driver: Arc<dyn Driver>, pool: PoolSettings) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let store = runtime.block_on(async { SqliteStore::open(state) })?;
        let default_driver = driver.name().to_owned();
        let settings =
            Settings { default_driver, redact_shapes: false, pool, ..Settings::default() };
        let engine = Engine::new(state.to_owned(), Arc::new(store), vec![driver], settings);
        let caller = Caller::local(rustix::process::getuid().as_raw());
        Ok(Self { runtime, engine: Arc::new(engine), state: state.to_owned(), caller })
    }

    /// Waits until cells are ready, is given one, measures that, and ends it.
    pub(crate) fn claim_and_kill(&self) -> Result<Duration> {
        let given = self.engine.pool_figures().given;
        let ready = async {
            for _ in 0..FULL_WITHIN_MS {
                if self.engine.pool_figures().ready >= 2 {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            anyhow::bail!("the pool is not full: {:?}", self.engine.pool_figures())
        };
        self.runtime.block_on(ready)?;
        let took = self.spawn_and_kill()?;
        ensure!(self.engine.pool_figures().given == given + 1, "the cell was not of the pool");
        Ok(took)
    }

    /// Ends the cells that are ready.
    pub(crate) fn end_pool(&self) -> Result<()> {
        Ok(self.runtime.block_on(self.engine.end_pool())?)
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Makes a cell and tells how long that took.
    pub(crate) fn spawn(&self, alias: Option<&str>) -> Result<(CellId, Duration)> {
        let request = CellSpawn {
            alias: alias.map(str::parse).transpose()?,
            keep: Keep::Ttl,
            ttl_s: Some(3600),
            ..CellSpawn::default()
        };
        let began = Instant::now();
        let cell = self.runtime.block_on(self.engine.ask(&self.caller, request))?;
        Ok((cell.id, began.elapsed()))
    }

    /// Makes a cell with these limits.
    pub(crate) fn spawn_with(&self, limits: RequestedLimits) -> Result<CellId> {
        let request =
            CellSpawn { keep: Keep::Ttl, ttl_s: Some(3600), limits, ..CellSpawn::default() };
        Ok(self.runtime.block_on(self.engine.ask(&self.caller, request))?.id)
    }

    /// Starts a command and leaves it.
    pub(crate) fn begin(&self, cell: &CellId, command: &str) -> Result<()> {
        let request = ExecRun::new(cell.clone(), Command::Shell(command.to_owned()));
        self.runtime.block_on(self.engine.ask(&self.caller, request))?;
        Ok(())
    }

    /// Runs short commands in a cell, some at once, until it is told to stop.
    pub(crate) fn flood(&self, cell: &CellId, at_once: usize) -> Flood {
        let counter = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..at_once {
            let (engine, caller) = (Arc::clone(&self.engine), self.caller.clone());
            let (request, counter) = (run(cell, &["true"]), Arc::clone(&counter));
            let flood = async move {
                loop {
                    succeeded(&engine.ask(&caller, request.clone()).await?)?;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            };
            tasks.spawn_on(flood, self.runtime.handle());
        }
        Flood { counter, tasks }
    }

    /// Lets time pass, in which what was begun goes on.
    pub(crate) fn pause(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Ends a cell.
    pub(crate) fn kill(&self, cell: &CellId) -> Result<()> {
        let request = CellKill {
            cell: cell.clone().into(),
            force: true,
            volumes: true,
            wait: KillWait::Removed,
        };
        self.runtime.block_on(self.engine.ask(&self.caller, request))?;
        Ok(())
    }

    /// Ends a cell that somebody else made.
    pub(crate) fn kill_named(&self, alias: &str) -> Result<()> {
        self.kill(&self.find(alias)?)
    }

    /// The cell with this alias.
    pub(crate) fn find(&self, alias: &str) -> Result<CellId> {
        let request = CellInfo { cell: alias.parse()? };
        Ok(self.runtime.block_on(self.engine.ask(&self.caller, request))?.cell.id)
    }

    /// Waits until so many execs run in a cell.
    pub(crate) fn until_running(&self, cell: &CellId, count: usize) -> Result<()> {
        loop {
            if self.running(cell)? >= count {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }

    /// How many execs run in a cell.
    pub(crate) fn running(&self, cell: &CellId) -> Result<usize> {
        let request = CellInfo { cell: cell.clone().into() };
        let found = self.runtime.block_on(self.engine.ask(&self.caller, request))?;
        Ok(found.execs.iter().filter(|exec| exec.state == ExecState::Running).count())
    }

    /// Makes a cell, measures that, and ends it.
    pub(crate) fn spawn_and_kill(&self) -> Result<Duration> {
        let (cell, took) = self.spawn(None)?;
        self.kill(&cell)?;
        Ok(took)
    }

    /// `sh -c true` in a cell.
    pub(crate) fn exec(&self, cell: &CellId) -> Result<Duration> {
        let request = run(cell, &["sh", "-c", "true"]);
        let began = Instant::now();
        let result = self.runtime.block_on(self.engine.ask(&self.caller, request))?;
        let took = began.elapsed();
        succeeded(&result)?;
        Ok(took)
    }

    /// A line of shell text in a cell that prints so many lines.
    pub(crate) fn run_text(&self, cell: &CellId, text: &str, lines: usize) -> Result<Duration> {
        let command = Command::Shell(text.to_owned());
        let request = ExecRun { wait_s: 30.0, ..ExecRun::new(cell.clone(), command) };
        let began = Instant::now();
        let result = self.runtime.block_on(self.engine.ask(&self.caller, request))?;
        let took = began.elapsed();
        succeeded(&result)?;
        let printed = result.records.iter().flat_map(|record| &record.bytes);
        let newlines = printed.filter(|byte| **byte == b'\n').count();
        ensure!(newlines == lines, "{newlines} of {lines} lines came");
        Ok(took)
    }

    /// The same as often as `calls` says, with `at_once` under way.
    pub(crate) fn exec_many(&self, cell: &CellId, calls: usize, at_once: usize) -> Result<()> {
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for number in 0..at_once {
                let (engine, caller) = (Arc::clone(&self.engine), self.caller.clone());
                let request = run(cell, &["sh", "-c", "true"]);
                let share = (calls + at_once - 1 - number) / at_once;
                tasks.spawn(async move {
                    for _ in 0..share {
                        succeeded(&engine.ask(&caller, request.clone()).await?)?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            Ok(())
        })
    }

    /// Starts as many execs at once as `count` says, each with an answer and an exit code of its
    /// own; how long it took until all ran, and how many were right in the end.
    pub(crate) fn parallel(&self, cell: &CellId, count: u32) -> Result<(Duration, u32)> {
        self.runtime.block_on(async {
            let began = Instant::now();
            let mut tasks = JoinSet::new();
            for number in 0..count {
                let (engine, caller) = (Arc::clone(&self.engine), self.caller.clone());
                let script = format!("read line; echo job {number} $line; exit {}", number % 7);
                let mut request = run(cell, &["sh", "-c", &script]);
                request.wait_s = 0.0;
                request.stdin = hotcell_model::Stdin::Open;
                tasks.spawn(async move {
                    let id = engine.ask(&caller, request).await?.exec.id;
                    anyhow::Ok((number, id))
                });
            }
            let mut started = Vec::new();
            while let Some(ended) = tasks.join_next().await {
                started.push(ended??);
            }
            let took = began.elapsed();
            let mut right = 0;
            for (number, exec) in started {
                let mut input = hotcell_model::ExecInput::to(exec.clone());
                input.data = b"done\n".to_vec();
                self.engine.ask(&self.caller, input).await?;
                let (text, code) = self.follow(exec).await?;
                let expected = format!("job {number} done\n").into_bytes();
                right += u32::from(text == expected && code == i32::try_from(number % 7)?);
            }
            Ok((took, right))
        })
    }

    async fn follow(&self, exec: hotcell_model::ExecId) -> Result<(Vec<u8>, i32)> {
        let request = ExecFollow { exec, after_seq: 0, pace: Pace::Free };
        let mut stream = self.engine.follow(&self.caller, request).await?;
        let mut text = Vec::new();
        while let Some(event) = stream.next().await? {
            match event {
                ExecEvent::Record(record) => text.extend(record.bytes),
                ExecEvent::Dropped(dropped) => anyhow::bail!("output is missing: {dropped:?}"),
                ExecEvent::Ended(exec) => {
                    let end = exec.end.context("an end without an end")?;
                    return Ok((text, end.exit_code.context("no exit code")?));
                }
            }
        }
        anyhow::bail!("the output ended without an end")
    }

    /// Writes a file of a cell.
    pub(crate) fn write_file(&self, cell: &CellId, content: &[u8]) -> Result<Duration> {
        let op = FileOp::Write(FileWrite {
            path: "file".to_owned(),
            mode: None,
            create_parents: true,
            precondition: hotcell_model::Precondition::default(),
        });
        self.file(cell, op, content.to_vec()).map(|(took, _)| took)
    }

    /// Reads it, with so much in it.
    pub(crate) fn read_file(&self, cell: &CellId, bytes: usize) -> Result<Duration> {
        let path = "file".to_owned();
        let op = FileOp::Read(FileRead { path, offset: None, limit: None, ..FileRead::default() });
        let (took, read) = self.file(cell, op, Vec::new())?;
        ensure!(read == bytes, "{read} of {bytes} bytes came");
        Ok(took)
    }

    fn file(&self, cell: &CellId, op: FileOp, content: Vec<u8>) -> Result<(Duration, usize)> {
        let request = FileCall { content, ..FileCall::new(cell.clone(), op) };
        let began = Instant::now();
        let done = self.runtime.block_on(self.engine.ask(&self.caller, request))?;
        Ok((began.elapsed(), done.content.len()))
    }

    /// Runs a command that prints `bytes` and reads all of it as it comes.
    pub(crate) fn read_output(
        &self,
        cell: &CellId,
        argv: &[&str],
        bytes: usize,
    ) -> Result<Duration> {
        self.runtime.block_on(async {
            let mut request = run(cell, argv);
            request.wait_s = 0.0;
            let began = Instant::now();
            let exec = self.engine.ask(&self.caller, request).await?.exec.id;
            let request = ExecFollow { exec, after_seq: 0, pace: Pace::Free };
            let mut stream = self.engine.follow(&self.caller, request).await?;
            let mut read = 0;
            while let Some(event) = stream.next().await? {
                match event {
                    ExecEvent::Record(record) => read += record.bytes.len(),
                    ExecEvent::Dropped(dropped) => anyhow::bail!("output is missing: {dropped:?}"),
                    ExecEvent::Ended(_) => break,
                }
            }
            let took = began.elapsed();
            ensure!(read == bytes, "{read} of {bytes} bytes came");
            Ok(took)
        })
    }
}

fn run(cell: &CellId, argv: &[&str]) -> ExecRun {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    ExecRun { wait_s: 30.0, ..ExecRun::new(cell.clone(), Command::Argv(argv)) }
}

fn succeeded(result: &ExecResult) -> Result<()> {
    let end = result.exec.end.as_ref().context("it did not end")?;
    ensure!(end.cause == EndCause::Exited && end.exit_code == Some(0), "it ended as {end:?}");
    Ok(())
}
