//! What this machine can enforce, for people: everything is tried, and each refusal gets a remedy.

mod container;
mod control_groups;
mod file_system;
mod host_file;
mod namespaces;
mod process_level;
mod remedies;
mod rules;
mod subordinate_ids;
mod table;
#[cfg(test)]
mod testing;
mod trial;

pub(crate) use self::file_system::find_lying;

use std::path::Path;

use hotcell_jail::cgroup::Controller;
use hotcell_jail::ids::{IdLayout, starter};
use hotcell_jail::probe::Report;
use hotcell_jail::process::Confinement;
use hotcell_model::{Check, CheckStatus, Diagnosis, Result};

use crate::driver::{Native, NativeDriver};
use crate::isolation::describe;
use crate::on_host;
use crate::order::{Outcome, Task};
use crate::paths::CellPaths;

pub(crate) use namespaces::Prospect;
pub(crate) use trial::try_out;

use namespaces::prospect;
use process_level::ProcessLevel;
use remedies::Circumstances;

/// The machine itself; tests have others.
const HOST: &str = "/";

/// Looks at everything that cells need.
pub(crate) fn diagnose(native: &Native) -> Diagnosis {
    let starter = starter();
    // Links in the path may lead to another file system.
    let state_dir = native.settings.state_dir.canonicalize();
    let state_dir = state_dir.unwrap_or_else(|_| native.settings.state_dir.clone());
    let circumstances = Circumstances::look(Path::new(HOST), &state_dir, &starter);
    let isolation_of = |ids: &IdLayout, confinement: &Confinement| {
        describe(ids, &starter, native.hierarchies(), native.settings.cgroups, confinement)
    };
    let mut isolation = isolation_of(&trial::ids_of(&starter), &Confinement::expected());
    let mut checks = table::facts(&circumstances);
    match report(native) {
        Ok(report) => {
            let essentials = table::essentials(&report, &circumstances, &native.settings.program);
            match prospect(&report, Path::new(HOST)) {
                Prospect::Made | Prospect::Unclear(_) => checks.extend(essentials),
                Prospect::Forbidden => {
                    let level = ProcessLevel::look(&native.settings.required);
                    checks.extend(level.without_namespaces(essentials));
                    if level.is_used() {
                        isolation = isolation_of(&on_host::ids(), &Confinement::expected_on_host());
                    }
                }
            }
            checks.extend(table::limits(&report, &isolation, &means(native)));
            checks.extend(table::filters(&report, &isolation, &circumstances));
        }
        Err(error) => checks.push(Check {
            name: "trial".to_owned(),
            status: CheckStatus::Fatal,
            detail: error.message,
            remedy: Some(error.hint.unwrap_or_else(|| circumstances.general_remedy())),
        }),
    }
    checks.extend(table::required(&native.settings.required, &isolation));
    let fatal = checks.iter().any(|check| check.status == CheckStatus::Fatal);
    Diagnosis {
        driver: NativeDriver::NAME.to_owned(),
        checks,
        isolation: (!fatal).then_some(isolation),
    }
}

fn means(native: &Native) -> table::Means<'_> {
    table::Means {
        cgroups: native.settings.cgroups,
        arrangement: control_groups::arrangement(Path::new(HOST)),
        hierarchies: native.hierarchies(),
    }
}

/// Lets a process of its own try everything: this one has threads, and must not fork.
fn report(native: &Native) -> Result<Report> {
    let directory = CellPaths::at(trial::directory(native.paths.root()));
    match native.order(&directory, Task::Probe { bases: native.paths.bases() })? {
        Outcome::Probed(report) => Ok(*report),
        Outcome::Failed(error) => Err(error),
        Outcome::Ready(_)
        | Outcome::Done
        | Outcome::Unpacked(_)
        | Outcome::Compared { .. }
        | Outcome::Project(_) => Err(hotcell_model::Error::internal("the keeper tried nothing")),
    }
}

/// Whether cells with namespaces of their own can be made here.
pub(crate) fn prospect_of_namespaces(native: &Native) -> Result<Prospect> {
    report(native).map(|report| prospect(&report, Path::new(HOST)))
}

/// What to do where the kernel refused a user namespace, or its powers, with this error.
pub(crate) fn user_namespace_remedy(errno: Option<i32>) -> String {
    // The state directory plays no part in it.
    let circumstances = Circumstances::look(Path::new(HOST), Path::new(HOST), &starter());
    circumstances.user_namespace_hint(errno)
}

/// What gives this user a controller.
pub(crate) fn controller_remedy(controller: Controller) -> String {
    control_groups::remedy(Path::new(HOST), controller)
}

/// What gives this user subordinate ids.
pub(crate) fn subordinate_ids_remedy() -> String {
    subordinate_ids::remedy(Path::new(HOST))
}
