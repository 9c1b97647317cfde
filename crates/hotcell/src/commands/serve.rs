//! `hotcell serve`: the door for agents.

use std::fs;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hotcell_auth::{FileTokenStore, Oidc};
use hotcell_dialects::background_job::BackgroundJob;
use hotcell_dialects::devbench::{Devbench, DevbenchSettings, LABEL as DEVBENCH};
use hotcell_dialects::vibesbox::Vibesbox;
use hotcell_engine::{AllowedSecrets, AllowedWorkspaces, Engine, Serving};
use hotcell_model::{
    Alias, Caller, Error, NetRule, Result, Role, Tenant, Workspace, WorkspaceMode,
};
use hotcell_server::http::{
    AccessSettings, HttpLimits, HttpSettings, Listener, Peer, Principal, SocketListener,
    SocketMode, Token,
};
use hotcell_server::{
    Approvers, Dialect, DialectTools, Door, ProjectOffer, Reach, ToolBounds, hotcell_dialect, http,
    stdio,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use crate::args::Serve;
use crate::auth_config::{Proof, SocketUser};
use crate::config::{AskClient, Config};
use crate::default_cell::{empty_cell_beside, names_of_project, of_project_ending};
use crate::dialects::DialectName;
use crate::environment::Environment;
use crate::errors::Failure;
use crate::policy_file::PolicyFile;
use crate::session::{Session, engine_answers};
use crate::show::note;
use crate::signals::{LocalSignal, LocalSignals};
use crate::values::ListenAt;

/// Descriptors that are not for connections: links to cells, logs, the index.
const OTHER_FILES: u64 = 256;
/// What a server keeps of what it freed: a file of a few megabytes is read and told with that.
const KEPT_BYTES: usize = 16 << 20;
/// How long a server may take to leave nothing behind.
const TIDIED: Duration = Duration::from_secs(5);
/// How long it may take to stop cells.
const STOPPED: Duration = Duration::from_secs(60);
/// By then a client that starts a server has greeted it.
const SETTLED: Duration = Duration::from_secs(2);

/// What cells of this server may reach outside themselves.
fn reach(args: &Serve, config: &Config) -> Reach {
    let workspaces = args.workspace.iter().chain(&config.workspaces);
    Reach {
        writes_host_files: workspaces.into_iter().any(|it| it.mode == WorkspaceMode::Rw),
        outside: !args.allow.is_empty() || !config.allow.is_empty() || config.toolbox.has_servers(),
    }
}

/// Serves until the client leaves or a signal comes.
pub(super) async fn serve(
    args: Serve,
    config: &Config,
    environment: &Environment,
) -> Result<u8, Failure> {
    // Before anything is begun that a signal could cut short.
    let mut signals = LocalSignals::listen().map_err(Failure::Terminal)?;
    let config = &with_driver(config, environment).await;
    let reach = reach(&args, config);
    let at = match args.http {
        Some(at) => Some(at),
        None => config.dialect.listen_at()?,
    };
    let bounds = ToolBounds { content_bytes: config.file_mb << 20, ..ToolBounds::default() };
    let secrets = AllowedSecrets::Only(config.secrets.allowed.clone());
    let (mut engine, local, policy) =
        Session::open(config, environment, AllowedWorkspaces::Only(Vec::new()), secrets)?
            .into_parts();
    let (default_workspace, offer) = match &args.project {
        Some(dir) => choose_project(&mut engine, dir, config).await?,
        None => choose_workspace(&mut engine, &args.workspace, config).await?,
    };
    let own = hotcell_dialect(&args.tools.unwrap_or_default(), bounds, reach, &offer);
    engine.offer_own_tools(Arc::new(DialectTools::new(Arc::clone(&own))))?;
    let names: Vec<NetRule> = args.allow.iter().chain(&config.allow).cloned().collect();
    let dialect: Arc<dyn Dialect> = match config.dialect.name {
        DialectName::Hotcell => own,
        DialectName::BackgroundJob => Arc::new(BackgroundJob::new(config.dialect.jobs)),
        DialectName::Vibesbox => Arc::new(Vibesbox::default()),
        DialectName::Devbench => Arc::new(Devbench::new(DevbenchSettings {
            network: names.clone().into(),
            file_bytes: bounds.content_bytes,
        })),
    };
    let hang_up = HangUp::of(policy);
    engine.allow_names(names.clone())?;
    let ending = config.dialect.name.cell_ending();
    let chosen_cell = match (args.cell, &default_workspace) {
        (Some(named), _) => Some(named),
        (None, Some(workspace)) => find_cell_on(&engine, &local.tenant, workspace, ending).await?,
        (None, None) => cell_without_project(&engine, &local, ending, at.as_ref()).await?,
    };
    let local = Caller { default_workspace, default_network: names.into(), ..local };
    // Whoever calls works in cells; what the operator may is done at the command line.
    let local = local.in_role(Role::Agent);
    let approvers = match config.policy.ask_client {
        AskClient::Never => Approvers::Operators,
        AskClient::Local => Approvers::LocalClients,
        AskClient::Always => Approvers::AllClients,
    };
    engine.show_tools(local.tenant.clone());
    engine.keep_house(local.tenant.clone());
    let engine = Arc::new(engine);
    let serving = match config.dialect.name {
        DialectName::Devbench => Some(engine.serve_labelled(DEVBENCH)?),
        DialectName::Hotcell | DialectName::BackgroundJob | DialectName::Vibesbox => None,
    };
    let leaving = Leaving { engine: Arc::clone(&engine), pool: config.pool.size, serving };
    let door =
        Door::new(engine, dialect).with_approvers(approvers).at_home_in(config.tenant.clone());
    let door = door.with_client_rules(config.client_rules);
    #[cfg(feature = "conformance")]
    let door = if args.conformance_fixtures { door.with_conformance_fixtures() } else { door };
    hotcell_jail::keep_freed(KEPT_BYTES);
    // A server waits most of the time, and for that needs little of what brought it here.
    hotcell_jail::release_code();
    let Some(at) = at else {
        let caller = match chosen_cell {
            Some(alias) => local.with_default_cell(alias),
            None => local,
        };
        let caller = as_started(config, caller);
        // Who is told to leave leaves; what runs goes on.
        let mut serving = pin!(settling(stdio::serve(door, caller)));
        loop {
            let served = match signals.unless_told_to_leave(&mut serving).await {
                Ok(served) => served.map(|()| 0).map_err(Failure::Terminal),
                Err(LocalSignal::HangUp) if hang_up.reloads() => continue,
                Err(_) => Ok(0),
            };
            leaving.tidy_up().await;
            return served;
        }
    };
    let usual = Caller { default_cell: chosen_cell, ..local };
    let settings = settings(config, access(config, environment, usual)?);
    let served = match at {
        ListenAt::Address(address) => {
            settings.check_address(address).map_err(|error| match config.dialect.proof() {
                Some(hint) => error.hint(hint),
                None => error,
            })?;
            let listener = listen(address).await?;
            over_http(listener, door, settings, &mut signals, &hang_up).await
        }
        ListenAt::Socket(path) => {
            let mode = match config.auth.socket_users.is_empty() {
                true => SocketMode::Owner,
                false => SocketMode::Everybody,
            };
            let listener = SocketListener::bind(&path, mode)?;
            note(&format!("listening on unix:{}", listener.path().display()));
            over_http(listener.into(), door, settings, &mut signals, &hang_up).await
        }
    };
    leaving.tidy_up().await;
    served
}

/// The same configuration with the driver that the original would have had, where nobody names one.
async fn with_driver(config: &Config, environment: &Environment) -> Config {
    let mut config = config.clone();
    if config.dialect.name.looks_for_engine() && !config.is_said("driver") {
        let is_there = engine_answers(&config, environment).await;
        config.driver = if is_there { "docker" } else { "native" }.to_owned();
        tracing::info!(driver = config.driver, "the driver of new cells");
    }
    config
}

/// A caller on whose behalf whoever started the server serves, and nobody's token.
fn as_started(config: &Config, caller: Caller) -> Caller {
    match config.dialect.name.lets_keep_house() {
        true => caller.keeping_house(),
        false => caller,
    }
}

/// The cell that works on a directory, or is to be made for it. A cell that was made for the same
/// directory without its files is left alone.
async fn find_cell_on(
    engine: &Engine,
    tenant: &Tenant,
    workspace: &Workspace,
    ending: &str,
) -> Result<Option<Alias>> {
    let names = names_of_project(&workspace.dir, ending);
    for name in &names {
        match engine.find_workspace(tenant, name).await? {
            Some(None) => {
                let dir = workspace.dir.display();
                note(&format!(
                    "the cell {name} was made without the files of {dir} and stays as it is; \
                     another cell works on them"
                ));
            }
            // One that works on something else is a conflict, which the first call reports.
            None | Some(Some(_)) => return Ok(Some(name.clone())),
        }
    }
    Ok(names.first().cloned())
}

/// The default cell of a server that was not given the directory it starts in; `None` for that of
/// each caller.
async fn cell_without_project(
    engine: &Engine,
    caller: &Caller,
    ending: &str,
    at: Option<&ListenAt>,
) -> Result<Option<Alias>> {
    match (ending.is_empty(), at) {
        (true, None) => find_empty_cell(engine, caller).await,
        (true, Some(_)) => Ok(None),
        (false, _) => {
            let here = std::env::current_dir().ok();
            Ok(here.and_then(|here| of_project_ending(&here, ending)))
        }
    }
}

/// The cell to use in place of one that works on the directory. A cell that works on
/// that directory is left alone.
async fn find_empty_cell(engine: &Engine, caller: &Caller) -> Result<Option<Alias>> {
    let Some(name) = &caller.default_cell else { return Ok(None) };
    match engine.find_workspace(&caller.tenant, name).await? {
        Some(Some(workspace)) => {
            let dir = workspace.dir.display();
            note(&format!(
                "the cell {name} works on {dir} and stays as it is; another cell is used"
            ));
            Ok(empty_cell_beside(name))
        }
        None | Some(None) => Ok(None),
    }
}

/// Makes a directory the default cell's workspace, copy-on-write, if it can be one.
async fn choose_project(
    engine: &mut Engine,
    dir: &Path,
    config: &Config,
) -> Result<(Option<Workspace>, ProjectOffer)> {
    let dir = std::path::absolute(dir).map_err(|error| {
        Error::invalid(format!("cannot find the project {}: {error}", dir.display()))
            .hint("start in a directory that is there")
    })?;
    let project = Workspace { dir: dir.clone(), mode: WorkspaceMode::Cow };
    let asked: Vec<Workspace> = [&project].into_iter().chain(&config.workspaces).cloned().collect();
    match engine.allow_workspaces(&asked).await {
        Ok(allowed) => {
            let chosen = allowed.into_iter().next();
            let offer = offer_of(chosen.as_ref(), &[]);
            Ok((chosen, offer))
        }
        Err(error) => {
            engine.allow_workspaces(&config.workspaces).await?;
            let shown = dir.display();
            note(&format!("the default cell is empty: {shown} cannot be its workspace: {error}"));
            note("start in the directory of a project, or name one with --project DIR");
            Ok((None, ProjectOffer::Unavailable { dir, reason: error.message }))
        }
    }
}

/// What clients are told about these directories.
fn offer_of(chosen: Option<&Workspace>, allowed: &[Workspace]) -> ProjectOffer {
    match chosen {
        Some(Workspace { dir, mode }) => {
            ProjectOffer::DefaultCell { dir: dir.clone(), mode: *mode }
        }
        None if allowed.iter().any(|it| it.mode >= WorkspaceMode::Cow) => ProjectOffer::Allowed,
        None => ProjectOffer::None,
    }
}

/// The directories of the host that cells may have; the one that is worked on.
async fn choose_workspace(
    engine: &mut Engine,
    named: &[Workspace],
    config: &Config,
) -> Result<(Option<Workspace>, ProjectOffer)> {
    let wish = match named.is_empty() {
        true => config.dialect.workspace()?,
        false => None,
    };
    let first = named.iter().chain(wish.as_ref().map(|wish| &wish.workspace));
    let asked: Vec<Workspace> = first.chain(&config.workspaces).cloned().collect();
    let is_named = !named.is_empty() || wish.as_ref().is_some_and(|wish| wish.variable.is_some());
    match engine.allow_workspaces(&asked).await {
        Ok(allowed) => {
            let chosen = allowed.first().filter(|_| !named.is_empty() || wish.is_some()).cloned();
            let offer = offer_of(chosen.as_ref(), &allowed);
            Ok((chosen, offer))
        }
        Err(error) if is_named || wish.is_none() => {
            Err(match wish.and_then(|wish| wish.variable) {
                Some(variable) => {
                    Error { message: format!("{variable}: {}", error.message), ..error }
                }
                None => error,
            })
        }
        Err(error) => {
            note(&format!("cells have a workspace of their own: {error}"));
            let allowed = engine.allow_workspaces(&config.workspaces).await?;
            Ok((None, offer_of(None, &allowed)))
        }
    }
}

/// What a server does before it goes.
struct Leaving {
    engine: Arc<Engine>,
    pool: u32,
    /// The cells that are stopped with their servers.
    serving: Option<Serving>,
}

impl Leaving {
    /// Ends the cells that it kept ready, and stops those that are stopped with it. Those that it
    /// does not get to end by themselves.
    async fn tidy_up(self) {
        if let Some(serving) = self.serving {
            match tokio::time::timeout(STOPPED, self.engine.leave_labelled(serving)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "transient containers are not stopped"),
                Err(_) => tracing::warn!("not all transient containers were stopped in time"),
            }
        }
        if self.pool == 0 {
            return;
        }
        let ended = tokio::time::timeout(TIDIED, self.engine.end_pool()).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "cells that were kept ready stay for a while");
        }
    }
}

/// Serves with as little of the program in memory as that takes: the start needs much that nothing
/// needs later, and so does the greeting of a client, after which many servers only wait.
async fn settling<T>(mut serving: impl Future<Output = T> + Unpin) -> T {
    hotcell_jail::release_code();
    if let Ok(served) = tokio::time::timeout(SETTLED, &mut serving).await {
        return served;
    }
    hotcell_jail::release_code();
    serving.await
}

/// What a hang-up means.
#[derive(Debug)]
enum HangUp {
    /// The terminal went away, and whoever sat there.
    Leave,
    /// There never was one: the policy is to be read again.
    Reload(Arc<PolicyFile>),
}

impl HangUp {
    fn of(policy: Arc<PolicyFile>) -> Self {
        if std::io::stderr().is_terminal() { Self::Leave } else { Self::Reload(policy) }
    }

    /// Reads the policy again if that is what a hang-up means here.
    fn reloads(&self) -> bool {
        match self {
            Self::Leave => false,
            Self::Reload(policy) => {
                policy.reload();
                true
            }
        }
    }
}

async fn listen(address: SocketAddr) -> Result<Listener> {
    let cannot_listen = |error: std::io::Error| {
        Error::unavailable(format!("cannot listen at {address}: {error}"))
            .hint("choose another address or port")
    };
    let listener = TcpListener::bind(address).await.map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    note(&format!("listening on http://{bound}"));
    Ok(listener.into())
}

async fn over_http(
    listener: Listener,
    door: Door,
    settings: HttpSettings,
    signals: &mut LocalSignals,
    hang_up: &HangUp,
) -> Result<u8, Failure> {
    let (told, stop) = tokio::sync::oneshot::channel::<()>();
    let stop = async {
        // It ends without a word only together with us.
        let _ = stop.await;
    };
    let mut told = Some(told);
    let mut serving = Box::pin(settling(http::serve(listener, door, settings, stop)));
    loop {
        tokio::select! {
            served = &mut serving => return served.map(|()| 0).map_err(Failure::Terminal),
            signal = signals.next() => match (signal, told.take()) {
                (LocalSignal::Resize, kept) => told = kept,
                (LocalSignal::HangUp, kept) if hang_up.reloads() => told = kept,
                (_, Some(told)) => drop(told.send(())),
                // Told twice: whoever waits is left alone, what runs goes on.
                (_, None) => return Ok(0),
            },
        }
    }
}

fn settings(config: &Config, access: AccessSettings) -> HttpSettings {
    let connections = (config.http.max_connections as usize).min(connections_possible());
    HttpSettings {
        access,
        allowed_hosts: config.http.allowed_hosts.clone(),
        allowed_origins: config.http.allowed_origins.clone(),
        mcp_path: config.http.path.clone(),
        drain: Duration::from_secs(config.http.drain_s),
        limits: HttpLimits {
            connections,
            sessions: config.http.max_sessions as usize,
            upload_bytes: config.http.max_upload_mb << 20,
            ..HttpLimits::default()
        },
    }
}

/// Who may call. Whether they have to prove who they are is decided here, once: a server never
/// opens because its last token was revoked.
fn access(config: &Config, environment: &Environment, usual: Caller) -> Result<AccessSettings> {
    let token = find_token(config, environment)?;
    let tokens = FileTokenStore::new(&config.state_dir);
    let oidc = match config.auth.oidc.settings(config) {
        Some(settings) => Some(Arc::new(Oidc::new(settings)?)),
        None => None,
    };
    let is_required = match config.auth.proof {
        Proof::Required => true,
        Proof::None => false,
        Proof::Auto => token.is_some() || oidc.is_some() || tokens.is_used()?,
    };
    let started = as_started(config, usual.clone());
    let bearer = Caller { principal: "bearer".to_owned(), ..started.clone() };
    Ok(AccessSettings {
        open: (!is_required).then_some(started),
        principals: token.map(|token| Principal { caller: bearer, token }).into_iter().collect(),
        tokens: Some(Arc::new(tokens)),
        oidc,
        peers: peers(config, environment, &usual),
        usual,
    })
}

/// Who may call at a socket: its owner, root, and those who are named.
fn peers(config: &Config, environment: &Environment, usual: &Caller) -> Vec<Peer> {
    let named = config.auth.socket_users.iter().cloned();
    let always =
        [environment.uid, 0].map(|uid| SocketUser { uid, role: Role::Agent, tenant: None });
    // What is said of one comes before what holds for all.
    let peer = |user: SocketUser| {
        let caller = Caller {
            principal: format!("local:{}", user.uid),
            tenant: user.tenant.unwrap_or_else(|| usual.tenant.clone()),
            ..usual.clone()
        };
        Peer { uid: user.uid, caller: caller.in_role(user.role) }
    };
    named.chain(always).map(peer).collect()
}

/// How many connections this process may have, after it has asked for as many as it can get.
/// Execs have limits of their own.
fn connections_possible() -> usize {
    let files = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
    let most = if raised.is_ok() { files.maximum } else { files.current };
    let most = most.map_or(u64::MAX, |most| most.saturating_sub(OTHER_FILES).max(1));
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The token that was configured.
fn find_token(config: &Config, environment: &Environment) -> Result<Option<Token>> {
    if let Some(secret) = environment.http_token.as_ref().or(config.dialect.token()) {
        return Token::new(&secret.0).map(Some);
    }
    let path = &config.http.token_file;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).map_err(|error| {
        Error::invalid(format!("cannot read the token file {}: {error}", path.display()))
            .hint("http.token_file names a file that holds the token and nothing else")
    })?;
    Token::new(&text).map(Some)
}
