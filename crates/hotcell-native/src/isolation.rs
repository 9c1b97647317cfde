//! What a cell on this machine is separated by, and what is missing for more.

use hotcell_jail::cgroup::{Controller, Hierarchies};
use hotcell_jail::ids::{IdLayout, Starter};
use hotcell_jail::landlock::Landlock;
use hotcell_jail::process::Confinement;
use hotcell_link::KillMeans;
use hotcell_model::{Isolation, Layer, MissingLayer};

use crate::diagnose::{controller_remedy, subordinate_ids_remedy, user_namespace_remedy};
use crate::driver::CgroupUse;

/// The control groups that may be used.
pub(crate) fn hierarchies(cgroups: CgroupUse) -> Hierarchies {
    match cgroups {
        CgroupUse::Auto => Hierarchies::detect(),
        CgroupUse::Off => Hierarchies::default(),
    }
}

/// How the processes of an exec are found and ended.
pub(crate) fn kill_means(hierarchies: &Hierarchies) -> KillMeans {
    if hierarchies.unified.is_some() {
        KillMeans::CgroupKill
    } else if hierarchies.controllers.contains_key(&Controller::Freezer) {
        KillMeans::Freezer
    } else {
        KillMeans::Subreaper
    }
}

/// The isolation of a cell with these ids and control groups.
pub(crate) fn describe(
    ids: &IdLayout,
    starter: &Starter,
    hierarchies: &Hierarchies,
    cgroups: CgroupUse,
    confinement: &Confinement,
) -> Isolation {
    let layer = |name: &str, means: Option<&str>| Layer {
        name: name.to_owned(),
        means: means.map(str::to_owned),
    };
    let namespaces = [
        "user_namespace",
        "mount_namespace",
        "pid_namespace",
        "network_namespace",
        "ipc_namespace",
        "uts_namespace",
        "cgroup_namespace",
        "masked_proc",
    ];
    let mut layers = vec![layer("no_capabilities", None), layer("no_new_privs", None)];
    let mut missing = Vec::new();
    let is_on_host = match ids {
        IdLayout::Private { .. } | IdLayout::Subordinate { .. } | IdLayout::Single { .. } => {
            layers.splice(0..0, namespaces.map(|name| layer(name, None)));
            false
        }
        IdLayout::Host { .. } => {
            missing.extend(missing_on_host());
            true
        }
    };

    match ids {
        IdLayout::Private { .. } => layers.push(layer("private_ids", Some("range per cell"))),
        IdLayout::Subordinate { .. } => layers.push(layer("private_ids", Some("subordinate ids"))),
        IdLayout::Single { .. } => missing.push(missing_ids(starter)),
        IdLayout::Host { .. } => {}
    }
    let kill = match kill_means(hierarchies) {
        KillMeans::CgroupKill => "cgroup v2",
        KillMeans::Freezer => "cgroup v1 freezer",
        KillMeans::Subreaper => "subreaper",
    };
    layers.push(layer("tree_kill", Some(kill)));
    let pids_means = match is_on_host {
        true => "rlimit, counted with all processes of the user",
        false => "rlimit per user of the cell",
    };
    let limits = [
        (Controller::Memory, "memory_limit", None),
        (Controller::Pids, "pids_limit", Some(pids_means)),
        (Controller::Cpu, "cpu_limit", None),
    ];
    for (controller, name, otherwise) in limits {
        match hierarchies.controllers.get(&controller) {
            Some(place) => layers.push(layer(name, Some(place.version.name()))),
            None => match otherwise {
                Some(means) => layers.push(layer(name, Some(means))),
                None => missing.push(missing_limit(name, controller, hierarchies, cgroups)),
            },
        }
    }
    if hierarchies.controllers.contains_key(&Controller::Memory) {
        if hierarchies.bounds_swap() {
            layers.push(layer("swap_limit", None));
        } else {
            missing.push(MissingLayer {
                name: "swap_limit".to_owned(),
                reason: "the kernel does not count what is swapped out".to_owned(),
                remedy: "boot with swapaccount=1, or turn swap off with `swapoff -a`".to_owned(),
            });
        }
    }
    layers.push(layer("disk_limit", Some("sampled while something runs")));
    let calls = format!("allowlist of {} system calls", confinement.system_calls);
    layers.push(layer("seccomp_filter", Some(&calls)));
    match &confinement.landlock {
        Landlock::Applied { abi, scopes } => {
            let scopes = if *scopes { ", signals, abstract sockets" } else { "" };
            layers.push(layer("landlock", Some(&format!("ABI {abi}: files{scopes}"))));
        }
        Landlock::Absent { reason } => missing.push(MissingLayer {
            name: "landlock".to_owned(),
            reason: reason.clone(),
            remedy: "use Linux 5.19 or newer with `landlock` in the boot parameter lsm=".to_owned(),
        }),
    }
    Isolation::from_layers(layers, missing)
}

/// What a cell without namespaces lacks, and what there is instead.
fn missing_on_host() -> Vec<MissingLayer> {
    let remedy = user_namespace_remedy(None);
    [
        ("user_namespace", "no user namespace can be made here: commands are the user who runs hotcell"),
        ("mount_namespace", "commands share the host's root: they use the parts that Landlock grants, and see names, sizes and times of the others"),
        ("pid_namespace", "commands share the host's processes: Landlock keeps them from signalling and debugging any but their own"),
        ("network_namespace", "commands share the host's network: the filter lets them open no socket, not even for localhost"),
        ("ipc_namespace", "commands share the host's memory segments and queues: the filter keeps them from all of them"),
        ("uts_namespace", "commands see the host's name"),
        ("cgroup_namespace", "commands share the host's view of control groups; Landlock keeps them from it"),
        ("masked_proc", "there is no /proc of the cell's own: commands read some files about the machine, and none about processes"),
        ("private_ids", "without a user namespace a cell has no ids of its own"),
    ]
    .into_iter()
    .map(|(name, reason)| MissingLayer {
        name: name.to_owned(),
        reason: reason.to_owned(),
        remedy: remedy.clone(),
    })
    .collect()
}

fn missing_ids(starter: &Starter) -> MissingLayer {
    let reason = match starter {
        Starter::User { without_subordinates: Some(reason), .. } => reason.clone(),
        Starter::User { without_subordinates: None, .. } | Starter::Root => {
            "the cell was made without ids of its own".to_owned()
        }
    };
    MissingLayer { name: "private_ids".to_owned(), reason, remedy: subordinate_ids_remedy() }
}

fn missing_limit(
    name: &str,
    controller: Controller,
    hierarchies: &Hierarchies,
    cgroups: CgroupUse,
) -> MissingLayer {
    let (reason, remedy) = match cgroups {
        CgroupUse::Off => {
            ("control groups are turned off".to_owned(), "set native.cgroups = \"auto\"".to_owned())
        }
        CgroupUse::Auto => {
            let reason = hierarchies.refused.get(&controller).map_or_else(
                || format!("the kernel offers no {} controller", controller.name()),
                |refusal| {
                    format!("the {} controller is not delegated: {refusal}", controller.name())
                },
            );
            (reason, controller_remedy(controller))
        }
    };
    MissingLayer { name: name.to_owned(), reason, remedy }
}
