//! `hotcell serve`: the door for agents.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hotcell_engine::{AllowedSecrets, AllowedWorkspaces};
use hotcell_model::{Alias, Caller, Error, NetRule, Result, Workspace};
use hotcell_server::http::{HttpLimits, HttpSettings, Principal, Token};
use hotcell_server::{Door, FileBounds, hotcell_dialect, http, stdio};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use crate::args::Serve;
use crate::config::Config;
use crate::default_cell::of_project;
use crate::environment::Environment;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::note;
use crate::signals::{LocalSignal, LocalSignals};

/// Descriptors that are not for connections: links to cells, logs, the index.
const OTHER_FILES: u64 = 256;
/// What a server keeps of what it freed: a file of a few megabytes is read and told with that.
const KEPT_BYTES: usize = 16 << 20;
/// By then a client that starts a server has greeted it.
const SETTLED: Duration = Duration::from_secs(2);

/// Serves until the client leaves or a signal comes.
pub(super) async fn serve(
    args: Serve,
    config: &Config,
    environment: &Environment,
) -> Result<u8, Failure> {
    // Before anything is begun that a signal could cut short.
    let mut signals = LocalSignals::listen().map_err(Failure::Terminal)?;
    let dialect = hotcell_dialect(
        &args.tools.unwrap_or_default(),
        FileBounds { content_bytes: config.file_mb << 20 },
    );
    let token = match args.http {
        Some(_) => find_token(config, environment)?,
        None => None,
    };
    let secrets = AllowedSecrets::Only(config.secrets.allowed.clone());
    let (mut engine, local) =
        Session::open(config, environment, AllowedWorkspaces::Only(Vec::new()), secrets)?
            .into_parts();
    let asked: Vec<Workspace> = args.workspace.iter().chain(&config.workspaces).cloned().collect();
    let allowed = engine.allow_workspaces(&asked).await?;
    let default_workspace = allowed.into_iter().next().filter(|_| !args.workspace.is_empty());
    let chosen_cell = args
        .cell
        .or_else(|| default_workspace.as_ref().and_then(|workspace| of_project(&workspace.dir)));
    let names: Vec<NetRule> = args.allow.iter().chain(&config.allow).cloned().collect();
    engine.allow_names(names.clone())?;
    let local = Caller { default_workspace, default_network: names.into(), ..local };
    let door = Door::new(Arc::new(engine), dialect);
    #[cfg(feature = "conformance")]
    let door = if args.conformance_fixtures { door.with_conformance_fixtures() } else { door };
    hotcell_jail::keep_freed(KEPT_BYTES);
    // A server waits most of the time, and for that needs little of what brought it here.
    hotcell_jail::release_code();
    let Some(address) = args.http else {
        let caller = match chosen_cell {
            Some(alias) => local.with_default_cell(alias),
            None => local,
        };
        // Who is told to leave leaves; what runs goes on.
        let serving = settling(Box::pin(stdio::serve(door, caller)));
        return match signals.unless_told_to_leave(serving).await {
            Ok(served) => served.map(|()| 0).map_err(Failure::Terminal),
            Err(_) => Ok(0),
        };
    };
    let caller = match token {
        Some(_) => Caller { principal: "bearer".to_owned(), default_cell: None, ..local },
        None => Caller { default_cell: None, ..local },
    };
    let settings = settings(config, Principal { caller: with_cell(caller, chosen_cell), token });
    settings.check_address(address)?;
    over_http(address, door, settings, &mut signals).await
}

/// A caller over HTTP has a default cell of its own.
fn with_cell(caller: Caller, chosen: Option<Alias>) -> Caller {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let own = || {
        let name: String = caller.principal.chars().map(plain).collect();
        format!("http-{name}").parse().ok()
    };
    match chosen.or_else(own) {
        Some(alias) => caller.with_default_cell(alias),
        None => caller,
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

async fn over_http(
    address: SocketAddr,
    door: Door,
    settings: HttpSettings,
    signals: &mut LocalSignals,
) -> Result<u8, Failure> {
    let cannot_listen = |error: std::io::Error| {
        Error::unavailable(format!("cannot listen at {address}: {error}"))
            .hint("choose another address or port")
    };
    let listener = TcpListener::bind(address).await.map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    note(&format!("listening on http://{bound}"));
    let (told, stop) = tokio::sync::oneshot::channel::<()>();
    let stop = async {
        // It ends without a word only together with us.
        let _ = stop.await;
    };
    let mut told = Some(told);
    let mut serving = Box::pin(settling(Box::pin(http::serve(listener, door, settings, stop))));
    loop {
        tokio::select! {
            served = &mut serving => return served.map(|()| 0).map_err(Failure::Terminal),
            signal = signals.next() => match (signal, told.take()) {
                (LocalSignal::Resize, kept) => told = kept,
                (_, Some(told)) => drop(told.send(())),
                // Told twice: whoever waits is left alone, what runs goes on.
                (_, None) => return Ok(0),
            },
        }
    }
}

fn settings(config: &Config, principal: Principal) -> HttpSettings {
    let connections = (config.http.max_connections as usize).min(connections_possible());
    HttpSettings {
        principals: vec![principal],
        allowed_hosts: config.http.allowed_hosts.clone(),
        allowed_origins: config.http.allowed_origins.clone(),
        drain: Duration::from_secs(config.http.drain_s),
        limits: HttpLimits {
            connections,
            sessions: config.http.max_sessions as usize,
            upload_bytes: config.http.max_upload_mb << 20,
            ..HttpLimits::default()
        },
    }
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
    if let Some(secret) = &environment.http_token {
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
