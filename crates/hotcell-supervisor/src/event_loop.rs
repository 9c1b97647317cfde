//! The one loop of a supervisor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::boot::{Booted, tell};
use crate::cell::{Supervisor, TIMEOUT_GRACE};
use crate::clock::Moment;
use crate::connection::{Connection, Standing};
use crate::files::FILES;
use crate::ports::PORT;
use crate::sessions::SESSION;
use crate::socket_door::{ASKER, SocketDoor};
use crate::warm::WARM;

const LISTENER: u64 = 0;
const CHILDREN: u64 = 1;
const QUESTIONS: u64 = 3;
/// Programs that connect to call tools.
pub(crate) const CALLERS: u64 = 4;
/// Where it is asked for sockets of the cell.
pub(crate) const SOCKETS: u64 = 5;
const FIRST_CONNECTION: u64 = 16;
/// Set in the tokens of execs; the number is above the slot.
const EXEC: u64 = 1 << 63;
const EVENTS_AT_ONCE: usize = 64;
/// How long the last words of a cell may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What of an exec an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Slot {
    /// Its standard output or terminal.
    First = 0,
    /// Its standard error.
    Second = 1,
    /// Its input.
    Input = 2,
    /// Its subreaper.
    Report = 3,
}

impl Slot {
    pub(crate) fn token(self, number: u32) -> u64 {
        EXEC | (u64::from(number) << 2) | self as u64
    }

    fn of(token: u64) -> (u32, Self) {
        let number = u32::try_from((token & !EXEC) >> 2).unwrap_or(u32::MAX);
        let slot = match token & 3 {
            0 => Self::First,
            1 => Self::Second,
            2 => Self::Input,
            _ => Self::Report,
        };
        (number, slot)
    }
}

/// What is waited for of a connection to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wanted {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// The kernel's list of what to wait for.
#[derive(Debug)]
pub(crate) struct Poller(Rc<OwnedFd>);

impl Poller {
    fn new() -> io::Result<Self> {
        Ok(Self(Rc::new(epoll::create(CreateFlags::CLOEXEC)?)))
    }

    pub(crate) fn clone_handle(&self) -> Self {
        Self(Rc::clone(&self.0))
    }

    /// Waits for something to read.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, token: u64) {
        // It can only fail for want of kernel memory; then the timers and the end still work.
        let _ = epoll::add(&*self.0, fd, EventData::new_u64(token), EventFlags::IN);
    }

    /// Waits for room to write, or no longer.
    pub(crate) fn set_writable(&self, fd: BorrowedFd<'_>, token: u64, wanted: bool) {
        self.set(fd, token, if wanted { EventFlags::OUT } else { EventFlags::empty() });
    }

    /// Waits for something to read, and for room to write where that is wanted.
    pub(crate) fn set_connection(&self, fd: BorrowedFd<'_>, token: u64, awaits_room: bool) {
        let room = if awaits_room { EventFlags::OUT } else { EventFlags::empty() };
        let _ = epoll::modify(&*self.0, fd, EventData::new_u64(token), EventFlags::IN | room);
    }

    /// Waits for what is wanted of a connection to a port.
    pub(crate) fn set_port(&self, fd: BorrowedFd<'_>, token: u64, wanted: Wanted) {
        let input = if wanted.reads { EventFlags::IN } else { EventFlags::empty() };
        let room = if wanted.writes { EventFlags::OUT } else { EventFlags::empty() };
        self.set(fd, token, input | room);
    }

    /// Waits for something to read, or no longer.
    pub(crate) fn set_readable(&self, fd: BorrowedFd<'_>, token: u64, wanted: bool) {
        self.set(fd, token, if wanted { EventFlags::IN } else { EventFlags::empty() });
    }

    /// Waits for these events. A descriptor of which none is wanted is not in the list: the kernel
    /// would report again and again that its other end is gone.
    fn set(&self, fd: BorrowedFd<'_>, token: u64, wanted: EventFlags) {
        if wanted.is_empty() {
            return self.remove(fd);
        }
        let data = EventData::new_u64(token);
        let _ = match epoll::modify(&*self.0, fd, data, wanted) {
            Err(Errno::NOENT) => epoll::add(&*self.0, fd, data, wanted),
            changed => changed,
        };
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&*self.0, fd);
    }

    fn wait(&self, until: Option<Moment>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let timeout = until.map(|until| {
            let wait = until.since(Moment::now());
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(wait.subsec_nanos()),
            }
        });
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&*self.0, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Runs a cell until it ends.
pub(crate) fn run(booted: Booted) -> io::Result<()> {
    let Booted { listener, calls, sockets, ready, confinement, children, means } = booted;
    let poller = Poller::new()?;
    poller.add(listener.as_fd(), LISTENER);
    poller.add(children.as_fd(), CHILDREN);
    let mut supervisor = Supervisor::new(means, poller.clone_handle())?;
    if let Some(questions) = supervisor.launcher.questions() {
        poller.add(questions.as_fd(), QUESTIONS);
    }
    if let Some(calls) = calls {
        supervisor.listen_to_callers(calls);
    }
    let mut door = SocketDoor::default();
    if let Some(sockets) = sockets {
        door.listen(sockets, &poller);
    }
    supervisor.recover_files();
    tell(&ready, &Ok(confinement));
    drop(ready);

    let mut next_connection = FIRST_CONNECTION;
    let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
    loop {
        poller.wait(supervisor.next_moment(), &mut events)?;
        let mut children_ended = false;
        for event in &events {
            match event.data.u64() {
                LISTENER => accept(&listener, &mut supervisor, &poller, &mut next_connection),
                CHILDREN => children_ended = true,
                QUESTIONS => supervisor.answer_question(),
                CALLERS => supervisor.take_callers(),
                SOCKETS => door.accept(&poller),
                FILES => files_event(&mut supervisor, event.flags),
                token if token & EXEC != 0 => exec_event(&mut supervisor, token),
                token if token & PORT != 0 => port_event(&mut supervisor, token, event.flags),
                token if token & WARM != 0 => supervisor.read_warm(token),
                token if token & SESSION != 0 => supervisor.read_session(token),
                token if token & ASKER != 0 => door.answer(token, &poller),
                id => connection_event(&mut supervisor, id, event.flags),
            }
        }
        if children_ended {
            // After the output that came before it, so that the usual end needs no second look.
            children.clear();
            supervisor.collect_children();
        }
        timers(&mut supervisor);
        supervisor.pump_fresh();
        supervisor.release_held_back();
        let done = supervisor.finish_closing();
        flush(&mut supervisor, &poller);
        supervisor.release_ports();
        if done {
            return last_words(&mut supervisor);
        }
    }
}

fn accept(
    listener: &UnixListener,
    supervisor: &mut Supervisor,
    poller: &Poller,
    next_connection: &mut u64,
) {
    while let Ok((stream, _)) = listener.accept() {
        let Ok(connection) = Connection::new(stream) else { continue };
        poller.add(connection.fd(), *next_connection);
        supervisor.connections.insert(*next_connection, connection);
        *next_connection += 1;
    }
}

fn exec_event(supervisor: &mut Supervisor, token: u64) {
    let (number, slot) = Slot::of(token);
    match slot {
        Slot::First => supervisor.read_output(number, 0),
        Slot::Second => supervisor.read_output(number, 1),
        Slot::Input => supervisor.write_input(number),
        Slot::Report => supervisor.read_report(number),
    }
}

fn port_event(supervisor: &mut Supervisor, token: u64, flags: EventFlags) {
    let broken = flags.intersects(EventFlags::HUP | EventFlags::ERR);
    if broken || flags.contains(EventFlags::OUT) {
        supervisor.write_port(token);
    }
    if broken || flags.contains(EventFlags::IN) {
        supervisor.read_port(token);
    }
}

fn files_event(supervisor: &mut Supervisor, flags: EventFlags) {
    if flags.contains(EventFlags::OUT) {
        supervisor.write_files();
    }
    if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
        supervisor.read_files();
    }
}

fn connection_event(supervisor: &mut Supervisor, id: u64, flags: EventFlags) {
    if flags.contains(EventFlags::OUT) {
        supervisor.pump_connection(id);
    }
    if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
        supervisor.read_connection(id);
    }
}

fn timers(supervisor: &mut Supervisor) {
    let now = Moment::now();
    let due = supervisor.wake_at.iter().filter(|(_, at)| **at <= now);
    for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
        supervisor.step(number);
    }
    supervisor.tell_watchers(now);
    supervisor.dismiss_files(now);
    supervisor.give_up_dialling(now);
    supervisor.release_masked(now);
    supervisor.expire_approvals(now);
    supervisor.cool_idle(now);
    // A child that they wait for may be there, or never come.
    supervisor.start_waiting();
    supervisor.give_up_uncarried(now);
    supervisor.tend_sessions(now);
    supervisor.give_up_callers(now);
    if supervisor.closing.is_none()
        && let Some((at, reason)) = supervisor.lifetime.next()
        && at <= now
    {
        supervisor.close(reason, None, TIMEOUT_GRACE);
    }
}

/// Writes to every connection what it takes.
fn flush(supervisor: &mut Supervisor, poller: &Poller) {
    let mut gone = Vec::new();
    for id in supervisor.connections.keys().copied().collect::<Vec<_>>() {
        if write_all(supervisor, id) == Standing::Closed {
            gone.push(id);
            continue;
        }
        let Some(connection) = supervisor.connections.get_mut(&id) else { continue };
        let awaits_room = !connection.peer.unsent().is_empty();
        if awaits_room != connection.awaits_room {
            connection.awaits_room = awaits_room;
            poller.set_connection(connection.fd(), id, awaits_room);
        }
    }
    for id in gone {
        supervisor.drop_connection(id);
    }
}

/// Writes to a connection until it takes no more or there is no more. Followers that left off because
/// too much was waiting go on here: once all of it is taken, no event tells them to.
fn write_all(supervisor: &mut Supervisor, id: u64) -> Standing {
    loop {
        let Some(connection) = supervisor.connections.get_mut(&id) else { return Standing::Open };
        let had_unsent = !connection.peer.unsent().is_empty();
        if connection.write() == Standing::Closed {
            return Standing::Closed;
        }
        if !had_unsent || !connection.peer.unsent().is_empty() {
            return Standing::Open;
        }
        supervisor.pump_connection(id);
    }
}

/// Gives followers and askers a moment to read what was still to be said.
fn last_words(supervisor: &mut Supervisor) -> io::Result<()> {
    let until = Moment::now().after(LAST_WORDS);
    let poller = supervisor.poller.clone_handle();
    let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
    loop {
        let followed = supervisor.connections.values().any(|c| !c.followers.is_empty());
        let unsent = supervisor.connections.values().any(|c| !c.peer.unsent().is_empty());
        let unwritten = !supervisor.journal.flush_pending();
        let now = Moment::now();
        if !(followed || unsent || unwritten) || now >= until {
            return Ok(());
        }
        poller.wait(Some(until.min(now.after(LOOK_AGAIN))), &mut events)?;
        for event in &events {
            let id = event.data.u64();
            if supervisor.connections.contains_key(&id) {
                connection_event(supervisor, id, event.flags);
                supervisor.pump_connection(id);
            }
        }
        flush(supervisor, &poller);
    }
}
