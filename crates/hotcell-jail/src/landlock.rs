//! What of the file system a process of a cell reaches, whatever way it came by a descriptor, and
//! whom it may signal.
//!
//! Where a cell has no root of its own, these rules are all that keeps its programs from the host's
//! files, and what they may use is named part by part.
//!
//! Landlock grants downwards: whatever is granted at `/` holds below it. So these rules keep a
//! process within the root of its cell, without devices of its own making; that `/proc` and `/sys` are
//! written to nowhere else than a program must, their mounts see to.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::direct::call;
use crate::surroundings::{ContainerParts, HostParts, Surroundings};
use crate::{Step, StepError};

const CREATE_RULESET_VERSION: usize = 1;
const RULE_PATH_BENEATH: usize = 1;

/// The rights of version 1: thirteen of them.
const FIRST_RIGHTS: u64 = (1 << 13) - 1;
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const MAKE_CHARACTER_DEVICE: u64 = 1 << 6;
const MAKE_SOCKET: u64 = 1 << 9;
const MAKE_BLOCK_DEVICE: u64 = 1 << 11;
const MAKE_DEVICES: u64 = MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE;
/// Renaming from one directory to another, since version 2.
const REFER: u64 = 1 << 13;
/// Since version 3.
const TRUNCATE: u64 = 1 << 14;
/// Since version 5.
const DEVICE_IOCTL: u64 = 1 << 15;
/// Binding and connecting TCP sockets, since version 4.
const TCP: u64 = 0b11;
/// Abstract unix sockets and signals, since version 6.
const SCOPES: u64 = 0b11;
/// Without it no file could be renamed from one directory to another.
const OLDEST: u32 = 2;
const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_IOCTL;
const SCOPES_SINCE: u32 = 6;

/// What Landlock does for a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Landlock {
    /// It keeps it within the root of its cell.
    Applied {
        /// The kernel's version of Landlock.
        abi: u32,
        /// Whether it also keeps signals and abstract unix sockets within the cell.
        scopes: bool,
    },
    /// Nothing.
    Absent {
        /// Why.
        reason: String,
    },
}

impl Landlock {
    /// What it will do on this machine.
    #[must_use]
    pub fn expected() -> Self {
        match abi() {
            Ok(abi) if abi >= OLDEST => Self::Applied { abi, scopes: abi >= SCOPES_SINCE },
            Ok(abi) => Self::Absent {
                reason: format!(
                    "the kernel has Landlock ABI {abi}, under which no file can be renamed from one \
                     directory to another"
                ),
            },
            Err(Errno::NOSYS) => Self::Absent { reason: "the kernel has no Landlock".to_owned() },
            Err(Errno::OPNOTSUPP) => {
                Self::Absent { reason: "Landlock is turned off in the kernel".to_owned() }
            }
            Err(errno) => Self::Absent { reason: format!("Landlock cannot be used: {errno}") },
        }
    }

    /// The version, where it can be all that stands between programs and the host.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn abi_that_stands_alone(&self) -> Result<u32, String> {
        match self {
            Self::Applied { abi, scopes: true } => Ok(*abi),
            Self::Applied { abi, scopes: false } => Err(format!(
                "the kernel has Landlock ABI {abi}, under which programs can signal every process \
                 of their user; {SCOPES_SINCE} is needed"
            )),
            Self::Absent { reason } => Err(reason.clone()),
        }
    }
}

/// The kernel's version of Landlock.
fn abi() -> Result<u32, Errno> {
    // SAFETY: without attributes and with this flag the call only returns a number.
    let version =
        unsafe { call(libc::SYS_landlock_create_ruleset, [0, 0, CREATE_RULESET_VERSION, 0]) }?;
    u32::try_from(version).map_err(|_| Errno::OVERFLOW)
}

/// The rights to files that a version knows.
fn known(abi: u32) -> u64 {
    let mut rights = FIRST_RIGHTS | REFER;
    if abi >= 3 {
        rights |= TRUNCATE;
    }
    if abi >= 5 {
        rights |= DEVICE_IOCTL;
    }
    rights
}

/// Rules about the root that this process sees now. They hang on what is there, not on its names: another
/// root needs rules of its own.
#[derive(Debug)]
pub(crate) struct Rules(OwnedFd);

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct Handled {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    granted: u64,
    directory: i32,
}

impl Rules {
    /// Rules for programs in these surroundings, and what they do. Without Landlock there are none
    /// where the root is the cell's own; among the host's files nothing is started then.
    pub(crate) fn within(
        surroundings: &Surroundings,
    ) -> Result<(Option<Self>, Landlock), StepError> {
        let expected = Landlock::expected();
        let rules = match (&expected, surroundings) {
            (Landlock::Applied { abi, .. }, Surroundings::Cell(_)) => Some(Self::of_root(*abi)?),
            (Landlock::Applied { abi, .. }, Surroundings::Container(parts)) => {
                Some(Self::of_container(*abi, parts)?)
            }
            (Landlock::Absent { .. }, Surroundings::Cell(_) | Surroundings::Container(_)) => None,
            (_, Surroundings::Host(parts)) => {
                let abi = expected.abi_that_stands_alone().map_err(io::Error::other);
                let abi =
                    abi.step(|| "keep programs from the host by Landlock alone".to_owned())?;
                Some(Self::of_parts(abi, parts)?)
            }
        };
        Ok((rules, expected))
    }

    fn of_root(abi: u32) -> Result<Self, StepError> {
        let files = known(abi);
        let rules = Self::handling(abi, files, 0)?;
        let everywhere = files & !(MAKE_DEVICES | DEVICE_IOCTL);
        rules.grant(Path::new("/"), everywhere)?;
        if files & DEVICE_IOCTL != 0 {
            rules.grant(Path::new("/dev"), DEVICE_IOCTL)?;
        }
        Ok(rules)
    }

    /// All of a container's root but what is hidden in it. Names are granted at the root itself, and
    /// with that below everything: only contents can be hidden.
    fn of_container(abi: u32, parts: &ContainerParts) -> Result<Self, StepError> {
        let files = known(abi);
        let rules = Self::handling(abi, files, 0)?;
        let everything = files & !(MAKE_DEVICES | DEVICE_IOCTL);
        let devices = Path::new("/dev");
        let named = parts.readable.iter().chain(&parts.runnable).chain([&parts.hidden]);
        let apart: Vec<&Path> = named.map(PathBuf::as_path).chain([devices]).collect();
        rules.grant(Path::new("/"), READ_DIRECTORY)?;
        rules.grant_each_in(Path::new("/"), &apart, everything)?;
        rules.grant_each_in(devices, &apart, files & !MAKE_DEVICES)?;
        for path in &parts.readable {
            rules.grant(path, READ_FILE | READ_DIRECTORY)?;
        }
        for path in &parts.runnable {
            rules.grant(path, EXECUTE | READ_FILE | READ_DIRECTORY)?;
        }
        Ok(rules)
    }

    /// Grants rights to whatever is in a directory now, but for these. A link is nothing by itself, and
    /// where it leads is granted there or not at all.
    fn grant_each_in(&self, directory: &Path, but: &[&Path], rights: u64) -> Result<(), StepError> {
        let name = || format!("look into {}", directory.display());
        for entry in std::fs::read_dir(directory).step(name)? {
            let entry = entry.step(name)?;
            let path = entry.path();
            if !but.contains(&path.as_path()) && !entry.file_type().step(name)?.is_symlink() {
                self.grant(&path, rights)?;
            }
        }
        Ok(())
    }

    fn of_parts(abi: u32, parts: &HostParts) -> Result<Self, StepError> {
        let files = known(abi);
        let rules = Self::handling(abi, files, TCP)?;
        let own = files & !(MAKE_DEVICES | MAKE_SOCKET | DEVICE_IOCTL);
        let granted = [
            (&parts.programs, EXECUTE | READ_FILE | READ_DIRECTORY),
            (&parts.readable, READ_FILE | READ_DIRECTORY),
            (&parts.devices, READ_FILE | WRITE_FILE | TRUNCATE | DEVICE_IOCTL),
            (&parts.own, own),
        ];
        for (paths, rights) in granted {
            for path in paths {
                rules.grant(path, rights)?;
            }
        }
        Ok(rules)
    }

    /// Rules for the process that serves files: it runs nothing, and writes nowhere but in its root.
    /// What it reads it opened itself, from its root down; with rules about that, each of the thousand
    /// files of a search would cost a walk back up.
    /// Among files that are not all the cell's it has those of programs.
    pub(crate) fn for_files(surroundings: &Surroundings) -> Result<Option<Self>, StepError> {
        match surroundings {
            Surroundings::Host(_) | Surroundings::Container(_) => {
                return Ok(Self::within(surroundings)?.0);
            }
            Surroundings::Cell(_) => {}
        }
        let Landlock::Applied { abi, .. } = Landlock::expected() else { return Ok(None) };
        // Any open file can be one that is truncated later, so that right is asked for at each.
        let free = READ_FILE | READ_DIRECTORY | TRUNCATE | DEVICE_IOCTL;
        let written = known(abi) & !free;
        let rules = Self::handling(abi, written, 0)?;
        rules.grant(Path::new("/"), written & !(MAKE_DEVICES | EXECUTE))?;
        Ok(Some(rules))
    }

    /// Rules about these rights to files, of which they grant none yet.
    fn handling(abi: u32, files: u64, network: u64) -> Result<Self, StepError> {
        let scopes = if abi >= SCOPES_SINCE { SCOPES } else { 0 };
        let handled = Handled { files, network, scopes };
        // An older kernel knows less of it; what it does not know is zero.
        let size = std::mem::size_of::<Handled>();
        let attributes = [&raw const handled as usize, size, 0, 0];
        // SAFETY: the kernel reads `size` bytes, which are there.
        let created = unsafe { call(libc::SYS_landlock_create_ruleset, attributes) };
        let created = created.step(|| format!("make rules of Landlock ABI {abi}"))?;
        let number = i32::try_from(created).map_err(io::Error::other);
        let number = number.step(|| "make rules of Landlock".to_owned())?;
        // SAFETY: a new descriptor, which nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// What is not there needs no right, and of a file only those that files have.
    fn grant(&self, path: &Path, rights: u64) -> Result<(), StepError> {
        let name = || format!("let programs use {} by Landlock", path.display());
        let opened = match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened.step(name)?,
        };
        let kind = FileType::from_raw_mode(fstat(&opened).step(name)?.st_mode);
        let granted = if kind == FileType::Directory { rights } else { rights & OF_A_FILE };
        let beneath = Beneath { granted, directory: opened.as_raw_fd() };
        let arguments =
            [self.0.as_raw_fd() as usize, RULE_PATH_BENEATH, &raw const beneath as usize, 0];
        // SAFETY: the kernel reads the rule, which is valid for the call.
        unsafe { call(libc::SYS_landlock_add_rule, arguments) }.map(|_| ()).step(name)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }
}

/// Puts rules on this thread, for good; what it starts inherits them. Calls the kernel directly, so
/// that a process may do it that shares another's memory.
pub(crate) fn restrict_self(rules: BorrowedFd<'_>) -> Result<(), Errno> {
    let arguments = [rules.as_raw_fd() as usize, 0, 0, 0];
    // SAFETY: takes a descriptor and no flags.
    unsafe { call(libc::SYS_landlock_restrict_self, arguments) }.map(|_| ())
}
