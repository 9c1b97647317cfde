//! The driver `native`.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use hotcell_egress::EgressSettings;
use hotcell_jail::cgroup::{Controller, Hierarchies, Together};
use hotcell_jail::ids::{IdLayout, Starter, starter};
use hotcell_jail::signals::send_by_pidfd;
use hotcell_keeper::{LockWait, WhichProcess, ensure_authority};
use hotcell_model::{
    CellId, CellSpec, Checkpointer, Diagnosis, Driver, DriverCapabilities, Error, Images, Networks,
    PlacedCell, Placement, Projects, PullWatch, Remains, Removed, RequiredIsolation, Result,
    Thrift,
};
use hotcell_place::{ImageScan, copy_of, keep_image_env, read_json};
use hotcell_registry::RegistrySettings;
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getegid, geteuid, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::base::{host_base, layers};
use crate::description::{Description, unreadable};
use crate::image_base::image_layer;
use crate::isolation::hierarchies;
use crate::keeper_socket::{KeeperAsk, ask_keeper};
use crate::layer_store::LayerStore;
use crate::order::{Order, Outcome, PLACED_VERSION, Placed, Task};
use crate::paths::{CellPaths, NativePaths};
use crate::project::Project;
use crate::way::Way;
use crate::{diagnose, id_range, machine, on_host, stragglers};

/// The command that keepers are.
const KEEP: &str = "keep";
/// What to do about a full disk.
pub(crate) const FREE_SPACE: &str = "free some space there, end cells with `hotcell kill`, or choose \
                                     another disk with HOTCELL_STATE_DIR";

/// Whether control groups are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupUse {
    /// Where this machine lets us.
    #[default]
    Auto,
    /// Nowhere.
    Off,
}

/// What a native driver needs to know.
#[derive(Debug, Clone)]
pub struct NativeSettings {
    /// The state directory.
    pub state_dir: PathBuf,
    /// Files and directories of the operator's that no cell may have: the configuration, rules, keys.
    pub own_files: Vec<PathBuf>,
    /// This program.
    pub program: PathBuf,
    /// Whether control groups are used.
    pub cgroups: CgroupUse,
    /// What every cell must have.
    pub required: RequiredIsolation,
    /// What the operator chose about the network of cells.
    pub egress: EgressSettings,
    /// What all cells of the state directory may use together, where control groups can say so.
    pub together: Together,
    /// Where images are pulled from.
    pub registries: RegistrySettings,
    /// Whose verdict on images counts.
    pub scan: Option<ImageScan>,
    /// Who is told how far pulls have come.
    pub pull_watch: Arc<dyn PullWatch>,
}

/// Places cells on this machine. Cheap to make; looks at the machine when it first has to.
#[derive(Debug, Clone)]
pub struct NativeDriver(Arc<Native>);

#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) settings: NativeSettings,
    pub(crate) paths: NativePaths,
    hierarchies: OnceLock<Hierarchies>,
    /// How new cells are placed, where that had to be found out.
    pub(crate) found_way: OnceLock<Way>,
}

impl NativeDriver {
    /// The name in a cell's record.
    pub const NAME: &'static str = "native";

    /// A driver on a state directory.
    #[must_use]
    pub fn new(settings: NativeSettings) -> Self {
        let paths = NativePaths::new(&settings.state_dir);
        Self(Arc::new(Native {
            settings,
            paths,
            hierarchies: OnceLock::new(),
            found_way: OnceLock::new(),
        }))
    }

    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Native) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let native = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || work(&native))
            .await
            .map_err(|error| Error::internal(format!("the native driver failed: {error}")))?
    }
}

#[async_trait]
impl Driver for NativeDriver {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    async fn capabilities(&self) -> Result<DriverCapabilities> {
        let way = self.blocking(|native| native.way()).await?;
        let hierarchies = self.0.hierarchies();
        let has = |controller| hierarchies.controllers.contains_key(&controller);
        let as_root = match (way, starter()) {
            (Way::OnHost, _) => false,
            (Way::InNamespaces, Starter::Root) => true,
            (Way::InNamespaces, Starter::User { layout, .. }) => layout.lets_root_run(),
        };
        Ok(DriverCapabilities {
            machine: machine::look(&self.0.settings.state_dir),
            as_root,
            own_root: way == Way::InNamespaces,
            checkpoints: way == Way::InNamespaces,
            memory_limit: has(Controller::Memory),
            cpu_limit: has(Controller::Cpu),
            pids_limit: true,
            disk_limit: true,
        })
    }

    async fn diagnose(&self) -> Diagnosis {
        let fallback =
            Diagnosis { driver: Self::NAME.to_owned(), checks: Vec::new(), isolation: None };
        self.blocking(|native| Ok(diagnose::diagnose(native))).await.unwrap_or(fallback)
    }

    async fn start(
        &self,
        spec: &CellSpec,
        records: &Path,
        tools: Option<&Path>,
    ) -> Result<Placement> {
        let (spec, records) = (spec.clone(), records.to_owned());
        let tools = tools.map(Path::to_owned);
        self.blocking(move |native| native.start(spec, records, tools)).await
    }

    async fn tools_changed(&self, cell: &CellId) -> Result<()> {
        let cell = cell.clone();
        self.blocking(move |native| {
            let paths = native.paths.cell(&cell);
            match ask_keeper(&paths, &KeeperAsk::RefreshTools) {
                Ok(Outcome::Failed(error)) => Err(error),
                // Without a keeper the cell does not run.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(at("refresh the tools of", &paths, &error))
                }
                Ok(_) | Err(_) => Ok(()),
            }
        })
        .await
    }

    async fn connect(&self, cell: &CellId) -> Result<Option<UnixStream>> {
        let paths = self.0.paths.cell(cell);
        let stream = paths.connect().map_err(|error| {
            Error::unavailable(format!("cannot connect to the supervisor of {cell}: {error}"))
        })?;
        // A keeper removes the note of its supervisor once it has tidied up after it.
        if stream.is_some() || paths.supervisor().exists() {
            self.0.ensure_keeper(&paths);
        }
        Ok(stream)
    }

    async fn stop(&self, cell: &CellId) -> Result<()> {
        let cell = cell.clone();
        self.blocking(move |native| native.stop(&cell)).await
    }

    async fn remove(&self, cell: &CellId) -> Result<()> {
        let cell = cell.clone();
        self.blocking(move |native| native.remove(&cell)).await
    }

    async fn disk_bytes(&self, cell: &CellId) -> Result<Option<u64>> {
        let cell = cell.clone();
        self.blocking(move |native| {
            let paths = native.paths.cell(&cell);
            read_json(&paths.kept().disk_used()).map_err(|error| at("measure", &paths, &error))
        })
        .await
    }

    async fn image_digest(&self, cell: &CellId) -> Result<Option<String>> {
        let paths = self.0.paths.cell(cell);
        let placed = paths.read_placed().map_err(|error| unreadable(&paths, &error))?;
        Ok(placed.and_then(|placed| placed.image_digest).map(|digest| digest.to_string()))
    }

    async fn assign(&self, spec: &CellSpec) -> Result<()> {
        let spec = spec.clone();
        self.blocking(move |native| native.assign(spec)).await
    }

    async fn list(&self) -> Result<Vec<PlacedCell>> {
        self.blocking(|native| native.list()).await
    }

    async fn remains(&self) -> Result<Remains> {
        self.blocking(|native| native.remains()).await
    }

    async fn clear(&self, cell: &CellId) -> Result<()> {
        let cell = cell.clone();
        self.blocking(move |native| {
            native.remove(&cell)?;
            let failed =
                |error: io::Error| at("give back the ids of", &native.paths.cell(&cell), &error);
            id_range::give_back_of(&native.paths.id_ranges(), &cell).map_err(failed)
        })
        .await
    }

    async fn check_description(&self, cell: &CellId) -> Result<()> {
        let paths = self.0.paths.cell(cell);
        match paths.describe() {
            Description::Whole(_) | Description::None => Ok(()),
            Description::Unreadable { error, .. } => Err(unreadable(&paths, &error)),
        }
    }

    async fn remove_unreadable(&self, cell: &CellId) -> Result<()> {
        let cell = cell.clone();
        self.blocking(move |native| native.remove_unreadable(&cell)).await
    }

    async fn collect(&self, thrift: &Thrift) -> Result<Vec<Removed>> {
        let thrift = *thrift;
        self.blocking(move |native| native.collect_unneeded(&thrift)).await
    }

    fn checkpointer(&self) -> Option<&dyn Checkpointer> {
        Some(self)
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(self)
    }

    fn projects(&self) -> Option<&dyn Projects> {
        Some(self)
    }

    fn networks(&self) -> Option<&dyn Networks> {
        Some(self)
    }
}

impl Native {
    pub(crate) fn hierarchies(&self) -> &Hierarchies {
        self.hierarchies.get_or_init(|| hierarchies(self.settings.cgroups))
    }

    fn start(&self, spec: CellSpec, records: PathBuf, tools: Option<PathBuf>) -> Result<Placement> {
        let paths = self.paths.cell(&spec.id);
        if paths.connect().map_err(|error| at("connect to", &paths, &error))?.is_some() {
            let isolation =
                read_json(&paths.isolation()).map_err(|error| at("read", &paths, &error))?;
            if let Some(isolation) = isolation {
                return Ok(Placement { isolation });
            }
        }
        let placed = paths.read_placed().map_err(|error| unreadable(&paths, &error))?;
        let asked = spec.clone();
        match placed {
            Some(placed) if placed.version > PLACED_VERSION => {
                return Err(Error::unavailable(format!(
                    "cell {} was made by a newer hotcell",
                    spec.id
                ))
                .hint("use that version, or kill the cell"));
            }
            Some(_) => {}
            None => self.place(&paths, spec, records)?,
        }
        ensure_authority(paths.kept(), &asked)?;
        let program = copy_of(&self.settings.program, &self.paths.programs())
            .map_err(|error| at("copy the program for", &paths, &error))?;
        match self.order_by(&program, &paths, tools, Task::Start)? {
            Outcome::Ready(isolation) => Ok(Placement { isolation }),
            Outcome::Failed(error) => Err(error),
            Outcome::Done
            | Outcome::Probed(_)
            | Outcome::Unpacked(_)
            | Outcome::Compared { .. }
            | Outcome::Project(_) => Err(Error::internal("the keeper started nothing")),
        }
    }

    /// Decides what a new cell is on this machine and writes it down.
    fn place(&self, paths: &CellPaths, spec: CellSpec, records: PathBuf) -> Result<()> {
        let way = self.way()?;
        match way {
            Way::OnHost => on_host::check_spec(&spec)?,
            Way::InNamespaces => {}
        }
        let mut spec = spec;
        let image = self.image_of(&mut spec)?;
        let made = || -> io::Result<()> {
            std::fs::create_dir_all(self.paths.cells())?;
            if let Err(error) = std::fs::create_dir(paths.root()) {
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error);
                }
                // Whoever made it may have taken ids and died before it wrote down which.
                id_range::give_back_of(&self.paths.id_ranges(), &spec.id)?;
            }
            let project = spec.workspace.as_ref().map(Project::attach).transpose()?;
            let store = LayerStore::new(&self.paths);
            let making = store.making()?;
            let upper = store.make(&making, paths)?;
            let (ids, mut layers) = match way {
                Way::OnHost => (on_host::ids(), on_host::layers(&upper)),
                Way::InNamespaces => {
                    let ids = self.take_ids(&spec.id, project.as_ref())?;
                    let bases = self.paths.bases();
                    let layers = match &image {
                        None => layers(&host_base(&bases)?, &upper, &ids),
                        Some(image) => vec![image_layer(&bases, &image.lowers, &upper)?],
                    };
                    (ids, layers)
                }
            };
            layers.extend(project.as_ref().map(|project| project.layer(&upper)));
            let version = PLACED_VERSION;
            let placed = Placed {
                version,
                spec,
                ids,
                layers,
                records,
                upper: Some(upper),
                project,
                image_digest: image.as_ref().map(|image| image.digest.clone()),
            };
            paths.save_placed(&placed)
        };
        made().map_err(|error| at("make", paths, &error))
    }

    /// The ids of a new cell.
    pub(crate) fn take_ids(
        &self,
        cell: &CellId,
        project: Option<&Project>,
    ) -> io::Result<IdLayout> {
        match (starter(), project) {
            (Starter::Root, _) => id_range::take(&self.paths.id_ranges(), cell),
            // Its single id would be the host's root.
            (Starter::User { .. }, Some(_)) if geteuid().is_root() => Err(io::Error::other(
                "a directory of the host cannot be the workspace of a cell that root makes without \
                 the power to mount; run hotcell as the user whose directory it is",
            )),
            // Whoever owns the project is the one who works on it, in the cell as on the host.
            (Starter::User { .. }, Some(_)) => {
                Ok(IdLayout::Single { uid: geteuid().as_raw(), gid: getegid().as_raw() })
            }
            (Starter::User { layout, .. }, None) => Ok(layout),
        }
    }

    pub(crate) fn stop(&self, cell: &CellId) -> Result<()> {
        stop_supervisor(&self.paths.cell(cell))
    }

    fn assign(&self, mut spec: CellSpec) -> Result<()> {
        let paths = self.paths.cell(&spec.id);
        let failed = |error: io::Error| at("give out", &paths, &error);
        let placed = paths.read_placed().map_err(|error| unreadable(&paths, &error))?;
        let Some(mut placed) = placed else {
            return Err(Error::not_found(format!("there is no cell {} here", spec.id)));
        };
        // It was made by what was said then; what is said now counts for whoever asks now.
        if let Some(isolation) = read_json(&paths.isolation()).map_err(failed)? {
            self.settings.required.check(&isolation)?;
        }
        keep_image_env(&mut spec.env, &placed.spec.env);
        if placed.spec == spec {
            return Ok(());
        }
        placed.spec = spec;
        paths.save_placed(&placed).map_err(failed)
    }

    fn list(&self) -> Result<Vec<PlacedCell>> {
        let directory = self.paths.cells();
        let failed = |error: io::Error| {
            Error::unavailable(format!("cannot list {}: {error}", directory.display()))
        };
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut cells = Vec::new();
        for entry in entries {
            let paths = CellPaths::at(entry.map_err(failed)?.path());
            let placed = match paths.describe() {
                Description::Whole(placed) => placed,
                Description::Unreadable { previous: Some(placed), .. } => placed,
                Description::None | Description::Unreadable { previous: None, .. } => continue,
            };
            let isolation = read_json(&paths.isolation()).unwrap_or_default();
            cells.push(PlacedCell { spec: placed.spec, isolation });
        }
        Ok(cells)
    }

    /// Starts a keeper for a supervisor that has none, alive or dead. Failing that, the next one
    /// tries.
    pub(crate) fn ensure_keeper(&self, paths: &CellPaths) {
        match paths.kept().lock_keeper(LockWait::Try) {
            Ok(Some(lock)) => {
                drop(lock);
                if let Err(error) = self.order(paths, Task::Watch) {
                    tracing::warn!(%error, "cannot start a keeper");
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot look for the keeper"),
        }
    }

    /// Starts a keeper and waits for its outcome.
    pub(crate) fn order(&self, paths: &CellPaths, task: Task) -> Result<Outcome> {
        self.order_by(&self.settings.program, paths, None, task)
    }

    fn order_by(
        &self,
        program: &Path,
        paths: &CellPaths,
        tools: Option<PathBuf>,
        task: Task,
    ) -> Result<Outcome> {
        let order = Order {
            directory: paths.root().to_owned(),
            cgroups: self.settings.cgroups,
            required: self.settings.required.clone(),
            egress: self.settings.egress.clone(),
            together: self.settings.together,
            tools,
            task,
        };
        order_keeper(program, &order)
            .map_err(|error| Error::unavailable(format!("the keeper of the cell failed: {error}")))
    }
}

/// Starts a keeper and waits for its outcome.
pub(crate) fn order_keeper(program: &Path, order: &Order) -> io::Result<Outcome> {
    hotcell_keeper::order_keeper(program, KEEP, &order.directory, order)
}

/// Ends the supervisor of a cell, and waits for its keeper to tidy up.
pub(crate) fn stop_supervisor(paths: &CellPaths) -> Result<()> {
    let failed = |error: io::Error| at("stop", paths, &error);
    if let Some(pid) = WhichProcess::find_in(&paths.supervisor()).map_err(failed)? {
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Some(pidfd),
            // It has ended since it was found.
            Err(Errno::SRCH) => None,
            Err(errno) => return Err(failed(errno.into())),
        };
        // Looked up again: only now the number is bound to the process.
        if let Some(pidfd) = pidfd
            && WhichProcess::find_in(&paths.supervisor()).map_err(failed)? == Some(pid)
        {
            if way_of(paths).map_err(failed)? == Some(Way::OnHost) {
                or_gone(stragglers::end_below(pid)).map_err(failed)?;
            }
            or_gone(send_by_pidfd(std::os::fd::AsFd::as_fd(&pidfd), 9)).map_err(failed)?;
            let mut fds = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, None).map_err(|errno| failed(errno.into()))?;
        }
    }
    // A keeper that lives tidies up; once it is done its lock is free, or gone with the cell.
    match paths.kept().lock_keeper(LockWait::Wait) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What has just ended by itself needs no end.
fn or_gone(ended: io::Result<()>) -> io::Result<()> {
    match ended {
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
        ended => ended,
    }
}

/// How a cell was placed that is written down.
fn way_of(paths: &CellPaths) -> io::Result<Option<Way>> {
    Ok(match paths.describe() {
        Description::Whole(placed) => Some(placed.way()),
        Description::Unreadable { previous, .. } => {
            // What is done to a cell on the host does no harm to another one.
            Some(previous.map_or(Way::OnHost, |placed| placed.way()))
        }
        Description::None => None,
    })
}

pub(crate) fn at(verb: &str, paths: &CellPaths, error: &io::Error) -> Error {
    let failed = Error::unavailable(format!("cannot {verb} {}: {error}", paths.root().display()));
    if error.kind() == io::ErrorKind::StorageFull { failed.hint(FREE_SPACE) } else { failed }
}
