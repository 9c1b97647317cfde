//! The carrier of one cell: a process with one thread, on the host's side.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotcell_model::{HostName, NameRules, NetRecord, NetVerdict};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::connection::{Target, reset};
use crate::control::{CarrierAsk, CarrierTell};
use crate::dns::{Told, Wanted, answer};
use crate::lending::Lent;
use crate::lookup_pace::LookupPace;
use crate::meter::Meter;
use crate::name_table::NameTable;
use crate::plan::{CarryPlan, PROXY_PORT, SERVICES, Services};
use crate::proxy;
use crate::records::{RecordLog, blank};
use crate::resolve::HostResolver;
use crate::socket_maker::SocketMaker;

const DNS_PORT: u16 = 53;
/// How far apart lookups over one stream are.
const STREAM_LOOKUP_APART: Duration = Duration::from_millis(1);
/// Names that have an address at once.
const MOST_NAMES: usize = 512;
/// Lookups over streams, and requests to the carrier, at once.
const MOST_ASKING: usize = 32;
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// 256 rules of the longest names, or 32 secrets of the longest values.
const MOST_ASK_BYTES: u64 = 1 << 20;
/// Heads of requests to the proxy that are read at once.
const MOST_HEADS: usize = 64;
/// How long connections have to be written down when the cell has ended.
const END_WITHIN: Duration = Duration::from_millis(300);
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// So long nothing is accepted after that failed, which happens when descriptors run out.
const PAUSE: Duration = Duration::from_millis(50);

/// What is known of a name in the cell: its listeners, a task for each.
#[derive(Debug, Default)]
struct Listeners {
    tasks: JoinSet<()>,
    ports: std::collections::BTreeMap<u16, AbortHandle>,
    /// Connections that came through them and are open.
    open: Arc<()>,
}

impl Listeners {
    fn is_idle(&self) -> bool {
        // One for itself and one for each task.
        Arc::strong_count(&self.open) <= 1 + self.ports.len()
    }
}

/// What all tasks of a carrier share.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) rules: watch::Sender<Arc<NameRules>>,
    pub(crate) resolver: HostResolver,
    pub(crate) meter: Arc<Meter>,
    /// What is added to requests.
    pub(crate) lent: Lent,
    /// For heads of requests to the proxy that are being read.
    pub(crate) heads: Semaphore,
    is_over: AtomicBool,
    records: Mutex<RecordLog>,
    names: Mutex<NameTable<Listeners>>,
    sockets: Mutex<SocketMaker>,
    connections: Mutex<JoinSet<()>>,
    numbers: AtomicU64,
}

/// Carries the connections of a cell until it ends.
///
/// # Errors
/// The cell cannot be served; whoever started this one may try again.
pub fn carry(plan: CarryPlan) -> io::Result<()> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(plan))
}

/// Each connection takes two descriptors, and each name some.
fn raise_file_limit() {
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
}

async fn serve(plan: CarryPlan) -> io::Result<()> {
    let CarryPlan { settings, rules, headers, records, sockets, cell, control, ready } = plan;
    let sockets = SocketMaker::new(sockets)?;
    let services = Services {
        dns: sockets.datagrams(SERVICES, DNS_PORT)?,
        dns_streams: sockets.listen(SERVICES, DNS_PORT)?,
        proxy: sockets.listen(SERVICES, PROXY_PORT)?,
    };
    let carrier = Arc::new(Carrier {
        rules: watch::Sender::new(Arc::new(rules)),
        resolver: HostResolver::new(&settings),
        meter: Arc::new(Meter::new(&settings, records.try_clone()?)),
        lent: Lent::new(headers),
        heads: Semaphore::new(MOST_HEADS),
        is_over: AtomicBool::new(false),
        records: Mutex::new(RecordLog::new(records)),
        names: Mutex::new(NameTable::new(MOST_NAMES)),
        sockets: Mutex::new(sockets),
        connections: Mutex::default(),
        numbers: AtomicU64::new(number_of_now()),
    });
    carrier.settle_names();
    control.set_nonblocking(true)?;
    let control = UnixListener::from_std(control)?;
    #[expect(deprecated, reason = "the other way is unsafe, and nobody else has this descriptor")]
    let cell = AsyncFd::with_interest(cell, Interest::READABLE)?;
    let dns = UdpSocket::from_std(services.dns)?;
    let dns_streams = TcpListener::from_std(services.dns_streams)?;
    let proxy = TcpListener::from_std(services.proxy)?;
    tell_ready(ready)?;
    let mut saving = tokio::time::interval(SAVE_EVERY);
    let mut asking: JoinSet<()> = JoinSet::new();
    let mut packet = vec![0; 4096];
    let mut pace = LookupPace::new();
    let mut broken = Ok(());
    loop {
        while asking.try_join_next().is_some() {}
        if lock(&carrier.sockets).is_broken() {
            // Another one begins with answers that belong to its questions.
            broken = Err(io::Error::other("the process that opens sockets does not answer"));
            break;
        }
        let has_room = asking.len() < MOST_ASKING;
        tokio::select! {
            biased;
            _ = cell.readable() => break,
            accepted = control.accept() => if let Ok((stream, _)) = accepted {
                let carrier = Arc::clone(&carrier);
                asking.spawn(async move {
                    let _ = tokio::time::timeout(ASK_WITHIN, carrier.answer_ask(stream)).await;
                });
            },
            accepted = dns_streams.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    let carrier = Arc::clone(&carrier);
                    asking.spawn(async move { carrier.answer_stream(stream).await });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            accepted = proxy.accept(), if carrier.heads.available_permits() > 0 => match accepted {
                Ok((stream, _)) => {
                    let serving = proxy::serve(Arc::clone(&carrier), stream);
                    carrier.begin(serving);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            _ = saving.tick() => carrier.note_use(),
            // Last: however many of these there are, the rest has its turn.
            received = dns.recv_from(&mut packet), if pace.has_room() => {
                pace.count();
                if let Ok((length, from)) = received
                    && let Some(reply) =
                        answer(&packet[..length], |name, want| carrier.look_up(name, want))
                {
                    // Whoever asked may be gone, or not take it.
                    let _ = dns.try_send_to(&reply, from);
                }
                tokio::task::yield_now().await;
            },
            () = tokio::time::sleep_until(pace.next()), if !pace.has_room() => {},
        }
    }
    carrier.end().await;
    let _ = lock(&carrier.records).tell_left_out();
    carrier.meter.save()?;
    broken
}

/// Numbers of connections go on after a restart without one of them coming twice.
fn number_of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs()) << 20
}

fn tell_ready(ready: OwnedFd) -> io::Result<()> {
    rustix::io::write(&ready, b"r")?;
    Ok(())
}

impl Carrier {
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes something down that has happened. What cannot be written is lost: there is nobody
    /// here to tell.
    pub(crate) fn record(&self, record: &NetRecord) {
        let _ = self.try_to_record(record);
    }

    /// Writes something down.
    pub(crate) fn try_to_record(&self, record: &NetRecord) -> io::Result<()> {
        lock(&self.records).write(record)
    }

    /// Writes down what was refused before it had a target.
    pub(crate) fn record_denied(&self, name: &str, why: &str) {
        let name = name.chars().take(255).collect();
        let reason = Some(why.chars().take(500).collect());
        self.record(&NetRecord { name, reason, ..blank(NetVerdict::Denied) });
    }

    /// Writes down what was used and left out so far. What fails is tried again.
    fn note_use(&self) {
        let _ = self.meter.save();
        let _ = lock(&self.records).tell_left_out_if_due();
    }

    /// Begins something that goes on beside everything else.
    pub(crate) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut connections = lock(&self.connections);
        while connections.try_join_next().is_some() {}
        connections.spawn(work);
    }

    /// Whether the cell has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Cuts what is open, and waits until that is written down.
    async fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.rules.send_replace(Arc::default());
        let mut connections = std::mem::take(&mut *lock(&self.connections));
        let all = async { while connections.join_next().await.is_some() {} };
        // One that is still being made was never opened.
        let _ = tokio::time::timeout(END_WITHIN, all).await;
    }

    /// What a lookup of a name is told.
    fn look_up(self: &Arc<Self>, name: Result<&HostName, &str>, wanted: Wanted) -> Told {
        let rules = Arc::clone(&self.rules.borrow());
        let name = match name {
            Ok(name) if !rules.ports_of(name).is_empty() => name,
            Ok(name) => {
                let _ = lock(&self.records).write_lookup(name.as_str());
                return Told::Denied;
            }
            Err(text) => {
                let _ = lock(&self.records).write_lookup(text);
                return Told::Denied;
            }
        };
        match wanted {
            Wanted::Anything => Told::Address(SERVICES),
            Wanted::Address => match self.place(name, &rules) {
                Ok(address) => Told::Address(address),
                Err(error) => {
                    let reason = Some(format!("cannot listen for it in the cell: {error}"));
                    let name = name.to_string();
                    self.record(&NetRecord { name, reason, ..blank(NetVerdict::Failed) });
                    Told::Failed
                }
            },
        }
    }

    /// The address of a name in the cell, with a listener at each port that is allowed.
    fn place(self: &Arc<Self>, name: &HostName, rules: &NameRules) -> io::Result<Ipv4Addr> {
        let mut names = lock(&self.names);
        if let Some(entry) = names.get(name) {
            let address = entry.address;
            self.listen(name, address, &mut entry.value, rules)?;
            return Ok(address);
        }
        let is_written_out = |name: &HostName| rules.exact_names().any(|exact| exact == name);
        let may_go =
            |name: &HostName, listeners: &Listeners| listeners.is_idle() && !is_written_out(name);
        let address = names
            .place_for(name, may_go)
            .ok_or_else(|| io::Error::other("too many names have open connections"))?;
        let mut listeners = Listeners::default();
        self.listen(name, address, &mut listeners, rules)?;
        names.insert(name.clone(), address, listeners);
        Ok(address)
    }

    /// Opens listeners for ports that are allowed, and closes the others.
    fn listen(
        self: &Arc<Self>,
        name: &HostName,
        address: Ipv4Addr,
        listeners: &mut Listeners,
        rules: &NameRules,
    ) -> io::Result<()> {
        let wanted = rules.ports_of(name);
        listeners.ports.retain(|port, task| {
            let stays = wanted.contains(port);
            if !stays {
                task.abort();
            }
            stays
        });
        while listeners.tasks.try_join_next().is_some() {}
        for port in wanted {
            if listeners.ports.contains_key(&port) {
                continue;
            }
            let listener = lock(&self.sockets).listen(address, port)?;
            let listener = TcpListener::from_std(listener)?;
            let target = Target { name: name.clone(), port };
            let open = Arc::clone(&listeners.open);
            let accepting = Arc::clone(self).accept_all(listener, target, open);
            let task = listeners.tasks.spawn(accepting);
            listeners.ports.insert(port, task);
        }
        Ok(())
    }

    async fn accept_all(self: Arc<Self>, listener: TcpListener, target: Target, open: Arc<()>) {
        loop {
            match listener.accept().await {
                Ok((inside, _)) => {
                    let (carrier, target) = (Arc::clone(&self), target.clone());
                    let open = Arc::clone(&open);
                    self.begin(async move {
                        let _open = open;
                        match carrier.connect(&target).await {
                            Ok(outside) => carrier.carry(inside, outside, &target, &[]).await,
                            Err(_) => reset(&inside),
                        }
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Gives every name that is written out its address, and takes listeners away that are not
    /// allowed any more.
    fn settle_names(self: &Arc<Self>) {
        let rules = Arc::clone(&self.rules.borrow());
        {
            let mut names = lock(&self.names);
            for name in names.names() {
                if let Some(entry) = names.get(&name) {
                    let address = entry.address;
                    // A port that somebody in the cell has taken is tried again at the next lookup.
                    let _ = self.listen(&name, address, &mut entry.value, &rules);
                }
            }
        }
        for name in rules.exact_names().filter(|name| !rules.ports_of(name).is_empty()) {
            let _ = self.place(name, &rules);
        }
    }

    async fn answer_ask(self: Arc<Self>, mut stream: UnixStream) -> io::Result<()> {
        let (read, mut write) = stream.split();
        let mut line = String::new();
        BufReader::new(read.take(MOST_ASK_BYTES)).read_line(&mut line).await?;
        let told = match serde_json::from_str(&line)? {
            CarrierAsk::Stats => CarrierTell::Stats(self.meter.stats()),
            CarrierAsk::Carry(allowance) => {
                self.meter.allow(allowance);
                CarrierTell::Done
            }
            CarrierAsk::Lend(secrets) => {
                self.lent.lend(&secrets);
                CarrierTell::Done
            }
            CarrierAsk::Enforce(network) => {
                self.rules.send_replace(Arc::new(network.rules()));
                self.settle_names();
                // Whatever is cut by that is cut before the answer.
                tokio::task::yield_now().await;
                CarrierTell::Done
            }
        };
        let mut line = serde_json::to_vec(&told)?;
        line.push(b'\n');
        write.write_all(&line).await
    }

    /// Lookups over a stream, each with its length before it.
    async fn answer_stream(self: Arc<Self>, mut stream: TcpStream) {
        let lookups = async {
            loop {
                let length = stream.read_u16().await?;
                let mut packet = vec![0; usize::from(length)];
                stream.read_exact(&mut packet).await?;
                // As many as over datagrams, or fewer.
                tokio::time::sleep(STREAM_LOOKUP_APART).await;
                let reply = answer(&packet, |name, want| self.look_up(name, want));
                let reply = reply.ok_or(io::ErrorKind::InvalidData)?;
                let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
                stream.write_all(&[&length.to_be_bytes()[..], &reply].concat()).await?;
            }
        };
        let _: Result<io::Result<()>, _> = tokio::time::timeout(ASK_WITHIN, lookups).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
