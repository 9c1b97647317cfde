//! The driver: cells as containers and volumes of a Docker engine.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use hotcell_egress::EgressSettings;
use hotcell_jail::process::Confinement;
use hotcell_keeper::ensure_authority;
use hotcell_link::ContainerOrder;
use hotcell_model::{
    CellId, CellSpec, Collectable, Diagnosis, Driver, DriverCapabilities, Error, HOST_IMAGE,
    Isolation, Machine, Network, Networks, PlacedCell, Placement, Removed, RequiredIsolation,
    Result, Thrift, Timestamp,
};
use hotcell_place::{
    ACCOUNTS, ImageScan, add_image_env, connect_in, copy_of, keep_image_env, read_json, write_json,
};
use rustix::process::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::birth::{Birth, give_birth};
use crate::container::{self, Shown};
use crate::diagnose;
use crate::disk::{self, Measured};
use crate::docker_host::DockerHost;
use crate::engine_address::EngineSettings;
use crate::engines::{Engine, Engines};
use crate::images::find_or_pull;
use crate::isolation::{self, enforced};
use crate::keeper::KeeperAsk;
use crate::keeping::{Keeping, await_keeper_end};
use crate::paths::{CellPaths, DockerPaths, LINK_SOCKET, PLACED_VERSION, Placed};
use crate::preparing;
use crate::remains::cells_at;
use crate::remote::{self, Begun, OutpostPlace, Relaying, RemoteStart};
use crate::removal::remove_container;
use crate::shown_files::write_names;
use crate::volumes;

/// How long what an engine can do is taken for granted.
const KNOWN_FOR_S: u64 = 600;
/// Whom execs of a container are when root made it.
const CELL_USER: (u32, u32) = (1000, 1000);

/// What the driver is told.
#[derive(Debug, Clone)]
pub struct DockerSettings {
    /// The state directory.
    pub state_dir: PathBuf,
    /// The program that supervisors are.
    pub program: PathBuf,
    /// The engines, or what is wrong with what was said of them: whoever needs none is not told.
    pub engines: Result<Vec<EngineSettings>>,
    /// The image of cells that name none.
    pub image: Option<String>,
    /// Whose verdict on images counts.
    pub scan: Option<ImageScan>,
    /// The OCI runtime that containers are run by; the engine's default when left out.
    pub runtime: Option<String>,
    /// What every cell must have at least.
    pub required: RequiredIsolation,
    /// What the operator chose about the network of cells.
    pub egress: EgressSettings,
}

/// Places cells in containers.
#[derive(Debug)]
pub struct DockerDriver {
    settings: DockerSettings,
    paths: DockerPaths,
    keeping: Keeping,
    engines: Engines,
}

impl DockerDriver {
    /// The driver's name.
    pub const NAME: &'static str = "docker";

    /// A driver; each engine is looked for when it is first needed.
    #[must_use]
    pub fn new(settings: DockerSettings) -> Self {
        let paths = DockerPaths::new(&settings.state_dir);
        let keeping =
            Keeping { program: settings.program.clone(), egress: settings.egress.clone() };
        let engines = Engines::new(settings.engines.clone());
        Self { settings, paths, keeping, engines }
    }

    pub(crate) fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    pub(crate) fn cell_paths(&self, cell: &CellId) -> CellPaths {
        self.paths.cell(cell)
    }
}

#[async_trait]
impl Driver for DockerDriver {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    async fn capabilities(&self) -> Result<DriverCapabilities> {
        let mut together: Option<DriverCapabilities> = None;
        let mut unknown = None;
        for engine in self.engines.all()? {
            match self.capabilities_of(engine).await {
                Ok(found) => {
                    together = Some(match together {
                        Some(together) => of_both(&together, &found),
                        None => found,
                    });
                }
                Err(error) => unknown = unknown.or(Some(error)),
            }
        }
        together.ok_or_else(|| unknown.unwrap_or_else(no_engines))
    }

    async fn reach(&self) -> Result<()> {
        let mut unreached = None;
        for engine in self.engines.all()? {
            match engine.reach().await {
                Ok(_) => return Ok(()),
                Err(error) => unreached = unreached.or(Some(error)),
            }
        }
        Err(unreached.unwrap_or_else(no_engines))
    }

    fn usual_image(&self) -> Option<&str> {
        self.settings.image.as_deref()
    }

    async fn diagnose(&self) -> Diagnosis {
        diagnose::diagnose(&self.engines).await
    }

    async fn start(
        &self,
        spec: &CellSpec,
        records: &Path,
        tools: Option<&Path>,
    ) -> Result<Placement> {
        let paths = self.paths.cell(&spec.id);
        if self.connect(&spec.id).await?.is_some()
            && let Some(isolation) = read::<Isolation>(&paths, &paths.isolation())?
        {
            return Ok(Placement { isolation });
        }
        let placed = read::<Placed>(&paths, &paths.placed())?;
        let host = match &placed {
            Some(placed) if placed.version > PLACED_VERSION => {
                return Err(Error::unavailable(format!(
                    "cell {} was made by a newer hotcell",
                    spec.id
                ))
                .hint("use that version, or kill the cell"));
            }
            Some(placed) => self.engines.of(placed).await?,
            None => self.choose().await?,
        };
        let host = &*host;
        let mut placed = match placed {
            Some(placed) => placed,
            None => self.place(host, &paths, spec, records).await?,
        };
        let state = self.paths.state_id().map_err(|error| at("read", &paths, &error))?;
        ensure_authority(paths.kept(), &placed.spec)?;
        if !placed.prepared {
            preparing::prepare(host, &placed, &paths, &state).await?;
            placed.prepared = true;
            write_json(&paths.placed(), &placed).map_err(|error| at("write", &paths, &error))?;
        }
        // What separated it in a former life: whoever dies before it is looked at leaves nothing that
        // passes for this one.
        match fs::remove_file(paths.isolation()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at("write", &paths, &error));
            }
            Ok(()) | Err(_) => {}
        }
        let program = self.copy_program(&paths)?;
        let start =
            Start { host, paths: &paths, placed: &placed, state: &state, program: &program };
        let (confinement, measured) = match placed.outpost {
            true => (self.start_there(start, tools).await?, Measured::Yes),
            false => self.start_here(start, tools).await?,
        };
        let isolation = isolation::describe(host, &confinement, measured);
        let name = container::name(&spec.id);
        if let Err(error) = self.settings.required.check(&isolation) {
            remove_container(host, &name).await?;
            return Err(error);
        }
        // Nothing runs yet that it would have to look after. One at another machine has its outpost.
        if !placed.outpost
            && let Err(error) = self.begin_keeper(&program, &paths, &placed).await
        {
            remove_container(host, &name).await?;
            return Err(error);
        }
        write_json(&paths.isolation(), &isolation).map_err(|error| at("write", &paths, &error))?;
        Ok(Placement { isolation })
    }

    async fn connect(&self, cell: &CellId) -> Result<Option<UnixStream>> {
        let paths = self.paths.cell(cell);
        let stream = connect_in(paths.root(), LINK_SOCKET).map_err(|error| {
            Error::unavailable(format!("cannot connect to the supervisor of {cell}: {error}"))
        })?;
        let begun = Begun::find(&paths).map_err(|error| at("read", &paths, &error))?;
        match (stream, begun) {
            (Some(stream), None) => {
                self.keeping.ensure(&paths);
                Ok(Some(stream))
            }
            (Some(stream), Some(_)) => Ok(Some(stream)),
            (None, None) => Ok(None),
            (None, Some(_)) => self.connect_there(&paths).await,
        }
    }

    async fn tools_changed(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        let Some(placed) = read::<Placed>(&paths, &paths.placed())? else { return Ok(()) };
        if !placed.outpost || self.connect(cell).await?.is_none() {
            return Ok(());
        }
        let host = self.engines.of(&placed).await?;
        match remote::show_tools(&host, &paths, &placed).await? {
            Some(ask) => self.ask_keeper(paths, ask).await,
            None => Ok(()),
        }
    }

    async fn stop(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        let Some(placed) = read::<Placed>(&paths, &paths.placed())? else { return Ok(()) };
        let host = self.engines.of(&placed).await?;
        remove_container(&host, &container::name(cell)).await?;
        await_keeper_end(&paths).await?;
        if placed.outpost {
            // With this the last of its records are here.
            self.connect_there(&paths).await?;
            remove_container(&host, &remote::outpost_name(cell)).await?;
        }
        Ok(())
    }

    async fn remove(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        if !paths.root().exists() {
            return Ok(());
        }
        self.clear(cell).await
    }

    async fn clear(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        // Where it cannot be read what a cell is, nothing of it is removed.
        let hosts = match read::<Placed>(&paths, &paths.placed())? {
            Some(placed) => vec![self.engines.of(&placed).await?],
            // Of a start that was killed, at whichever engine.
            None => self.every_host().await?,
        };
        for host in &hosts {
            remove_container(host, &container::name(cell)).await?;
            // Of a start that was killed.
            remove_container(host, &preparing::name(cell)).await?;
            remove_container(host, &remote::program_name(cell)).await?;
            self.take_last_records(host, &paths).await;
            remove_container(host, &remote::outpost_name(cell)).await?;
        }
        let _no_keeper = await_keeper_end(&paths).await?;
        for host in &hosts {
            volumes::remove(host, cell).await?;
        }
        match fs::remove_dir_all(paths.root()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(at("remove", &paths, &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn collect(&self, thrift: &Thrift) -> Result<Vec<Removed>> {
        let mut programs = Removed { kind: Collectable::Temporary, count: 0, bytes: 0 };
        if self.paths.cells().exists() {
            let state = self.paths.state_id().map_err(|error| {
                Error::unavailable(format!("cannot tell whose programs there are: {error}"))
            })?;
            for engine in self.engines.all()? {
                // One that cannot be reached keeps what it has until the next time.
                if engine.settings().address.is_remote()
                    && let Ok(host) = engine.host().await
                {
                    programs.count +=
                        remote::collect_programs(&host, &state, thrift.dry_run).await?;
                }
            }
        }
        Ok(vec![programs])
    }

    async fn disk_bytes(&self, cell: &CellId) -> Result<Option<u64>> {
        let paths = self.paths.cell(cell);
        read(&paths, &paths.kept().disk_used())
    }

    fn networks(&self) -> Option<&dyn Networks> {
        Some(self)
    }

    async fn image_digest(&self, cell: &CellId) -> Result<Option<String>> {
        let paths = self.paths.cell(cell);
        Ok(read::<Placed>(&paths, &paths.placed())?.map(|placed| placed.image))
    }

    async fn assign(&self, spec: &CellSpec) -> Result<()> {
        let paths = self.paths.cell(&spec.id);
        let Some(mut placed) = read::<Placed>(&paths, &paths.placed())? else {
            return Err(Error::not_found(format!("there is no cell {} here", spec.id)));
        };
        // It was made by what was said then; what is said now counts for whoever asks now.
        if let Some(isolation) = read::<Isolation>(&paths, &paths.isolation())? {
            self.settings.required.check(&isolation)?;
        }
        let mut spec = spec.clone();
        keep_image_env(&mut spec.env, &placed.spec.env);
        if placed.spec == spec {
            return Ok(());
        }
        placed.spec = spec;
        write_json(&paths.placed(), &placed).map_err(|error| at("give out", &paths, &error))
    }

    async fn remains(&self) -> Result<Vec<CellId>> {
        // Of one that was never used nothing can be there.
        if !self.paths.cells().exists() {
            return Ok(Vec::new());
        }
        let state = self.paths.state_id().map_err(|error| {
            Error::unavailable(format!("cannot tell whose containers there are: {error}"))
        })?;
        let mut found = BTreeSet::new();
        for host in self.every_host().await? {
            found.extend(cells_at(&host, &state).await?);
        }
        let entries = fs::read_dir(self.paths.cells()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        found.extend(names.filter_map(|name| name.parse::<CellId>().ok()));
        Ok(found.into_iter().collect())
    }

    async fn list(&self) -> Result<Vec<PlacedCell>> {
        let directory = self.paths.cells();
        let failed = |error: io::Error| {
            Error::unavailable(format!("cannot list {}: {error}", directory.display()))
        };
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut cells = Vec::new();
        for entry in entries {
            let paths = CellPaths::at(entry.map_err(failed)?.path());
            // A cell whose description cannot be read is not one that can be used.
            let Ok(Some(placed)) = read_json::<Placed>(&paths.placed()) else { continue };
            let isolation = read_json(&paths.isolation()).unwrap_or_default();
            cells.push(PlacedCell { spec: placed.spec, isolation });
        }
        Ok(cells)
    }
}

/// What an engine can do, as it was when somebody last looked.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownEngine {
    address: String,
    looked_at: Timestamp,
    capabilities: DriverCapabilities,
}

impl KnownEngine {
    fn of(host: &DockerHost) -> Self {
        let enforced = enforced(host);
        Self {
            address: host.settings().address.to_string(),
            looked_at: Timestamp::now(),
            capabilities: DriverCapabilities {
                machine: machine(host),
                as_root: false,
                own_root: true,
                checkpoints: false,
                memory_limit: enforced.memory,
                cpu_limit: enforced.cpu,
                pids_limit: enforced.pids,
                disk_limit: matches!(disk::measures(host), Ok(Measured::Yes)),
            },
        }
    }

    fn is_fresh(&self) -> bool {
        let now = Timestamp::now();
        self.looked_at <= now && now < self.looked_at.plus_seconds(KNOWN_FOR_S)
    }
}

/// What the start of a cell needs, wherever its engine is.
#[derive(Debug, Clone, Copy)]
struct Start<'a> {
    host: &'a DockerHost,
    paths: &'a CellPaths,
    placed: &'a Placed,
    state: &'a str,
    /// The copy of the program.
    program: &'a Path,
}

impl DockerDriver {
    fn copy_program(&self, paths: &CellPaths) -> Result<PathBuf> {
        copy_of(&self.settings.program, &self.paths.programs())
            .map_err(|error| at("copy the program for", paths, &error))
    }

    /// Starts a cell at an engine of this machine.
    async fn start_here(
        &self,
        start: Start<'_>,
        tools: Option<&Path>,
    ) -> Result<(Confinement, Measured)> {
        let Start { host, paths, placed, state, program } = start;
        let volumes = volumes::find(host, &placed.spec.id).await?;
        let measured = disk::note(host, paths, &volumes)?;
        let files = write_names(paths).map_err(|error| at("write", paths, &error))?;
        let trust = paths.trust();
        let birthplace = paths.birthplace();
        make_readable(&birthplace).map_err(|error| at("make", paths, &error))?;
        let (uid, gid) = placed.user;
        let accounts = ACCOUNTS.map(|accounts| (paths.accounts(accounts), accounts));
        let shown = Shown {
            program,
            birthplace: &birthplace,
            accounts: &accounts,
            files: &files,
            trust: Some(trust.as_path()).filter(|trust| trust.is_dir()),
            tools,
        };
        let runtime = self.settings.runtime.as_deref();
        let body = container::describe(placed, &shown, enforced(host), state, runtime);
        let name = container::name(&placed.spec.id);
        let order = ContainerOrder { spec: placed.spec.clone(), uid, gid };
        let birth = Birth { name: &name, body, order, paths, records: &placed.records };
        // One that has ended, or that a start that died has left; what looked after it does not look
        // after this one.
        remove_container(host, &name).await?;
        let no_keeper = await_keeper_end(paths).await?;
        paths.kept().forget_carrier().map_err(|error| at("write", paths, &error))?;
        let confinement = give_birth(host, birth).await?;
        drop(no_keeper);
        Ok((confinement, measured))
    }

    /// Starts a cell at an engine of another machine.
    async fn start_there(&self, start: Start<'_>, tools: Option<&Path>) -> Result<Confinement> {
        let Start { host, paths, placed, state, program } = start;
        let relaying = Relaying { program: program.to_owned() };
        let place = self.outpost_place(placed, state, program);
        let start = RemoteStart { host, paths, place, tools, relaying: &relaying };
        Box::pin(remote::start(start)).await
    }

    pub(crate) fn outpost_place<'a>(
        &'a self,
        placed: &'a Placed,
        state: &'a str,
        program: &'a Path,
    ) -> OutpostPlace<'a> {
        let (egress, runtime) = (&self.settings.egress, self.settings.runtime.as_deref());
        OutpostPlace { placed, state, program, egress, runtime }
    }

    /// Connects to a cell that was begun at another machine.
    pub(crate) async fn connect_there(&self, paths: &CellPaths) -> Result<Option<UnixStream>> {
        let Some(placed) = read::<Placed>(paths, &paths.placed())? else { return Ok(None) };
        let host = self.engines.of(&placed).await?;
        let state = self.paths.state_id().map_err(|error| at("read", paths, &error))?;
        let program = self.copy_program(paths)?;
        let place = self.outpost_place(&placed, &state, &program);
        let relaying = Relaying { program: program.clone() };
        Box::pin(relaying.connect(&host, paths, place)).await
    }

    /// Whether a cell that was begun at another machine can have a network there.
    pub(crate) fn check_carries(
        &self,
        paths: &CellPaths,
        begun: &Begun,
        network: &Network,
    ) -> Result<()> {
        let Some(placed) = read::<Placed>(paths, &paths.placed())? else { return Ok(()) };
        let name = placed.engine_name.as_deref().unwrap_or(EngineSettings::DEFAULT);
        let network_name = self.engines.find(name).map_or("", |engine| &engine.settings().network);
        remote::check_carries(
            (name, network_name),
            begun.carries,
            &self.settings.egress,
            &placed.spec,
            network,
        )
    }

    /// Takes what is left of the records of a cell that is removed. What cannot be had then, because
    /// nothing can be started there, goes with the cell.
    async fn take_last_records(&self, host: &DockerHost, paths: &CellPaths) {
        let begun = Begun::find(paths);
        if matches!(begun, Ok(Some(_)))
            && let Err(error) = self.connect_there(paths).await
        {
            tracing::warn!(%error, engine = host.name(), "the last records of a cell are not here");
        }
    }

    pub(crate) async fn ask_keeper(&self, paths: CellPaths, ask: KeeperAsk) -> Result<()> {
        let keeping = self.keeping.clone();
        let asking = move || {
            keeping.ask(&paths, &ask).map_err(|error| at("ask the keeper of", &paths, &error))?
        };
        tokio::task::spawn_blocking(asking)
            .await
            .map_err(|error| Error::internal(format!("asking a keeper failed: {error}")))?
    }

    async fn begin_keeper(&self, program: &Path, paths: &CellPaths, placed: &Placed) -> Result<()> {
        let keeping = self.keeping.clone();
        let (program, paths, placed) = (program.to_owned(), paths.clone(), placed.clone());
        tokio::task::spawn_blocking(move || keeping.begin(&program, &paths, &placed))
            .await
            .map_err(|error| Error::internal(format!("starting a keeper failed: {error}")))?
    }

    /// What an engine can do, as it says or as it said last.
    async fn capabilities_of(&self, engine: &Engine) -> Result<DriverCapabilities> {
        let path = self.paths.engine(engine.name());
        let address = engine.settings().address.to_string();
        let known = read_json::<KnownEngine>(&path).unwrap_or_default();
        let known = known.filter(|known| known.address == address);
        if let Some(known) = known.as_ref().filter(|known| known.is_fresh()) {
            return Ok(known.capabilities.clone());
        }
        match (engine.host().await, known) {
            (Ok(host), _) => {
                let known = KnownEngine::of(&host);
                if let Err(error) = self.paths.make().and_then(|()| write_json(&path, &known)) {
                    tracing::warn!(%error, "what the Docker engine can do is not kept");
                }
                Ok(known.capabilities)
            }
            // Cells that run go on without it, and whoever needs it is told.
            (Err(_), Some(known)) => Ok(known.capabilities),
            (Err(error), None) => Err(error),
        }
    }

    /// The engine of a new cell.
    async fn choose(&self) -> Result<Arc<DockerHost>> {
        let mut unreached = None;
        for engine in self.engines.all()? {
            match engine.reach().await {
                Ok(host) => return Ok(host),
                Err(error) => unreached = unreached.or(Some(error)),
            }
        }
        Err(unreached.unwrap_or_else(no_engines))
    }

    /// Every engine; one that cannot be reached is an error.
    async fn every_host(&self) -> Result<Vec<Arc<DockerHost>>> {
        let mut hosts = Vec::new();
        for engine in self.engines.all()? {
            hosts.push(engine.host().await?);
        }
        Ok(hosts)
    }

    /// Decides what a new cell is at this engine and writes it down.
    async fn place(
        &self,
        host: &DockerHost,
        paths: &CellPaths,
        spec: &CellSpec,
        records: &Path,
    ) -> Result<Placed> {
        check_spec(spec)?;
        let name = match (spec.image.as_str(), &self.settings.image) {
            (HOST_IMAGE, Some(usual)) => usual,
            (HOST_IMAGE, None) => {
                return Err(Error::invalid(
                    "a cell in a container begins with an image, and none is named",
                )
                .hint("name one, such as debian:12, or set docker.image"));
            }
            _ => &spec.image,
        };
        let image = find_or_pull(host, name).await?;
        if let Some(scan) = self.settings.scan.clone() {
            let (name, id) = (name.clone(), image.id.clone());
            tokio::task::spawn_blocking(move || scan.check(&name, &id, None)).await.map_err(
                |error| Error::internal(format!("a scan of an image failed: {error}")),
            )??;
        }
        let mut spec = spec.clone();
        add_image_env(&mut spec.env, &image.env);
        let placed = Placed {
            version: PLACED_VERSION,
            spec,
            records: records.to_owned(),
            image: image.id,
            engine: host.id().to_owned(),
            engine_name: Some(host.name().to_owned()),
            outpost: host.settings().address.is_remote(),
            scratch: image.volumes,
            user: user(host),
            prepared: false,
        };
        let written =
            fs::create_dir_all(paths.root()).and_then(|()| write_json(&paths.placed(), &placed));
        written.map_err(|error| at("make", paths, &error))?;
        Ok(placed)
    }
}

/// Whether a cell in a container can be what was asked for.
fn check_spec(spec: &CellSpec) -> Result<()> {
    if spec.workspace.is_some() {
        return Err(Error::unsupported(
            "a cell in a container has a volume as its workspace, not a directory of the host",
        )
        .hint("use a cell of the native driver, or copy files in with `hotcell cp`"));
    }
    Ok(())
}

/// Whom the container of a new cell runs as, by its own numbers.
fn user(host: &DockerHost) -> (u32, u32) {
    let is_remote = host.settings().address.is_remote();
    match (host.secures_by("rootless"), geteuid()) {
        // Its root is whoever runs the engine, without any capability.
        (true, _) => (0, 0),
        // Whoever this process is, is nobody there.
        (false, _) if is_remote => CELL_USER,
        (false, uid) if uid.is_root() => CELL_USER,
        (false, uid) => (uid.as_raw(), getegid().as_raw()),
    }
}

fn no_engines() -> Error {
    Error::invalid("the configuration names no Docker engine")
        .hint("set docker.host, or leave out docker.engines for the usual one")
}

/// What holds of a cell, whichever of two engines it is at. One that is too big for one of them is told
/// so there.
fn of_both(one: &DriverCapabilities, other: &DriverCapabilities) -> DriverCapabilities {
    DriverCapabilities {
        machine: Machine {
            memory_mb: one.machine.memory_mb.max(other.machine.memory_mb),
            cpus: one.machine.cpus.max(other.machine.cpus),
            pids: one.machine.pids.max(other.machine.pids),
            disk_mb: one.machine.disk_mb.max(other.machine.disk_mb),
        },
        as_root: one.as_root && other.as_root,
        own_root: one.own_root && other.own_root,
        checkpoints: one.checkpoints && other.checkpoints,
        memory_limit: one.memory_limit && other.memory_limit,
        cpu_limit: one.cpu_limit && other.cpu_limit,
        pids_limit: one.pids_limit && other.pids_limit,
        disk_limit: one.disk_limit && other.disk_limit,
    }
}

/// Makes a directory that every user of a container can look into.
fn make_readable(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

/// What the machine of an engine has to share out.
fn machine(host: &DockerHost) -> Machine {
    let info = &host.info;
    let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    // What is at that path here is not what the engine has.
    let root = info.docker_root_dir.as_deref().filter(|_| !host.settings().address.is_remote());
    let disk = root.and_then(|root| rustix::fs::statvfs(root).ok());
    Machine {
        memory_mb: positive(info.mem_total).map_or(1024, |bytes| bytes >> 20),
        cpus: positive(info.ncpu).and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1),
        pids: 32_768,
        disk_mb: disk
            .map_or(u64::MAX >> 20, |found| found.f_blocks.saturating_mul(found.f_frsize) >> 20),
    }
}

fn read<T: serde::de::DeserializeOwned>(paths: &CellPaths, file: &Path) -> Result<Option<T>> {
    read_json(file).map_err(|error| at("read", paths, &error))
}

pub(crate) fn at(verb: &str, paths: &CellPaths, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot {verb} {}: {error}", paths.root().display()))
}
