//! The carrier of a cell, as its keeper sees it: a process that carries the cell's connections to
//! names that it may reach. There is none where nothing may be reached.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_egress::{
    Allowance, CarrierAsk, CarrierTell, CarryPlan, EgressSettings, HeaderPlan, RecordLog, Trust,
    ask_carrier, carry, make_sockets,
};
use hotcell_jail::cgroup::{CarrierCgroups, join};
use hotcell_jail::enter::go_on_with;
use hotcell_jail::host::inherited_fds;
use hotcell_jail::signals::send_by_pidfd;
use hotcell_jail::swap::{CellNamespaces, enter_network};
use hotcell_jail::{Forked, Step, StepError, fork, rename_self};
use hotcell_model::{
    CellSpec, Error, LentSecret, NameRules, NetRecord, NetVerdict, Network, Result, SecretForm,
    SecretGrant, Timestamp,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Resource, Rlimit, Uid, WaitOptions, pidfd_open,
    set_dumpable_behavior, waitpid,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::tenant_egress::allowance;
use crate::{KeptPlace, WhichProcess, authority, let_go_of_streams};

const READY_WITHIN_S: i64 = 10;
/// How long after its death a carrier is started anew, twice as long each time that fails.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
const AGAIN_AT_LEAST: Duration = Duration::from_secs(60);
/// How often it is compared what is written down and what it was told.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const NICE: i32 = 10;
const HIDE: &str = "keep others from looking into it";
/// What a carrier and the process that opens sockets for it may take: far more than its connections
/// need, and little for a host.
const MEMORY_BYTES: u64 = 256 << 20;
const PIDS: u64 = 8;
/// The one limit at which the kernel does not run a program for a crash either.
const CORE_BYTES: u64 = 1;
/// How long the process that opens sockets has to end.
const MAKER_LOOKS: u32 = 100;
const MAKER_APART: Duration = Duration::from_millis(5);
/// One that was there for so long did not fail.
const LASTED: Duration = Duration::from_secs(10);

/// A cell whose connections are carried.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// Its directory.
    pub place: KeptPlace<'a>,
    /// As it was spawned.
    pub spec: &'a CellSpec,
    /// Where its records are.
    pub records: &'a Path,
    /// Whose those are.
    pub owner: (u32, u32),
    /// Whom its carrier becomes, where it would be root otherwise.
    pub becomes: Option<(u32, u32)>,
    /// The way to its network; none where that is out of reach.
    pub door: Option<Door<'a>>,
}

/// How sockets of a cell's network come to the host's side.
#[derive(Debug, Clone, Copy)]
pub enum Door<'a> {
    /// A process goes into these namespaces; the cell has ended once this is readable.
    Namespaces(&'a CellNamespaces, BorrowedFd<'a>),
    /// Its supervisor opens them, and listens for that in the cell's directory.
    Supervisor,
}

/// A carrier that is there, is to come again, or is not needed.
#[derive(Debug)]
pub struct KeptCarrier {
    settings: EgressSettings,
    process: Option<(Pid, OwnedFd)>,
    begun_at: Instant,
    again_at: Option<Instant>,
    again_after: Duration,
    /// What it was told that the cell may reach; nothing is known of one that another keeper told.
    told: Option<Network>,
    /// Whether it was told that its tenant may carry more; not known of one that another keeper told.
    allowed: Option<Allowance>,
    look_at: Instant,
    /// Values that the next one is to have, too. In memory alone: whoever starts an exec brings
    /// them again.
    lent: Vec<LentSecret>,
    groups: CarrierCgroups,
}

impl KeptCarrier {
    /// One that may be needed, with a process that may be there already.
    #[must_use]
    pub fn new(
        settings: EgressSettings,
        process: Option<(Pid, OwnedFd)>,
        groups: &CarrierCgroups,
    ) -> Self {
        let begun_at = Instant::now();
        let (again_at, again_after) = (None, AGAIN_AFTER);
        let (told, allowed, look_at) = (None, None, begun_at);
        let (lent, groups) = (Vec::new(), groups.clone());
        Self {
            settings,
            process,
            begun_at,
            again_at,
            again_after,
            told,
            allowed,
            look_at,
            lent,
            groups,
        }
    }

    /// The one that an earlier keeper of the cell has left, which goes on as it is.
    #[must_use]
    pub fn find(place: KeptPlace<'_>, settings: EgressSettings, groups: &CarrierCgroups) -> Self {
        let found = WhichProcess::find_in(&place.carrier()).ok().flatten();
        let found = found.and_then(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)));
        Self::new(settings, found, groups)
    }

    /// Readable once it has ended.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(|(_, pidfd)| pidfd.as_fd())
    }

    /// When it is to be started again, or looked after.
    #[must_use]
    pub fn wanted_at(&self) -> Option<Instant> {
        self.again_at.or_else(|| self.process.as_ref().map(|_| self.look_at))
    }

    /// Sees to it that it obeys what is written down, also if whoever wrote that did not get to
    /// ask for it.
    pub fn look_if_due(&mut self, cell: Served<'_>) {
        if self.process.is_some() && self.look_at <= Instant::now() {
            // One that does not obey has ended.
            let _ = self.tell_rules(cell);
        }
    }

    /// Tells it whether the tenant of the cell may carry more today, unless it knows.
    fn tell_allowance(&mut self, cell: Served<'_>) -> io::Result<()> {
        let allowance = allowance(&self.settings.of_tenants, &cell.spec.tenant, cell.records);
        if self.allowed == Some(allowance) {
            return Ok(());
        }
        let stream = cell.place.connect_carrier()?.ok_or(io::ErrorKind::NotConnected)?;
        match ask_carrier(&stream, &CarrierAsk::Carry(allowance))? {
            CarrierTell::Done => self.allowed = Some(allowance),
            CarrierTell::Stats(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    /// Tells it what the cell may reach now, unless it knows. One that does not do it is ended:
    /// nothing is carried against the rules, and the next one begins with them.
    fn tell_rules(&mut self, cell: Served<'_>) -> io::Result<()> {
        self.look_at = Instant::now() + LOOK_EVERY;
        let told = cell.place.in_force(&cell.spec.network).and_then(|network| {
            if self.told.as_ref() == Some(&network) {
                return Ok(());
            }
            let stream = cell.place.connect_carrier()?.ok_or(io::ErrorKind::NotConnected)?;
            match ask_carrier(&stream, &CarrierAsk::Enforce(network.clone()))? {
                CarrierTell::Done => self.told = Some(network),
                CarrierTell::Stats(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
            Ok(())
        });
        let told = told.and_then(|()| self.tell_allowance(cell));
        if told.is_err() {
            self.told = None;
            if let Some((_, pidfd)) = &self.process {
                let _ = send_by_pidfd(pidfd.as_fd(), 9);
            }
        }
        told
    }

    /// Keeps values for it and for those that come after it. One that does not take them is ended,
    /// and the next one begins with them.
    ///
    /// # Errors
    /// Others could look into this process.
    pub fn lend(&mut self, cell: Served<'_>, secrets: Vec<LentSecret>) -> Result<()> {
        // One that can start no other needs to keep nothing.
        if cell.door.is_some() {
            if let Err(errno) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
                return Err(failed(format!(
                    "cannot keep others from looking into the keeper: {errno}"
                )));
            }
            self.lent.clone_from(&secrets);
        }
        let Some((_, pidfd)) = &self.process else { return Ok(()) };
        let told = cell.place.connect_carrier().and_then(|stream| {
            let stream = stream.ok_or(io::ErrorKind::NotConnected)?;
            ask_carrier(&stream, &CarrierAsk::Lend(secrets))
        });
        if !matches!(told, Ok(CarrierTell::Done)) {
            let _ = send_by_pidfd(pidfd.as_fd(), 9);
        }
        Ok(())
    }

    /// Lets go of what was kept for others to come: none will. An ordinary user's process that hides
    /// itself could not see to the files of its cell.
    pub fn forget_lent(&mut self) {
        if !std::mem::take(&mut self.lent).is_empty() {
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        }
    }

    /// Takes note that it has ended.
    pub fn collect(&mut self) {
        self.told = None;
        if let Some((pid, _)) = self.process.take() {
            // The child of an earlier keeper is collected by init.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        if self.begun_at.elapsed() > LASTED {
            self.again_after = AGAIN_AFTER;
        }
        self.plan_again();
    }

    fn plan_again(&mut self) {
        self.again_at = Some(Instant::now() + self.again_after);
        self.again_after = (self.again_after * 2).min(AGAIN_AT_LEAST);
    }

    /// Starts it again if it is time.
    pub fn start_if_due(&mut self, cell: Served<'_>) {
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            // Why not is written down with the cell's records.
            let _ = self.ensure(cell);
        }
    }

    /// Starts it if it is needed and not there.
    ///
    /// # Errors
    /// The cell's connections cannot be carried; that is tried again where it can be.
    pub fn ensure(&mut self, cell: Served<'_>) -> Result<()> {
        self.again_at = None;
        if let Some((_, pidfd)) = &self.process {
            let has_ended = ends_within(pidfd, Timespec { tv_sec: 0, tv_nsec: 0 });
            if !has_ended && self.tell_rules(cell).is_ok() {
                return Ok(());
            }
            self.end();
        }
        let in_force = cell
            .place
            .in_force(&cell.spec.network)
            .map_err(|error| failed(format!("cannot read the cell's network: {error}")))?;
        if in_force == Network::None {
            return Ok(());
        }
        let started = match cell.door {
            Some(door) => {
                let plan = (&self.settings, in_force.rules(), self.lent.as_slice());
                start(cell, door, plan, &self.groups)
            }
            None => Err(io::Error::other("the namespaces of the cell are out of reach"))
                .step(|| "enter the cell".to_owned()),
        };
        match started {
            Ok(process) => {
                self.begun_at = Instant::now();
                self.look_at = self.begun_at + LOOK_EVERY;
                self.process = Some(process);
                self.told = Some(in_force);
                // It carries until it is told.
                self.allowed = Some(Allowance::Open);
                // One that is not to be told is ended by this.
                let _ = self.tell_rules(cell);
                Ok(())
            }
            Err(error) => {
                let why = format!("connections of the cell cannot be carried: {error}");
                let record = NetRecord {
                    ts: Timestamp::now(),
                    verdict: NetVerdict::Failed,
                    name: String::new(),
                    port: None,
                    connection: None,
                    address: None,
                    sent_bytes: None,
                    received_bytes: None,
                    duration_ms: None,
                    reason: Some(why.clone()),
                };
                write_down(cell, &record);
                if cell.door.is_some() {
                    self.plan_again();
                }
                Err(failed(why))
            }
        }
    }

    /// Lets it end, and waits for that: it ends by itself with its cell, and has a moment to write
    /// down what it knows.
    pub fn end(&mut self) {
        self.told = None;
        let Some((pid, pidfd)) = self.process.take() else { return };
        if !ends_within(&pidfd, Timespec { tv_sec: 1, tv_nsec: 0 }) {
            let _ = send_by_pidfd(pidfd.as_fd(), 9);
            ends_within(&pidfd, Timespec { tv_sec: 1, tv_nsec: 0 });
        }
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        self.groups.remove();
    }
}

/// Writes something down in the carrier's place, as if it had.
fn write_down(cell: Served<'_>, record: &NetRecord) {
    let (uid, gid) = cell.owner;
    if let Ok(directory) = open_directory(cell.records, OFlags::NOFOLLOW) {
        let _ = RecordLog::new(directory).owned_by(uid, gid).write(record);
    }
}

fn open_directory(path: &Path, more: OFlags) -> Result<OwnedFd, StepError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
    rustix::fs::open(path, flags, Mode::empty()).step(|| format!("open {}", path.display()))
}

fn ends_within(pidfd: &OwnedFd, time: Timespec) -> bool {
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&time)).is_ok_and(|ended| ended > 0)
}

fn failed(why: String) -> Error {
    Error::unavailable(why).hint("end the cell and make it anew")
}

/// Starts a carrier and waits until it serves the cell.
fn start(
    cell: Served<'_>,
    door: Door<'_>,
    (settings, rules, lent): (&EgressSettings, NameRules, &[LentSecret]),
    groups: &CarrierCgroups,
) -> Result<(Pid, OwnedFd), StepError> {
    let name = || "start the carrier".to_owned();
    // Where it cannot have groups it has limits of its own.
    let entrances = groups.create(MEMORY_BYTES, PIDS).unwrap_or_default();
    let records = open_directory(cell.records, OFlags::empty())?;
    let control = cell.place.listen_as_carrier().step(name)?;
    let (ready_ours, ready) = pipe_with(PipeFlags::CLOEXEC).step(name)?;
    let (begin, begin_ours) = pipe_with(PipeFlags::CLOEXEC).step(name)?;
    match fork().step(name)? {
        Forked::Child => {
            drop((ready_ours, begin_ours));
            if !may_begin(begin) {
                std::process::exit(1);
            }
            let bound = bound(entrances.as_deref());
            let headers = || header_plan(cell, settings, lent);
            let plan = (settings.clone(), rules, headers);
            let fds = [control.as_fd(), ready.as_fd(), records.as_fd()];
            let become_it = || be_carrier(cell, door, plan, bound, fds);
            match become_it() {
                Ok(never) => match never {},
                Err(_) => std::process::exit(1),
            }
        }
        Forked::Parent { pid, pidfd } => {
            drop((control, ready, begin, entrances));
            let noted = WhichProcess::of(pid)
                .and_then(|it| it.save_to(&cell.place.carrier()))
                .and_then(|()| Ok(rustix::io::write(&begin_ours, b"b")?));
            drop(begin_ours);
            let mut word = [0];
            let time = Timespec { tv_sec: READY_WITHIN_S, tv_nsec: 0 };
            let answered = poll(&mut [PollFd::new(&ready_ours, PollFlags::IN)], Some(&time));
            let is_ready = answered.is_ok_and(|answered| answered > 0)
                && File::from(ready_ours).read(&mut word).is_ok_and(|read| read == 1);
            if is_ready && noted.is_ok() {
                return Ok((pid, pidfd));
            }
            let _ = send_by_pidfd(pidfd.as_fd(), 9);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(io::Error::other("it ended before it was ready")).step(name)
        }
    }
}

/// Waits until it is written down which process this is. One of which nobody would know, as when
/// the keeper is gone before, ends.
pub(crate) fn may_begin(begin: OwnedFd) -> bool {
    File::from(begin).read(&mut [0]).is_ok_and(|read| read == 1)
}

/// What a carrier has of its cell.
struct Way {
    sockets: UnixStream,
    /// Readable once the cell has ended.
    ended: OwnedFd,
    /// The process that opens sockets, where there is one.
    maker: Option<Pid>,
}

/// Opens the way to the network of a cell.
fn open_door(place: KeptPlace<'_>, door: Door<'_>) -> Result<Way, StepError> {
    let name = || "start the carrier".to_owned();
    match door {
        Door::Namespaces(namespaces, supervisor) => {
            let ended = supervisor.try_clone_to_owned().step(name)?;
            let (sockets, maker) = start_maker(namespaces)?;
            Ok(Way { sockets, ended, maker: Some(maker) })
        }
        Door::Supervisor => {
            let connect = || {
                let stream = place.connect_for_sockets()?;
                stream.ok_or_else(|| io::Error::other("its supervisor is gone"))
            };
            let name = || "connect to the cell's supervisor".to_owned();
            // Nothing is asked over the second one: it breaks off when the cell ends.
            let (sockets, ended) = (connect().step(name)?, connect().step(name)?);
            Ok(Way { sockets, ended: ended.into(), maker: None })
        }
    }
}

/// Starts a process that opens sockets in a cell.
fn start_maker(namespaces: &CellNamespaces) -> Result<(UnixStream, Pid), StepError> {
    let name = || "start the carrier".to_owned();
    let (sockets, theirs) = UnixStream::pair().step(name)?;
    match fork().step(name)? {
        Forked::Child => {
            drop(sockets);
            // With the descriptor that it waits at, it ends as soon as the carrier does.
            rename_self(c"hotcell-sockets", &[c"hotcell", c"sockets"]);
            enter_network(namespaces)?;
            // It needs no secret, but one that follows another is made when the keeper has them.
            hide_self().step(|| HIDE.to_owned())?;
            let never = go_on_with(&[theirs.as_fd()], || {
                let asked = inherited_fds(&[3])?.into_iter().next().map(UnixStream::from);
                make_sockets(&asked.ok_or(io::ErrorKind::NotFound)?)
            })?;
            match never {}
        }
        Forked::Parent { pid, .. } => Ok((sockets, pid)),
    }
}

/// The child's part: it goes on as the carrier, with nothing of what the keeper has open.
/// As root it is nobody on the host: it has the ids under which the cell's supervisor runs, and no
/// capability.
fn be_carrier(
    cell: Served<'_>,
    door: Door<'_>,
    (settings, rules, headers): (EgressSettings, NameRules, impl FnOnce() -> HeaderPlan),
    bound: Bound,
    [control, ready, records]: [BorrowedFd<'_>; 3],
) -> Result<std::convert::Infallible, StepError> {
    let name = || "start the carrier".to_owned();
    // What it does for a cell comes after what the host does for itself.
    let _ = rustix::process::nice(NICE);
    let_go_of_streams().step(name)?;
    let Way { sockets, ended, maker } = open_door(cell.place, door)?;
    rename_self(c"hotcell-carrier", &[c"hotcell", c"carry"]);
    hide_self().step(|| HIDE.to_owned())?;
    let headers = headers();
    if let Some((uid, gid)) = cell.becomes {
        give_up_root(uid, gid).step(|| "give up root".to_owned())?;
        // With other ids a process is again what the machine says.
        hide_self().step(|| HIDE.to_owned())?;
    }
    limit_self(bound).step(|| "take on limits".to_owned())?;
    go_on_with(&[sockets.as_fd(), ended.as_fd(), control, ready, records], || {
        let fds: [OwnedFd; 5] = inherited_fds(&[3, 4, 5, 6, 7])?
            .try_into()
            .map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        let [sockets, cell, control, ready, records] = fds;
        let carried = carry(CarryPlan {
            settings,
            rules,
            headers,
            records,
            sockets: sockets.into(),
            cell,
            control: control.into(),
            ready,
        });
        // It ends with the carrier, which collects it: not every init does. One that is stuck is
        // not waited for.
        for _ in 0..maker.map_or(0, |_| MAKER_LOOKS) {
            match waitpid(maker, WaitOptions::NOHANG) {
                Ok(None) => std::thread::sleep(MAKER_APART),
                Ok(Some(_)) | Err(_) => break,
            }
        }
        carried
    })
}

/// Keeps what is in the memory of this process from others of its user, and from whoever collects
/// crashes.
fn hide_self() -> rustix::io::Result<()> {
    // Where this was forbidden before, nothing is lost: who cannot be dumped is not collected either.
    let _ = rustix::process::setrlimit(Resource::Core, exactly(CORE_BYTES));
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// What it needs to add headers to requests, read while it may still read everything.
fn header_plan(cell: Served<'_>, settings: &EgressSettings, lent: &[LentSecret]) -> HeaderPlan {
    let is_header = |grant: &SecretGrant| matches!(grant.form, SecretForm::Header(_));
    if !cell.spec.secrets.iter().any(is_header) {
        return HeaderPlan::default();
    }
    // Without them its requests are refused, in words.
    HeaderPlan {
        grants: cell.spec.secrets.clone(),
        lent: lent.to_vec(),
        authority: authority::find(cell.place).ok().flatten(),
        trust: match &settings.trusted {
            Some(file) => Trust::of_file(file),
            None => Trust::of_host(settings.ca_file.as_deref()),
        },
    }
}

/// By what the memory of this process is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// By a group that it has joined, with what it starts.
    Group,
    /// By a limit of its own.
    Limit,
}

fn bound(entrances: Option<&[OwnedFd]>) -> Bound {
    match entrances.map(join) {
        Some(Ok(())) => Bound::Group,
        // A user may not move a process between groups that others own.
        Some(Err(_)) | None => Bound::Limit,
    }
}

fn exactly(most: u64) -> Rlimit {
    Rlimit { current: Some(most), maximum: Some(most) }
}

/// Nothing is started from here on, neither a process nor a thread.
fn limit_self(bound: Bound) -> rustix::io::Result<()> {
    rustix::process::setrlimit(Resource::Nproc, exactly(0))?;
    match bound {
        Bound::Group => Ok(()),
        Bound::Limit => rustix::process::setrlimit(Resource::Data, exactly(MEMORY_BYTES)),
    }
}

fn give_up_root(uid: u32, gid: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // With another user they are gone; who stays root of a container has them still.
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}
