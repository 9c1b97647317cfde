//! Stand-ins for tests: a driver whose cells live in this process, and a state directory with it.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hotcell_model::{
    Caller, CellId, CellRef, CellSpawn, CellSpec, Command, Diagnosis, Driver, DriverCapabilities,
    Error, ExecId, ExecPoll, ExecRun, Image, ImageImport, ImageList, ImageName, ImagePull, Images,
    Isolation, Keep, Layer, Machine, OutputFilter, OutputView, PlacedCell, Placement, Query,
    Remains, Result,
};
use hotcell_store::SqliteStore;
use tempfile::TempDir;

use crate::testing_supervisor::FakeSupervisor;
use crate::{Engine, Settings};

/// A driver whose supervisors are threads of the test.
#[derive(Debug, Default)]
pub(crate) struct FakeDriver {
    cells: Mutex<HashMap<CellId, FakeCell>>,
    starts: AtomicU32,
    /// What every cell has on disk.
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) refuse_to_start: AtomicBool,
    pub(crate) hang_in_start: AtomicBool,
    pub(crate) out_of_reach: AtomicBool,
    /// Remains that are no cells.
    pub(crate) orphans: Mutex<Vec<CellId>>,
    pub(crate) refuse_to_clear: AtomicBool,
    /// Images that it keeps.
    pub(crate) kept_images: FakeImages,
}

#[derive(Debug)]
struct FakeCell {
    spec: CellSpec,
    supervisor: Option<Arc<FakeSupervisor>>,
}

impl FakeDriver {
    /// How often a supervisor was started.
    pub(crate) fn starts(&self) -> u32 {
        self.starts.load(Ordering::SeqCst)
    }

    /// The supervisor of a cell that has one.
    pub(crate) fn supervisor(&self, cell: &CellId) -> Arc<FakeSupervisor> {
        let cells = self.cells.lock().unwrap();
        let supervisor = cells[cell].supervisor.as_ref();
        Arc::clone(supervisor.filter(|supervisor| supervisor.is_alive()).unwrap())
    }

    /// Loses what there is of a cell, as if somebody else had removed it.
    pub(crate) fn lose(&self, cell: &CellId) {
        self.cells.lock().unwrap().remove(cell);
    }

    /// The only cell there is.
    pub(crate) fn only_cell(&self) -> CellId {
        let cells = self.cells.lock().unwrap();
        assert_eq!(cells.len(), 1);
        cells.keys().next().unwrap().clone()
    }

    /// The supervisor of the only cell there is.
    pub(crate) fn only_supervisor(&self) -> Arc<FakeSupervisor> {
        let cells = self.cells.lock().unwrap();
        assert_eq!(cells.len(), 1);
        cells.values().find_map(|cell| cell.supervisor.as_ref().map(Arc::clone)).unwrap()
    }

    /// Whether anything is left of a cell.
    pub(crate) fn has(&self, cell: &CellId) -> bool {
        self.cells.lock().unwrap().contains_key(cell)
    }
}

pub(crate) fn isolation() -> Isolation {
    let layer = Layer { name: "imagination".to_owned(), means: None };
    Isolation::from_layers(vec![layer], Vec::new())
}

#[async_trait]
impl Driver for FakeDriver {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(&self.kept_images)
    }

    async fn capabilities(&self) -> Result<DriverCapabilities> {
        Ok(DriverCapabilities {
            machine: Machine { memory_mb: 1024, cpus: 2, pids: 4096, disk_mb: 10_000 },
            as_root: true,
            own_root: true,
            checkpoints: false,
            memory_limit: true,
            cpu_limit: false,
            pids_limit: true,
            disk_limit: true,
        })
    }

    async fn diagnose(&self) -> Diagnosis {
        Diagnosis { driver: "fake".to_owned(), checks: Vec::new(), isolation: Some(isolation()) }
    }

    async fn start(&self, spec: &CellSpec, records: &Path, _: Option<&Path>) -> Result<Placement> {
        if self.refuse_to_start.load(Ordering::SeqCst) {
            return Err(Error::unsupported("this machine has no imagination"));
        }
        if self.hang_in_start.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let mut cells = self.cells.lock().unwrap();
        let cell = cells
            .entry(spec.id.clone())
            .or_insert_with(|| FakeCell { spec: spec.clone(), supervisor: None });
        if !cell.supervisor.as_ref().is_some_and(|supervisor| supervisor.is_alive()) {
            cell.supervisor = Some(FakeSupervisor::start(records, spec.output_bytes));
            self.starts.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Placement { isolation: isolation() })
    }

    async fn connect(&self, cell: &CellId) -> Result<Option<UnixStream>> {
        if self.out_of_reach.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the fake is out of reach"));
        }
        let cells = self.cells.lock().unwrap();
        let supervisor = cells.get(cell).and_then(|cell| cell.supervisor.as_ref());
        Ok(supervisor.and_then(FakeSupervisor::connect))
    }

    async fn check_description(&self, _: &CellId) -> Result<()> {
        Ok(())
    }

    async fn stop(&self, cell: &CellId) -> Result<()> {
        if let Some(supervisor) =
            self.cells.lock().unwrap().get(cell).and_then(|cell| cell.supervisor.as_ref())
        {
            supervisor.kill();
        }
        Ok(())
    }

    async fn remove(&self, cell: &CellId) -> Result<()> {
        self.cells.lock().unwrap().remove(cell);
        Ok(())
    }

    async fn disk_bytes(&self, _: &CellId) -> Result<Option<u64>> {
        Ok(Some(self.disk_bytes.load(Ordering::SeqCst)))
    }

    async fn assign(&self, spec: &CellSpec) -> Result<()> {
        let mut cells = self.cells.lock().unwrap();
        let cell = cells.get_mut(&spec.id).ok_or_else(|| Error::not_found("no such cell"))?;
        cell.spec = spec.clone();
        Ok(())
    }

    async fn remains(&self) -> Result<Remains> {
        let mut remains: Vec<_> = self.cells.lock().unwrap().keys().cloned().collect();
        remains.extend(self.orphans.lock().unwrap().iter().cloned());
        Ok(remains.into())
    }

    async fn clear(&self, cell: &CellId) -> Result<()> {
        if self.refuse_to_clear.load(Ordering::SeqCst) {
            return Err(Error::unavailable(format!("{cell} sticks")));
        }
        self.orphans.lock().unwrap().retain(|orphan| orphan != cell);
        self.remove(cell).await
    }

    async fn list(&self) -> Result<Vec<PlacedCell>> {
        let cells = self.cells.lock().unwrap();
        let placed =
            |cell: &FakeCell| PlacedCell { spec: cell.spec.clone(), isolation: Some(isolation()) };
        Ok(cells.values().map(placed).collect())
    }
}

/// Images that a test puts there.
#[derive(Debug, Default)]
pub(crate) struct FakeImages(pub(crate) Mutex<Vec<Image>>);

#[async_trait]
impl Images for FakeImages {
    async fn import(&self, _: &ImageImport) -> Result<Image> {
        Err(Error::unsupported("the fake imports no images"))
    }

    async fn pull(&self, _: &ImagePull) -> Result<Image> {
        Err(Error::unsupported("the fake pulls no images"))
    }

    async fn list(&self) -> Result<ImageList> {
        Ok(ImageList { images: self.0.lock().unwrap().clone() })
    }

    async fn remove(&self, _: &ImageName) -> Result<Image> {
        Err(Error::unsupported("the fake removes no images"))
    }
}

/// A state directory with the cells on it; outlives the engines that work on it.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) directory: TempDir,
    pub(crate) driver: Arc<FakeDriver>,
    pub(crate) settings: Settings,
}

impl House {
    pub(crate) fn new() -> Self {
        let settings = Settings { default_driver: "fake".to_owned(), ..Settings::default() };
        Self { directory: tempfile::tempdir().unwrap(), driver: Arc::default(), settings }
    }

    /// An engine as another process would have it.
    pub(crate) fn engine(&self) -> Engine {
        let store = SqliteStore::open(self.directory.path()).unwrap();
        Engine::new(
            self.directory.path().to_owned(),
            Arc::new(store),
            vec![Arc::clone(&self.driver) as Arc<dyn Driver>],
            self.settings.clone(),
        )
    }

    /// Loses the index.
    pub(crate) fn delete_index(&self) {
        for name in ["hotcell.db", "hotcell.db-wal", "hotcell.db-shm"] {
            let _ = std::fs::remove_file(self.directory.path().join(name));
        }
    }

    /// Overwrites the index in place.
    pub(crate) fn damage_index(&self) {
        for name in ["hotcell.db", "hotcell.db-wal"] {
            let path = self.directory.path().join(name);
            let length = std::fs::metadata(&path).unwrap().len();
            std::fs::write(&path, vec![0xA5; usize::try_from(length).unwrap()]).unwrap();
        }
    }

    pub(crate) fn has_records(&self, cell: &CellId) -> bool {
        self.directory.path().join("cells").join(cell.as_str()).exists()
    }
}

/// Asks as a local user.
pub(crate) async fn ask<Q: Query>(engine: &Engine, query: Q) -> Result<Q::Answer> {
    engine.ask(&Caller::local(1000), query).await
}

/// Spawns a persistent cell.
pub(crate) async fn persistent(engine: &Engine) -> CellId {
    let spawn = CellSpawn { keep: Keep::Always, ..CellSpawn::default() };
    ask(engine, spawn).await.unwrap().id
}

/// A run of shell text, without a wait.
pub(crate) fn shell(cell: &CellId, text: &str) -> ExecRun {
    ExecRun::new(CellRef::Id(cell.clone()), Command::Shell(text.to_owned()))
}

/// Starts an exec that runs until the test ends it.
pub(crate) async fn run_forever(engine: &Engine, cell: &CellId) -> ExecId {
    ask(engine, shell(cell, "forever")).await.unwrap().exec.id
}

/// A poll of everything there is.
pub(crate) fn poll(exec: &ExecId, after_seq: u64) -> ExecPoll {
    ExecPoll {
        exec: exec.clone(),
        after_seq,
        wait_s: 0.0,
        filter: OutputFilter::default(),
        max_bytes: 1 << 20,
        view: OutputView::default(),
    }
}
