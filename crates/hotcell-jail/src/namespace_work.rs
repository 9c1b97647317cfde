//! Work on files whose owners exist only in a cell's user namespace.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Gid, Pid, Uid, WaitOptions, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::ids::IdLayout;
use crate::{Forked, Namespaces, Step, StepError, fork, fork_into_namespaces};

/// Whose eyes to look with.
#[derive(Debug, Clone, Copy)]
pub enum Namespace<'a> {
    /// The user namespace that this process is in.
    Own,
    /// This one.
    Held(BorrowedFd<'a>),
    /// A new one with this layout.
    New(&'a IdLayout),
}

/// Does some work in a user namespace, as the most powerful user there, in a child unless it is
/// the own one. The number that the work comes to is passed back.
///
/// # Errors
/// The namespace could not be entered, or the work failed.
pub fn work_in(
    namespace: Namespace<'_>,
    work: impl FnOnce() -> io::Result<u64>,
) -> Result<u64, StepError> {
    let name = || "work on a cell's files".to_owned();
    if let Namespace::Own = namespace {
        return work().step(name);
    }
    let (mut ours, mut theirs) = UnixStream::pair().step(name)?;
    let forked = match namespace {
        Namespace::Own | Namespace::Held(_) => fork(),
        Namespace::New(_) => fork_into_namespaces(Namespaces::USER, None),
    };
    match forked.step(name)? {
        Forked::Child => {
            drop(ours);
            let outcome = work_as_child(namespace, &mut theirs, work);
            let line = match outcome {
                Ok(number) => format!("{number}"),
                Err(error) => format!("error: {error}"),
            };
            // A parent that is gone needs no answer.
            let _ = theirs.write_all(line.as_bytes());
            // SAFETY: _exit ends this process without running anything of the parent's.
            unsafe { libc::_exit(0) }
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let answer = finish_as_parent(namespace, &mut ours, pid);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            answer
        }
    }
}

fn work_as_child(
    namespace: Namespace<'_>,
    parent: &mut UnixStream,
    work: impl FnOnce() -> io::Result<u64>,
) -> io::Result<u64> {
    match namespace {
        Namespace::Own => {}
        Namespace::Held(handle) => {
            move_into_link_name_space(handle, Some(LinkNameSpaceType::User))?;
        }
        // The parent writes the maps.
        Namespace::New(_) => parent.read_exact(&mut [0])?,
    }
    let (uid, gid) = (Uid::ROOT, Gid::ROOT);
    // With a single id there is no 0, and the capabilities alone are enough.
    let _ = rustix::thread::set_thread_res_gid(gid, gid, gid);
    let _ = rustix::thread::set_thread_res_uid(uid, uid, uid);
    work()
}

fn finish_as_parent(
    namespace: Namespace<'_>,
    child: &mut UnixStream,
    pid: Pid,
) -> Result<u64, StepError> {
    let name = || "work on a cell's files".to_owned();
    if let Namespace::New(layout) = namespace {
        layout.write_maps(pid)?;
        child.write_all(b"g").step(name)?;
    }
    let mut answer = String::new();
    child.read_to_string(&mut answer).step(name)?;
    answer.parse().map_err(|_| io::Error::other(answer)).step(name)
}

/// The user namespace of a live process that does not hide itself yet.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn user_namespace_of(pid: Pid) -> Result<OwnedFd, StepError> {
    let path = format!("/proc/{}/ns/user", pid.as_raw_nonzero());
    std::fs::File::open(&path).map(OwnedFd::from).step(|| format!("open {path}"))
}

/// A new user namespace with this layout.
///
/// # Errors
/// The namespace could not be made.
pub fn new_user_namespace(layout: &IdLayout) -> Result<OwnedFd, StepError> {
    let name = || "make a user namespace".to_owned();
    let (ours, mut theirs) = UnixStream::pair().step(name)?;
    match fork_into_namespaces(Namespaces::USER, None).step(name)? {
        Forked::Child => {
            drop(ours);
            // Until the parent has what it wants, or is gone.
            let _ = theirs.read(&mut [0]);
            // SAFETY: _exit ends this process without running anything of the parent's.
            unsafe { libc::_exit(0) }
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let made = layout.write_maps(pid).and_then(|()| user_namespace_of(pid));
            drop(ours);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            made
        }
    }
}
