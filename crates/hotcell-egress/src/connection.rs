//! One connection of a cell, from its begin to its end.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hotcell_model::{HostName, NameRules, NetRecord, NetVerdict};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};

use crate::carrier::Carrier;
use crate::dial::dial;
use crate::inspected::{lock, tell};
use crate::inspection::{Inspector, Refusal};
use crate::intercept::{Spoken, not_held, speak};
use crate::lending::{Lending, Treatment};
use crate::meter::{Meter, OpenConnection, Way};
use crate::records::blank;
use crate::resolve::{AskedBy, NoAddress};

/// The longest reason that is written down.
const REASON_CHARS: usize = 500;
pub(crate) const BUFFER_BYTES: usize = 16 << 10;
/// How long a connection stays that one side has ended and the other does not use.
const IDLE_HALF_CLOSED: Duration = Duration::from_secs(300);

/// Where a connection is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: HostName,
    pub(crate) port: u16,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It may not be made.
    Denied(String),
    /// It could not be made.
    Failed(String),
}

/// A connection to the outside, which counts as long as it is held.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) stream: TcpStream,
    address: IpAddr,
    number: u64,
    begun: Instant,
    _counted: OpenConnection,
}

impl Carrier {
    /// Connects to a name, if that is allowed, and writes down what came of it.
    pub(crate) async fn connect(&self, target: &Target) -> Result<Outside, Refused> {
        match self.try_to_connect(target).await {
            Ok(outside) => {
                // What nobody would ever know of does not happen.
                let opened = self.try_to_record(&NetRecord {
                    connection: Some(outside.number),
                    address: Some(outside.address),
                    ..about(target, NetVerdict::Opened)
                });
                opened.map(|()| outside).map_err(|error| {
                    Refused::Failed(format!("the connection cannot be written down: {error}"))
                })
            }
            Err((refused, address)) => {
                let (verdict, why) = match &refused {
                    Refused::Denied(why) => (NetVerdict::Denied, why),
                    Refused::Failed(why) => (NetVerdict::Failed, why),
                };
                let reason = Some(why.chars().take(REASON_CHARS).collect());
                self.record(&NetRecord { address, reason, ..about(target, verdict) });
                Err(refused)
            }
        }
    }

    async fn try_to_connect(&self, target: &Target) -> Result<Outside, (Refused, Option<IpAddr>)> {
        let denied = |why: String| (Refused::Denied(why), None);
        if !self.rules.borrow().allows(&target.name, target.port) {
            return Err(denied("the name is not allowed at this port".to_owned()));
        }
        if let Treatment::NotHeld(name) = self.lent.treatment(target) {
            return Err(denied(not_held(&name)));
        }
        if self.meter.is_cut() {
            let why = "all the bytes that may be carried today are used up";
            return Err(denied(why.to_owned()));
        }
        if self.meter.is_used_up() {
            return Err(denied("the cell has used all the bytes that it may".to_owned()));
        }
        let counted = self.meter.open().ok_or_else(|| {
            denied(format!("the cell has {} connections already", self.meter.max_connections()))
        })?;
        let begun = Instant::now();
        let asked = AskedBy::of(&self.rules.borrow(), &target.name, target.port);
        let addresses = match self.resolver.find(&target.name, asked).await {
            Ok(addresses) => addresses,
            Err(NoAddress::Refused(address, why)) => {
                return Err((Refused::Denied(format!("the name leads to {why}")), Some(address)));
            }
            Err(NoAddress::Unknown(why)) => {
                let why = format!("the name could not be looked up: {why}");
                return Err((Refused::Failed(why), None));
            }
        };
        let dialled = dial(&addresses, target.port).await;
        let stream = dialled.map_err(|error| {
            (Refused::Failed(format!("cannot connect: {error}")), addresses.first().copied())
        })?;
        let address = stream.peer_addr().map_or_else(
            |_| addresses.first().copied().unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)),
            |peer| peer.ip(),
        );
        keep_alive(&stream);
        let number = self.next_number();
        Ok(Outside { stream, address, number, begun, _counted: counted })
    }

    /// Carries a connection until both sides have ended it, one has broken, or it is not allowed
    /// any more, and writes down how much it was. `first` is for the outside, before all else.
    pub(crate) async fn carry(
        &self,
        inside: TcpStream,
        outside: Outside,
        target: &Target,
        first: &[u8],
    ) {
        let kept = Kept { address: outside.address, number: outside.number, begun: outside.begun };
        let counts = Counts::default();
        let _ = inside.set_nodelay(true);
        let _ = outside.stream.set_nodelay(true);
        let mut rules = self.rules.subscribe();
        let is_raw = self.rules.borrow().is_raw(&target.name, target.port);
        let inspector = (!is_raw).then(|| Mutex::new(Inspector::new(target.port)));
        let may_go_on = |rules: &NameRules| {
            rules.allows(&target.name, target.port)
                && match &inspector {
                    Some(inspector) => lock(inspector).is_allowed(rules),
                    None => rules.is_raw(&target.name, target.port),
                }
        };
        let (mut inside_read, mut inside_write) = inside.into_split();
        let (mut outside_read, mut outside_write) = outside.stream.into_split();
        let carrying = async {
            let inside = (&mut inside_read, &mut inside_write);
            let outside = (&mut outside_read, &mut outside_write);
            match self.lent.treatment(target) {
                Treatment::AsItIs => {
                    self.carry_bytes(inside, outside, first, &counts, inspector.as_ref()).await
                }
                Treatment::Lending(lending) => {
                    self.carry_requests(inside, outside, first, &counts, target, &lending).await
                }
                Treatment::NotHeld(name) => Err(Broken::Refused(not_held(&name))),
            }
        };
        let ended = tokio::select! {
            // First: once it is denied, no byte goes on.
            biased;
            () = not_allowed(&mut rules, may_go_on) => Err(Broken::Denied),
            ended = carrying => ended,
        };
        let mut is_answered = false;
        if let Err(Broken::Inspected(refusal)) = &ended {
            self.record_refused(target, &refusal.why);
            if counts.received.load(Ordering::Relaxed) == 0 && !refusal.answer.is_empty() {
                is_answered = true;
                tell(&refusal.answer, &mut inside_read, &mut inside_write).await;
            }
        }
        // Whoever was refused was told so in its own words.
        if ended.as_ref().is_err_and(|broken| !matches!(broken, Broken::Refused(_))) {
            // Nobody is to take half of it for the whole.
            reset(outside_read.as_ref());
            // Dropped, they would say that all was well first.
            outside_write.forget();
            if !is_answered {
                reset(inside_read.as_ref());
                inside_write.forget();
            }
        }
        let (verdict, reason) = self.told_of(ended);
        self.record(&NetRecord {
            connection: Some(kept.number),
            address: Some(kept.address),
            sent_bytes: Some(counts.sent.load(Ordering::Relaxed)),
            received_bytes: Some(counts.received.load(Ordering::Relaxed)),
            duration_ms: Some(u64::try_from(kept.begun.elapsed().as_millis()).unwrap_or(u64::MAX)),
            reason,
            ..about(target, verdict)
        });
    }

    fn told_of(&self, ended: Result<Option<String>, Broken>) -> (NetVerdict, Option<String>) {
        match ended {
            Ok(word) => (NetVerdict::Closed, word),
            Err(Broken::Io(error)) => (NetVerdict::Closed, Some(error.to_string())),
            Err(Broken::Refused(why) | Broken::Inspected(Refusal { why, .. })) => {
                (NetVerdict::Cut, Some(why.chars().take(REASON_CHARS).collect()))
            }
            Err(Broken::Denied) if self.is_over() => {
                (NetVerdict::Cut, Some("the cell has ended".to_owned()))
            }
            Err(Broken::Denied) => {
                (NetVerdict::Cut, Some("the name is not allowed any more".to_owned()))
            }
            Err(Broken::Idle) => {
                let why = "one side had ended it, and nothing came from the other for 5 minutes";
                (NetVerdict::Cut, Some(why.to_owned()))
            }
            Err(Broken::UsedUp) => {
                (NetVerdict::Cut, Some("the cell has used all the bytes that it may".to_owned()))
            }
        }
    }

    /// Byte by byte, once the inspector lets them go on.
    async fn carry_bytes(
        &self,
        (inside_read, inside_write): (&mut OwnedReadHalf, &mut OwnedWriteHalf),
        (outside_read, outside_write): (&mut OwnedReadHalf, &mut OwnedWriteHalf),
        first: &[u8],
        counts: &Counts,
        inspector: Option<&Mutex<Inspector>>,
    ) -> Result<Option<String>, Broken> {
        let (sent, received) = (&counts.sent, &counts.received);
        let one_ended = Notify::new();
        let both = async {
            let out = async {
                let mut inside_read = first.chain(inside_read);
                if let Some(inspector) = inspector {
                    self.one_way_inspected(&mut inside_read, outside_write, sent, inspector)
                        .await?;
                } else {
                    one_way(&mut inside_read, outside_write, &self.meter, Way::Out, sent).await?;
                }
                one_ended.notify_one();
                Ok(())
            };
            let back = async {
                one_way(outside_read, inside_write, &self.meter, Way::In, received).await?;
                one_ended.notify_one();
                Ok(())
            };
            tokio::try_join!(out, back).map(|_| None)
        };
        let carried = || {
            let (sent, received) = (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed));
            sent.saturating_add(received)
        };
        tokio::select! {
            biased;
            ended = both => ended,
            () = left_idle(&one_ended, carried, IDLE_HALF_CLOSED) => Err(Broken::Idle),
        }
    }

    /// Request by request, each with its secret. What goes over the wire is counted.
    async fn carry_requests(
        &self,
        (inside_read, inside_write): (&mut OwnedReadHalf, &mut OwnedWriteHalf),
        (outside_read, outside_write): (&mut OwnedReadHalf, &mut OwnedWriteHalf),
        first: &[u8],
        counts: &Counts,
        target: &Target,
        lending: &Lending,
    ) -> Result<Option<String>, Broken> {
        let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
        let (mut from_speaker, mut to_speaker) = tokio::io::split(ours);
        let requests = AtomicU64::new(0);
        let inside = tokio::io::join(first.chain(inside_read), inside_write);
        let speaking = speak(self, target, lending, inside, theirs, &requests);
        let mut speaking = std::pin::pin!(speaking);
        let (sent, received) = (&counts.sent, &counts.received);
        let wire = async {
            let out = one_way(&mut from_speaker, outside_write, &self.meter, Way::Out, sent);
            let back = one_way(outside_read, &mut to_speaker, &self.meter, Way::In, received);
            tokio::try_join!(out, back).map(drop)
        };
        let spoken = tokio::select! {
            spoken = speaking.as_mut() => spoken,
            ended = wire => match ended {
                // Whoever speaks finds out, and says what there is to say.
                Ok(()) | Err(Broken::Io(_)) => {
                    drop((from_speaker, to_speaker));
                    speaking.await
                }
                Err(broken) => return Err(broken),
            },
        };
        let count = requests.load(Ordering::Relaxed);
        let word = match count {
            0 => "no request came, as from clients that pin another certificate".to_owned(),
            1 => format!("1 request with {}", lending.secrets),
            count => format!("{count} requests with {}", lending.secrets),
        };
        match spoken {
            Spoken::Ended(None) => Ok(Some(word)),
            Spoken::Ended(Some(why)) => Ok(Some(format!("{word}; {why}"))),
            Spoken::Refused(why) => Err(Broken::Refused(why)),
        }
    }

    /// Writes down a request that was refused on a connection that is open.
    pub(crate) fn record_refused(&self, target: &Target, why: &str) {
        let reason = Some(why.chars().take(REASON_CHARS).collect());
        self.record(&NetRecord { reason, ..about(target, NetVerdict::Denied) });
    }
}

/// What is known of a connection from its begin.
struct Kept {
    address: IpAddr,
    number: u64,
    begun: Instant,
}

/// What was carried so far.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

fn about(target: &Target, verdict: NetVerdict) -> NetRecord {
    NetRecord { name: target.name.to_string(), port: Some(target.port), ..blank(verdict) }
}

/// Ends once the rules do not let it go on.
async fn not_allowed(
    rules: &mut watch::Receiver<Arc<NameRules>>,
    may_go_on: impl Fn(&NameRules) -> bool,
) {
    loop {
        if !may_go_on(&rules.borrow_and_update()) {
            return;
        }
        if rules.changed().await.is_err() {
            return;
        }
    }
}

#[derive(Debug)]
pub(crate) enum Broken {
    Io(io::Error),
    Denied,
    UsedUp,
    Idle,
    Refused(String),
    /// What the cell sent may not go there.
    Inspected(Refusal),
}

/// Ends once one way has ended and nothing was carried for so long.
pub(crate) async fn left_idle(one_ended: &Notify, carried: impl Fn() -> u64, limit: Duration) {
    const LOOKS: u32 = 10;
    one_ended.notified().await;
    let mut before = carried();
    let mut idle = 0;
    while idle < LOOKS {
        tokio::time::sleep(limit / LOOKS).await;
        let now = carried();
        idle = if now == before { idle + 1 } else { 0 };
        before = now;
    }
}

/// Carries what comes from one side to the other, and the end of it.
async fn one_way(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    meter: &Meter,
    way: Way,
    count: &AtomicU64,
) -> Result<(), Broken> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.map_err(Broken::Io)?;
        if read == 0 {
            return to.shutdown().await.map_err(Broken::Io);
        }
        pass(&buffer[..read], to, meter, way, count).await?;
    }
}

pub(crate) async fn pass(
    bytes: &[u8],
    to: &mut (impl AsyncWrite + Unpin),
    meter: &Meter,
    way: Way,
    count: &AtomicU64,
) -> Result<(), Broken> {
    meter.take(way, bytes.len()).await.map_err(|_| Broken::UsedUp)?;
    to.write_all(bytes).await.map_err(Broken::Io)?;
    count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Lets a connection end with an error on the other side once it is dropped.
pub(crate) fn reset(stream: &TcpStream) {
    // One that is broken already needs no more.
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// A side that is gone without a word is found out.
fn keep_alive(stream: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(60));
}
