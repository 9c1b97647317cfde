//! Whether cells with namespaces of their own can be made here, as a trial showed it.

use std::path::Path;

use hotcell_jail::probe::{Finding, Named, Refusal, Report};
use rustix::io::Errno;

use super::host_file::number;

/// What a trial says of the namespaces of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// Cells with namespaces can be made.
    Made,
    /// This place does not let this user make them, however often it is tried.
    Forbidden,
    /// A cell could not be made for a reason that says nothing of the place: something that was
    /// short at the time, or the state directory.
    Unclear(String),
}

/// What follows from a trial on the machine whose root is `host`.
pub(super) fn prospect(report: &Report, host: &Path) -> Prospect {
    if report.root.works() {
        return Prospect::Made;
    }
    let is_forbidden = |Named { name, finding }: &Named| {
        finding.refusal().is_some_and(|refusal| is_not_made(name, refusal, host))
    };
    // None of these needs the state directory: another one would not help.
    let uses = [&report.id_maps, &report.powers, &report.proc];
    let is_useless = |finding: &&Finding| finding.refusal().is_some_and(is_not_permitted);
    if report.namespaces.iter().any(is_forbidden) || uses.iter().any(is_useless) {
        return Prospect::Forbidden;
    }
    let others = [&report.idmapped_mount, &report.overlay, &report.root];
    let named = report.namespaces.iter().map(|named| &named.finding);
    let first = named.chain(uses).chain(others).find_map(Finding::refusal);
    Prospect::Unclear(first.map_or_else(|| "nothing was tried".to_owned(), ToString::to_string))
}

/// Whether a namespace was refused for good: by a rule, or as none that the kernel was built with
/// (`EINVAL`: all else that is asked for is known to be right).
fn is_not_made(name: &str, refusal: &Refusal, host: &Path) -> bool {
    match errno(refusal) {
        Some(Errno::INVAL) => true,
        // Also said where others have used up what there is.
        Some(Errno::NOSPC | Errno::USERS) => {
            let name = name.replace("mount", "mnt").replace("network", "net");
            number(host, &format!("proc/sys/user/max_{name}_namespaces")) == Some(0)
        }
        Some(_) | None => is_not_permitted(refusal),
    }
}

/// Whether a rule or a filter said no.
fn is_not_permitted(refusal: &Refusal) -> bool {
    matches!(errno(refusal), Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS))
}

fn errno(refusal: &Refusal) -> Option<Errno> {
    refusal.errno.map(Errno::from_raw_os_error)
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod namespaces_tests;
