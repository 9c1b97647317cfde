//! Connections to services in the cell, each on one channel of a connection.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hotcell_link::{DATA_BYTES, DataHead, Frame, FrameKind, Root, Tell, UPLOAD_WINDOW, data_cost};
use hotcell_model::{Command, Error, ExecId, Result};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, connect, recv, send,
    shutdown, socket_with, sockopt,
};

use crate::cell::Supervisor;
use crate::clock::Moment;
use crate::code::calls_pair;
use crate::event_loop::Wanted;
use crate::exec::State;
use crate::input::Asker;

/// Set in the tokens of connections to ports; the number is below it.
pub(crate) const PORT: u64 = 1 << 62;
/// Connections at once; pid 1 has to keep descriptors for execs.
const MOST_OPEN: usize = 256;
/// How long a service may let a connection wait before it is taken.
const DIAL_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that may wait on a link before no more is read from services.
const MOST_UNSENT: usize = 256 * 1024;
/// What may wait for a service that does not read, before whoever sends it is cut off: it was
/// told to send less.
const MOST_WAITING: u32 = 2 * UPLOAD_WINDOW;
/// So much of the window is given back at once.
const CREDIT_STEP: u32 = UPLOAD_WINDOW / 2;

/// A connection that is being made can be used once it can be written to.
const CONNECTING: Wanted = Wanted { reads: false, writes: true };

/// All connections to services.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    open: BTreeMap<u64, Port>,
    by_asker: HashMap<Asker, u64>,
    /// Those that have something to read and no room for it on their link.
    without_room: BTreeSet<u64>,
    last: u64,
}

/// What is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// A service at this port.
    Service(u16),
    /// Code that calls tools.
    Calls,
    /// A program of this exec that calls tools.
    Caller(u32),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Service(port) => write!(f, "port {port} of the cell"),
            Self::Calls => f.write_str("the code that calls tools"),
            Self::Caller(_) => f.write_str("the program that calls tools"),
        }
    }
}

/// One connection.
#[derive(Debug)]
struct Port {
    fd: OwnedFd,
    asker: Asker,
    target: Target,
    /// While nothing is agreed yet.
    dialling: Option<Dialling>,
    /// What may still be sent to the engine.
    credit: i64,
    /// Whether the service sends no more.
    ended: bool,
    to_write: VecDeque<Chunk>,
    /// What waits for the service, as it counts against the window.
    waiting: u32,
    /// What the service took and the engine was not told of yet.
    uncredited: u32,
    /// Whether the service gets no more once everything that waits was written.
    finishing: bool,
    /// Whether it was told so, or takes no more.
    finished: bool,
    /// What is waited for.
    wanted: Wanted,
}

#[derive(Debug)]
struct Dialling {
    until: Moment,
    /// What is tried if nothing listens at the address that is being tried.
    next: Option<SocketAddr>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    written: usize,
}

/// Whether a connection goes on.
enum Course {
    Open,
    /// Both ways are at their end.
    Over,
    Broken(Error),
}

impl Ports {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The execs of the programs that call tools over one of them.
    pub(crate) fn callers(&self) -> impl Iterator<Item = u32> {
        self.open.values().filter_map(|port| match port.target {
            Target::Caller(exec) => Some(exec),
            Target::Service(_) | Target::Calls => None,
        })
    }

    /// When somebody has waited for a service for too long.
    pub(crate) fn next_moment(&self) -> Option<Moment> {
        self.open.values().filter_map(|port| Some(port.dialling.as_ref()?.until)).min()
    }
}

impl Supervisor {
    /// Begins to connect; its asker is answered once that is done, or cannot be.
    pub(crate) fn dial(&mut self, asker: Asker, port: u16, window: u32) -> Result<()> {
        if self.closing.is_some() {
            return Err(Error::unavailable("the cell is ending").hint("spawn another cell"));
        }
        if let Root::Host(_) = &self.plan.root {
            // It would be the host's loopback.
            return Err(Error::unsupported(
                "a cell of level process has no network of its own, so no ports either",
            )
            .hint("let the machine make user namespaces, see `hotcell doctor`"));
        }
        if port == 0 {
            return Err(Error::invalid("port 0 is no port").hint("name one from 1 to 65535"));
        }
        if self.ports.open.len() >= MOST_OPEN {
            return Err(Error::limit_exceeded(format!(
                "{MOST_OPEN} connections to ports of the cell are open, which is the most"
            ))
            .hint("close some of them"));
        }
        let second = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        let (fd, next) = match begin(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            Ok(fd) => (fd, Some(second)),
            // Without IPv6 the first reason is the better one.
            Err(errno) => {
                let refused = |_| cannot_dial(Target::Service(port), errno);
                (begin(second).map_err(refused)?, None)
            }
        };
        let dialling = Some(Dialling { until: Moment::now().after(DIAL_WITHIN), next });
        self.add_port(fd, asker, Target::Service(port), CONNECTING, window, dialling);
        Ok(())
    }

    /// Carries the calls that the code of an exec makes.
    pub(crate) fn carry_calls(&mut self, asker: Asker, exec: &ExecId, window: u32) -> Result<()> {
        let number = self.number(exec)?;
        let ours = match self.execs.get_mut(&number).map(|exec| &mut exec.state) {
            Some(State::Running(running)) => {
                running.code.as_mut().and_then(|code| code.calls.take())
            }
            // It is carried from its start on, whenever that is.
            Some(State::Queued(queued))
                if queued.calls.is_none() && matches!(queued.spec.command, Command::Code(_)) =>
            {
                let (ours, theirs) = calls_pair().map_err(|error| {
                    Error::unavailable(format!("cannot carry the calls of {exec}: {error}"))
                })?;
                queued.calls = Some(theirs);
                Some(ours)
            }
            Some(State::Queued(_) | State::Ended(_)) | None => None,
        };
        let fd = ours.ok_or_else(|| {
            Error::conflict(format!("exec {exec} makes no calls that nobody carries"))
                .hint("only code calls tools, and whoever started it carries its calls")
        })?;
        self.uncarried.remove(&number);
        let wanted = Wanted { reads: true, writes: false };
        self.add_port(fd, asker, Target::Calls, wanted, window, None);
        Ok(())
    }

    /// Carries the calls of a program of an exec.
    pub(crate) fn carry_caller(&mut self, asker: Asker, exec: u32, socket: OwnedFd, window: u32) {
        let wanted = Wanted { reads: true, writes: false };
        self.add_port(socket, asker, Target::Caller(exec), wanted, window, None);
    }

    /// Ends the connections of the programs of an exec.
    pub(crate) fn end_ports_of_exec(&mut self, exec: u32) {
        let is_its = |port: &Port| matches!(port.target, Target::Caller(of) if of == exec);
        let of_it = self.ports.open.iter().filter(|(_, port)| is_its(port));
        for token in of_it.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.end_port(token, &Tell::Done);
        }
    }

    /// Lets the calls of code fail that nobody carries: whoever started it is gone.
    pub(crate) fn give_up_uncarried(&mut self, now: Moment) {
        let due = self.uncarried.iter().filter(|(_, at)| **at <= now);
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.uncarried.remove(&number);
            if let Some(code) = self.running_mut(number).and_then(|running| running.code.as_mut()) {
                code.calls = None;
            }
        }
    }

    fn add_port(
        &mut self,
        fd: OwnedFd,
        asker: Asker,
        target: Target,
        wanted: Wanted,
        window: u32,
        dialling: Option<Dialling>,
    ) {
        self.ports.last += 1;
        let token = PORT | self.ports.last;
        self.poller.set_port(fd.as_fd(), token, wanted);
        let port = Port {
            fd,
            asker,
            target,
            dialling,
            credit: i64::from(window),
            ended: false,
            to_write: VecDeque::new(),
            waiting: 0,
            uncredited: 0,
            finishing: false,
            finished: false,
            wanted,
        };
        self.ports.by_asker.insert(asker, token);
        self.ports.open.insert(token, port);
        self.note_activity();
    }

    /// Takes a later frame of a conversation with a service; whether it is part of one.
    pub(crate) fn pass_to_port(&mut self, asker: Asker, frame: &Frame) -> bool {
        let Some(token) = self.ports.by_asker.get(&asker).copied() else { return false };
        if frame.kind == FrameKind::Forget {
            self.close_port(token);
            return true;
        }
        let Some(port) = self.ports.open.get_mut(&token) else { return true };
        let understood = match frame.kind {
            FrameKind::Credit => {
                frame.head::<u32>().map(|bytes| port.credit += i64::from(bytes)).is_ok()
            }
            FrameKind::Data => {
                frame.head::<DataHead>().map(|head| port.take(&frame.blob, head.last)).is_ok()
            }
            FrameKind::Hello
            | FrameKind::Ask
            | FrameKind::Tell
            | FrameKind::Record
            | FrameKind::Ended
            | FrameKind::Activity
            | FrameKind::Forget
            | FrameKind::File => true,
        };
        if !understood || port.waiting > MOST_WAITING {
            let error = Error::invalid("more was sent to a port of the cell than it had room for");
            self.end_port(token, &Tell::Failed(error));
        } else {
            self.write_port(token);
        }
        true
    }

    /// Ends what a connection that is gone had open.
    pub(crate) fn forget_ports_of(&mut self, connection: u64) {
        let of_it = self.ports.open.iter().filter(|(_, port)| port.asker.0 == connection);
        for token in of_it.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.close_port(token);
        }
    }

    /// Goes on with what can be written, or with connecting.
    pub(crate) fn write_port(&mut self, token: u64) {
        let Some(port) = self.ports.open.get_mut(&token) else { return };
        if port.dialling.is_some() {
            match port.settle() {
                Ok(Settled::Waiting) => return,
                Ok(Settled::Connected) => {
                    let asker = port.asker;
                    self.tell(asker, &Tell::Done);
                }
                Ok(Settled::Anew(fd)) => {
                    self.poller.remove(port.fd.as_fd());
                    port.fd = fd;
                    self.poller.set_port(port.fd.as_fd(), token, CONNECTING);
                    return;
                }
                Err(error) => return self.end_port(token, &Tell::Failed(error)),
            }
        }
        let Some(port) = self.ports.open.get_mut(&token) else { return };
        port.write();
        let (asker, credit) = (port.asker, port.take_credit());
        if let Some(credit) = credit
            && let Some(connection) = self.connections.get_mut(&asker.0)
        {
            connection.peer.send(FrameKind::Credit, asker.1, &credit);
        }
        self.settle_port(token, Course::Open);
    }

    /// Reads a piece, if there is room for it.
    pub(crate) fn read_port(&mut self, token: u64) {
        let Some(port) = self.ports.open.get_mut(&token) else { return };
        if port.dialling.is_some() || port.ended {
            return self.settle_port(token, Course::Open);
        }
        let Some(connection) = self.connections.get_mut(&port.asker.0) else { return };
        if connection.peer.unsent().len() >= MOST_UNSENT {
            self.ports.without_room.insert(token);
            return self.settle_port(token, Course::Open);
        }
        if port.credit <= 0 {
            return self.settle_port(token, Course::Open);
        }
        let mut room = [MaybeUninit::uninit(); DATA_BYTES];
        let channel = port.asker.1;
        let course = match recv(&port.fd, &mut room, RecvFlags::empty()) {
            Ok((([], _), _)) => {
                port.ended = true;
                connection.peer.send(FrameKind::Data, channel, &DataHead { last: true });
                Course::Open
            }
            Ok(((bytes, _), _)) => {
                port.credit -= i64::from(data_cost(bytes.len()));
                let head = DataHead { last: false };
                connection.peer.send_with_blob(FrameKind::Data, channel, &head, bytes);
                Course::Open
            }
            Err(Errno::AGAIN | Errno::INTR) => Course::Open,
            Err(errno) => Course::Broken(broke(port.target, errno)),
        };
        self.settle_port(token, course);
    }

    /// Lets those read on whose link has room again.
    pub(crate) fn release_ports(&mut self) {
        if self.ports.without_room.is_empty() {
            return;
        }
        for token in std::mem::take(&mut self.ports.without_room) {
            let Some(port) = self.ports.open.get(&token) else { continue };
            let unsent = self.connections.get(&port.asker.0).map(|c| c.peer.unsent().len());
            if unsent.is_some_and(|unsent| unsent >= MOST_UNSENT) {
                self.ports.without_room.insert(token);
            }
            self.settle_port(token, Course::Open);
        }
    }

    /// Stops waiting for services that let a connection wait too long.
    pub(crate) fn give_up_dialling(&mut self, now: Moment) {
        let late = |port: &Port| port.dialling.as_ref().is_some_and(|one| one.until <= now);
        let due = self.ports.open.iter().filter(|(_, port)| late(port));
        for (token, target) in due.map(|(token, port)| (*token, port.target)).collect::<Vec<_>>() {
            let error = Error::unavailable(format!(
                "what listens at {target} took no connection within {} s",
                DIAL_WITHIN.as_secs()
            ))
            .hint("it is busy or stopped; look at it with `hotcell ps`");
            self.end_port(token, &Tell::Failed(error));
        }
    }

    /// Waits for what there is room for, or ends what is over.
    fn settle_port(&mut self, token: u64, course: Course) {
        let Some(port) = self.ports.open.get_mut(&token) else { return };
        let course = match course {
            Course::Open if port.ended && port.finished => Course::Over,
            course @ (Course::Open | Course::Over | Course::Broken(_)) => course,
        };
        match course {
            Course::Open => {
                let has_room = !self.ports.without_room.contains(&token);
                let reads = !port.ended && port.credit > 0 && has_room;
                let wanted = match port.dialling {
                    Some(_) => CONNECTING,
                    None => Wanted { reads, writes: !port.to_write.is_empty() },
                };
                if wanted != port.wanted {
                    self.poller.set_port(port.fd.as_fd(), token, wanted);
                    port.wanted = wanted;
                }
            }
            Course::Over => self.end_port(token, &Tell::Done),
            Course::Broken(error) => self.end_port(token, &Tell::Failed(error)),
        }
    }

    fn end_port(&mut self, token: u64, last: &Tell) {
        if let Some(asker) = self.close_port(token) {
            self.tell(asker, last);
        }
    }

    fn close_port(&mut self, token: u64) -> Option<Asker> {
        let port = self.ports.open.remove(&token)?;
        self.poller.remove(port.fd.as_fd());
        self.ports.by_asker.remove(&port.asker);
        self.ports.without_room.remove(&token);
        self.note_activity();
        if let Target::Caller(_) = port.target {
            self.match_callers();
        }
        Some(port.asker)
    }
}

/// How far connecting came.
enum Settled {
    Waiting,
    Connected,
    /// Another address is being tried.
    Anew(OwnedFd),
}

impl Port {
    fn take(&mut self, bytes: &[u8], last: bool) {
        if !bytes.is_empty() && !self.finishing {
            self.waiting = self.waiting.saturating_add(data_cost(bytes.len()));
            self.to_write.push_back(Chunk { bytes: bytes.to_vec(), written: 0 });
        }
        self.finishing |= last;
    }

    /// Whether the connection stands, by what the kernel says of it.
    fn settle(&mut self) -> Result<Settled> {
        let Some(dialling) = &mut self.dialling else { return Ok(Settled::Connected) };
        let errno = match sockopt::socket_error(&self.fd) {
            Ok(Ok(())) if is_connected(&self.fd) => {
                self.dialling = None;
                // Small pieces are not held back: whoever sent them waits.
                let _ = sockopt::set_tcp_nodelay(&self.fd, true);
                return Ok(Settled::Connected);
            }
            Ok(Ok(())) => return Ok(Settled::Waiting),
            Ok(Err(errno)) | Err(errno) => errno,
        };
        match dialling.next.take().map(begin) {
            Some(Ok(fd)) => Ok(Settled::Anew(fd)),
            Some(Err(_)) | None => Err(cannot_dial(self.target, errno)),
        }
    }

    /// Writes what the service takes now. One that takes no more may still have something to say.
    fn write(&mut self) {
        while let Some(chunk) = self.to_write.front_mut() {
            match send(&self.fd, &chunk.bytes[chunk.written..], SendFlags::NOSIGNAL) {
                Ok(length) => {
                    chunk.written += length;
                    if chunk.written == chunk.bytes.len() {
                        self.took_first();
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.finished = true;
                    break;
                }
            }
        }
        if self.finished {
            while !self.to_write.is_empty() {
                self.took_first();
            }
        } else if self.finishing {
            self.finished = true;
            // One that is gone needs not be told.
            let _ = shutdown(&self.fd, Shutdown::Write);
        }
    }

    fn took_first(&mut self) {
        if let Some(chunk) = self.to_write.pop_front() {
            let cost = data_cost(chunk.bytes.len());
            self.waiting = self.waiting.saturating_sub(cost);
            self.uncredited = self.uncredited.saturating_add(cost);
        }
    }

    /// What the engine is to be told that it may send more.
    fn take_credit(&mut self) -> Option<u32> {
        (self.uncredited >= CREDIT_STEP).then(|| std::mem::take(&mut self.uncredited))
    }
}

/// Begins to connect without waiting for it.
fn begin(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&fd, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(errno) => Err(errno),
    }
}

fn is_connected(fd: &OwnedFd) -> bool {
    rustix::net::getpeername(fd).is_ok_and(|peer| peer.is_some())
}

fn cannot_dial(target: Target, errno: Errno) -> Error {
    if errno == Errno::CONNREFUSED {
        return Error::unavailable(format!("nothing listens at {target}")).hint(
            "start the service in the cell (`hotcell run -d`), listening at 127.0.0.1 or 0.0.0.0, \
             and look with `hotcell ps` whether it runs",
        );
    }
    Error::unavailable(format!("cannot connect to {target}: {errno}"))
        .hint("try again; if it stays so, look at the service with `hotcell ps`")
}

fn broke(target: Target, errno: Errno) -> Error {
    let message = match errno {
        Errno::CONNRESET => format!("what is at {target} cut the connection"),
        errno => format!("the connection to {target} broke: {errno}"),
    };
    Error::unavailable(message).hint("connect again; look at the service with `hotcell ps`")
}
