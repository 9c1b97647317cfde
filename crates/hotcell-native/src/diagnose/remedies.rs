//! From what was refused and how this machine is set up to what a person can do about it.

use std::path::Path;

use hotcell_jail::ids::Starter;
use hotcell_jail::probe::Refusal;
use rustix::io::Errno;

use super::container::{Container, find_container};
use super::file_system::{FileSystem, find_file_system, is_chroot};
use super::host_file::read;
use super::rules::{Power, Rule, rules};

/// How this machine is set up, as far as cells mind.
#[derive(Debug)]
pub(super) struct Circumstances {
    pub(super) kernel: String,
    pub(super) power: Power,
    /// All rules of the machine, whether or not they hold for this user.
    pub(super) rules: Vec<Rule>,
    pub(super) container: Option<Container>,
    pub(super) chroot: bool,
    pub(super) file_system: Option<FileSystem>,
    /// What is free on it, in MiB.
    pub(super) free_mb: Option<u64>,
}

impl Circumstances {
    pub(super) fn look(host: &Path, state_dir: &Path, starter: &Starter) -> Self {
        Self {
            kernel: read(host, "proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            power: match starter {
                Starter::Root => Power::Privileged,
                Starter::User { .. } => Power::Ordinary,
            },
            rules: rules(host),
            container: find_container(host),
            chroot: is_chroot(host),
            file_system: find_file_system(host, state_dir),
            free_mb: rustix::fs::statvfs(state_dir)
                .ok()
                .map(|found| found.f_bavail.saturating_mul(found.f_frsize) >> 20),
        }
    }

    /// Major and minor number of the kernel.
    pub(super) fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.kernel.split(|char: char| !char.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// What to do about a refused user namespace, on one line.
    pub(super) fn user_namespace_hint(&self, errno: Option<i32>) -> String {
        match self.rule_behind(errno) {
            Some(rule) => rule.hint(),
            None => self.other_cause(errno),
        }
    }

    /// The same with everything that has to be written.
    pub(super) fn user_namespace_remedy(&self, errno: Option<i32>, program: &Path) -> String {
        match self.rule_behind(errno) {
            Some(rule) => rule.remedy(program),
            None => self.other_cause(errno),
        }
    }

    /// The rule that made the kernel say so; several may hold, and one of them hits first.
    fn rule_behind(&self, errno: Option<i32>) -> Option<&Rule> {
        let holds = || self.rules.iter().filter(|rule| rule.holds_for(self.power));
        let full = holds().find(|rule| matches!(rule, Rule::AtMost(_)));
        let forbidden = holds().find(|rule| !matches!(rule, Rule::AtMost(_)));
        match is(errno, Errno::NOSPC) {
            true => full.or(forbidden),
            false => forbidden.or(full),
        }
    }

    fn other_cause(&self, errno: Option<i32>) -> String {
        if is(errno, Errno::NOSPC) || is(errno, Errno::USERS) {
            return "the limit on user namespaces is reached, here or in a namespace around this \
                    one: raise user.max_user_namespaces there with `sysctl -w`, or nest less deep"
                .to_owned();
        }
        if self.chroot {
            return "a chroot may not make user namespaces: run hotcell outside of it, or enter \
                    the tree with pivot_root (`systemd-nspawn`, `bwrap`) instead of chroot"
                .to_owned();
        }
        self.general_remedy()
    }

    /// What to do about a refusal that has no cause of its own in sight.
    pub(super) fn general_remedy(&self) -> String {
        match &self.container {
            Some(container) => container.kind.remedy(),
            None => "something between hotcell and the kernel refuses it (a system-call filter, \
                     SELinux, a service manager's sandbox): look in the audit log \
                     (`journalctl -k`), or run hotcell outside of it"
                .to_owned(),
        }
    }

    /// What to do about a call that is not there or is filtered.
    pub(super) fn call_remedy(&self, refusal: &Refusal) -> String {
        let too_old = self.kernel_version().is_some_and(|version| version < OLDEST);
        match too_old {
            true => format!("{} needs Linux {}.{} or newer", refusal.step, OLDEST.0, OLDEST.1),
            false => self.general_remedy(),
        }
    }

    /// What to do about an overlay that was refused.
    pub(super) fn overlay_remedy(&self) -> String {
        let overlay_needs = match self.power {
            Power::Privileged => IDMAPPED_OVERLAY,
            Power::Ordinary => OLDEST,
        };
        if self.kernel_version().is_some_and(|version| version < overlay_needs) {
            return format!("Linux {}.{} or newer is needed", overlay_needs.0, overlay_needs.1);
        }
        match &self.file_system {
            Some(file_system) => file_system.remedy(),
            None => self.general_remedy(),
        }
    }
}

/// The oldest kernel with every call that cells need (mount_setattr is the last of them).
pub(super) const OLDEST: (u32, u32) = (5, 12);
/// The oldest kernel that stacks an overlay on an idmapped mount.
pub(super) const IDMAPPED_OVERLAY: (u32, u32) = (5, 19);

fn is(errno: Option<i32>, expected: Errno) -> bool {
    errno == Some(expected.raw_os_error())
}

#[cfg(test)]
#[path = "remedies_tests.rs"]
mod remedies_tests;
