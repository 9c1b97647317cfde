//! Interpreters that are ready before code comes: a zygote that has imported what code usually needs,
//! and children that it forked ahead of need, each in a control group of its own.
//!
//! Nothing that a zygote or a child says is believed: the kernel tells which process sent a word, and
//! a child counts only if it is this process's own. What goes wrong here makes code start cold.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_jail::cgroup::ExecCgroup;
use hotcell_jail::process::{Launch, Streams};
use hotcell_link::Root;
use hotcell_model::{CodeTerms, Command, ExecId};
use hotcell_runner::{FORK, READY, RUN, ZygoteOrder};
use rustix::cmsg_space;
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    sockopt,
};
use rustix::process::Pid;

use crate::cell::Supervisor;
use crate::clock::Moment;
use crate::code::{own_program, sealed, sealed_program};
use crate::launch::{self, Prepared};
use crate::sessions::turn_of;

/// Tokens of the zygote and of children: the number is below it.
pub(crate) const WARM: u64 = 1 << 61;
/// The zygote's own.
const ZYGOTE: u64 = WARM;
/// Children that are kept ready.
const MOST_READY: usize = 2;
/// While one is left, others are forked only so long after code began: to fork a process that has
/// imported much takes milliseconds, which code and whoever waits for it need themselves.
const FORKED_AFTER: Duration = Duration::from_millis(20);
/// Children that are there at once, where code waits for them.
const MOST_BORN: usize = 8;
/// A zygote that takes longer to fork is stuck.
const FORKED_WITHIN: Duration = Duration::from_secs(5);
/// After a failure code starts cold for so long.
const COOL_DOWN: Duration = Duration::from_secs(60);
/// A zygote that nobody needed for so long goes.
const IDLE: Duration = Duration::from_secs(300);
const WORD_BYTES: usize = 4096;
/// What code usually imports; what the image lacks is passed over.
const IMPORTS: &[&str] = &[
    "json",
    "re",
    "math",
    "random",
    "datetime",
    "collections",
    "itertools",
    "functools",
    "statistics",
    "csv",
    "pathlib",
    "typing",
    "dataclasses",
    "enum",
    "asyncio",
    "numpy",
    "pandas",
];
/// Where packages of the cell's Python lie.
const PACKAGE_ROOTS: &[&str] = &["/usr/lib", "/usr/local/lib", "/home/cell/.local/lib"];

/// What is kept warm.
#[derive(Debug, Default)]
pub(crate) struct Warm {
    zygote: Option<Zygote>,
    children: VecDeque<Child>,
    /// The groups of those that were dismissed and may not be gone yet.
    leaving: Vec<ExecCgroup>,
    next: u64,
    /// What the operator wants imported; what code usually needs unless said.
    imports: Option<Vec<String>>,
    cold_until: Option<Moment>,
    used_at: Option<Moment>,
    /// When children are to be forked in place of those that were used.
    refill_at: Option<Moment>,
    /// This program, where it may be read.
    program: Option<OwnedFd>,
    /// A copy of it that scripts are read by.
    reader: Option<OwnedFd>,
}

#[derive(Debug)]
struct Zygote {
    pid: Pid,
    control: OwnedFd,
    cgroup: ExecCgroup,
    is_ready: bool,
    packages: Vec<Changed>,
}

/// A child that waits for code.
#[derive(Debug)]
struct Child {
    token: u64,
    control: OwnedFd,
    cgroup: ExecCgroup,
    /// Known once it is ready.
    pid: Option<Pid>,
    asked_at: Moment,
}

/// A child that takes code on.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) control: OwnedFd,
    pub(crate) cgroup: ExecCgroup,
    pub(crate) pid: Pid,
}

/// Hands code over to a process that waits for it; whether that could be done.
pub(crate) fn send_run(control: &OwnedFd, given: &[BorrowedFd<'_>; 7]) -> bool {
    send_with(control, RUN, given)
}

fn send_with(control: &OwnedFd, word: &[u8], given: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !given.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(given)) {
        return false;
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(control, &[IoSlice::new(word)], &mut ancillary, flags) == Ok(word.len())
}

/// A word, and which process said it.
pub(crate) fn receive(control: &OwnedFd) -> Option<(Vec<u8>, Option<Pid>)> {
    let mut bytes = vec![0; WORD_BYTES];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(control, &mut parts, &mut ancillary, flags).ok()?;
    let mut sender = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmCredentials(credentials) = message {
            sender = Some(credentials.pid);
        }
    }
    bytes.truncate(received.bytes);
    Some((bytes, sender))
}

pub(crate) fn control_pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    sockopt::set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// A directory, and when it was changed last; never, if it is not there.
#[derive(Debug)]
struct Changed {
    path: PathBuf,
    at: Option<Timestamps>,
}

type Timestamps = (i64, u64);

impl Changed {
    fn at(path: &Path) -> Option<Timestamps> {
        rustix::fs::stat(path).ok().map(|stat| (stat.st_mtime, stat.st_mtime_nsec))
    }

    fn is_as_it_was(&self) -> bool {
        Self::at(&self.path) == self.at
    }
}

/// What packages lie in: a zygote that imported others is of no use.
fn packages() -> Vec<Changed> {
    let mut found = Vec::new();
    let mut look = |path: PathBuf| found.push(Changed { at: Changed::at(&path), path });
    for root in PACKAGE_ROOTS {
        look(PathBuf::from(root));
        for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"python3") {
                look(entry.path().join("site-packages"));
                look(entry.path().join("dist-packages"));
            }
        }
    }
    found
}

impl Warm {
    pub(crate) fn new(program: Option<OwnedFd>) -> Self {
        Self { program, ..Self::default() }
    }

    pub(crate) fn is_process(&self, pid: i32) -> bool {
        let known = |known: Pid| known.as_raw_nonzero().get() == pid;
        self.zygote.as_ref().is_some_and(|zygote| known(zygote.pid))
            || self.children.iter().any(|child| child.pid.is_some_and(known))
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.zygote.is_none() && self.children.is_empty() && self.leaving.is_empty()
    }

    pub(crate) fn next_moment(&self) -> Option<Moment> {
        if self.zygote.is_none() && self.reader.is_none() {
            return None;
        }
        [self.idle_at(), self.stuck_at(), self.refill_at].into_iter().flatten().min()
    }

    /// When nobody needed it for long enough.
    fn idle_at(&self) -> Option<Moment> {
        self.used_at.map(|at| at.after(IDLE))
    }

    /// When a fork has taken too long.
    fn stuck_at(&self) -> Option<Moment> {
        self.unborn().map(|child| child.asked_at.after(FORKED_WITHIN)).min()
    }

    fn unborn(&self) -> impl Iterator<Item = &Child> {
        self.children.iter().filter(|child| child.pid.is_none())
    }

    /// Whether there is no child for code now, and one is being born.
    fn is_about_to_have(&self, terms: &CodeTerms) -> bool {
        self.zygote.as_ref().is_some_and(|zygote| zygote.is_ready)
            && self.imports == terms.imports
            && !self.children.is_empty()
            && self.unborn().count() == self.children.len()
    }
}

impl Supervisor {
    /// A child that can take code on at once, if there is one.
    pub(crate) fn claim_warm(&mut self, terms: &CodeTerms) -> Option<Claimed> {
        self.warm.used_at = Some(Moment::now());
        if self.warm.imports != terms.imports {
            self.warm.imports.clone_from(&terms.imports);
            self.dismiss_warm();
            return None;
        }
        let zygote = self.warm.zygote.as_ref()?;
        if !zygote.packages.iter().all(Changed::is_as_it_was) {
            self.dismiss_warm();
            return None;
        }
        let at = self.warm.children.iter().position(|child| child.pid.is_some())?;
        let child = self.warm.children.remove(at)?;
        self.poller.remove(child.control.as_fd());
        Some(Claimed { control: child.control, cgroup: child.cgroup, pid: child.pid? })
    }

    /// The program that reads scripts, copied when it is first needed.
    pub(crate) fn reader_of_scripts(&mut self) -> io::Result<OwnedFd> {
        self.warm.used_at = Some(Moment::now());
        let reader = match self.warm.reader.take() {
            Some(reader) => reader,
            None if self.plan.root == Root::Container => own_program()?,
            None => {
                let program = self.warm.program.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
                sealed_program(program)?
            }
        };
        let theirs = reader.try_clone()?;
        self.warm.reader = Some(reader);
        Ok(theirs)
    }

    /// Gives back a child that could not be used.
    pub(crate) fn drop_claimed(&mut self, claimed: Claimed) {
        claimed.cgroup.kill();
        self.warm.leaving.push(claimed.cgroup);
    }

    /// Starts a zygote if there is none, and has children forked for code to come.
    pub(crate) fn keep_warm(&mut self) {
        let now = Moment::now();
        let refill_at = self.warm.refill_at.take();
        let is_host = matches!(&self.plan.root, Root::Host(_));
        let cold = self.warm.cold_until.is_some_and(|until| until > now);
        let is_busy = self.pause.is_some() || self.closing.is_some();
        if self.exec_cgroups.is_none() || is_host || cold || is_busy {
            return;
        }
        if self.warm.zygote.is_none() {
            if self.start_zygote().is_none() {
                self.cool_down();
            }
            return;
        }
        let waiting = self.queue.iter().filter(|exec| self.awaits_child(exec)).count();
        let is_one_left = self.warm.children.iter().any(|child| child.pid.is_some());
        if waiting == 0 && is_one_left {
            let at = refill_at.unwrap_or_else(|| now.after(FORKED_AFTER));
            if at > now {
                self.warm.refill_at = Some(at);
                return;
            }
        }
        let wanted = (MOST_READY + waiting).min(MOST_BORN);
        while self.warm.children.len() < wanted
            && self.warm.zygote.as_ref().is_some_and(|zygote| zygote.is_ready)
        {
            if self.fork_child().is_none() {
                return self.dismiss_failed();
            }
        }
    }

    /// Whether an exec that waits is code for which a child is being forked: that takes less time than
    /// to start afresh.
    pub(crate) fn awaits_child(&self, id: &ExecId) -> bool {
        let Some(spec) = self.queued(id) else { return false };
        matches!(&spec.command, Command::Code(code) if !code.language.is_script())
            && !spec.as_root
            && turn_of(spec).is_none_or(|turn| self.sessions.waiting(&turn.name).is_none())
            && self.warm.is_about_to_have(&spec.code)
    }

    fn start_zygote(&mut self) -> Option<()> {
        let packages = packages();
        let prepared = launch::prepare_zygote(&self.plan).ok()?;
        let cgroup = self.exec_cgroups.as_mut()?.take().ok()?;
        let started = self.launch_zygote(&prepared, &cgroup);
        let Some((pid, control)) = started else {
            self.exec_cgroups.as_mut()?.give_back(cgroup);
            return None;
        };
        self.poller.add(control.as_fd(), ZYGOTE);
        self.warm.used_at.get_or_insert(Moment::now());
        self.warm.zygote = Some(Zygote { pid, control, cgroup, is_ready: false, packages });
        Some(())
    }

    fn launch_zygote(
        &mut self,
        prepared: &Prepared,
        cgroup: &ExecCgroup,
    ) -> Option<(Pid, OwnedFd)> {
        let (ours, theirs) = control_pair().ok()?;
        let imports = match &self.warm.imports {
            Some(imports) => imports.clone(),
            None => IMPORTS.iter().map(|name| (*name).to_owned()).collect(),
        };
        let order = serde_json::to_vec(&ZygoteOrder { imports }).ok()?;
        let order = sealed("order", &order).ok()?;
        let source = sealed("runner", hotcell_runner::source().as_bytes()).ok()?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let nothing = rustix::fs::open("/dev/null", flags, Mode::empty()).ok()?;
        let nothing = nothing.as_fd();
        // The report's place is taken by nothing.
        let extra = [theirs.as_fd(), nothing, order.as_fd(), source.as_fd()];
        let launch = Launch {
            program: &prepared.program,
            argv: &prepared.argv,
            env: &prepared.env,
            cwd: prepared.cwd.as_fd(),
            streams: Streams::Pipes { stdin: nothing, stdout: nothing, stderr: nothing },
            identity: prepared.identity,
            rlimits: &prepared.rlimits,
            cgroup: cgroup.entry(),
            extra: &extra,
        };
        let pid = self.launcher.launch(&launch).ok()?;
        Some((pid, ours))
    }

    fn fork_child(&mut self) -> Option<()> {
        let (ours, theirs) = control_pair().ok()?;
        let cgroup = self.exec_cgroups.as_mut()?.take().ok()?;
        let told = cgroup.joined_by_self().is_ok_and(|door| {
            let zygote = self.warm.zygote.as_ref();
            zygote.is_some_and(|it| send_with(&it.control, FORK, &[theirs.as_fd(), door.as_fd()]))
        });
        if !told {
            self.exec_cgroups.as_mut()?.give_back(cgroup);
            return None;
        }
        self.warm.next += 1;
        let token = WARM | self.warm.next;
        self.poller.add(ours.as_fd(), token);
        let asked_at = Moment::now();
        self.warm.children.push_back(Child { token, control: ours, cgroup, pid: None, asked_at });
        Some(())
    }

    /// Takes a word of the zygote or of a child.
    pub(crate) fn read_warm(&mut self, token: u64) {
        if token == ZYGOTE {
            let word = self.warm.zygote.as_ref().and_then(|zygote| receive(&zygote.control));
            match (word, &mut self.warm.zygote) {
                (Some((word, _)), Some(zygote)) if word == READY => zygote.is_ready = true,
                (_, _) => return self.dismiss_failed(),
            }
            return self.keep_warm();
        }
        let Some(at) = self.warm.children.iter().position(|child| child.token == token) else {
            return;
        };
        let word = receive(&self.warm.children[at].control);
        let pid = match word {
            Some((word, Some(pid))) if word == READY && self.is_own_child(pid) => pid,
            _ => return self.dismiss_failed(),
        };
        self.warm.children[at].pid = Some(pid);
    }

    /// Whether a process is a child of this one that nobody knows yet.
    fn is_own_child(&self, pid: Pid) -> bool {
        let number = pid.as_raw_nonzero().get();
        let is_new = !self.processes.contains_key(&number)
            && !self.files.is_process(number)
            && !self.sessions.is_process(pid)
            && !self.warm.is_process(number);
        is_new && hotcell_jail::process::is_child(pid)
    }

    fn cool_down(&mut self) {
        self.warm.cold_until = Some(Moment::now().after(COOL_DOWN));
    }

    fn dismiss_failed(&mut self) {
        self.cool_down();
        self.dismiss_warm();
    }

    /// Ends the zygote and all children that wait. One that was just being born is in the group of
    /// the one or of the other, and both are killed.
    pub(crate) fn dismiss_warm(&mut self) {
        self.warm.refill_at = None;
        let mut groups = Vec::new();
        if let Some(zygote) = self.warm.zygote.take() {
            self.poller.remove(zygote.control.as_fd());
            groups.push(zygote.cgroup);
        }
        for child in std::mem::take(&mut self.warm.children) {
            self.poller.remove(child.control.as_fd());
            groups.push(child.cgroup);
        }
        groups.iter().for_each(ExecCgroup::kill);
        self.warm.leaving.extend(groups);
    }

    /// Notes that a process ended that may be one of these.
    pub(crate) fn note_warm_end(&mut self, pid: i32) {
        if self.warm.is_process(pid) {
            // Nobody asked it to go.
            self.dismiss_failed();
        }
    }

    /// Gives back the groups of those that are gone.
    pub(crate) fn tidy_warm(&mut self) {
        if self.warm.leaving.is_empty() {
            return;
        }
        let leaving = std::mem::take(&mut self.warm.leaving);
        let (gone, left): (Vec<_>, Vec<_>) = leaving.into_iter().partition(ExecCgroup::is_empty);
        self.warm.leaving = left;
        if let Some(groups) = &mut self.exec_cgroups {
            gone.into_iter().for_each(|group| groups.give_back(group));
        }
        self.settle_pause();
    }

    /// Lets a zygote go that nobody needs, or that is stuck.
    pub(crate) fn cool_idle(&mut self, now: Moment) {
        if self.warm.stuck_at().is_some_and(|at| at <= now) {
            self.dismiss_failed();
        } else if self.warm.idle_at().is_some_and(|at| at <= now) {
            self.dismiss_warm();
            self.warm.reader = None;
        } else if self.warm.refill_at.is_some_and(|at| at <= now) {
            self.keep_warm();
        }
    }
}
