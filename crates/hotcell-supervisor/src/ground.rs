//! What execs stand on: a root of their own, or parts of the host's.

use std::path::Path;

use hotcell_jail::process::{ContainerParts, HostParts, Locks, SetIds, Surroundings};
use hotcell_jail::shown::{CALLS_PLACE, SHOWN_TOOLS};
use hotcell_jail::trusted::TRUSTED_PLACE;
use hotcell_link::{CONTAINER_PLACE, CONTAINER_PROGRAMS, OWN_DIRECTORIES, Plan, Root};
use hotcell_model::WorkspaceMode;

/// What execs and the process that serves files are confined to.
pub(crate) fn surroundings(plan: &Plan) -> Surroundings {
    match &plan.root {
        Root::Own => Surroundings::Cell(set_ids(plan)),
        Root::Container => Surroundings::Container(ContainerParts {
            hidden: CONTAINER_PLACE.into(),
            readable: vec![SHOWN_TOOLS.into(), TRUSTED_PLACE.into()],
            runnable: vec![CONTAINER_PROGRAMS.into(), CALLS_PLACE.into()],
        }),
        Root::Host(host) => Surroundings::Host(HostParts {
            programs: host.programs.clone(),
            readable: host.readable.iter().chain([&host.directory]).cloned().collect(),
            devices: host.devices.clone(),
            own: OWN_DIRECTORIES.iter().map(|own| plan.root.find(Path::new(own))).collect(),
        }),
    }
}

/// What a supervisor can do against privileges.
pub(crate) fn locks(plan: &Plan) -> Locks {
    match &plan.root {
        Root::Own => Locks::All,
        Root::Container | Root::Host(_) => Locks::NoNewPrivs,
    }
}

/// Where the cell's files begin.
pub(crate) fn beginning(plan: &Plan) -> &Path {
    match &plan.root {
        Root::Own | Root::Container => Path::new("/"),
        Root::Host(host) => &host.directory,
    }
}

/// Whether a file of the cell may have set-id bits: not where it may be one of the host's.
fn set_ids(plan: &Plan) -> SetIds {
    match plan.spec.workspace.as_ref().map(|workspace| workspace.mode) {
        Some(WorkspaceMode::Rw) if plan.writes_as_root => SetIds::Refused,
        Some(WorkspaceMode::Rw) => SetIds::UserRefused,
        Some(WorkspaceMode::Ro | WorkspaceMode::Cow) | None => SetIds::Allowed,
    }
}
