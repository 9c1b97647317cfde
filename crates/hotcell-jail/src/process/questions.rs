//! Calls that change the mode or the times of a file, made by the supervisor for programs that share
//! the host's root.
//!
//! The kernel has no rule by which such a call could be kept to some directories, and a filter does
//! not see paths. So the filter asks here: the path is read once, the file is opened without
//! touching it, and only if that lies in a directory of the cell is the change made, on the file that
//! was opened and looked at. Whatever the program does to its memory or to the path meanwhile changes
//! nothing.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, chmodat, fstat, open,
    openat2, readlinkat, utimensat,
};
use rustix::io::Errno;

use crate::direct::call;

const RECEIVE: usize = 0xc050_2100;
const SEND: usize = 0xc018_2101;
const STILL_ASKED: usize = 0x4008_2102;

/// The longest path that the kernel takes, with its end.
const PATH_BYTES: usize = 4096;
const PAGE_BYTES: usize = 4096;
const SET_IDS: u32 = libc::S_ISUID | libc::S_ISGID;
const NOW: i64 = libc::UTIME_NOW;

/// Where the filter's questions come in.
#[derive(Debug)]
pub struct Questions {
    listener: OwnedFd,
    own: Vec<PathBuf>,
}

/// What a program wants changed, as it said it.
struct Wish {
    /// The directory that a path is relative to, or the file itself.
    directory: i32,
    /// None where the descriptor is the file.
    path: Option<u64>,
    flags: u32,
    change: Change,
}

enum Change {
    Mode(u32),
    /// Where the times lie in its memory; null for now.
    Times(u64),
}

impl Questions {
    /// Those that come in at a descriptor which the kernel has just made, about files in `own`.
    ///
    /// # Safety
    /// Nobody else owns the descriptor.
    pub(super) unsafe fn at(listener: i32, own: Vec<PathBuf>) -> Self {
        // SAFETY: as the caller says.
        Self { listener: unsafe { OwnedFd::from_raw_fd(listener) }, own }
    }

    /// Answers the question that has come in. One that nobody waits for any more is passed over.
    pub fn answer_one(&self) {
        // SAFETY: all zeros are a valid value, and what the kernel wants to find.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        let arguments = [self.fd(), RECEIVE, &raw mut asked as usize, 0];
        // SAFETY: the kernel writes one such structure.
        if unsafe { call(libc::SYS_ioctl, arguments) }.is_err() {
            return;
        }
        let error = match self.carry_out(&asked) {
            Ok(()) => 0,
            Err(errno) => -errno.raw_os_error(),
        };
        let answer = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags: 0 };
        let arguments = [self.fd(), SEND, &raw const answer as usize, 0];
        // SAFETY: the kernel reads one such structure. Whoever asked may be gone.
        let _ = unsafe { call(libc::SYS_ioctl, arguments) };
    }

    fn fd(&self) -> usize {
        self.listener.as_raw_fd().cast_unsigned() as usize
    }

    fn carry_out(&self, asked: &libc::seccomp_notif) -> Result<(), Errno> {
        let wish = Wish::read(&asked.data).ok_or(Errno::NOSYS)?;
        let process = asked.pid;
        let path = wish.path.map(|address| read_path(process, address)).transpose()?;
        let times = match wish.change {
            Change::Times(address) if address != 0 => Some(read_times(process, address)?),
            Change::Times(_) | Change::Mode(_) => None,
        };
        let file = wish.open(process, path.as_deref())?;
        // Until here the number could have become another process's.
        if !self.is_still_asked(asked.id) {
            return Err(Errno::SRCH);
        }
        if !self.is_own(file.as_fd())? {
            return Err(Errno::PERM);
        }
        match wish.change {
            Change::Mode(mode) => set_mode(file.as_fd(), mode),
            Change::Times(_) => {
                let times = times.unwrap_or(Timestamps {
                    last_access: Timespec { tv_sec: 0, tv_nsec: NOW },
                    last_modification: Timespec { tv_sec: 0, tv_nsec: NOW },
                });
                utimensat(&file, c"", &times, AtFlags::EMPTY_PATH)
            }
        }
    }

    fn is_still_asked(&self, id: u64) -> bool {
        let arguments = [self.fd(), STILL_ASKED, &raw const id as usize, 0];
        // SAFETY: the kernel reads one number.
        unsafe { call(libc::SYS_ioctl, arguments) }.is_ok()
    }

    /// Whether a file lies in a directory of the cell. Nothing gets there from outside, nor out.
    fn is_own(&self, file: BorrowedFd<'_>) -> Result<bool, Errno> {
        use std::os::unix::ffi::OsStrExt;
        let found = readlinkat(CWD, name_of(file), Vec::new())?;
        let found = Path::new(std::ffi::OsStr::from_bytes(found.as_bytes()));
        Ok(self.own.iter().any(|directory| found.starts_with(directory)))
    }
}

impl AsFd for Questions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Wish {
    fn read(data: &libc::seccomp_data) -> Option<Self> {
        let [first, second, third, fourth, ..] = data.args;
        let file = |argument: u64| low(argument).cast_signed();
        let number = i64::from(data.nr);
        #[cfg(target_arch = "x86_64")]
        if number == libc::SYS_chmod {
            let change = Change::Mode(low(second));
            return Some(Self { directory: libc::AT_FDCWD, path: Some(first), flags: 0, change });
        }
        match number {
            libc::SYS_fchmod => {
                let change = Change::Mode(low(second));
                Some(Self { directory: file(first), path: None, flags: 0, change })
            }
            libc::SYS_fchmodat | libc::SYS_fchmodat2 => {
                let flags = if number == libc::SYS_fchmodat { 0 } else { low(fourth) };
                let change = Change::Mode(low(third));
                Some(Self { directory: file(first), path: Some(second), flags, change })
            }
            libc::SYS_utimensat => {
                let path = (second != 0).then_some(second);
                let change = Change::Times(third);
                Some(Self { directory: file(first), path, flags: low(fourth), change })
            }
            _ => None,
        }
    }

    /// Opens the file without touching it.
    fn open(&self, process: u32, path: Option<&CStr>) -> Result<OwnedFd, Errno> {
        let held = OFlags::PATH | OFlags::CLOEXEC;
        let base = match self.directory {
            libc::AT_FDCWD => format!("/proc/{process}/cwd"),
            number if number >= 0 => format!("/proc/{process}/fd/{number}"),
            _ => return Err(Errno::BADF),
        };
        let base = || match open(&base, held, Mode::empty()) {
            Err(Errno::NOENT) => Err(Errno::BADF),
            opened => opened,
        };
        let path = match path {
            None => return base(),
            Some(path) if path.is_empty() && has(self.flags, libc::AT_EMPTY_PATH) => return base(),
            Some(path) if path.is_empty() => return Err(Errno::NOENT),
            Some(path) => path,
        };
        let links = if has(self.flags, libc::AT_SYMLINK_NOFOLLOW) {
            OFlags::NOFOLLOW
        } else {
            OFlags::empty()
        };
        // A link of /proc would lead to what this process has open.
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let flags = held | links;
        if path.to_bytes().starts_with(b"/") {
            openat2(CWD, path, flags, Mode::empty(), resolve)
        } else {
            openat2(base()?, path, flags, Mode::empty(), resolve)
        }
    }
}

/// The kernel takes these arguments as 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the kernel does the same")]
fn low(argument: u64) -> u32 {
    argument as u32
}

fn has(flags: u32, flag: i32) -> bool {
    flags & flag.cast_unsigned() != 0
}

/// The file belongs to the user who runs hotcell: nobody else may run it with that user's rights.
fn set_mode(file: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    let kind = FileType::from_raw_mode(fstat(file)?.st_mode);
    let mode = match kind {
        FileType::Symlink => return Err(Errno::OPNOTSUPP),
        _ if mode & SET_IDS != 0 => return Err(Errno::PERM),
        // What its owner cannot look into can be neither counted nor removed.
        FileType::Directory => (mode & 0o1777) | 0o700,
        FileType::RegularFile
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => mode & 0o1777,
    };
    chmodat(CWD, name_of(file), Mode::from_raw_mode(mode), AtFlags::empty())
}

fn name_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn read_path(process: u32, address: u64) -> Result<CString, Errno> {
    let mut path = Vec::with_capacity(256);
    let mut at = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    while path.len() < PATH_BYTES {
        // What follows on another page may not be there.
        let wanted = (PAGE_BYTES - at % PAGE_BYTES).min(PATH_BYTES - path.len());
        let mut part = vec![0; wanted];
        read_memory(process, at, &mut part)?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            path.extend_from_slice(&part[..end]);
            return CString::new(path).map_err(|_| Errno::INVAL);
        }
        path.extend_from_slice(&part);
        at = at.wrapping_add(wanted);
    }
    Err(Errno::NAMETOOLONG)
}

fn read_times(process: u32, address: u64) -> Result<Timestamps, Errno> {
    let mut bytes = [0; 32];
    read_memory(process, usize::try_from(address).map_err(|_| Errno::FAULT)?, &mut bytes)?;
    let number = |at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[at..at + 8]);
        i64::from_le_bytes(eight)
    };
    let time = |at: usize| Timespec { tv_sec: number(at), tv_nsec: number(at + 8) };
    Ok(Timestamps { last_access: time(0), last_modification: time(16) })
}

/// Reads all of it or nothing.
fn read_memory(process: u32, address: usize, into: &mut [u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address),
        iov_len: into.len(),
    };
    let process = process.cast_signed();
    // SAFETY: writes into `into` alone, and reads what the kernel finds at the address in the
    // other process.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(read) {
        Ok(length) if length == into.len() => Ok(()),
        Ok(_) | Err(_) => Err(Errno::FAULT),
    }
}
