//! Code as an exec: what it is started with, and what it reports.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hotcell_journal::{MAX_REPORT_BYTES, write_report};
use hotcell_link::CONTAINER_PROGRAM;
use hotcell_masking::{Masker, Masks};
use hotcell_model::{Code, ExecId, ExecSpec};
use hotcell_runner::{Limits, Order};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// The supervisor's ends of what code is given.
#[derive(Debug)]
pub(crate) struct CodeEnds {
    /// Where its calls of tools come from, until somebody carries them.
    pub(crate) calls: Option<OwnedFd>,
    /// Where it writes what it reports. A file in memory, so that nobody has to read while it writes.
    report: OwnedFd,
}

/// The code's own ends.
#[derive(Debug)]
pub(crate) struct TheirCode {
    pub(crate) calls: OwnedFd,
    pub(crate) report: OwnedFd,
    pub(crate) order: OwnedFd,
    /// Where it is told of the next run, if it starts afresh for a session.
    pub(crate) turns: Option<OwnedFd>,
    /// The program that reads it, if it is a script; no session has both.
    pub(crate) reader: Option<OwnedFd>,
}

impl TheirCode {
    /// In the order in which code that is started afresh has them, from 3 on.
    pub(crate) fn with<'a>(&'a self, source: &'a OwnedFd) -> Vec<BorrowedFd<'a>> {
        let always = [&self.calls, &self.report, &self.order, source];
        always.into_iter().chain(&self.turns).chain(&self.reader).map(AsFd::as_fd).collect()
    }
}

/// Both ends, for code that is about to be started. The variables are told where it does not start
/// with them, and its calls may be carried already.
pub(crate) fn wire_code(
    spec: &ExecSpec,
    code: &Code,
    env: Option<BTreeMap<String, String>>,
    carried: Option<&OwnedFd>,
) -> io::Result<(CodeEnds, TheirCode)> {
    let (ours, calls) = match carried {
        Some(calls) => (None, calls.try_clone()?),
        None => {
            let (ours, calls) = calls_pair()?;
            (Some(ours), calls)
        }
    };
    let report = memfd_create("report", MemfdFlags::CLOEXEC)?;
    let results = format!("/workspace/.results/{}", spec.id);
    let order = Order {
        run: spec.id.to_string(),
        code: code.text.clone(),
        env,
        results,
        // Masks may be longer than what they cover.
        session: code.session.is_some(),
        limits: Limits {
            report_bytes: (MAX_REPORT_BYTES / 2) as u32,
            // Where nobody can count for all processes together, it is all there is.
            // A process that waits between runs would be ended for all of them.
            cpu_seconds: spec
                .code
                .cpu_ms
                .filter(|_| code.session.is_none())
                .map(|time| time.div_ceil(1000)),
            memory_bytes: spec.code.memory_mb.map(|mb| mb.saturating_mul(1 << 20)),
        },
    };
    let order = sealed("order", &serde_json::to_vec(&order)?)?;
    let theirs = TheirCode { calls, report: report.try_clone()?, order, turns: None, reader: None };
    Ok((CodeEnds { calls: ours, report }, theirs))
}

/// The two ends of the calls of code, the supervisor's first.
pub(crate) fn calls_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// A file in memory that nobody can change any more.
pub(crate) fn sealed(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < content.len() {
        written += rustix::io::pwrite(&file, &content[written..], written as u64)?;
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// A copy of this program that nobody in the cell can change. The file itself may belong to the user
/// who made the cell, and to somebody in it as well.
pub(crate) fn sealed_program(program: &OwnedFd) -> io::Result<OwnedFd> {
    let file = program_file()?;
    let mut at = 0;
    while rustix::fs::sendfile(&file, program, Some(&mut at), 1 << 30)? > 0 {}
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// The program of the container, which nobody in it can change.
pub(crate) fn own_program() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(CONTAINER_PROGRAM, flags, Mode::empty())?)
}

/// A file in memory that may be run. Kernels before 6.3 do not know that one may have to say so.
fn program_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("hotcell", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => Ok(memfd_create("hotcell", flags)?),
        made => Ok(made?),
    }
}

impl CodeEnds {
    /// Writes down what the code reported, if it did; called once it is gone.
    pub(crate) fn keep_report(&self, records: BorrowedFd<'_>, exec: &ExecId, masks: &Masks) {
        let Some(report) = self.read_report() else { return };
        let report = if masks.is_empty() {
            report
        } else {
            let mut masker = Masker::default();
            let mut masked = masker.take(masks, &report);
            masked.extend(masker.release(masks));
            masked
        };
        // Without it the exec still has its output and its end.
        let _ = write_report(records, exec, &report);
    }

    fn read_report(&self) -> Option<Vec<u8>> {
        let length = usize::try_from(rustix::fs::fstat(&self.report).ok()?.st_size).ok()?;
        if length == 0 || length > MAX_REPORT_BYTES {
            return None;
        }
        let mut report = vec![0; length];
        let mut read = 0;
        while read < length {
            match rustix::io::pread(&self.report, &mut report[read..], read as u64) {
                Ok(0) | Err(_) => return None,
                Ok(more) => read += more,
            }
        }
        Some(report)
    }
}
