//! Settings of a machine that keep its users from making user namespaces.

use std::path::Path;

use super::host_file::{number, read};

/// A setting that forbids user namespaces to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    /// The kernel was built without them.
    NotBuilt,
    /// At most this many, for each user and for root too.
    AtMost(u64),
    /// Only to privileged users (Debian's setting).
    PrivilegedOnly,
    /// Only to privileged users and to programs with a profile that says so (Ubuntu's setting).
    ProfiledOnly,
}

/// Whom a rule holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Power {
    /// Root of the machine.
    Privileged,
    /// Anybody else.
    Ordinary,
}

/// Fewer than any machine has that means to allow them.
const HARDLY_ANY: u64 = 64;
/// What is proposed instead.
const ENOUGH: u64 = 15_000;
const MOST: &str = "user.max_user_namespaces";
const CLONE: &str = "kernel.unprivileged_userns_clone";
const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

/// The rules on the machine whose root is `host`.
pub(super) fn rules(host: &Path) -> Vec<Rule> {
    let mut found = Vec::new();
    // Where there is no /proc at all, nothing is known.
    if host.join("proc/self/ns").is_dir() && !host.join("proc/self/ns/user").exists() {
        found.push(Rule::NotBuilt);
    }
    let sysctl = |name: &str| number(host, &format!("proc/sys/{}", name.replace('.', "/")));
    match sysctl(MOST) {
        Some(most) if most < HARDLY_ANY => found.push(Rule::AtMost(most)),
        Some(_) | None => {}
    }
    if sysctl(CLONE) == Some(0) {
        found.push(Rule::PrivilegedOnly);
    }
    if sysctl(APPARMOR) == Some(1) && !has_profile(host) {
        found.push(Rule::ProfiledOnly);
    }
    found
}

/// Whether this process runs under a profile of its own, which then decides.
fn has_profile(host: &Path) -> bool {
    let label = ["proc/self/attr/apparmor/current", "proc/self/attr/current"]
        .iter()
        .find_map(|file| read(host, file));
    label.is_some_and(|label| !label.trim().is_empty() && label.trim() != "unconfined")
}

impl Rule {
    /// Whether it holds for such a user.
    pub(super) fn holds_for(&self, power: Power) -> bool {
        match (self, power) {
            (Self::NotBuilt | Self::AtMost(_), _) | (_, Power::Ordinary) => true,
            (Self::PrivilegedOnly | Self::ProfiledOnly, Power::Privileged) => false,
        }
    }

    /// The setting as it stands.
    pub(super) fn seen(&self) -> String {
        match self {
            Self::NotBuilt => "the kernel is built without user namespaces".to_owned(),
            Self::AtMost(most) => format!("{MOST} = {most}"),
            Self::PrivilegedOnly => format!("{CLONE} = 0"),
            Self::ProfiledOnly => format!("{APPARMOR} = 1"),
        }
    }

    /// What to do, on one line.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NotBuilt => {
                "use a kernel with CONFIG_USER_NS=y; every distribution's is".to_owned()
            }
            Self::AtMost(_) => set(MOST, ENOUGH),
            Self::PrivilegedOnly => format!("{}; or run hotcell as root", set(CLONE, 1)),
            Self::ProfiledOnly => format!(
                "AppArmor gives user namespaces only to programs with a profile: load the one that \
                 `hotcell doctor` shows, or give them to every program with \
                 `sudo sysctl -w {APPARMOR}=0`; or run hotcell as root"
            ),
        }
    }

    /// What to do, with everything that has to be written.
    pub(super) fn remedy(&self, program: &Path) -> String {
        match self {
            Self::NotBuilt | Self::AtMost(_) | Self::PrivilegedOnly => self.hint(),
            Self::ProfiledOnly => format!(
                "AppArmor gives user namespaces only to programs with a profile; write this to \
                 /etc/apparmor.d/hotcell and load it with \
                 `sudo apparmor_parser -r /etc/apparmor.d/hotcell`:\n\n{}\n\n\
                 Or give them to every program with `sudo sysctl -w {APPARMOR}=0`; or run hotcell \
                 as root",
                profile(program)
            ),
        }
    }
}

fn set(name: &str, value: u64) -> String {
    format!(
        "`sudo sysctl -w {name}={value}`; to keep it: \
         `echo {name}={value} | sudo tee /etc/sysctl.d/50-hotcell.conf`"
    )
}

/// A profile that leaves hotcell as it is and allows it user namespaces.
fn profile(program: &Path) -> String {
    format!(
        "abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile hotcell \"{}\" flags=(unconfined) {{\n  \
           userns,\n  \
           include if exists <local/hotcell>\n\
         }}",
        program.display()
    )
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod rules_tests;
