//! What this machine really allows: each thing that a cell needs, tried in a process that is
//! thrown away.

mod attempt;
mod calls;
mod groups;
mod root;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cgroup::Hierarchies;
use crate::enter::Inside;
use crate::ids::IdLayout;
use crate::mounts::{Layer, Lower, LowerIds};
use crate::{Namespaces, StepError};

use attempt::{Attempt, Maps};

/// How something came out that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It works.
    Works,
    /// It was tried and failed.
    Refused(Refusal),
    /// It was not tried, for this reason.
    NotTried(String),
}

/// A failure as it can be told to another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What was tried, with which value.
    pub step: String,
    /// The number of the error, where the kernel gave one.
    pub errno: Option<i32>,
    /// The error in words.
    pub said: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.step, self.said)
    }
}

impl From<StepError> for Refusal {
    fn from(error: StepError) -> Self {
        let errno = error.source.raw_os_error();
        Self { step: error.step, errno, said: error.source.to_string() }
    }
}

impl Finding {
    /// Whether it works.
    #[must_use]
    pub fn works(&self) -> bool {
        matches!(self, Self::Works)
    }

    /// What was refused, if it was.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Works | Self::NotTried(_) => None,
        }
    }
}

impl From<Result<(), StepError>> for Finding {
    fn from(tried: Result<(), StepError>) -> Self {
        match tried {
            Ok(()) => Self::Works,
            Err(error) => Self::Refused(error.into()),
        }
    }
}

/// One finding under its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// What was tried.
    pub name: String,
    /// How it came out.
    pub finding: Finding,
}

/// Everything that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// System calls without which nothing starts.
    pub calls: Vec<Named>,
    /// Each namespace of a cell, the user namespace first.
    pub namespaces: Vec<Named>,
    /// Writing the id maps of a cell.
    pub id_maps: Finding,
    /// Using the powers of a namespace's first user, which some machines take away again.
    pub powers: Finding,
    /// A `/proc` of the cell's own.
    pub proc: Finding,
    /// Showing a directory's ids through the cell's map; only root needs it.
    pub idmapped_mount: Finding,
    /// A layer of the cell's own over a directory, and a file written through it.
    pub overlay: Finding,
    /// The whole root of a cell, put together and entered.
    pub root: Finding,
    /// Control groups with limits, a process born into them, and its end by them.
    pub cgroups: Finding,
    /// Filters on system calls.
    pub seccomp: Finding,
}

/// What to try cells with.
#[derive(Debug)]
pub struct Trial<'a> {
    /// A directory of our own on the file system that cells are written to.
    pub directory: &'a Path,
    /// The ids of a cell.
    pub ids: &'a IdLayout,
    /// The inside of a cell, with uppers that exist; none where it could not be prepared.
    pub inside: Option<&'a Inside<'a>>,
    /// The control groups that may be used.
    pub hierarchies: &'a Hierarchies,
}

const EACH_NAMESPACE: [(&str, Namespaces); 6] = [
    ("mount", Namespaces::MOUNT),
    ("pid", Namespaces::PID),
    ("network", Namespaces::NETWORK),
    ("ipc", Namespaces::IPC),
    ("uts", Namespaces::UTS),
    ("cgroup", Namespaces::CGROUP),
];

/// Tries everything. This process must have a single thread, and may get a mount namespace of its
/// own on the way.
#[must_use]
pub fn look(trial: &Trial<'_>) -> Report {
    let calls = calls::each();
    let user = Attempt::new(Namespaces::USER, Maps::None).run();
    let with_user = |finding: &dyn Fn() -> Finding| match user.works() {
        true => finding(),
        false => Finding::NotTried("it needs a user namespace".to_owned()),
    };
    let others = EACH_NAMESPACE.map(|(name, namespace)| Named {
        name: name.to_owned(),
        finding: with_user(&|| Attempt::new(Namespaces::USER.and(namespace), Maps::None).run()),
    });
    let id_maps = with_user(&|| Attempt::new(Namespaces::USER, Maps::Of(trial.ids)).run());
    let with_maps = |finding: &dyn Fn() -> Finding| match (&user, &id_maps) {
        (Finding::Works, Finding::Works) => finding(),
        (Finding::Works, _) => Finding::NotTried("it needs id maps".to_owned()),
        (_, _) => Finding::NotTried("it needs a user namespace".to_owned()),
    };
    let powers = with_maps(&|| root::powers(trial.ids));
    let proc = with_maps(&|| root::proc(trial.ids));
    let idmapped_mount = with_maps(&|| root::idmapped_mount(trial.ids, trial.directory));
    let overlay = with_maps(&|| root::overlay(trial.ids, trial.directory));
    let user = Named { name: "user".to_owned(), finding: user.clone() };
    let namespaces: Vec<Named> = std::iter::once(user).chain(others).collect();
    let parts = [&id_maps, &powers, &proc, &idmapped_mount, &overlay];
    let lacks_a_part = namespaces
        .iter()
        .map(|named| &named.finding)
        .chain(parts)
        .any(|finding| finding.refusal().is_some());
    Report {
        root: match trial.inside {
            _ if lacks_a_part => Finding::NotTried("a part of it is missing".to_owned()),
            Some(inside) => root::whole(trial.ids, inside, trial.directory),
            None => Finding::NotTried("it could not be prepared".to_owned()),
        },
        cgroups: match calls::can_fork(&calls) {
            true => groups::try_out(trial.hierarchies, trial.ids),
            false => Finding::NotTried("they need clone3".to_owned()),
        },
        calls,
        namespaces,
        id_maps: id_maps.clone(),
        powers,
        proc,
        idmapped_mount,
        overlay,
        seccomp: calls::seccomp(),
    }
}

/// A layer for trying, made below `directory`: something to read below, and where writes go.
fn trial_layer(directory: &Path, name: &str) -> io::Result<Layer> {
    let at = |part: &str| directory.join(name).join(part);
    for part in ["lower", "data", "work"] {
        std::fs::create_dir_all(at(part))?;
    }
    let upper = crate::mounts::Upper { data: at("data"), work: at("work") };
    let lower = Lower { path: at("lower"), ids: LowerIds::Image };
    Ok(Layer { target: "/".into(), lowers: vec![lower], upper: Some(upper), shared: None })
}
