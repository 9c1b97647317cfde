//! Cells without namespaces: what of the host they may use, and where their own files are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_jail::ids::IdLayout;
use hotcell_jail::landlock::Landlock;
use hotcell_jail::mounts::{Layer, Upper};
use hotcell_link::{HostRoot, OWN_DIRECTORIES};
use hotcell_model::{CellSpec, Error, HOST_IMAGE, Network, Result, SecretForm, SecretGrant};
use rustix::process::{getegid, geteuid};

use crate::base::{ETC, PROGRAMS};
use crate::order::Placed;
use crate::way::not_on_host;

/// What of `/etc` is made anew for other cells, and read as it is by these.
const ETC_OF_HOST: [&str; 3] = ["passwd", "group", "nsswitch.conf"];

/// What programs want to know of the machine. What belongs to a process is not among it: the command
/// lines of all others would be there too.
const MACHINE: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
];

/// No terminal but that of the process itself: the others are the user's.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Whether this machine can keep commands by Landlock and a filter alone.
pub(crate) fn check() -> Result<()> {
    if geteuid().is_root() {
        return Err(Error::unsupported(
            "without user namespaces commands would be root of the host: level process is for \
             ordinary users",
        )
        .hint("run hotcell as an ordinary user (`docker run --user 1000`)"));
    }
    match Landlock::expected().abi_that_stands_alone() {
        Ok(_) => Ok(()),
        Err(reason) => Err(Error::unsupported(format!(
            "without user namespaces only Landlock could keep commands from the host's files and \
             processes: {reason}"
        ))
        .hint("use Linux 6.12 or newer with `landlock` in the boot parameter lsm=")),
    }
}

/// Whether this process may start a cell of these ids: its commands would be whoever starts it.
pub(crate) fn check_starter(ids: &IdLayout) -> Result<()> {
    check()?;
    let (owner, user) = (ids.supervisor().0, geteuid().as_raw());
    match owner == user {
        true => Ok(()),
        false => Err(Error::unsupported(format!(
            "a cell of level process is started by the user who made it: that is {owner}, and this \
             is {user}"
        ))
        .hint(format!("run hotcell as the user {owner}"))),
    }
}

/// Whether the cells may lie there: not in what commands read.
pub(crate) fn check_place(state_dir: &Path) -> Result<()> {
    let place = state_dir.canonicalize().unwrap_or_else(|_| state_dir.to_owned());
    match PROGRAMS.iter().map(|name| Path::new("/").join(name)).find(|it| place.starts_with(it)) {
        None => Ok(()),
        Some(programs) => Err(not_on_host(&format!(
            "to be kept apart from {}, which its commands read",
            programs.display()
        ))
        .hint("choose another state directory with HOTCELL_STATE_DIR")),
    }
}

/// Whether such a cell can be what was asked for.
pub(crate) fn check_spec(spec: &CellSpec) -> Result<()> {
    if spec.image != HOST_IMAGE {
        return Err(not_on_host("no root of its own, so it cannot begin with an image"));
    }
    if spec.workspace.is_some() {
        return Err(not_on_host("no layers, so no directory of the host can be its workspace"));
    }
    let is_header = |grant: &SecretGrant| match grant.form {
        SecretForm::Header(_) => true,
        SecretForm::Env { .. } => false,
    };
    if let Some(grant) = spec.secrets.iter().find(|grant| is_header(grant)) {
        return Err(not_on_host(&format!(
            "no network of its own, so the secret {} cannot be a header of its requests",
            grant.name
        )));
    }
    match &spec.network {
        Network::None => Ok(()),
        Network::Names(_) => Err(no_network()),
    }
}

pub(crate) fn no_network() -> Error {
    not_on_host("no network of its own, so nothing can be allowed to it")
}

/// The ids of such a cell: those of whoever makes it.
pub(crate) fn ids() -> IdLayout {
    IdLayout::Host { uid: geteuid().as_raw(), gid: getegid().as_raw() }
}

/// What it is made of: one directory.
pub(crate) fn layers(files: &Path) -> Vec<Layer> {
    let upper = Upper { data: files.join("root/data"), work: files.join("root/work") };
    vec![Layer { target: "/".into(), lowers: Vec::new(), upper: Some(upper), shared: None }]
}

/// Makes its directories, with nothing in `/tmp`, and says what of the host's root is its.
pub(crate) fn make_root(placed: &Placed) -> io::Result<HostRoot> {
    let upper = placed.layers.iter().find_map(|layer| layer.upper.as_ref());
    let upper = upper.ok_or_else(|| io::Error::other("the cell has no directory"))?;
    for own in OWN_DIRECTORIES {
        let path = upper.data.join(own.trim_start_matches('/'));
        if own == "/tmp" {
            crate::removal::remove_stubborn(&path)?;
        }
        fs::create_dir_all(path)?;
    }
    let etc = ETC.iter().chain(&ETC_OF_HOST).map(|name| Path::new("/etc").join(name));
    Ok(HostRoot {
        directory: upper.data.canonicalize()?,
        programs: PROGRAMS.iter().map(|name| Path::new("/").join(name)).collect(),
        readable: etc.chain(MACHINE.iter().map(PathBuf::from)).collect(),
        devices: DEVICES.iter().map(PathBuf::from).collect(),
    })
}

#[cfg(test)]
#[path = "on_host_tests.rs"]
mod on_host_tests;
