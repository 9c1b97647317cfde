//! Which ids of the host stand behind the ids of a cell.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, getegid, geteuid};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use crate::{Step, StepError};

/// The user and group of an ordinary exec, as the cell sees them.
pub const EXEC_ID: u32 = 1000;
/// How many ids a cell has.
pub const RANGE: u32 = 65_536;
/// Ids that a root without the power to mount, as in a container, gives to its cells: below those of
/// [`IdLayout::Private`], above what distributions give away.
const SUBORDINATE_TO_ROOT: u32 = 0x7000_0000 - RANGE;

/// How ids are laid out. What lies on disk depends on it, so it is kept with the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdLayout {
    /// Started by root: a range of host ids that is the cell's alone.
    Private {
        /// The host id behind id 0.
        base: u32,
    },
    /// Started by a user with subordinate ids: id 0 is the user, the others are subordinate.
    Subordinate {
        /// The user.
        uid: u32,
        /// The user's group.
        gid: u32,
        /// The first subordinate user id.
        uid_start: u32,
        /// The first subordinate group id.
        gid_start: u32,
        /// How many there are of each.
        count: u32,
    },
    /// Started by a user without: one id, which is [`EXEC_ID`] inside.
    Single {
        /// The user.
        uid: u32,
        /// The user's group.
        gid: u32,
    },
    /// No user namespace at all: everything of the cell is this user of the host.
    Host {
        /// The user.
        uid: u32,
        /// The user's group.
        gid: u32,
    },
}

/// Who starts a cell, which decides what layouts are possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Starter {
    /// Root of the whole machine: every cell can have a range of its own.
    Root,
    /// Anybody else: this layout.
    User {
        /// The layout.
        layout: IdLayout,
        /// Why it is not a better one.
        without_subordinates: Option<String>,
    },
}

impl IdLayout {
    /// Whether there is an id 0 in the cell, and with it the power to take on other ids.
    #[must_use]
    pub fn has_root(&self) -> bool {
        match self {
            Self::Private { .. } | Self::Subordinate { .. } => true,
            Self::Single { .. } | Self::Host { .. } => false,
        }
    }

    /// Whether execs may have the id 0. Where it is the host's, it is the supervisor's alone.
    #[must_use]
    pub fn lets_root_run(&self) -> bool {
        match self {
            Self::Private { .. } => true,
            Self::Subordinate { uid, .. } => *uid != 0,
            Self::Single { .. } | Self::Host { .. } => false,
        }
    }

    /// The host ids under which the supervisor runs.
    #[must_use]
    pub fn supervisor(&self) -> (u32, u32) {
        match *self {
            Self::Private { base } => (base, base),
            Self::Subordinate { uid, gid, .. }
            | Self::Single { uid, gid }
            | Self::Host { uid, gid } => (uid, gid),
        }
    }

    /// The host ids of ordinary execs.
    #[must_use]
    pub fn exec(&self) -> (u32, u32) {
        match *self {
            Self::Private { base } => (base + EXEC_ID, base + EXEC_ID),
            Self::Subordinate { uid_start, gid_start, .. } => {
                (uid_start + EXEC_ID - 1, gid_start + EXEC_ID - 1)
            }
            Self::Single { uid, gid } | Self::Host { uid, gid } => (uid, gid),
        }
    }

    /// The ids that the supervisor has inside.
    #[must_use]
    pub fn supervisor_inside(&self) -> u32 {
        match self {
            Self::Private { .. } | Self::Subordinate { .. } => 0,
            Self::Single { .. } => EXEC_ID,
            Self::Host { uid, .. } => *uid,
        }
    }

    /// Writes the maps of a process that was just born into a user namespace.
    ///
    /// # Errors
    /// The kernel or the helper program refused.
    pub fn write_maps(&self, pid: Pid) -> Result<(), StepError> {
        let process = format!("/proc/{}", pid.as_raw_nonzero());
        let write = |file: &str, text: String| {
            std::fs::write(format!("{process}/{file}"), &text)
                .step(|| format!("write {:?} to {file} of the cell", text.trim_end()))
        };
        match *self {
            // It is in the namespace that it was started from.
            Self::Host { .. } => Ok(()),
            Self::Private { base } => {
                write("uid_map", format!("0 {base} {RANGE}\n"))?;
                write("gid_map", format!("0 {base} {RANGE}\n"))
            }
            Self::Single { uid, gid } => {
                write("setgroups", "deny".to_owned())?;
                write("uid_map", format!("{EXEC_ID} {uid} 1\n"))?;
                write("gid_map", format!("{EXEC_ID} {gid} 1\n"))
            }
            Self::Subordinate { uid: 0, gid, uid_start, gid_start, count } => {
                write("uid_map", format!("0 0 1\n1 {uid_start} {count}\n"))?;
                write("gid_map", format!("0 {gid} 1\n1 {gid_start} {count}\n"))
            }
            Self::Subordinate { uid, gid, uid_start, gid_start, count } => {
                // Neither needs the other, and each takes as long as a small program.
                let uids = Helper::start("newuidmap", pid, uid, uid_start, count)?;
                let gids = Helper::start("newgidmap", pid, gid, gid_start, count);
                uids.finish().and(gids.and_then(Helper::finish))
            }
        }
    }
}

/// A program that writes a map on behalf of a user who may not.
struct Helper {
    child: Child,
    call: String,
}

impl Helper {
    #[expect(clippy::disallowed_methods, reason = "the jail starts the id-mapping programs")]
    fn start(program: &str, pid: Pid, own: u32, start: u32, count: u32) -> Result<Self, StepError> {
        let pid = pid.as_raw_nonzero().to_string();
        let numbers = ["0", &own.to_string(), "1", "1", &start.to_string(), &count.to_string()]
            .map(str::to_owned);
        let call = format!("{program} {}", numbers.join(" "));
        let path = find_helper(program).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        let child = path.and_then(|path| {
            let mut command = Command::new(path);
            command.arg(pid).args(&numbers).env_clear();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
        });
        let child = child.step(|| call.clone())?;
        Ok(Self { child, call })
    }

    fn finish(self) -> Result<(), StepError> {
        let Self { child, call } = self;
        let output = child.wait_with_output().step(|| call.clone())?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(words)).step(|| call)
    }
}

fn find_helper(program: &str) -> Option<std::path::PathBuf> {
    ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]
        .iter()
        .map(|directory| Path::new(directory).join(program))
        .find(|path| path.exists())
}

/// Writes the maps of a namespace in which the ids of one private range are those of another.
pub(crate) fn write_range_map(pid: Pid, from: u32, to: u32) -> Result<(), StepError> {
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
        std::fs::write(&path, format!("{from} {to} {RANGE}\n")).step(|| format!("write {path}"))?;
    }
    Ok(())
}

/// Writes the maps of a namespace in which a user of the host is the one of ordinary execs, and no
/// other user is anybody: what is root's stays out of reach of the cell's root. Groups give nobody
/// anything that is not in them, and files of the user may have any.
pub(crate) fn write_host_map(pid: Pid, base: u32, uid: u32, gid: u32) -> Result<(), StepError> {
    let user = format!("{uid} {} 1\n", base + EXEC_ID);
    for (file, lines) in [("uid_map", user), ("gid_map", group_lines(base, gid))] {
        let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
        std::fs::write(&path, lines).step(|| format!("write {path}"))?;
    }
    Ok(())
}

/// This group and the exec's change places, every other one keeps its own.
fn group_lines(base: u32, owner: u32) -> String {
    let mut lines = format!("{owner} {} 1\n", base + EXEC_ID);
    let mut next = 0;
    let mut apart = [EXEC_ID, owner];
    apart.sort_unstable();
    for id in apart.into_iter().chain([RANGE]) {
        let end = id.min(RANGE);
        if next < end {
            lines.push_str(&format!("{next} {} {}\n", base + next, end - next));
        }
        next = end.saturating_add(1).max(next);
    }
    if owner != EXEC_ID && owner < RANGE {
        lines.push_str(&format!("{EXEC_ID} {} 1\n", base + owner));
    }
    lines
}

/// Looks at who this process is.
#[must_use]
pub fn starter() -> Starter {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    if uid == 0 && maps_everything("/proc/self/uid_map") && maps_everything("/proc/self/gid_map") {
        return root_of_everything(gid);
    }
    match subordinate(uid, gid) {
        Ok(layout) => Starter::User { layout, without_subordinates: None },
        Err(reason) => Starter::User {
            layout: IdLayout::Single { uid, gid },
            without_subordinates: Some(reason),
        },
    }
}

/// Root of all ids. In a container it may have lost the power to mount and still be able to give
/// ids away. One that can do neither is refused later on rather than given cells whose single id is
/// the host's root.
fn root_of_everything(gid: u32) -> Starter {
    let gives_ids = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::SETFCAP;
    match rustix::thread::capabilities(None).map(|sets| sets.effective) {
        Ok(has) if !has.contains(CapabilitySet::SYS_ADMIN) && has.contains(gives_ids) => {
            let (uid_start, gid_start) = (SUBORDINATE_TO_ROOT, SUBORDINATE_TO_ROOT);
            let count = RANGE - 1;
            let layout = IdLayout::Subordinate { uid: 0, gid, uid_start, gid_start, count };
            Starter::User { layout, without_subordinates: None }
        }
        Ok(_) | Err(_) => Starter::Root,
    }
}

/// Whether an id map is that of the machine itself and not of some container.
fn maps_everything(map: &str) -> bool {
    std::fs::read_to_string(map)
        .is_ok_and(|text| text.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

fn subordinate(uid: u32, gid: u32) -> Result<IdLayout, String> {
    for helper in ["newuidmap", "newgidmap"] {
        if find_helper(helper).is_none() {
            return Err(format!("the program {helper} is not installed"));
        }
    }
    let name = user_name(uid);
    let (uid_start, uids) = range("/etc/subuid", uid, name.as_deref())?;
    let (gid_start, gids) = range("/etc/subgid", uid, name.as_deref())?;
    let count = uids.min(gids).min(RANGE - 1);
    if count <= EXEC_ID {
        return Err(format!("only {count} subordinate ids are given to user {uid}"));
    }
    Ok(IdLayout::Subordinate { uid, gid, uid_start, gid_start, count })
}

fn user_name(uid: u32) -> Option<String> {
    // A static binary has no name service: the file is all there is.
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

fn range(file: &str, uid: u32, name: Option<&str>) -> Result<(u32, u32), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    text.lines()
        .filter_map(|line| {
            let mut fields = line.trim().split(':');
            let owner = fields.next()?;
            let start = fields.next()?.parse().ok()?;
            let count = fields.next()?.parse().ok()?;
            (Some(owner) == name || owner.parse() == Ok(uid)).then_some((start, count))
        })
        .max_by_key(|(_, count)| *count)
        .ok_or_else(|| format!("{file} has no line for user {uid}"))
}
