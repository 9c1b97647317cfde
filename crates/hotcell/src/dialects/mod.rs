//! Servers that this one can take the place of: what their variables say, as configuration.
//!
//! What a variable means is said with the keys that there are: it stands between the configuration file
//! and the `HOTCELL_` variables. What no key says is the dialect's own.

mod background_job;
mod devbench;
mod vibesbox;

use std::path::PathBuf;

use hotcell_dialects::background_job::JobSettings;
use hotcell_model::{Error, Result, Workspace, WorkspaceMode};

use self::devbench::BenchConfig;
use crate::config::Config;
use crate::environment::{Environment, Secret};
use crate::values::ListenAt;

/// Whose tools are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum DialectName {
    /// Hotcell's own.
    #[default]
    Hotcell,
    /// Those of mcp-background-job.
    BackgroundJob,
    /// Those of vibesbox.
    Vibesbox,
    /// Those of MCP DevBench.
    Devbench,
}

/// What the variables of a dialect say that no key of the configuration does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DialectConfig {
    /// Whose tools are served.
    pub(crate) name: DialectName,
    /// What is said of jobs.
    pub(crate) jobs: JobSettings,
    /// What else is said for MCP DevBench.
    pub(crate) bench: BenchConfig,
    /// The directory of the host that is worked on.
    pub(crate) directory: Option<PathBuf>,
}

/// A directory of the host that is to be worked on.
pub(crate) struct WorkspaceWish {
    pub(crate) workspace: Workspace,
    /// The variable that names it; without one it is done without where it cannot be.
    pub(crate) variable: Option<&'static str>,
}

impl DialectConfig {
    /// The directory that the original would work in, if it worked in one of the host.
    ///
    /// # Errors
    /// There is no such directory.
    pub(crate) fn workspace(&self) -> Result<Option<WorkspaceWish>> {
        let (variable, dir) = match (self.name, &self.directory) {
            (DialectName::Hotcell | DialectName::Vibesbox | DialectName::Devbench, _) => {
                return Ok(None);
            }
            (DialectName::BackgroundJob, Some(named)) => {
                (Some(background_job::WORKING_DIR), named.clone())
            }
            (DialectName::BackgroundJob, None) => (None, PathBuf::from(".")),
        };
        let dir = std::path::absolute(&dir).map_err(|error| {
            Error::invalid(format!("the directory {} cannot be used: {error}", dir.display()))
        })?;
        let workspace = Workspace { dir, mode: WorkspaceMode::Rw };
        Ok(Some(WorkspaceWish { workspace, variable }))
    }

    /// Where the original would listen; nowhere where its clients start it.
    ///
    /// # Errors
    /// There is no such address.
    pub(crate) fn listen_at(&self) -> Result<Option<ListenAt>> {
        match self.name {
            DialectName::Hotcell | DialectName::BackgroundJob | DialectName::Vibesbox => Ok(None),
            DialectName::Devbench => self.bench.listen_at(),
        }
    }

    /// How callers can be made to prove who they are, by variables of the original.
    pub(crate) fn proof(&self) -> Option<&'static str> {
        match self.name {
            DialectName::Hotcell | DialectName::BackgroundJob | DialectName::Vibesbox => None,
            DialectName::Devbench => Some(devbench::PROOF),
        }
    }

    /// The token that the variables of the original name.
    pub(crate) fn token(&self) -> Option<&Secret> {
        match self.name {
            DialectName::Hotcell | DialectName::BackgroundJob | DialectName::Vibesbox => None,
            DialectName::Devbench => self.bench.token(),
        }
    }
}

/// One variable of the original.
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) means: Means,
}

/// What a variable means.
pub(crate) enum Means {
    /// The value of a key, after it was read as the original reads it.
    Key(&'static str, fn(&str) -> Result<String, String>),
    /// Something of the dialect's own.
    Own(fn(&mut DialectConfig, &str) -> Result<(), String>),
}

impl DialectName {
    /// What is the default of a key here, where it is not what it is elsewhere.
    pub(crate) fn defaults(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Hotcell => &[],
            Self::BackgroundJob => background_job::DEFAULTS,
            Self::Vibesbox => vibesbox::DEFAULTS,
            Self::Devbench => devbench::DEFAULTS,
        }
    }

    /// The variables of the original.
    pub(crate) fn variables(self) -> &'static [Variable] {
        match self {
            Self::Hotcell | Self::Vibesbox => &[],
            Self::BackgroundJob => background_job::VARIABLES,
            Self::Devbench => devbench::VARIABLES,
        }
    }

    /// What tells the cell of a dialect from others for the same directory.
    pub(crate) fn cell_ending(self) -> &'static str {
        match self {
            Self::Hotcell | Self::Devbench => "",
            Self::BackgroundJob => ".jobs",
            Self::Vibesbox => ".vibesbox",
        }
    }

    /// Whether cells are in containers where an engine answers, unless somebody says something.
    pub(crate) fn looks_for_engine(self) -> bool {
        match self {
            Self::Hotcell | Self::BackgroundJob | Self::Vibesbox => false,
            Self::Devbench => true,
        }
    }

    /// Whether whoever started the server lets its callers keep house: the original does.
    pub(crate) fn lets_keep_house(self) -> bool {
        match self {
            Self::Hotcell | Self::BackgroundJob | Self::Vibesbox => false,
            Self::Devbench => true,
        }
    }

    /// Takes what the variables of the original say.
    ///
    /// # Errors
    /// `invalid` for a value that the original would not have understood either, with its bounds.
    pub(crate) fn take(self, config: &mut Config, environment: &Environment) -> Result<()> {
        for Variable { name, means } in self.variables() {
            let Some(value) = environment.of_dialect(name)? else { continue };
            let wrong = |problem: String| {
                Error::invalid(format!("{name} cannot be {:?}: {problem}", shown(&value)))
            };
            match means {
                Means::Own(set) => set(&mut config.dialect, &value).map_err(wrong)?,
                Means::Key(key, read) => {
                    let meant = read(&value).map_err(wrong)?;
                    config.say(key, &meant, name)?;
                }
            }
        }
        match self {
            Self::Hotcell | Self::BackgroundJob | Self::Vibesbox => Ok(()),
            Self::Devbench => devbench::settle(config),
        }
    }
}

/// A value as it may be told: an address may have a password in it.
fn shown(value: &str) -> String {
    match value.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…"),
        None => value.to_owned(),
    }
}

/// A whole number within bounds, as Python reads one.
fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let digits = text.trim().replace('_', "");
    match digits.strip_prefix('+').unwrap_or(&digits).parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("it is not a whole number from {least} to {most}")),
    }
}
