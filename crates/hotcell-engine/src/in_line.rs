//! Those who wait to begin an exec, and those who are about to: each shows itself by a file that it
//! holds locked, so that whoever is killed is gone from there with its process.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hotcell_model::{ExecId, Result, Tenant};

use crate::admission::{is_patient, note_patience};
use crate::fault;
use crate::site::Site;

/// When somebody came, and for which exec; whoever came earlier is less.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(String);

impl Ticket {
    pub(crate) fn now(exec: &ExecId) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(format!("{:020}-{exec}", since.as_nanos()))
    }
}

/// Somebody who shows others that it waits, or is about to begin, until this is dropped.
#[derive(Debug)]
pub(crate) struct Shown {
    path: PathBuf,
    file: File,
}

impl Shown {
    fn at(directory: &Path, name: &str) -> Result<Self> {
        let failed = |error| fault::io(format_args!("show that {name} waits for room"), &error);
        fs::create_dir_all(directory).map_err(failed)?;
        let path = directory.join(name);
        let file = File::create(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(Self { path, file })
    }

    /// Shows others that whoever waits still does.
    pub(crate) fn note_patience(&self) {
        note_patience(&self.file);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What somebody shows at a path; what was left there is removed.
fn is_shown(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return true;
    }
    // Whoever made it is gone, or has not locked it yet.
    if !is_patient(&file) {
        let _ = fs::remove_file(path);
    }
    false
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

fn tenants_in(directory: &Path) -> Vec<Tenant> {
    names(directory).iter().filter_map(|name| name.parse().ok()).collect()
}

impl Site {
    fn line_of(&self, tenant: &Tenant) -> PathBuf {
        self.waiting_dir().join(tenant.as_str())
    }

    /// Shows others that somebody waits to begin an exec of a tenant.
    pub(crate) fn wait_in_line(&self, tenant: &Tenant, ticket: &Ticket) -> Result<Shown> {
        Shown::at(&self.line_of(tenant), &ticket.0)
    }

    /// How many wait to begin an exec of a tenant.
    pub(crate) fn count_in_line(&self, tenant: &Tenant) -> u64 {
        let line = self.line_of(tenant);
        names(&line).iter().filter(|name| is_shown(&line.join(name))).count() as u64
    }

    /// How many wait to begin an exec of any.
    pub(crate) fn count_in_lines(&self) -> u64 {
        tenants_in(&self.waiting_dir()).iter().map(|tenant| self.count_in_line(tenant)).sum()
    }

    /// Whoever of a tenant came first of those who wait and look.
    pub(crate) fn first_in_line(&self, tenant: &Tenant) -> Option<Ticket> {
        let line = self.line_of(tenant);
        let looks = |path: &Path| File::open(path).is_ok_and(|file| is_patient(&file));
        let mut names = names(&line).into_iter();
        names.find(|name| is_shown(&line.join(name)) && looks(&line.join(name))).map(Ticket)
    }

    /// The first of each tenant.
    pub(crate) fn first_in_lines(&self) -> Vec<(Tenant, Ticket)> {
        let tenants = tenants_in(&self.waiting_dir());
        tenants.into_iter().filter_map(|it| Some((it.clone(), self.first_in_line(&it)?))).collect()
    }

    /// Shows others that an exec of a tenant is about to begin.
    pub(crate) fn show_beginning(&self, tenant: &Tenant, exec: &ExecId) -> Result<Shown> {
        Shown::at(&self.beginning_dir().join(tenant.as_str()), exec.as_str())
    }

    /// The execs that are about to begin.
    pub(crate) fn beginning(&self) -> Vec<(Tenant, ExecId)> {
        let all = self.beginning_dir();
        let of = |tenant: Tenant| {
            let own = all.join(tenant.as_str());
            let shown = names(&own).into_iter().filter(move |name| is_shown(&own.join(name)));
            shown.filter_map(move |name| Some((tenant.clone(), name.parse().ok()?)))
        };
        tenants_in(&all).into_iter().flat_map(of).collect()
    }
}
