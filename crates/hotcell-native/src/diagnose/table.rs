//! The table of checks, from what every cell needs to what is nice to have.

use std::path::Path;

use hotcell_jail::cgroup::{Controller, Hierarchies};
use hotcell_jail::probe::{Finding, Named, Refusal, Report};
use hotcell_model::{Check, CheckStatus, Isolation, RequiredIsolation};

use super::control_groups::Arrangement;
use super::remedies::{Circumstances, IDMAPPED_OVERLAY, OLDEST};
use crate::driver::CgroupUse;

fn check(name: &str, status: CheckStatus, detail: impl Into<String>) -> Check {
    Check { name: name.to_owned(), status, detail: detail.into(), remedy: None }
}

/// A check of something without which no cell can be made.
fn essential(
    name: &str,
    finding: &Finding,
    works: &str,
    remedy: impl FnOnce(&Refusal) -> String,
) -> Check {
    match finding {
        Finding::Works => check(name, CheckStatus::Ok, works),
        Finding::NotTried(reason) => check(name, CheckStatus::Info, format!("not tried: {reason}")),
        Finding::Refused(refusal) => Check {
            remedy: Some(remedy(refusal)),
            ..check(name, CheckStatus::Fatal, refusal.to_string())
        },
    }
}

/// What the machine is.
pub(super) fn facts(circumstances: &Circumstances) -> Vec<Check> {
    let version = circumstances.kernel_version();
    let old = |oldest| version.is_some_and(|version| version < oldest);
    let kernel = if old(OLDEST) {
        format!("Linux {}, older than {}.{}", circumstances.kernel, OLDEST.0, OLDEST.1)
    } else if old(IDMAPPED_OVERLAY) {
        let (major, minor) = IDMAPPED_OVERLAY;
        format!("Linux {}; cells of root need {major}.{minor}", circumstances.kernel)
    } else {
        format!("Linux {}", circumstances.kernel)
    };
    let container = match &circumstances.container {
        Some(container) => format!("marked as {} by {}", container.kind.name(), container.mark),
        None => "no marks of one".to_owned(),
    };
    let rules: Vec<String> = circumstances
        .rules
        .iter()
        .map(|rule| match rule.holds_for(circumstances.power) {
            true => rule.seen(),
            false => format!("{}, which does not hold for root", rule.seen()),
        })
        .collect();
    let rules = match rules.is_empty() {
        true => "no setting forbids user namespaces".to_owned(),
        false => rules.join("; "),
    };
    vec![
        check("kernel", CheckStatus::Info, kernel),
        check("container", CheckStatus::Info, container),
        check("namespace_rules", CheckStatus::Info, rules),
    ]
}

/// What the operator wants every cell to have, where that is more than what every cell needs.
pub(super) fn required(required: &RequiredIsolation, isolation: &Isolation) -> Option<Check> {
    if *required == RequiredIsolation::default() {
        return None;
    }
    Some(match required.check(isolation) {
        Ok(()) => check("required", CheckStatus::Ok, "every layer that is required is in force"),
        Err(error) => {
            Check { remedy: error.hint, ..check("required", CheckStatus::Fatal, error.message) }
        }
    })
}

/// What every cell needs.
pub(super) fn essentials(
    report: &Report,
    circumstances: &Circumstances,
    program: &Path,
) -> Vec<Check> {
    let powers = |refusal: &Refusal| match refusal.errno {
        // Powers that were given and taken away again: the same rules that forbid namespaces.
        errno @ Some(_) => circumstances.user_namespace_remedy(errno, program),
        None => circumstances.general_remedy(),
    };
    let mut checks = vec![system_calls(&report.calls, circumstances)];
    checks.extend(report.namespaces.iter().map(|Named { name, finding }| {
        essential(&format!("{name}_namespace"), finding, separates(name), |refusal| {
            namespace_remedy(name, refusal, circumstances, program)
        })
    }));
    checks.push(essential("id_maps", &report.id_maps, "ids of a cell can be mapped", |refusal| {
        match refusal.step.starts_with("new") {
            true => "newuidmap and newgidmap need their privileges: reinstall them (package \
                     uidmap), on a file system that is not mounted nosuid"
                .to_owned(),
            false => powers(refusal),
        }
    }));
    checks.push(essential("capabilities", &report.powers, "held inside, and only there", powers));
    checks.push(file_system(circumstances));
    checks.push(essential("overlay", &report.overlay, "a layer of its own, written to", |_| {
        circumstances.overlay_remedy()
    }));
    checks.push(essential("idmapped_mount", &report.idmapped_mount, "works", |_| {
        format!(
            "{}; or run hotcell as an ordinary user, whose cells do without",
            circumstances.overlay_remedy()
        )
    }));
    checks.push(essential("proc", &report.proc, "a /proc of its own", |_| {
        circumstances.general_remedy()
    }));
    checks.push(essential("cell_root", &report.root, "put together and entered", |_| {
        circumstances.general_remedy()
    }));
    checks
}

fn system_calls(calls: &[Named], circumstances: &Circumstances) -> Check {
    let refused: Vec<&Refusal> = calls.iter().filter_map(|call| call.finding.refusal()).collect();
    match refused.first() {
        None => {
            let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            check("system_calls", CheckStatus::Ok, names.join(", "))
        }
        Some(first) => {
            let said: Vec<String> = refused.iter().map(ToString::to_string).collect();
            Check {
                remedy: Some(circumstances.call_remedy(first)),
                ..check("system_calls", CheckStatus::Fatal, said.join("; "))
            }
        }
    }
}

fn separates(namespace: &str) -> &'static str {
    match namespace {
        "user" => "ids and capabilities of its own",
        "mount" => "a root file system of its own",
        "pid" => "sees no processes but its own",
        "network" => "no network but its own loopback",
        "ipc" => "shared memory and queues of its own",
        "uts" => "a host name of its own",
        "cgroup" => "sees no control groups but its own",
        _ => "works",
    }
}

fn namespace_remedy(
    name: &str,
    refusal: &Refusal,
    circumstances: &Circumstances,
    program: &Path,
) -> String {
    const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();
    const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();
    let sysctl = match name {
        "mount" | "pid" | "ipc" | "uts" | "cgroup" => name.replace("mount", "mnt"),
        "network" => "net".to_owned(),
        _ => return circumstances.user_namespace_remedy(refusal.errno, program),
    };
    match refusal.errno {
        Some(ENOSPC) => format!("`sudo sysctl -w user.max_{sysctl}_namespaces=15000`"),
        Some(EINVAL) => format!(
            "use a kernel with CONFIG_{}_NS=y; every distribution's is",
            name.replace("network", "net").to_uppercase()
        ),
        Some(_) | None => circumstances.user_namespace_remedy(refusal.errno, program),
    }
}

fn file_system(circumstances: &Circumstances) -> Check {
    let detail = match &circumstances.file_system {
        Some(found) => {
            let free =
                circumstances.free_mb.map_or_else(String::new, |mb| format!(", {mb} MiB free"));
            format!("{} at {}{free}", found.kind, found.point.display())
        }
        None => "not found in the mount table".to_owned(),
    };
    check("file_system", CheckStatus::Info, detail)
}

/// By which means cells can be held to their limits.
#[derive(Debug)]
pub(super) struct Means<'a> {
    pub(super) cgroups: CgroupUse,
    pub(super) arrangement: Arrangement,
    pub(super) hierarchies: &'a Hierarchies,
}

/// What holds cells to their limits, and by which means.
pub(super) fn limits(report: &Report, isolation: &Isolation, means: &Means<'_>) -> Vec<Check> {
    let groups = match means.cgroups {
        CgroupUse::Auto => means.arrangement.name(),
        CgroupUse::Off => "turned off by native.cgroups",
    };
    let cgroups = match &report.cgroups {
        Finding::Works => check("cgroups", CheckStatus::Ok, format!("{groups}; usable")),
        Finding::NotTried(reason) => {
            check("cgroups", CheckStatus::Info, format!("{groups}; {reason}"))
        }
        Finding::Refused(refusal) => Check {
            remedy: Some("do without: HOTCELL_NATIVE_CGROUPS=off".to_owned()),
            ..check("cgroups", CheckStatus::Fatal, format!("{groups}; {refusal}"))
        },
    };
    let place = |controller| directory(means.hierarchies, controller);
    let layers = [
        ("private_ids", None),
        ("tree_kill", None),
        ("memory_limit", place(Controller::Memory)),
        ("pids_limit", place(Controller::Pids)),
        ("cpu_limit", place(Controller::Cpu)),
        ("disk_limit", None),
    ];
    let layers = layers.into_iter().filter_map(|(name, place)| layer(name, isolation, place));
    std::iter::once(cgroups).chain(layers).collect()
}

fn directory(hierarchies: &Hierarchies, controller: Controller) -> Option<String> {
    Some(hierarchies.controllers.get(&controller)?.directory.display().to_string())
}

/// A layer of isolation as a check; `place` tells where it is kept up.
fn layer(name: &str, isolation: &Isolation, place: Option<String>) -> Option<Check> {
    if let Some(layer) = isolation.layers.iter().find(|layer| layer.name == name) {
        let means = layer.means.as_deref().unwrap_or("works");
        let place = place.map_or_else(String::new, |place| format!(", below {place}"));
        return Some(check(name, CheckStatus::Ok, format!("{means}{place}")));
    }
    let missing = isolation.missing.iter().find(|missing| missing.name == name)?;
    Some(Check {
        remedy: Some(missing.remedy.clone()),
        ..check(name, CheckStatus::Missing, missing.reason.clone())
    })
}

/// What keeps programs from the kernel. Without a filter no cell is made.
pub(super) fn filters(
    report: &Report,
    isolation: &Isolation,
    circumstances: &Circumstances,
) -> Vec<Check> {
    let seccomp = match &report.seccomp {
        Finding::Works => layer("seccomp_filter", isolation, None),
        Finding::NotTried(reason) => {
            Some(check("seccomp_filter", CheckStatus::Info, format!("not tried: {reason}")))
        }
        Finding::Refused(refusal) => Some(Check {
            remedy: Some(circumstances.call_remedy(refusal)),
            ..check("seccomp_filter", CheckStatus::Fatal, refusal.to_string())
        }),
    };
    seccomp.into_iter().chain(layer("landlock", isolation, None)).collect()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod table_tests;
