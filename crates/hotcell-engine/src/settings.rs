//! What an operator can choose about the engine.

use hotcell_brief::{DEFAULT_BUDGET, LEAST_BUDGET};
use hotcell_model::{
    CodeTerms, ImageRules, LIMITS, NameRules, RequestedLimits, SecretGrant, SessionBounds, Tenant,
    Workspace, WorkspaceMode,
};

use crate::{Admission, TenantTable};

/// The choices of an operator; each cell keeps those that were in force when it was spawned.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The driver of a cell whose request names none.
    pub default_driver: String,
    /// Seconds without a running exec after which a persistent cell falls asleep.
    pub sleep_after_s: u64,
    /// Seconds that a held cell waits for another holder.
    pub orphan_grace_s: u64,
    /// The TTL of a cell that is kept by its TTL and was given none.
    pub default_ttl_s: u64,
    /// Seconds that logs stay after their cell is gone.
    pub log_keep_s: u64,
    /// Bytes of output of ended execs that a cell keeps; the oldest goes first.
    pub log_bytes: u64,
    /// Seconds that the files of a persistent cell stay after it was ended; until they are removed by
    /// hand when left out.
    pub volume_keep_s: Option<u64>,
    /// Seconds after their last use at which images go that no cell began with; never when left out.
    pub image_keep_s: Option<u64>,
    /// What is to stay free on the disk of the state directory, in MiB; of a small one a twentieth.
    pub disk_reserve_mb: u64,
    /// Cells that a server makes ahead of need.
    pub pool: PoolSettings,
    /// The limits of cells whose requests name none, where they are not Hotcell's own.
    pub usual_limits: RequestedLimits,
    /// Execs that run at once in a cell.
    pub max_running: u32,
    /// Bytes of output kept per exec.
    pub output_bytes: u64,
    /// What sessions of code may take up in a cell.
    pub sessions: SessionBounds,
    /// Which directories of the host cells may have as workspaces.
    pub workspaces: AllowedWorkspaces,
    /// Which names cells may reach over the network.
    pub names: AllowedNames,
    /// What all cells may have together.
    pub admission: Admission,
    /// Which images cells may begin with.
    pub images: ImageRules,
    /// Which secrets cells may be granted.
    pub secrets: AllowedSecrets,
    /// Whether commands may be root in their cell.
    pub as_root: bool,
    /// Whether what has the form of a secret is masked for agents.
    pub redact_shapes: bool,
    /// Names of values that are masked, beyond those that are known.
    pub redact_names: Vec<String>,
    /// What is said of tenants.
    pub tenants: TenantTable,
    /// What a run of code may use, and how it is shown.
    pub code: CodeSettings,
}

/// Cells that a server makes ahead of need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSettings {
    /// How many of each image; none where it is zero.
    pub size: u32,
    /// Of which images; of the driver's usual one when there are none.
    pub images: Vec<String>,
    /// Seconds after which one that nobody wanted is made anew.
    pub ttl_s: u64,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { size: 0, images: Vec::new(), ttl_s: 3600 }
    }
}

/// What a run of code may use, and how it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeSettings {
    /// Calls of one run in all.
    pub calls: u64,
    /// Calls of one run that are under way at once; more wait in the code.
    pub parallel_calls: usize,
    /// Bytes of the longest call.
    pub call_bytes: usize,
    /// Tokens that what is shown of a run may cost.
    pub tokens: usize,
    /// What its cell is told of it.
    pub terms: CodeTerms,
}

impl CodeSettings {
    /// The least that can be shown, with a word on what was cut.
    pub const LEAST_TOKENS: usize = LEAST_BUDGET;
}

impl Default for CodeSettings {
    fn default() -> Self {
        Self {
            calls: 10_000,
            parallel_calls: 64,
            call_bytes: 16 << 20,
            tokens: DEFAULT_BUDGET,
            terms: CodeTerms::default(),
        }
    }
}

impl Settings {
    /// Which secrets cells of a tenant may be granted.
    pub(crate) fn secrets_of(&self, tenant: &Tenant) -> LentSecrets<'_> {
        match &self.secrets {
            AllowedSecrets::Any => LentSecrets::Any,
            AllowedSecrets::Only(all) => {
                LentSecrets::Only(self.tenants.secrets_of(tenant).unwrap_or(all))
            }
        }
    }
}

/// Which secrets cells of one tenant may be granted.
pub(crate) enum LentSecrets<'a> {
    /// Whichever is asked for.
    Any,
    /// These.
    Only(&'a [SecretGrant]),
}

/// Which names cells may reach over the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedNames {
    /// Whichever are asked for: whoever asks is the operator.
    Any,
    /// These.
    Only(NameRules),
}

/// Which secrets cells may be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedSecrets {
    /// Whichever is asked for: whoever asks is the operator.
    Any,
    /// These.
    Only(Vec<SecretGrant>),
}

/// Which directories of the host cells may have as workspaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedWorkspaces {
    /// Whichever is asked for: whoever asks is the operator.
    Any,
    /// These and what is in them, each up to its mode.
    Only(Vec<Workspace>),
}

impl Settings {
    /// Whether cells may work on a directory of the host and keep their changes apart.
    pub(crate) fn keeps_changes(&self) -> bool {
        match &self.workspaces {
            AllowedWorkspaces::Any => true,
            AllowedWorkspaces::Only(allowed) => {
                allowed.iter().any(|workspace| workspace.mode >= WorkspaceMode::Cow)
            }
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        const DAY_S: u64 = 24 * 3600;
        Self {
            default_driver: "native".to_owned(),
            sleep_after_s: 600,
            orphan_grace_s: 60,
            default_ttl_s: 7 * DAY_S,
            log_keep_s: DAY_S,
            log_bytes: 1 << 30,
            volume_keep_s: Some(7 * DAY_S),
            image_keep_s: Some(30 * DAY_S),
            disk_reserve_mb: 512,
            pool: PoolSettings::default(),
            usual_limits: RequestedLimits::default(),
            max_running: LIMITS.max_running,
            output_bytes: LIMITS.output_bytes,
            sessions: SessionBounds::default(),
            workspaces: AllowedWorkspaces::Only(Vec::new()),
            names: AllowedNames::Only(NameRules::default()),
            admission: Admission::default(),
            images: ImageRules::default(),
            secrets: AllowedSecrets::Only(Vec::new()),
            as_root: true,
            redact_shapes: true,
            redact_names: Vec::new(),
            tenants: TenantTable::default(),
            code: CodeSettings::default(),
        }
    }
}
