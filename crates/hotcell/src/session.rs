//! Puts the engine together from a driver and a store, as the configuration says.

use std::collections::BTreeMap;
use std::sync::Arc;

use hotcell_engine::{
    AllowedNames, AllowedSecrets, AllowedWorkspaces, Engine, ExecStream, FileTransfer, PortStream,
    Settings,
};
use hotcell_model::{
    Alias, Caller, CellInfo, CellRef, Error, ExecFollow, FileStream, NameRules, PortDial, Query,
    Result,
};
use hotcell_native::{CgroupUse, NativeDriver, NativeSettings, Together};
use hotcell_secrets::{ElsewhereSource, SealedStore};
use hotcell_store::SqliteStore;

use crate::config::{Cgroups, Config, SecretPlace};
use crate::default_cell::of_directory;
use crate::environment::Environment;
use crate::state;

/// The engine and the one on whose behalf it is asked.
#[derive(Debug)]
pub(crate) struct Session {
    engine: Engine,
    caller: Caller,
}

impl Session {
    /// Opens the state directory and everything on it.
    ///
    /// # Errors
    /// Whatever makes the state directory or the index unusable, with what to do about it.
    pub(crate) fn open(
        config: &Config,
        environment: &Environment,
        workspaces: AllowedWorkspaces,
        secrets: AllowedSecrets,
    ) -> Result<Self> {
        let uid = rustix::process::getuid().as_raw();
        state::prepare(&config.state_dir, uid)?;
        let program = std::env::current_exe().map_err(|error| {
            Error::unsupported(format!("cannot find the program file of hotcell: {error}"))
                .hint("mount a proc file system at /proc")
        })?;
        let store = SqliteStore::open(&config.state_dir)?;
        if let Some(aside) = store.recovered() {
            tracing::warn!(aside = %aside.display(), "the index was damaged; it is being rebuilt");
        }
        let driver = NativeDriver::new(NativeSettings {
            state_dir: config.state_dir.clone(),
            program,
            cgroups: match config.cgroups {
                Cgroups::Auto => CgroupUse::Auto,
                Cgroups::Off => CgroupUse::Off,
            },
            required: config.required.clone(),
            egress: config.egress.clone(),
            together: Together {
                memory_bytes: config.admission.memory_mb.map(|mb| mb << 20),
                pids: config.admission.pids,
            },
        });
        let mut engine = Engine::new(
            config.state_dir.clone(),
            Arc::new(store),
            vec![Arc::new(driver)],
            settings(config, workspaces, secrets),
        );
        engine.keep_secrets_in(Arc::new(secret_store(config, environment)?))?;
        let default_cell = std::env::current_dir().ok().as_deref().and_then(of_directory);
        let caller = Caller { default_cell, ..Caller::local(uid) };
        Ok(Self { engine, caller })
    }

    /// The engine and the caller, for a server.
    pub(crate) fn into_parts(self) -> (Engine, Caller) {
        (self.engine, self.caller)
    }

    /// The cell that belongs to the directory this process was started in.
    pub(crate) fn default_cell(&self) -> Option<&Alias> {
        self.caller.default_cell.as_ref()
    }

    /// Asks the engine.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) async fn ask<Q: Query>(&self, request: Q) -> Result<Q::Answer> {
        self.engine.ask(&self.caller, request).await
    }

    /// Follows the output of an exec.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) async fn follow(&self, request: ExecFollow) -> Result<ExecStream> {
        self.engine.follow(&self.caller, request).await
    }

    /// Checks that a cell is there that is only to be looked at: nothing is made for that.
    ///
    /// # Errors
    /// `not_found` for a default cell that was not used yet.
    pub(crate) async fn look_for(&self, cell: &CellRef) -> Result<()> {
        match cell {
            CellRef::Default => self.ask(CellInfo { cell: cell.clone() }).await.map(drop),
            CellRef::Id(_) | CellRef::Alias(_) => Ok(()),
        }
    }

    /// Begins to send or fetch the content of files.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) async fn transfer(&self, request: FileStream) -> Result<FileTransfer> {
        self.engine.transfer(&self.caller, request).await
    }

    /// Connects to a service in a cell.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) async fn dial(&self, request: PortDial) -> Result<PortStream> {
        self.engine.dial(&self.caller, request).await
    }
}

/// What the engine takes from the configuration.
pub(crate) fn settings(
    config: &Config,
    workspaces: AllowedWorkspaces,
    secrets: AllowedSecrets,
) -> Settings {
    Settings {
        default_driver: config.driver.clone(),
        sleep_after_s: config.sleep_after_s,
        orphan_grace_s: config.orphan_grace_s,
        default_ttl_s: config.default_ttl_s,
        log_keep_s: config.log_keep_s,
        max_running: config.max_running,
        output_bytes: config.output_mb << 20,
        names: match workspaces {
            AllowedWorkspaces::Any => AllowedNames::Any,
            AllowedWorkspaces::Only(_) => AllowedNames::Only(NameRules::default()),
        },
        as_root: match workspaces {
            AllowedWorkspaces::Any => true,
            AllowedWorkspaces::Only(_) => config.agents_as_root,
        },
        workspaces,
        admission: config.admission.clone(),
        secrets,
    }
}

/// Where secrets are: sealed in the state directory, and wherever the configuration says.
fn secret_store(config: &Config, environment: &Environment) -> Result<SealedStore> {
    let directory = config.state_dir.join("secrets");
    let key_file = match config.secrets.key_file.as_os_str().is_empty() {
        true => directory.join("key"),
        false => config.secrets.key_file.clone(),
    };
    let mut elsewhere = BTreeMap::new();
    for (name, place) in &config.secrets.elsewhere {
        let source = match place {
            SecretPlace::Env(variable) => ElsewhereSource::Env {
                variable: variable.clone(),
                value: environment.secret(variable)?,
            },
            SecretPlace::File(path) => ElsewhereSource::File(path.clone()),
        };
        elsewhere.insert(name.clone(), source);
    }
    Ok(SealedStore::new(directory, key_file, elsewhere))
}
