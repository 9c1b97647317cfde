//! What the server that a client starts will work with: its state directory and its default cell.

use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};

use crate::config::{Config, Overrides};
use crate::environment::Environment;
use crate::setup::Surroundings;
use crate::setup_args::Setup;
use crate::show::note;

const STATE_DIR: &str = "HOTCELL_STATE_DIR";

/// The state directory and the configuration file that are in effect.
#[derive(Debug)]
pub(super) struct StateOfServer {
    /// What has to be passed on as `--config`.
    pub(super) config_arg: Option<PathBuf>,
    /// What has to be passed on as `--state-dir`.
    pub(super) state_arg: Option<PathBuf>,
    /// The state directory, or why it is not known.
    state_dir: Result<PathBuf>,
    /// Other variables that are set here.
    variables: Vec<String>,
}

impl StateOfServer {
    /// Finds out what a server would use that is started with the home directory alone, as many
    /// clients do, and what has to be added so that it uses what is in effect here.
    ///
    /// # Errors
    /// `invalid` if the state directory in effect cannot be a path.
    pub(super) fn find(
        overrides: &Overrides,
        environment: &Environment,
        directory: &Path,
        config: Result<Config>,
    ) -> Result<Self> {
        let set = |name: &str| environment.settings.iter().find(|(known, _)| known == name);
        let named = match (&overrides.state_dir, set(STATE_DIR)) {
            (Some(path), _) => Some(path.clone()),
            (None, Some((_, path))) => Some(PathBuf::from(path)),
            (None, None) => None,
        };
        let named = named.map(|path| directory.join(path));
        let usual = environment.home.as_ref().map(|home| home.join(".local/state/hotcell"));
        let usual_file =
            environment.home.as_ref().map(|it| it.join(".config/hotcell/hotcell.toml"));
        let (state_dir, read_file, said) = match &config {
            Ok(config) => {
                let said = config.is_said("state_dir");
                (Ok(config.state_dir.clone()), config.file().map(Path::to_owned), said)
            }
            Err(error) => match &named {
                Some(path) => (Ok(path.clone()), None, true),
                None => (Err(error.clone()), None, true),
            },
        };
        // A file that the server finds by itself may name the directory, too.
        let moved = state_dir.as_ref().ok().filter(|dir| !said && Some(*dir) != usual.as_ref());
        let state_arg = match named {
            Some(path) if overrides.state_dir.is_none() && Some(&path) == usual.as_ref() => None,
            Some(path) => Some(path),
            None => moved.cloned(),
        };
        let found = |path: &PathBuf| {
            Some(path) == usual_file.as_ref() || *path == environment.machine_config
        };
        let config_arg = match &overrides.file {
            Some(path) => Some(path.clone()),
            None => read_file.filter(|path| !found(path)),
        };
        let variables = environment.settings.iter().map(|(name, _)| name.clone());
        let variables = variables.filter(|name| name != STATE_DIR).collect();
        Ok(Self { config_arg, state_arg, state_dir, variables })
    }
}

/// The server's settings as shown to the user.
#[derive(Debug)]
pub(super) struct ServerGets {
    /// Not known of a server that runs already.
    pub(super) state_dir: Option<PathBuf>,
    /// Its name, if it does not depend on the directory that the client is started in.
    pub(super) default_cell: Option<String>,
    /// Whether the default cell works on the user's project.
    pub(super) project: bool,
    notes: Vec<String>,
}

impl ServerGets {
    pub(super) fn new(
        args: &Setup,
        around: &Surroundings<'_>,
        project: &[String],
        state: &StateOfServer,
    ) -> Self {
        if args.http.is_some() {
            let notes = Vec::new();
            return Self { state_dir: None, default_cell: None, project: false, notes };
        }
        let mut notes = Vec::new();
        match &state.state_dir {
            Ok(dir) => notes.push(format!("state directory of the server: {}", dir.display())),
            Err(Error { message, .. }) => {
                notes.push(format!("the state directory of the server is not known: {message}"))
            }
        }
        let default_cell = args.client.cell(args.scope, around).filter(|_| project.is_empty());
        let (which, of) = match project {
            [_, dir] => (format!("the one of {dir}"), dir.clone()),
            _ => (
                "one for each directory that the client is started in".to_owned(),
                "that directory".to_owned(),
            ),
        };
        notes.push(match &default_cell {
            Some(cell) => format!("default cell: {cell}"),
            None => format!("default cell: {which}"),
        });
        if !project.is_empty() {
            notes.push(format!(
                "its /workspace is {of}, copy-on-write: the agent sees the files, and the real ones \
                 change only when you approve it (--no-project leaves this out)"
            ));
        }
        if !state.variables.is_empty() {
            notes.push(format!(
                "not written: {}; the server has them only if the client is started with them and \
                 passes them on",
                state.variables.join(", ")
            ));
        }
        let state_dir = state.state_dir.as_ref().ok().cloned();
        Self { state_dir, default_cell, project: !project.is_empty(), notes }
    }

    /// Tells a person.
    pub(super) fn tell(&self) {
        for line in &self.notes {
            note(line);
        }
    }
}
