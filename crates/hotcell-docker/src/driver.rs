//! The driver: cells as containers and volumes of a Docker engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use hotcell_egress::EgressSettings;
use hotcell_keeper::ensure_authority;
use hotcell_model::{
    CellId, CellSpec, Collectable, Diagnosis, Driver, DriverCapabilities, Error, HOST_IMAGE,
    Isolation, Networks, PlacedCell, Placement, Remains, Removed, RequiredIsolation, Result,
    Thrift,
};
use hotcell_place::{
    ImageScan, add_image_env, connect_in, keep_image_env, read_json, read_previous,
    remove_if_there, save_json_keeping_previous, write_json,
};
use hotcell_registry::DockerConfig;
use rustix::process::{getegid, geteuid};

use crate::container;
use crate::diagnose;
use crate::disk::Measured;
use crate::docker_host::DockerHost;
use crate::engine_address::EngineSettings;
use crate::engines::{Engine, Engines};
use crate::images::{self, find_or_pull};
use crate::isolation;
use crate::keeping::{Keeping, await_keeper_end};
use crate::known_engine::{capabilities_of, of_both};
use crate::paths::{CellPaths, DockerPaths, LINK_SOCKET, PLACED_VERSION, Placed};
use crate::placement;
use crate::preparing;
use crate::remains::cells_at;
use crate::remote::{self, Begun};
use crate::removal::remove_container;
use crate::starting::Start;
use crate::volumes;

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
    /// What registries are shown when the engine pulls.
    pub credentials: DockerConfig,
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
    pub(crate) settings: DockerSettings,
    pub(crate) paths: DockerPaths,
    pub(crate) keeping: Keeping,
    pub(crate) engines: Engines,
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
        self.capabilities_on(&BTreeMap::new()).await
    }

    async fn capabilities_on(&self, on: &BTreeMap<String, String>) -> Result<DriverCapabilities> {
        let engines = placement::with_labels(self.engines.all()?, on)?;
        let looked = engines.into_iter().map(|engine| capabilities_of(&self.paths, engine));
        let mut together: Option<DriverCapabilities> = None;
        let mut unknown = None;
        for found in join_all(looked).await {
            match (found, &together) {
                (Ok(found), Some(others)) => together = Some(of_both(others, &found)),
                (Ok(found), None) => together = Some(found),
                (Err(error), _) => unknown = unknown.or(Some(error)),
            }
        }
        together.ok_or_else(|| unknown.unwrap_or_else(no_engines))
    }

    async fn reach_cell(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        match read::<Placed>(&paths, &paths.placed())? {
            Some(placed) => self.engines.reach(&placed).await.map(drop),
            None => Ok(()),
        }
    }

    async fn engine_of(&self, cell: &CellId) -> Result<Option<String>> {
        let paths = self.paths.cell(cell);
        let placed = read::<Placed>(&paths, &paths.placed())?;
        let there_are_several = self.engines.all().is_ok_and(|all| all.len() > 1);
        Ok(placed.and_then(|placed| placed.engine_name).filter(|_| there_are_several))
    }

    async fn reach(&self) -> Result<()> {
        let mut looks: FuturesUnordered<_> =
            self.engines.all()?.iter().map(Engine::reach).collect();
        let mut unreached = None;
        while let Some(reached) = looks.next().await {
            match reached {
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
        // One that was begun and never heard of has nothing to tell; nobody else starts it now.
        let may_be_there = remote::was_ready(&paths)
            || Begun::find(&paths).map_err(|error| at("read", &paths, &error))?.is_none();
        if may_be_there
            && self.connect(&spec.id).await?.is_some()
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
            None => self.choose(spec).await?,
        };
        let host = &*host;
        let mut placed = match placed {
            Some(placed) => {
                let (name, config) = (self.image_name(&placed.spec), &self.settings.credentials);
                images::ensure(host, name, &placed.image, config).await?;
                placed
            }
            None => self.place(host, &paths, spec, records).await?,
        };
        let state = self.paths.state_id().map_err(|error| at("read", &paths, &error))?;
        ensure_authority(paths.kept(), &placed.spec)?;
        if !placed.prepared {
            preparing::prepare(host, &placed, &paths, &state).await?;
            placed.prepared = true;
            save_json_keeping_previous(&paths.placed(), &placed)
                .map_err(|error| at("write", &paths, &error))?;
        }
        // What separated it in a former life: whoever dies before it is looked at leaves nothing that
        // passes for this one.
        remove_if_there(&paths.isolation()).map_err(|error| at("write", &paths, &error))?;
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
        if !placed.outpost {
            return await_keeper_end(&paths).await.map(drop);
        }
        self.take_last_records(&paths, &placed).await?;
        remove_container(&host, &remote::outpost_name(cell)).await
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
        let placed = read_json::<Placed>(&paths.placed());
        let placed = placed.map_err(|error| unreadable(&paths, &error))?;
        self.remove_all_of(cell, placed).await
    }

    async fn check_description(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        match read_json::<Placed>(&paths.placed()) {
            Ok(_) => Ok(()),
            Err(error) => Err(unreadable(&paths, &error)),
        }
    }

    async fn remove_unreadable(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        let placed = match read_json::<Placed>(&paths.placed()) {
            Ok(placed) => placed,
            Err(error) => {
                tracing::warn!(%cell, %error, "a cell is removed whose description cannot be read");
                read_previous(&paths.placed()).unwrap_or_default()
            }
        };
        self.remove_all_of(cell, placed).await
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
                    && let Ok(host) = engine.reach().await
                {
                    match remote::collect_programs(&host, &state, thrift.dry_run).await {
                        Ok(count) => programs.count += count,
                        Err(error) => tracing::warn!(%error, "programs for cells are left"),
                    }
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
        save_json_keeping_previous(&paths.placed(), &placed)
            .map_err(|error| at("give out", &paths, &error))
    }

    async fn remains(&self) -> Result<Remains> {
        // Of one that was never used nothing can be there.
        if !self.paths.cells().exists() {
            return Ok(Remains::default());
        }
        let state = self.paths.state_id().map_err(|error| {
            Error::unavailable(format!("cannot tell whose containers there are: {error}"))
        })?;
        let mut found = BTreeSet::new();
        let mut unseen = Vec::new();
        let engines = self.engines.all()?;
        for host in join_all(engines.iter().map(Engine::reach)).await {
            let cells = match host {
                Ok(host) => cells_at(&host, &state).await,
                Err(error) => Err(error),
            };
            match cells {
                Ok(cells) => found.extend(cells),
                Err(error) => unseen.push(error),
            }
        }
        if !unseen.is_empty() && unseen.len() == engines.len() {
            return Err(unseen.remove(0));
        }
        let entries = fs::read_dir(self.paths.cells()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        found.extend(names.filter_map(|name| name.parse::<CellId>().ok()));
        let unreadable = self.placed_cells()?.unreadable;
        found.retain(|cell| !unreadable.iter().any(|(damaged, _)| damaged == cell));
        Ok(Remains { cells: found.into_iter().collect(), unreadable, unseen })
    }

    async fn list(&self) -> Result<Vec<PlacedCell>> {
        let cells = self.placed_cells()?.cells.into_iter().map(|(placed, paths)| PlacedCell {
            spec: placed.spec,
            isolation: read_json(&paths.isolation()).unwrap_or_default(),
        });
        Ok(cells.collect())
    }
}

impl DockerDriver {
    /// The engine of a new cell. Others may be placed meanwhile: room is a matter of fairness.
    async fn choose(&self, spec: &CellSpec) -> Result<Arc<DockerHost>> {
        let engines = self.engines.all()?;
        let mut given = BTreeMap::new();
        if engines.len() > 1 {
            for (placed, _) in self.placed_cells()?.cells {
                let engine = placed.engine_name.unwrap_or(placed.engine);
                *given.entry(engine).or_default() += placed.spec.limits.memory_mb;
            }
        }
        placement::choose(engines, spec, &given, |host| self.check_fits(host, spec)).await
    }

    /// Whether a cell can be at an engine as it is, as far as that is known before it is tried.
    fn check_fits(&self, host: &DockerHost, spec: &CellSpec) -> Result<()> {
        let runtimes = host.info.runtimes.as_ref();
        if let (Some(wanted), Some(there)) = (&self.settings.runtime, runtimes)
            && !there.contains_key(wanted)
        {
            return Err(Error::unavailable(format!(
                "the Docker engine {} has no runtime {wanted:?}",
                host.address
            ))
            .hint("name one that it has in docker.runtime; see `docker info`"));
        }
        match host.settings().address.is_remote() {
            // By the kernel of its machine, which nobody knows here.
            true => remote::check_fits(host, &self.settings.egress, spec),
            false => self.settings.required.check(&diagnose::isolation_at(host)),
        }
    }

    /// Removes everything of a cell; where it is not known what it is, at every engine.
    async fn remove_all_of(&self, cell: &CellId, placed: Option<Placed>) -> Result<()> {
        let paths = self.paths.cell(cell);
        let hosts = match &placed {
            Some(placed) => vec![self.engines.of(placed).await?],
            // Of a start that was killed, at whichever engine.
            None => self.every_host().await?,
        };
        for host in &hosts {
            remove_container(host, &container::name(cell)).await?;
            // Of a start that was killed.
            remove_container(host, &preparing::name(cell)).await?;
            remove_container(host, &remote::program_name(cell)).await?;
            if let Some(placed) = placed.as_ref().filter(|placed| placed.outpost) {
                self.take_last_records(&paths, placed).await?;
            }
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

    /// What is written down of every cell.
    fn placed_cells(&self) -> Result<PlacedCells> {
        let directory = self.paths.cells();
        let failed = |error: io::Error| {
            Error::unavailable(format!("cannot list {}: {error}", directory.display()))
        };
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(PlacedCells::default());
            }
            Err(error) => return Err(failed(error)),
        };
        let mut found = PlacedCells::default();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let paths = CellPaths::at(entry.path());
            match read_json::<Placed>(&paths.placed()) {
                Ok(Some(placed)) => found.cells.push((placed, paths)),
                Ok(None) => {}
                Err(error) => {
                    if let Some(cell) = entry.file_name().to_str().and_then(|it| it.parse().ok()) {
                        found.unreadable.push((cell, unreadable(&paths, &error)));
                    }
                    if let Ok(Some(previous)) = read_previous::<Placed>(&paths.placed()) {
                        found.cells.push((previous, paths));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Every engine; one that cannot be reached is an error.
    async fn every_host(&self) -> Result<Vec<Arc<DockerHost>>> {
        join_all(self.engines.all()?.iter().map(Engine::host)).await.into_iter().collect()
    }

    /// The image that a cell names, or else the usual one; [`HOST_IMAGE`] where there is none.
    fn image_name<'a>(&'a self, spec: &'a CellSpec) -> &'a str {
        match (spec.image.as_str(), &self.settings.image) {
            (HOST_IMAGE, Some(usual)) => usual,
            (named, _) => named,
        }
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
        let name = self.image_name(spec);
        if name == HOST_IMAGE {
            return Err(Error::invalid(
                "a cell in a container begins with an image, and none is named",
            )
            .hint("name one, such as debian:12, or set docker.image"));
        }
        let image = find_or_pull(host, name, &self.settings.credentials).await?;
        if let Some(scan) = self.settings.scan.clone() {
            let (name, id) = (name.to_owned(), image.id.clone());
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
            engine_data: Some(host.data()),
            scratch: image.volumes,
            user: user(host),
            prepared: false,
        };
        let written = fs::create_dir_all(paths.root())
            .and_then(|()| save_json_keeping_previous(&paths.placed(), &placed));
        written.map_err(|error| at("make", paths, &error))?;
        Ok(placed)
    }
}

/// What is written down of cells.
#[derive(Debug, Default)]
struct PlacedCells {
    /// Those that can be read, or whose version before the current one can.
    cells: Vec<(Placed, CellPaths)>,
    /// Those that cannot be read.
    unreadable: Vec<(CellId, Error)>,
}

/// The error about a cell whose description cannot be read.
fn unreadable(paths: &CellPaths, error: &io::Error) -> Error {
    let cell = paths.root().file_name().unwrap_or_default().to_string_lossy();
    let description = paths.placed();
    Error::unavailable(format!(
        "cannot use cell {cell}: {} cannot be read: {error}",
        description.display()
    ))
    .hint(format!(
        "restore the file from a backup, or remove the cell with `hotcell kill --force {cell}`"
    ))
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

pub(crate) fn read<T: serde::de::DeserializeOwned>(
    paths: &CellPaths,
    file: &Path,
) -> Result<Option<T>> {
    read_json(file).map_err(|error| at("read", paths, &error))
}

pub(crate) fn at(verb: &str, paths: &CellPaths, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot {verb} {}: {error}", paths.root().display()))
}
