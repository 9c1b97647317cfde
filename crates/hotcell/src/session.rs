//! Puts the engine together from a driver and a store, as the configuration says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_auth::FileTokenStore;
use hotcell_docker::{DockerDriver, DockerSettings};
use hotcell_engine::{
    AllowedNames, AllowedSecrets, AllowedWorkspaces, Engine, ExecStream, FileTransfer, Policies,
    PolicyUse, PortStream, Quota, Settings, TenantSettings,
};
use hotcell_ledger::{ChainedLedger, LedgerSettings};
use hotcell_model::{
    Alias, Caller, CellInfo, CellRef, Driver, Error, ExecFollow, FileStream, NameRules, PortDial,
    PullWatch, Query, RequiredIsolation, Result, SecretStore,
};
use hotcell_native::{
    CgroupUse, DockerCredentials, EgressSettings, ImageScan, NativeDriver, NativeSettings,
    RegistrySettings, TenantBytes, Together,
};
use hotcell_policy::AllowedLines;
use hotcell_secrets::{ElsewhereSource, SealedStore};
use hotcell_store::SqliteStore;

use crate::config::{Cgroups, Config, SecretPlace};
use crate::config_toolbox;
use crate::default_cell::of_directory;
use crate::engine_keys;
use crate::environment::{Environment, Secret};
use crate::policy_file::{PolicyFile, unusable};
use crate::pull_bar::PullBar;
use crate::state;

/// How long an engine may take to answer before it counts as not there.
const ENGINE_ANSWERS: Duration = Duration::from_secs(3);

/// The engine and the one on whose behalf it is asked.
#[derive(Debug)]
pub(crate) struct Session {
    engine: Engine,
    caller: Caller,
    policy: Arc<PolicyFile>,
    pull_bar: Arc<PullBar>,
    state_dir: PathBuf,
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
        let pull_bar = Arc::new(PullBar::default());
        let driver = NativeDriver::new(NativeSettings {
            state_dir: config.state_dir.clone(),
            own_files: config.own_files(),
            program: program.clone(),
            cgroups: match config.cgroups {
                Cgroups::Auto => CgroupUse::Auto,
                Cgroups::Off => CgroupUse::Off,
            },
            required: config.required.clone(),
            egress: egress(config),
            together: Together {
                memory_bytes: config.admission.memory_mb.map(|mb| mb << 20),
                pids: config.admission.pids,
            },
            registries: registries(config, environment),
            scan: scan(config),
            pull_watch: Arc::clone(&pull_bar) as Arc<dyn PullWatch>,
        });
        let docker = DockerDriver::new(docker_settings(config, environment, &program));
        // Whoever is the operator is not judged.
        let used = match workspaces {
            AllowedWorkspaces::Any => PolicyUse::Explained,
            AllowedWorkspaces::Only(_) => PolicyUse::Enforced,
        };
        let mut engine = Engine::new(
            config.state_dir.clone(),
            Arc::new(store),
            vec![Arc::new(driver), Arc::new(docker)],
            settings(config, workspaces, secrets),
        );
        let secrets: Arc<dyn SecretStore> = Arc::new(secret_store(config, environment)?);
        engine.keep_secrets_in(Arc::clone(&secrets))?;
        if let Some(servers) = config_toolbox::open(config, environment, secrets, &program)? {
            let most = usize::try_from(config.toolbox.pass_through_tokens).unwrap_or(usize::MAX);
            engine.call_tools_of(Arc::new(servers), most)?;
        }
        let policy = Arc::new(PolicyFile::open(
            &config.policy.profile,
            &config.policy.file,
            AllowedLines::parse(&config.policy.lines).map_err(|error| unusable(&error))?,
        )?);
        let ask_within = Duration::from_secs(config.policy.ask_within_s);
        engine.judge_by(Arc::clone(&policy) as Arc<dyn Policies>, used, ask_within)?;
        let tokens = Arc::new(FileTokenStore::new(&config.state_dir));
        engine.keep_tokens_in(tokens)?;
        engine.keep_ledger_in(Arc::new(ledger(config)))?;
        let default_cell = std::env::current_dir().ok().as_deref().and_then(of_directory);
        let caller = Caller::local(uid).in_tenant(config.tenant.clone());
        let caller = Caller { default_cell, ..caller };
        let state_dir = config.state_dir.clone();
        Ok(Self { engine, caller, policy, pull_bar, state_dir })
    }

    /// The engine, the caller and the rules, for a server.
    pub(crate) fn into_parts(self) -> (Engine, Caller, Arc<PolicyFile>) {
        (self.engine, self.caller, self.policy)
    }

    /// The state directory.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Where it is shown how far pulls have come.
    pub(crate) fn pull_bar(&self) -> &PullBar {
        &self.pull_bar
    }

    /// The cell that belongs to the directory this process was started in.
    pub(crate) fn default_cell(&self) -> Option<&Alias> {
        self.caller.default_cell.as_ref()
    }

    /// The same, seeing what belongs to any tenant: whoever is here owns the state directory.
    pub(crate) fn above_tenants(&self) -> Beyond<'_> {
        Beyond { engine: &self.engine, caller: self.caller.clone().above_tenants() }
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

/// A session that sees what belongs to any tenant.
pub(crate) struct Beyond<'a> {
    engine: &'a Engine,
    caller: Caller,
}

impl Beyond<'_> {
    /// Asks the engine.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) async fn ask<Q: Query>(&self, request: Q) -> Result<Q::Answer> {
        self.engine.ask(&self.caller, request).await
    }
}

/// The program whose verdict on images counts.
fn scan(config: &Config) -> Option<ImageScan> {
    let program = config.image_scan.clone();
    (!program.as_os_str().is_empty()).then_some(ImageScan { program })
}

/// Whether an engine of the driver docker answers.
pub(crate) async fn engine_answers(config: &Config, environment: &Environment) -> bool {
    // It is only looked at: nothing is made that would need the program.
    let driver = DockerDriver::new(docker_settings(config, environment, Path::new("")));
    let looked = tokio::time::timeout(ENGINE_ANSWERS, driver.reach()).await;
    looked.is_ok_and(|reached| reached.is_ok())
}

/// What is shown to registries.
fn credentials(config: &Config, environment: &Environment) -> DockerCredentials {
    let usual = environment.home.as_ref().map(|home| home.join(".docker"));
    let text = config.dialect.bench.docker_config.as_ref().map(|Secret(text)| text.clone());
    DockerCredentials { directory: environment.docker_config.clone().or(usual), text }
}

fn registries(config: &Config, environment: &Environment) -> RegistrySettings {
    RegistrySettings {
        docker: credentials(config, environment),
        nameservers: config.egress.nameservers.clone(),
        ca_file: config.egress.ca_file.clone(),
    }
}

/// What every driver is told about the network of cells.
fn egress(config: &Config) -> EgressSettings {
    EgressSettings { of_tenants: tenant_bytes(config), ..config.egress.clone() }
}

fn docker_settings(config: &Config, environment: &Environment, program: &Path) -> DockerSettings {
    let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let docker = &config.docker;
    DockerSettings {
        state_dir: config.state_dir.clone(),
        program: program.to_owned(),
        engines: engine_keys::engines(config, environment),
        image: said(&docker.image),
        credentials: credentials(config, environment),
        scan: scan(config),
        runtime: said(&docker.runtime),
        required: RequiredIsolation { layers: docker.required.clone(), ..Default::default() },
        egress: egress(config),
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
        log_bytes: config.upkeep.log_mb << 20,
        volume_keep_s: config.upkeep.volume_keep_s,
        image_keep_s: config.upkeep.image_keep_s,
        disk_reserve_mb: config.upkeep.disk_reserve_mb,
        pool: config.pool.clone(),
        usual_limits: config.usual_limits,
        max_running: config.max_running,
        output_bytes: config.output_mb << 20,
        sessions: config.sessions,
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
        images: config.images.clone(),
        redact_shapes: config.redact_shapes,
        redact_names: config.redact_names.clone(),
        tenants: config.tenants.clone(),
        code: config.code.clone(),
    }
}

/// Where everything is written down: in the state directory, and its key and its head where the
/// configuration says.
pub(crate) fn ledger(config: &Config) -> ChainedLedger {
    let said = &config.ledger;
    let place = |said: &Path, usual: &str| match said.as_os_str().is_empty() {
        true => config.state_dir.join(usual),
        false => said.to_owned(),
    };
    ChainedLedger::new(LedgerSettings {
        directory: config.state_dir.join("ledger"),
        key_file: place(&said.key_file, "ledger.key"),
        head_file: place(&said.head_file, "ledger.head"),
        segment_bytes: said.segment_mb << 20,
        keep: said.keep(),
        keep_bytes: Some(said.keep_mb << 20).filter(|bytes| *bytes > 0),
        floor: Some(said.floor()),
        most_bytes: Some(said.most_mb << 20).filter(|bytes| *bytes > 0),
        sync: said.sync,
    })
}

/// What the cells of each tenant, and all together, may carry over the network in a day.
fn tenant_bytes(config: &Config) -> TenantBytes {
    let bytes = |settings: &TenantSettings| {
        settings.quotas.get(&Quota::EgressMbPerDay).map(|mb| mb.saturating_mul(1 << 20))
    };
    let named = config.tenants.named.iter();
    let named = named.filter_map(|(tenant, settings)| Some((tenant.clone(), bytes(settings)?)));
    let all = config.admission.egress_mb_per_day.map(|mb| mb.saturating_mul(1 << 20));
    TenantBytes { named: named.collect(), others: bytes(&config.tenants.others), all }
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
