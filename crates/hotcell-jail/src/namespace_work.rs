//! Work on files whose owners exist only in a cell's user namespace.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::str::FromStr;

use rustix::process::{Gid, Pid, Uid, WaitOptions, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::ids::{IdLayout, write_host_map, write_range_map};
use crate::process::end_now;
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
/// the own one. What the work comes to is passed back as text.
///
/// # Errors
/// The namespace could not be entered, or the work failed.
pub fn work_in<T: Display + FromStr>(
    namespace: Namespace<'_>,
    work: impl FnOnce() -> io::Result<T>,
) -> Result<T, StepError> {
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
                Ok(found) => format!("{found}"),
                Err(error) => format!("error: {error}"),
            };
            // A parent that is gone needs no answer.
            let _ = theirs.write_all(line.as_bytes());
            end_now(0)
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let answer = finish_as_parent(namespace, &mut ours, pid);
            // A child that never got its maps waits for them until this end is gone.
            drop(ours);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            answer
        }
    }
}

fn work_as_child<T>(
    namespace: Namespace<'_>,
    parent: &mut UnixStream,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match namespace {
        Namespace::Own => {}
        Namespace::Held(handle) => {
            move_into_link_name_space(handle, Some(LinkNameSpaceType::User))?;
        }
        // The parent writes the maps.
        Namespace::New(_) => parent.read_exact(&mut [0])?,
    }
    become_root();
    work()
}

fn finish_as_parent<T: FromStr>(
    namespace: Namespace<'_>,
    child: &mut UnixStream,
    pid: Pid,
) -> Result<T, StepError> {
    let name = || "work on a cell's files".to_owned();
    if let Namespace::New(layout) = namespace {
        layout.write_maps(pid)?;
        child.write_all(b"g").step(name)?;
    }
    let mut answer = String::new();
    child.read_to_string(&mut answer).step(name)?;
    answer.parse().map_err(|_| io::Error::other(answer)).step(name)
}

/// Does some work in a process of its own, whose namespaces it may change at will. Nobody waits for
/// it to let go of what the work gave it.
pub(crate) fn in_process_of_its_own<T>(
    what: &str,
    work: impl FnOnce() -> Result<T, StepError>,
) -> Result<(), StepError> {
    const DONE: &str = "done";
    let name = || what.to_owned();
    let (mut ours, mut theirs) = UnixStream::pair().step(name)?;
    match fork().step(name)? {
        Forked::Child => {
            drop(ours);
            // Nobody has to collect the end of a process whose parent is gone.
            let done = match fork().step(name) {
                Ok(Forked::Child) => work(),
                Ok(Forked::Parent { .. }) => end_now(0),
                Err(error) => Err(error),
            };
            let answer = match &done {
                Ok(_) => DONE.to_owned(),
                Err(error) => error.to_string(),
            };
            let _ = theirs.write_all(answer.as_bytes());
            drop(theirs);
            drop(done);
            end_now(0)
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let mut answer = String::new();
            let read = ours.read_to_string(&mut answer);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            read.step(name)?;
            if answer == DONE { Ok(()) } else { Err(io::Error::other(answer)).step(name) }
        }
    }
}

/// Does some work in a child that sees the ids of a cell: root's own, or in a new namespace. What
/// the work says is passed back.
///
/// # Errors
/// The child could not be made, or the work failed.
pub fn child_with_ids(
    ids: &IdLayout,
    work: impl FnOnce() -> Result<Vec<u8>, StepError>,
) -> Result<Vec<u8>, StepError> {
    let layout = match ids {
        IdLayout::Private { .. } | IdLayout::Host { .. } => None,
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } => Some(ids),
    };
    let name = || "work on a cell's files".to_owned();
    let (mut ours, mut theirs) = UnixStream::pair().step(name)?;
    let forked = match layout {
        None => fork(),
        Some(_) => fork_into_namespaces(Namespaces::USER, None),
    };
    match forked.step(name)? {
        Forked::Child => {
            drop(ours);
            // The parent writes the maps first.
            let ready = layout.map_or(Ok(()), |_| theirs.read_exact(&mut [0]));
            if layout.is_some() {
                become_root();
            }
            tell(&mut theirs, ready.step(name).and_then(|()| work()));
            end_now(0)
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let mut answer = Vec::new();
            let told = layout.map_or(Ok(()), |layout| {
                layout.write_maps(pid)?;
                ours.write_all(b"g").step(name)
            });
            let read = told.and_then(|()| ours.read_to_end(&mut answer).step(name));
            drop(ours);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            read?;
            told_by(&answer).step(name)
        }
    }
}

/// Does some work in a child whose namespaces it may change at will. What the work says is passed
/// back.
pub(crate) fn in_child(
    what: &str,
    work: impl FnOnce() -> Result<Vec<u8>, StepError>,
) -> Result<Vec<u8>, StepError> {
    let name = || what.to_owned();
    let (mut ours, mut theirs) = UnixStream::pair().step(name)?;
    match fork().step(name)? {
        Forked::Child => {
            drop(ours);
            tell(&mut theirs, work());
            end_now(0)
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let mut answer = Vec::new();
            let read = ours.read_to_end(&mut answer);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            read.and_then(|_| told_by(&answer)).step(name)
        }
    }
}

/// What an answer begins with when the work was done.
const DONE: u8 = b'+';

/// Tells the parent what came of the work of a child; a parent that is gone needs no answer.
fn tell(parent: &mut UnixStream, done: Result<Vec<u8>, StepError>) {
    let answer = match done {
        Ok(said) => [&[DONE], said.as_slice()].concat(),
        Err(error) => error.to_string().into_bytes(),
    };
    let _ = parent.write_all(&answer);
}

/// What a child told.
fn told_by(answer: &[u8]) -> io::Result<Vec<u8>> {
    match answer.split_first() {
        Some((&DONE, said)) => Ok(said.to_vec()),
        Some(_) | None => Err(io::Error::other(String::from_utf8_lossy(answer).into_owned())),
    }
}

/// The most powerful user of a namespace; with a single id there is no 0, and the capabilities
/// alone are enough.
pub(crate) fn become_root() {
    let (uid, gid) = (Uid::ROOT, Gid::ROOT);
    let _ = rustix::thread::set_thread_res_gid(gid, gid, gid);
    let _ = rustix::thread::set_thread_res_uid(uid, uid, uid);
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
    new_mapped_namespace(|pid| layout.write_maps(pid))
}

/// A user namespace that shows the ids of one cell as those of another. Only root can make it.
pub(crate) fn range_map(from: u32, to: u32) -> Result<OwnedFd, StepError> {
    new_mapped_namespace(|pid| write_range_map(pid, from, to))
}

/// A user namespace that shows the host's ids in a private range, with this user and group as those
/// of ordinary execs. Only root can make it.
pub(crate) fn host_map(base: u32, uid: u32, gid: u32) -> Result<OwnedFd, StepError> {
    new_mapped_namespace(|pid| write_host_map(pid, base, uid, gid))
}

fn new_mapped_namespace(
    write_maps: impl FnOnce(Pid) -> Result<(), StepError>,
) -> Result<OwnedFd, StepError> {
    let name = || "make a user namespace".to_owned();
    let (ours, mut theirs) = UnixStream::pair().step(name)?;
    match fork_into_namespaces(Namespaces::USER, None).step(name)? {
        Forked::Child => {
            drop(ours);
            // Until the parent has what it wants, or is gone.
            let _ = theirs.read(&mut [0]);
            end_now(0)
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let made = write_maps(pid).and_then(|()| user_namespace_of(pid));
            drop(ours);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            made
        }
    }
}
