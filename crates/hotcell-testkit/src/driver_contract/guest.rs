//! A cell of a case, and what can be done with it.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_journal::{Align, Batch, Ended, ExecTable, LogReader, read_journal};
use hotcell_link::{Ask, FollowEvent, Following, Link, LinkError, Tell};
use hotcell_model::{
    CellId, CellSpec, CellStats, CloseReason, Command, Driver, Exec, ExecBounds, ExecEnd, ExecId,
    ExecSpec, Isolation, Keep, LIMITS, Limits, Network, Pace, Record, SessionBounds, Signal, Stdin,
    Stream, Timestamp,
};
use tokio::time::sleep;

use super::{DriverPlace, LOOK_AGAIN};

/// A started cell with a link to it.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) spec: CellSpec,
    pub(super) records: PathBuf,
    /// What is shown in it at `/tools`.
    pub(super) tools: Option<PathBuf>,
    pub(super) link: Link,
    pub(super) isolation: Isolation,
    /// As the driver says of all its cells.
    pub(super) own_root: bool,
}

/// How an exec went.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) records: Vec<Record>,
    pub(super) end: ExecEnd,
}

/// What a case wants of its cell unless it says otherwise: it ends by itself if all else fails.
pub(super) fn spec(driver: &dyn Driver) -> CellSpec {
    CellSpec {
        id: CellId::from_random(random()),
        tenant: "tenant-1".parse().unwrap_or_default(),
        alias: None,
        driver: driver.name().to_owned(),
        image: "host".to_owned(),
        keep: Keep::Ttl,
        ttl_s: Some(600),
        idle_ttl_s: None,
        sleep_after_s: 600,
        orphan_grace_s: 60,
        limits: Limits {
            memory_mb: 512,
            cpus: None,
            pids: 256,
            disk_mb: 1024,
            disk_files: 100_000,
        },
        max_running: LIMITS.max_running,
        output_bytes: LIMITS.output_bytes,
        sessions: SessionBounds::default(),
        network: Network::None,
        workspace: None,
        env: BTreeMap::new(),
        secrets: Vec::new(),
        checkpoint_before: None,
        on: BTreeMap::new(),
        labels: BTreeMap::new(),
        created_at: Timestamp::now(),
    }
}

/// An exec of a program.
pub(super) fn program(words: &[&str]) -> ExecSpec {
    ExecSpec {
        id: ExecId::from_random(random()),
        command: Command::Argv(words.iter().map(|word| (*word).to_owned()).collect()),
        cwd: "/workspace".to_owned(),
        env: BTreeMap::new(),
        stdin: Stdin::Empty,
        pty: None,
        timeout_ms: None,
        priority: 0,
        as_root: false,
        pace: Pace::Free,
        bounds: ExecBounds::default(),
        approval: None,
        checkpoint: None,
        code: hotcell_model::CodeTerms::default(),
    }
}

/// An exec of shell text, in the one shell that every image has.
pub(super) fn sh(text: &str) -> ExecSpec {
    program(&["sh", "-c", text])
}

/// The same with its input kept open.
pub(super) fn open_sh(text: &str) -> ExecSpec {
    ExecSpec { stdin: Stdin::Open, ..sh(text) }
}

/// Bits that no other process has either: cells of several runs share a machine.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Guest {
    /// Tells the cell that what is shown in it was changed.
    pub(super) async fn tools_changed(&self) -> Result<()> {
        Ok(self.driver.tools_changed(&self.spec.id).await?)
    }

    /// Starts a cell.
    pub(super) async fn start(place: &DriverPlace) -> Result<Self> {
        Self::start_with(place, |_| {}).await
    }

    /// Starts a cell that is not quite as usual.
    pub(super) async fn start_with(
        place: &DriverPlace,
        change: impl FnOnce(&mut CellSpec),
    ) -> Result<Self> {
        let mut spec = spec(place.open()?.as_ref());
        change(&mut spec);
        Self::of(place, spec).await
    }

    /// Starts this cell.
    pub(super) async fn of(place: &DriverPlace, spec: CellSpec) -> Result<Self> {
        Self::with_tools(place, spec, None).await
    }

    /// Starts this cell with a directory of the host at `/tools`.
    pub(super) async fn with_tools(
        place: &DriverPlace,
        spec: CellSpec,
        tools: Option<PathBuf>,
    ) -> Result<Self> {
        let driver = place.open()?;
        let records = place.records().join(spec.id.as_str());
        std::fs::create_dir_all(&records).context("make the records directory")?;
        let placed = driver.start(&spec, &records, tools.as_deref()).await.context("start")?;
        let isolation = placed.isolation;
        let link = connect(driver.as_ref(), &spec.id).await?;
        let own_root = driver.capabilities().await?.own_root;
        Ok(Self { driver, spec, records, tools, link, isolation, own_root })
    }

    /// Another connection.
    pub(super) async fn connect(&self) -> Result<Link> {
        connect(self.driver.as_ref(), &self.spec.id).await
    }

    /// Starts the cell again, which has no supervisor, and connects to it.
    pub(super) async fn wake(&mut self) -> Result<()> {
        let (spec, tools) = (&self.spec, self.tools.as_deref());
        self.driver.start(spec, &self.records, tools).await.context("start again")?;
        self.link = self.connect().await?;
        Ok(())
    }

    /// Runs an exec to its end.
    pub(super) async fn run(&self, spec: ExecSpec) -> Result<Outcome> {
        let (_, following) = self.link.start(spec).await?;
        Outcome::of(following).await
    }

    /// Runs shell text that must succeed; what it printed on its standard output.
    pub(super) async fn output_of(&self, text: &str) -> Result<String> {
        let outcome = self.run(sh(text)).await?;
        let (code, errors) = (outcome.end.exit_code, outcome.text(Stream::Stderr));
        ensure!(code == Some(0), "{text:?} ended with {:?}: {errors}", outcome.end);
        Ok(outcome.text(Stream::Stdout))
    }

    /// Starts an exec and waits until it has printed `word`.
    pub(super) async fn start_until(&self, spec: ExecSpec, word: &str) -> Result<Following> {
        let (_, mut following) = self.link.start(spec).await?;
        read_until(&mut following, word).await?;
        Ok(following)
    }

    /// Asks what is answered with nothing but that it was done.
    pub(super) async fn ask(&self, ask: &Ask, blob: &[u8]) -> Result<(), LinkError> {
        match self.link.ask(ask, blob).await? {
            Tell::Done => Ok(()),
            Tell::Started(_)
            | Tell::InputState(_)
            | Tell::Cancelled(_)
            | Tell::Stats(_)
            | Tell::File(_)
            | Tell::Failed(_) => Err(LinkError::Confused),
        }
    }

    /// Sends input.
    pub(super) async fn input(&self, exec: &ExecId, text: &str) -> Result<(), LinkError> {
        self.ask(&Ask::Input { exec: exec.clone(), eof: false }, text.as_bytes()).await
    }

    /// Cancels with TERM.
    pub(super) async fn cancel(&self, exec: &ExecId, grace_ms: u64) -> Result<Tell, LinkError> {
        let cancel = Ask::Cancel { exec: exec.clone(), signal: Signal::TERM, grace_ms };
        self.link.ask(&cancel, &[]).await
    }

    /// How the cell stands.
    pub(super) async fn stats(&self) -> Result<CellStats> {
        let told = self.link.ask(&Ask::Stats, &[]).await?;
        let Tell::Stats(stats) = told else { bail!("asked for stats, told {told:?}") };
        Ok(stats)
    }

    /// What the journal says.
    pub(super) fn journal(&self) -> Result<ExecTable> {
        let mut table = ExecTable::new(self.spec.id.clone());
        let mut from = 0;
        loop {
            let tail = read_journal(&self.records, from)?;
            ensure!(tail.skipped == 0, "{} lines of the journal cannot be read", tail.skipped);
            tail.entries.iter().for_each(|entry| table.apply(entry));
            if tail.at_end {
                return Ok(table);
            }
            from = tail.end;
        }
    }

    /// What the journal says of one exec.
    pub(super) fn journal_of(&self, exec: &ExecId) -> Result<Exec> {
        self.journal()?.get(exec).cloned().context("the journal does not know the exec")
    }

    /// What is on disk of an exec's output after a seq.
    pub(super) fn log_after(&self, exec: &ExecId, seq: u64) -> Result<Batch> {
        let mut reader = LogReader::at(&self.records, exec)?;
        Ok(reader.read_after(seq, u64::MAX, Align::Raw, Ended::Yes)?)
    }

    /// All of an exec's output that is on disk.
    pub(super) fn log_of(&self, exec: &ExecId) -> Result<String> {
        let records = self.log_after(exec, 0)?.records;
        Ok(text_of(&records, None))
    }

    /// Waits until the cell has ended by itself; why it did.
    pub(super) async fn closed(&self) -> Result<CloseReason> {
        self.gone().await?;
        self.journal()?.closed().context("the journal's last entry is no close")
    }

    /// Waits until there is no supervisor.
    pub(super) async fn gone(&self) -> Result<()> {
        while self.driver.connect(&self.spec.id).await?.is_some() {
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// How many processes of the cell are `sleep NUMBER`, which is what cases leave to be found.
    pub(super) async fn count(&self, number: &str) -> Result<usize> {
        if !self.own_root {
            return Ok(on_this_machine(&self.spec.id, |line| {
                line.starts_with(&format!("sleep\0{number}"))
            }));
        }
        let look = format!("grep -lsa '^sleep.{number}' /proc/[0-9]*/cmdline | wc -l");
        Ok(self.output_of(&look).await?.trim().parse()?)
    }

    /// How many processes of the cell have a text in their command line.
    pub(super) async fn count_of(&self, text: &str) -> Result<usize> {
        if !self.own_root {
            return Ok(on_this_machine(&self.spec.id, |line| line.contains(text)));
        }
        let (first, rest) = text.split_at(1);
        let look = format!("grep -lsa '[{first}]{rest}' /proc/[0-9]*/cmdline | wc -l");
        Ok(self.output_of(&look).await?.trim().parse()?)
    }

    /// The same for processes that are about to be: a shell that said a word starts the next one
    /// after it. As many as there are once there are `expected`, or in the end.
    pub(super) async fn count_up_to(&self, expected: usize, number: &str) -> Result<usize> {
        for _ in 0..50 {
            let found = self.count(number).await?;
            if found >= expected {
                return Ok(found);
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        self.count(number).await
    }
}

/// How many processes of a cell without a root of its own have such a command line. They are
/// processes of this machine, and say in a variable whose they are.
fn on_this_machine(cell: &CellId, is_meant: impl Fn(&str) -> bool) -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let read = |path: PathBuf| {
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    };
    let processes = entries.map(|entry| entry.path());
    let of_cell = |process: &PathBuf| read(process.join("environ")).contains(cell.as_str());
    processes.filter(of_cell).filter(|process| is_meant(&read(process.join("cmdline")))).count()
}

impl Outcome {
    /// Reads to the end.
    pub(super) async fn of(mut following: Following) -> Result<Self> {
        let mut records = Vec::new();
        loop {
            match following.next().await {
                Some(FollowEvent::Record(record)) => records.push(record),
                Some(FollowEvent::Ended(end)) => return Ok(Self { records, end }),
                None => bail!("the connection was lost before the end"),
            }
        }
    }

    /// What came on one stream.
    pub(super) fn text(&self, stream: Stream) -> String {
        text_of(&self.records, Some(stream))
    }
}

/// Waits until the output contains a word; what came so far.
pub(super) async fn read_until(following: &mut Following, word: &str) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    loop {
        match following.next().await {
            Some(FollowEvent::Record(record)) => records.push(record),
            Some(FollowEvent::Ended(end)) => {
                bail!("ended before {word:?}: {end:?} after {:?}", text_of(&records, None))
            }
            None => bail!("the connection was lost before {word:?}"),
        }
        if text_of(&records, None).contains(word) {
            return Ok(records);
        }
    }
}

/// The text of records, of one stream or of all.
pub(super) fn text_of(records: &[Record], stream: Option<Stream>) -> String {
    let wanted = records.iter().filter(|record| stream.is_none_or(|only| only == record.stream));
    let bytes: Vec<u8> = wanted.flat_map(|record| record.bytes.iter().copied()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn connect(driver: &dyn Driver, cell: &CellId) -> Result<Link> {
    let stream = driver.connect(cell).await.context("connect")?;
    Ok(Link::open(stream.context("there is no supervisor to connect to")?).await?)
}
