//! From a description to a cell at another machine whose supervisor is ready.

use std::env::consts::ARCH;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::query_parameters::StartContainerOptions;
use hotcell_egress::{EgressSettings, Trust};
use hotcell_jail::process::Confinement;
use hotcell_keeper::{HeldLock, NETWORK};
use hotcell_model::{CellSpec, Error, Network, Result};
use hotcell_place::{ACCOUNTS, read_json, remove_if_there};
use tokio::time::{Instant, sleep, timeout};

use super::begun::Begun;
use super::outpost::OutpostOrder;
use super::outpost_container::{self, OutpostPlace, can_carry, kept_at};
use super::relaying::Relaying;
use super::upload::Bundle;
use super::{FAILED, ORDER, PLACE_VOLUME, READY, RECORDS, TOOLS, WAITING, program_volume};
use crate::birth::{READY_WITHIN, check_alive, create};
use crate::container::{self, Shown};
use crate::docker_host::DockerHost;
use crate::driver::at;
use crate::isolation::enforced;
use crate::keeper::KeeperAsk;
use crate::keeping::await_keeper_end;
use crate::paths::{CellPaths, Placed};
use crate::podman;
use crate::removal::remove_container;
use crate::shown_files::write_names;
use crate::volumes::{self, PURPOSES};

/// Whom an outpost trusts where secrets are added to requests.
const TRUSTED: &str = "trusted.pem";
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long apart it is looked whether a container lives.
const ALIVE_APART: Duration = Duration::from_secs(1);

/// A cell to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteStart<'a> {
    pub(crate) host: &'a DockerHost,
    pub(crate) paths: &'a CellPaths,
    pub(crate) place: OutpostPlace<'a>,
    pub(crate) tools: Option<&'a Path>,
    pub(crate) relaying: &'a Relaying,
}

/// Makes and starts the container of a cell of which there is none, with its outpost and its relay, and
/// waits until its supervisor is ready. If that fails nothing is left of it.
pub(crate) async fn start(start: RemoteStart<'_>) -> Result<Confinement> {
    let RemoteStart { host, paths, place, .. } = start;
    let cell = &place.placed.spec.id;
    let (name, outpost) = (container::name(cell), outpost_container::name(cell));
    volumes::check_all(host, cell).await?;
    for container in [&name, &outpost] {
        remove_container(host, container).await?;
    }
    // Until there is a relay nobody else looks for the cell there.
    let lock = await_keeper_end(paths).await?;
    // It may take as long as it takes.
    let program = program_volume::ensure(host, paths, place, &place.placed.image).await?;
    let begun = match timeout(READY_WITHIN, begin(start, &name, &program, lock)).await {
        Ok(begun) => begun,
        Err(_) => Err(Error::unavailable(format!(
            "the container {name} was not ready within {} s",
            READY_WITHIN.as_secs()
        ))
        .hint("is the machine of the Docker engine overloaded, or far away?")),
    };
    if begun.is_err()
        && let Err(error) = undo(host, paths, [&name, &outpost]).await
    {
        tracing::warn!(%error, name, "a cell that could not be started is left");
    }
    begun
}

/// Removes what a failed start has left. Where that cannot be, it stays known that it was begun.
async fn undo(host: &DockerHost, paths: &CellPaths, containers: [&str; 2]) -> Result<()> {
    for container in containers {
        remove_container(host, container).await?;
    }
    // Without its outpost the relay ends; nothing was written that it would have to wait for.
    drop(await_keeper_end(paths).await?);
    Begun::forget(paths).map_err(|error| at("write", paths, &error))
}

async fn begin(
    start: RemoteStart<'_>,
    name: &str,
    program: &Path,
    lock: Option<HeldLock>,
) -> Result<Confinement> {
    let RemoteStart { host, paths, place, tools, relaying } = start;
    let placed = place.placed;
    let carries = check_network(host, paths, place).await?;
    let failed = |error: &io::Error| at("write", paths, error);
    for file in [WAITING, READY, FAILED] {
        remove_if_there(&paths.root().join(file)).map_err(|error| failed(&error))?;
    }
    let shown_tools = match tools {
        Some(tools) => Some((tools.to_owned(), new_name().map_err(|error| failed(&error))?)),
        None => None,
    };
    let bundle = bundle(paths, place, shown_tools.as_ref()).map_err(|error| failed(&error))?;
    outpost_container::begin(host, paths, place, Some(bundle)).await?;
    let there = volumes::mountpoint(host, &placed.spec.id, PLACE_VOLUME).await?;
    let tools_there = shown_tools.as_ref().map(|(_, name)| there.join(TOOLS).join(name));
    let body = describe(start, &there, program, tools_there.as_deref());
    create(host, name, &body).await?;
    let begun = Begun { carries, tools: shown_tools };
    begun.note(paths).map_err(|error| failed(&error))?;
    drop(lock);
    relaying.begin(host, paths, placed).await?;
    await_file(host, start, None, WAITING).await?;
    let started = host.docker.start_container(name, None::<StartContainerOptions>).await;
    started.map_err(|error| host.failed("start a container", &error))?;
    await_file(host, start, Some(name), READY).await?;
    let confinement =
        read_json(&paths.root().join(READY)).map_err(|error| at("read", paths, &error))?;
    confinement.ok_or_else(|| Error::internal("what confines a cell is not there any more"))
}

/// The cell's container; what it is shown of files lies in volumes of the engine.
fn describe(
    start: RemoteStart<'_>,
    there: &Path,
    program: &Path,
    tools: Option<&Path>,
) -> bollard::models::ContainerCreateBody {
    let RemoteStart { host, paths, place, .. } = start;
    let beside = |path: &Path| there.join(path.file_name().unwrap_or_default());
    let birthplace = beside(&paths.birthplace());
    let accounts = ACCOUNTS.map(|accounts| (beside(&paths.accounts(accounts)), accounts));
    let files: Vec<(PathBuf, String)> =
        crate::shown_files::names().map(|(name, target)| (there.join(name), target)).collect();
    let trust = paths.trust();
    let trust_there = trust.is_dir().then(|| beside(&trust));
    let shown = Shown {
        program,
        birthplace: &birthplace,
        accounts: &accounts,
        files: &files,
        trust: trust_there.as_deref(),
        tools,
    };
    container::describe(place.placed, &shown, enforced(host), place.state, place.runtime)
}

/// What a cell has in its place at the other machine.
fn bundle(
    paths: &CellPaths,
    place: OutpostPlace<'_>,
    tools: Option<&(PathBuf, String)>,
) -> io::Result<Bundle> {
    let mut bundle = Bundle::new();
    let mut egress = place.egress.clone();
    // Whom the carrier trusts with secrets is this machine's to say, not its image's.
    let trusted = Trust::text_of_host(egress.ca_file.take().as_deref())?;
    bundle.file(TRUSTED, 0o644, trusted.as_bytes())?;
    egress.trusted = Some(Path::new(super::PLACE).join(TRUSTED));
    let placed = Placed { records: RECORDS.into(), ..place.placed.clone() };
    let order = OutpostOrder { egress, tools: tools.map(|(_, name)| name.clone()) };
    bundle.file("cell.json", 0o600, &serde_json::to_vec(&placed)?)?;
    bundle.file(ORDER, 0o600, &serde_json::to_vec(&order)?)?;
    let measured = PURPOSES.map(kept_at);
    bundle.file("measured.json", 0o600, &serde_json::to_vec(&measured)?)?;
    bundle.directory("birth", 0o755)?;
    write_names(paths)?;
    for name in ["passwd", "group", "hosts", "resolv.conf"] {
        bundle.file_of(name, 0o644, &paths.root().join(name))?;
    }
    for name in [NETWORK, "authority.json", "authority.pem"] {
        bundle.file_of(name, 0o600, &paths.root().join(name))?;
    }
    if paths.trust().is_dir() {
        bundle.tree("trust", &paths.trust())?;
    }
    if let Some((from, name)) = tools {
        bundle.directory(TOOLS, 0o755)?;
        bundle.tree(&format!("{TOOLS}/{name}"), from)?;
    }
    Ok(bundle)
}

/// Whether a new cell can be at an engine of another machine, as far as that is known before it is
/// tried.
pub(crate) fn check_fits(
    host: &DockerHost,
    egress: &EgressSettings,
    spec: &CellSpec,
) -> Result<()> {
    podman::check_here(host)?;
    let there = host.info.architecture.as_deref().unwrap_or(ARCH);
    if there != ARCH {
        return Err(Error::unsupported(format!(
            "the Docker engine {} is on a machine of kind {there}, and this program is for {ARCH}",
            host.address
        ))
        .hint("use engines of machines of the same kind"));
    }
    let named = (host.address.as_str(), host.settings().network.as_str());
    check_carries(named, true, egress, spec, &spec.network)
}

/// Whether the outpost of a cell will be able to carry connections; an error where it has to be.
async fn check_network(
    host: &DockerHost,
    paths: &CellPaths,
    place: OutpostPlace<'_>,
) -> Result<bool> {
    let carries = can_carry(host).await?;
    let spec = &place.placed.spec;
    let network = paths.kept().in_force(&spec.network);
    let network = network.map_err(|error| at("read", paths, &error))?;
    check_carries(
        (&host.address, &host.settings().network),
        carries,
        place.egress,
        spec,
        &network,
    )?;
    Ok(carries)
}

/// Whether what a cell may reach can be reached from its engine, and no more than that.
pub(crate) fn check_carries(
    (engine, network_name): (&str, &str),
    carries: bool,
    egress: &EgressSettings,
    spec: &CellSpec,
    network: &Network,
) -> Result<()> {
    if *network == Network::None {
        return Ok(());
    }
    if !carries {
        return Err(Error::unsupported(format!(
            "the Docker engine {engine} has no network named {network_name:?}, by which connections \
             of its cells could be carried"
        ))
        .hint("name one that it has with `network` of that engine in the configuration"));
    }
    let most = &egress.of_tenants;
    if most.of(&spec.tenant).is_some() || most.all.is_some() {
        return Err(Error::unsupported(format!(
            "what tenants carry in a day is bounded, and at the Docker engine {engine}, on another \
             machine, nobody could add that up"
        ))
        .hint("use an engine of this machine for cells with a network, or lift the bound"));
    }
    Ok(())
}

/// Waits for what an outpost tells, or for the end of hope.
async fn await_file(
    host: &DockerHost,
    start: RemoteStart<'_>,
    container: Option<&str>,
    file: &str,
) -> Result<()> {
    let root = start.paths.root();
    let mut look_at = Instant::now() + ALIVE_APART;
    loop {
        if root.join(file).exists() {
            return Ok(());
        }
        let why = read_json::<String>(&root.join(FAILED));
        if let Some(why) = why.map_err(|error| at("read", start.paths, &error))? {
            return Err(Error::unavailable(format!("the cell cannot be started: {why}")));
        }
        if Instant::now() >= look_at {
            let outpost = outpost_container::name(&start.place.placed.spec.id);
            check_alive(host, &outpost).await?;
            if let Some(container) = container {
                check_alive(host, container).await?;
            }
            look_at = Instant::now() + ALIVE_APART;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Shows a cell that runs its tools as they are now; what is left of others is for its keeper to remove.
pub(crate) async fn show_tools(
    host: &DockerHost,
    paths: &CellPaths,
    placed: &Placed,
) -> Result<Option<KeeperAsk>> {
    let begun = Begun::find(paths).map_err(|error| at("read", paths, &error))?;
    let Some((from, name)) = begun.and_then(|begun| begun.tools) else { return Ok(None) };
    let mut bundle = Bundle::new();
    bundle
        .tree(&format!("{TOOLS}/{name}"), &from)
        .map_err(|error| at("read the tools of", paths, &error))?;
    let keep = bundle.paths().to_vec();
    bundle.send(host, &outpost_container::name(&placed.spec.id), super::PLACE).await?;
    Ok(Some(KeeperAsk::Tools { shown: format!("{TOOLS}/{name}"), keep }))
}

fn new_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}
