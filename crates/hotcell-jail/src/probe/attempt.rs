//! One attempt: a child in new namespaces that tries something and says how it went.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Gid, Pid, Uid, WaitOptions, waitpid};

use super::{Finding, Refusal};
use crate::ids::IdLayout;
use crate::{Forked, Namespaces, Step, StepError, fork_into_namespaces, receive_fds, send_fds};

/// Whether the child's user namespace gets ids.
#[derive(Debug, Clone, Copy)]
pub(super) enum Maps<'a> {
    None,
    Of(&'a IdLayout),
}

/// What is tried in a child, and what the host's side does for it first.
pub(super) struct Attempt<'a> {
    namespaces: Namespaces,
    maps: Maps<'a>,
    prepare: Box<dyn Fn(Pid) -> Result<Vec<OwnedFd>, StepError> + 'a>,
    work: Box<dyn Fn(Vec<OwnedFd>) -> Result<(), StepError> + 'a>,
}

impl<'a> Attempt<'a> {
    /// A child in these namespaces that does nothing there.
    pub(super) fn new(namespaces: Namespaces, maps: Maps<'a>) -> Self {
        Self { namespaces, maps, prepare: Box::new(|_| Ok(Vec::new())), work: Box::new(|_| Ok(())) }
    }

    /// Lets the host's side hand descriptors to the child.
    pub(super) fn prepare(
        mut self,
        prepare: impl Fn(Pid) -> Result<Vec<OwnedFd>, StepError> + 'a,
    ) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    /// Lets the child do something once its maps are written.
    pub(super) fn work(
        mut self,
        work: impl Fn(Vec<OwnedFd>) -> Result<(), StepError> + 'a,
    ) -> Self {
        self.work = Box::new(work);
        self
    }

    /// Tries it.
    pub(super) fn run(&self) -> Finding {
        match self.try_it() {
            Ok(finding) => finding,
            Err(error) => Finding::Refused(error.into()),
        }
    }

    fn try_it(&self) -> Result<Finding, StepError> {
        let (mut ours, mut theirs) = UnixStream::pair().step(|| "socketpair".to_owned())?;
        let forked = fork_into_namespaces(self.namespaces, None);
        match forked.step(|| "clone3".to_owned())? {
            Forked::Child => {
                drop(ours);
                let line = match self.be_child(&theirs) {
                    Ok(()) => WORKED.to_owned(),
                    Err(error) => encode(&error.into()),
                };
                // A parent that is gone needs no answer.
                let _ = theirs.write_all(line.as_bytes());
                // SAFETY: _exit ends this process without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            Forked::Parent { pid, .. } => {
                drop(theirs);
                let answer = self.be_parent(&mut ours, pid);
                // A child that still waits for its maps sees the end of the socket.
                drop(ours);
                let _ = waitpid(Some(pid), WaitOptions::empty());
                answer
            }
        }
    }

    fn be_parent(&self, child: &mut UnixStream, pid: Pid) -> Result<Finding, StepError> {
        if let Maps::Of(ids) = self.maps {
            ids.write_maps(pid)?;
        }
        let fds = (self.prepare)(pid)?;
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        send_fds(&*child, b"g", &fds).step(|| "start the attempt".to_owned())?;
        let mut answer = String::new();
        child.read_to_string(&mut answer).step(|| "hear of the attempt".to_owned())?;
        Ok(decode(&answer))
    }

    fn be_child(&self, parent: &UnixStream) -> Result<(), StepError> {
        let wait = || "wait for the start".to_owned();
        let (length, fds) = receive_fds(parent, &mut [0]).step(wait)?;
        if length == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof)).step(wait);
        }
        if let Maps::Of(ids) = self.maps {
            become_first(ids)?;
        }
        (self.work)(fds)
    }
}

/// Takes the ids of the cell's first process.
fn become_first(ids: &IdLayout) -> Result<(), StepError> {
    if ids.has_root() {
        rustix::thread::set_thread_groups(&[]).step(|| "setgroups".to_owned())?;
    }
    let id = ids.supervisor_inside();
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_res_gid(gid, gid, gid).step(|| "setresgid".to_owned())?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step(|| "setresuid".to_owned())
}

const WORKED: &str = "ok";

fn encode(refusal: &Refusal) -> String {
    format!("{}\n{}\n{}", refusal.errno.unwrap_or(0), refusal.step, refusal.said)
}

fn decode(answer: &str) -> Finding {
    if answer == WORKED {
        return Finding::Works;
    }
    let mut lines = answer.splitn(3, '\n');
    let errno = lines.next().and_then(|line| line.parse().ok()).filter(|errno| *errno != 0);
    match (lines.next(), lines.next()) {
        (Some(step), Some(said)) => {
            Finding::Refused(Refusal { step: step.to_owned(), errno, said: said.to_owned() })
        }
        (_, _) => Finding::Refused(Refusal {
            step: "try it in a process of its own".to_owned(),
            errno: None,
            said: "the process died".to_owned(),
        }),
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod attempt_tests;
