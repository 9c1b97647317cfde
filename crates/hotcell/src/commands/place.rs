//! The cell that a `hotcell run` runs in: a new one, or one that is there.

use std::collections::BTreeMap;

use hotcell_model::{
    Alias, Cell, CellInfo, CellKill, CellRef, CellSpawn, Error, ErrorCode, Keep, KillWait, Result,
    SecretGrant, WorkspaceMode,
};

use crate::args::{Run, Shape};
use crate::default_cell::names_of_project;
use crate::session::Session;
use crate::show::note;

/// Whether the cell goes when the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    /// It was made for this command alone.
    Goes,
    /// It stays, or goes by itself.
    Stays,
}

/// A cell to run in.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) cell: Cell,
    pub(super) stay: Stay,
}

impl Place {
    /// Finds or makes the cell that the command line asks for.
    ///
    /// # Errors
    /// What the engine says; `conflict` when the cell exists and is not as asked for.
    pub(super) async fn find(session: &Session, args: &Run) -> Result<Self> {
        let shape = &args.shape;
        let place = match &args.cell {
            Some(CellRef::Id(id)) => {
                let cell = session.ask(CellInfo { cell: id.clone().into() }).await?.cell;
                Self { cell, stay: Stay::Stays }
            }
            Some(CellRef::Alias(alias)) => Self::named(session, shape, alias).await?,
            Some(CellRef::Default) => {
                let alias = session.default_cell().ok_or_else(|| {
                    Error::invalid("this directory has no cell of its own: it cannot be read")
                        .hint("change to another directory, or name a cell")
                })?;
                Self::named(session, shape, alias).await?
            }
            None if keeps_changes(shape) => {
                // A cell that goes would take the changes along.
                let alias = Self::cell_on_project(session, shape).await?;
                Self::named(session, shape, &alias).await?
            }
            None => {
                let (keep, stay) = match args.detach {
                    true => (Keep::Exec, Stay::Stays),
                    false => (Keep::Holder, Stay::Goes),
                };
                let idempotency_key = args.idempotency_key.clone();
                let spawn = CellSpawn { keep, idempotency_key, ..asked_for(shape) };
                Self { cell: session.ask(spawn).await?, stay }
            }
        };
        check_as_asked(&place.cell, shape)?;
        Ok(place)
    }

    /// The name of the cell that works on the project, the same as that of an agent there.
    async fn cell_on_project(session: &Session, shape: &Shape) -> Result<Alias> {
        let dir = shape.workspace.as_ref().map(|workspace| workspace.dir.as_path());
        let names = dir.map(|dir| names_of_project(dir, "")).unwrap_or_default();
        for name in &names {
            match session.ask(CellInfo { cell: CellRef::Alias(name.clone()) }).await {
                // It was made for the directory without its files.
                Ok(details) if details.cell.workspace.is_none() => {}
                Ok(_) => return Ok(name.clone()),
                Err(error) if error.code == ErrorCode::NotFound => return Ok(name.clone()),
                Err(error) => return Err(error),
            }
        }
        names.into_iter().next().ok_or_else(|| {
            Error::invalid("the workspace cannot be found")
                .hint("give the path of a directory that is there")
        })
    }

    /// The cell of this name, which is made if there is none.
    async fn named(session: &Session, shape: &Shape, alias: &Alias) -> Result<Self> {
        let spawn = CellSpawn {
            alias: Some(alias.clone()),
            reuse_alias: true,
            keep: Keep::Always,
            ..asked_for(shape)
        };
        Ok(Self { cell: session.ask(spawn).await?, stay: Stay::Stays })
    }

    /// Removes a cell that was made for one command alone.
    pub(super) async fn leave(self, session: &Session) {
        match self.stay {
            Stay::Stays => {}
            Stay::Goes => {
                let kill = CellKill {
                    cell: self.cell.id.clone().into(),
                    force: true,
                    volumes: true,
                    wait: KillWait::Ended,
                };
                match session.ask(kill).await {
                    Ok(_) => {}
                    Err(error) if error.code == ErrorCode::NotFound => {}
                    Err(error) => note(&format!(
                        "the cell {} could not be removed: {}",
                        self.cell.id, error.message
                    )),
                }
            }
        }
    }
}

/// Whether what is written to the workspace stays apart from the real files.
fn keeps_changes(shape: &Shape) -> bool {
    shape.workspace.as_ref().is_some_and(|workspace| workspace.mode == WorkspaceMode::Cow)
}

/// A new cell of this shape.
pub(super) fn asked_for(shape: &Shape) -> CellSpawn {
    CellSpawn {
        image: shape.image(),
        driver: shape.driver.clone(),
        on: shape.on.iter().cloned().collect(),
        limits: shape.limits(),
        network: shape.network(),
        workspace: shape.workspace.clone(),
        secrets: shape.secret.clone(),
        ..CellSpawn::default()
    }
}

/// Refuses a cell that exists and is not as asked for.
pub(super) fn check_as_asked(cell: &Cell, shape: &Shape) -> Result<()> {
    let limits = &cell.limits;
    let mebibytes = |mb: u64| format!("{mb} MiB");
    let cpus = |cpus: Option<f64>| cpus.map_or("no limit".to_owned(), |cpus| cpus.to_string());
    let on: BTreeMap<_, _> = shape.on.iter().cloned().collect();
    let labels = |on: &BTreeMap<String, String>| {
        let labels: Vec<String> = on.iter().map(|(name, it)| format!("{name}={it}")).collect();
        if labels.is_empty() { "nothing".to_owned() } else { labels.join(",") }
    };
    let differences = [
        differing("--on", Some(&on).filter(|on| !on.is_empty()), &cell.on, labels),
        differing("--image", shape.image.as_ref(), &cell.image, String::clone),
        differing("--driver", shape.driver.as_ref(), &cell.driver, String::clone),
        differing("--memory", shape.memory.as_ref(), &limits.memory_mb, |mb| mebibytes(*mb)),
        differing("--disk", shape.disk.as_ref(), &limits.disk_mb, |mb| mebibytes(*mb)),
        differing("--disk-files", shape.disk_files.as_ref(), &limits.disk_files, u64::to_string),
        differing("--pids", shape.pids.as_ref(), &limits.pids, u32::to_string),
        differing("--cpus", shape.cpus.map(Some).as_ref(), &limits.cpus, |n| cpus(*n)),
    ];
    if !shape.allow.is_empty() && shape.network() != cell.network {
        let name = cell.alias.as_ref().map_or(cell.id.as_str(), |alias| alias.as_str());
        let message = format!("the cell {name} exists and can reach: {}", cell.network);
        return Err(Error::conflict(message)
            .hint(format!("let it reach more with `hotcell net allow {name} NAME`")));
    }
    let lacks = |grant: &&SecretGrant| !cell.secrets.contains(&grant.name);
    let lacking = shape.secret.iter().find(lacks);
    let lacking = lacking.map(|grant| format!("was made without --secret {}", grant.name));
    match differences.into_iter().flatten().chain(lacking).next() {
        None => Ok(()),
        Some(difference) => {
            let name = cell.alias.as_ref().map_or(cell.id.as_str(), |alias| alias.as_str());
            Err(Error::conflict(format!("the cell {name} exists and {difference}")).hint(
                "driver, image, limits and secrets are fixed when a cell is made: leave the flag out, or use \
                 another name",
            ))
        }
    }
}

fn differing<T: PartialEq>(
    flag: &str,
    asked: Option<&T>,
    has: &T,
    show: impl Fn(&T) -> String,
) -> Option<String> {
    let asked = asked.filter(|asked| *asked != has)?;
    Some(format!("was made with {flag} {}, not {}", show(has), show(asked)))
}
