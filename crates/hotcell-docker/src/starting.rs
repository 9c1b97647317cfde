//! The ways to start a cell and to connect to it: at an engine of this machine, and at one of another.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hotcell_jail::process::Confinement;
use hotcell_link::ContainerOrder;
use hotcell_model::{Error, Network, Result};
use hotcell_place::{ACCOUNTS, copy_of};

use crate::birth::{Birth, give_birth};
use crate::container::{self, Shown};
use crate::disk::{self, Measured};
use crate::docker_host::DockerHost;
use crate::driver::{DockerDriver, at, read};
use crate::engine_address::EngineSettings;
use crate::isolation::enforced;
use crate::keeper::KeeperAsk;
use crate::keeping::{await_keeper_end, await_relay_end};
use crate::paths::{CellPaths, Placed};
use crate::podman;
use crate::remote::{self, Begun, OutpostPlace, Relaying, RemoteStart};
use crate::removal::remove_container;
use crate::shown_files::write_names;
use crate::volumes;

/// What the start of a cell needs, wherever its engine is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) host: &'a DockerHost,
    pub(crate) paths: &'a CellPaths,
    pub(crate) placed: &'a Placed,
    pub(crate) state: &'a str,
    /// The copy of the program.
    pub(crate) program: &'a Path,
}

impl DockerDriver {
    pub(crate) fn copy_program(&self, paths: &CellPaths) -> Result<PathBuf> {
        copy_of(&self.settings.program, &self.paths.programs())
            .map_err(|error| at("copy the program for", paths, &error))
    }

    /// Starts a cell at an engine of this machine.
    pub(crate) async fn start_here(
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
        let mut body = container::describe(placed, &shown, enforced(host), state, runtime);
        if host.is_podman {
            let told = podman::translate(&mut body, &paths.filter());
            told.map_err(|error| at("write", paths, &error))?;
        }
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
    pub(crate) async fn start_there(
        &self,
        start: Start<'_>,
        tools: Option<&Path>,
    ) -> Result<Confinement> {
        let Start { host, paths, placed, state, program } = start;
        podman::check_here(host)?;
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
        let host = self.engines.reach(&placed).await?;
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

    /// Takes what is left of the records of a cell that has no supervisor any more, however long that
    /// takes while more of them come. What is gone itself is given up.
    pub(crate) async fn take_last_records(&self, paths: &CellPaths, placed: &Placed) -> Result<()> {
        let begun = Begun::find(paths).map_err(|error| at("read", paths, &error))?;
        if begun.is_some() && !remote::was_ready(paths) {
            // Nothing ever ran in it, and whoever began it may be gone: its outpost waits for nothing.
            let host = self.engines.reach(placed).await?;
            remove_container(&host, &remote::outpost_name(&placed.spec.id)).await?;
            Begun::forget(paths).map_err(|error| at("write", paths, &error))?;
        }
        loop {
            let lock = await_relay_end(paths, &placed.records).await?;
            let begun = Begun::find(paths).map_err(|error| at("read", paths, &error))?;
            if begun.is_none() {
                return Ok(());
            }
            let host = self.engines.reach(placed).await?;
            let state = self.paths.state_id().map_err(|error| at("read", paths, &error))?;
            let program = self.copy_program(paths)?;
            let place = self.outpost_place(placed, &state, &program);
            if let Err(error) = remote::ensure_outpost(&host, paths, place).await {
                if !remote::is_hopeless(&host, &placed.spec.id).await? {
                    return Err(error);
                }
                tracing::warn!(%error, engine = host.name(), "the last records of a cell are gone");
                return Begun::forget(paths).map_err(|error| at("write", paths, &error));
            }
            drop(lock);
            let relaying = Relaying { program: program.clone() };
            relaying.begin(&host, paths, placed).await?;
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

    pub(crate) async fn begin_keeper(
        &self,
        program: &Path,
        paths: &CellPaths,
        placed: &Placed,
    ) -> Result<()> {
        let keeping = self.keeping.clone();
        let (program, paths, placed) = (program.to_owned(), paths.clone(), placed.clone());
        tokio::task::spawn_blocking(move || keeping.begin(&program, &paths, &placed))
            .await
            .map_err(|error| Error::internal(format!("starting a keeper failed: {error}")))?
    }
}

/// Makes a directory that every user of a container can look into.
fn make_readable(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}
