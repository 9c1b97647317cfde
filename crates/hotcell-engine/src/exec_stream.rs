//! An exec's output as it comes: from its supervisor while there is one, from the files after.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hotcell_journal::{Align, Batch, Ended, LogReader};
use hotcell_link::{FollowEvent, Following};
use hotcell_masking::REACH_BEFORE;
use hotcell_model::{
    Dropped, Error, Exec, ExecEnd, ExecId, ExecState, Pace, Record, Result, Stream, Usage,
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::fault;
use crate::site::Site;
use crate::veil::Veil;
use crate::view::View;

/// How much is read from the files at once.
const READ_BYTES: u64 = 256 * 1024;
/// How often a stream is taken up again without getting any further.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// What comes of following an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "the large one comes once, as the last of a stream")]
pub enum ExecEvent {
    /// Output, as it was printed.
    Record(Record),
    /// Output that was not kept.
    Dropped(Dropped),
    /// The end; nothing comes after it.
    Ended(Exec),
}

/// An exec's output as it comes, without repeats and without holes that are not stated, whatever
/// happens to connections and supervisors meanwhile. Dropped, the exec goes on.
pub struct ExecStream {
    site: Arc<Site>,
    exec: Exec,
    source: Source,
    last_seq: u64,
    last_byte: Option<u8>,
    /// Bytes delivered or stated as dropped since the first one; `None` when begun later.
    seen_bytes: Option<u64>,
    /// A record that came before the gap in front of it was stated.
    held: Option<Record>,
    ready: VecDeque<ExecEvent>,
    failures: u32,
    /// Whether the exec waits for this stream.
    pace: Pace,
    /// How much of the head and of the tail is wanted; all when left out.
    result_bound: Option<u64>,
    /// What hides secrets from whoever must not see them.
    veil: Option<Box<Veil>>,
    /// What came and is not shown before what waits behind the veil.
    after_veil: Option<ExecEvent>,
    /// Whether what may be the beginning of a secret waits as long as it takes.
    holds_back: bool,
    /// The last seq that was left out of a result, though the log has it.
    left_out: u64,
    /// Whether the output is followed past the bound of the result.
    stays_live: bool,
}

enum Source {
    /// The supervisor sends it.
    Live(Following),
    /// The supervisor tells the end and nothing else: the rest is in the files then.
    Beyond(Following),
    /// The connection broke: find out where it goes on.
    Broken,
    /// The exec has ended and the rest is in the files.
    Files(Option<Box<LogReader>>),
    /// The supervisor told the end.
    Ending(ExecEnd),
    /// The end was told on.
    Done,
}

impl ExecStream {
    /// Follows an exec after a seq, by whatever way it can be followed.
    pub(crate) async fn open(
        site: &Arc<Site>,
        exec: Exec,
        after_seq: u64,
        pace: Pace,
        view: &View,
    ) -> Result<Self> {
        let source = match exec.state {
            ExecState::Ended => Source::Files(None),
            ExecState::Queued | ExecState::Running => Source::Broken,
        };
        let mut stream = Self { pace, ..Self::new(site, exec, source, after_seq, view) };
        stream.look_back().await?;
        if matches!(stream.source, Source::Broken) {
            stream.attach().await?;
        }
        Ok(stream)
    }

    /// Goes on with an exec that is followed from its beginning already, for a result of bounded
    /// size: past the bound only the end is waited for, and then as much of the tail is delivered.
    /// What lies between is stated like a gap, though the log has it.
    pub(crate) fn for_result(
        site: &Arc<Site>,
        exec: Exec,
        following: Following,
        bound: u64,
        view: &View,
    ) -> Self {
        Self::new(site, exec, Source::Live(following), 0, view).bounded(bound)
    }

    /// The same for a result of bounded size.
    pub(crate) fn bounded(self, bound: u64) -> Self {
        Self { result_bound: Some(bound), ..self }
    }

    fn new(site: &Arc<Site>, exec: Exec, source: Source, after_seq: u64, view: &View) -> Self {
        Self {
            site: Arc::clone(site),
            exec,
            source,
            last_seq: after_seq,
            last_byte: None,
            seen_bytes: (after_seq == 0).then_some(0),
            held: None,
            ready: VecDeque::new(),
            failures: 0,
            pace: Pace::Free,
            result_bound: None,
            veil: view.veil().map(Box::new),
            after_veil: None,
            holds_back: false,
            left_out: 0,
            stays_live: false,
        }
    }

    /// Reads from the log what was printed so far and has not come from the supervisor yet, so that
    /// the result of an exec that still runs holds all of it, or its head and tail. Returns the last
    /// seq known by then.
    pub(crate) async fn catch_up(&mut self) -> u64 {
        if let Err(error) = self.read_what_is_there().await {
            tracing::warn!(exec = %self.exec.id, %error, "cannot read the log");
        }
        self.last_seq
    }

    async fn read_what_is_there(&mut self) -> Result<()> {
        let is_all = match &self.source {
            Source::Live(_) | Source::Broken => {
                let read = self.read_after(READ_BYTES, Ended::NotYet, None).await?;
                let is_all = read.batch.as_ref().is_none_or(|batch| batch.at_end);
                read.batch.into_iter().for_each(|batch| self.apply(batch));
                is_all
            }
            Source::Beyond(_) => false,
            Source::Files(_) | Source::Ending(_) | Source::Done => true,
        };
        match self.result_bound.filter(|_| !is_all) {
            Some(bound) => self.skip_to_tail(self.with_reach(bound), None).await,
            None => Ok(()),
        }
    }

    /// A bound with room for what is read to find secrets, by what stands before what is shown.
    fn with_reach(&self, bound: u64) -> u64 {
        bound + if self.veil.is_some() { 2 * REACH_BEFORE as u64 } else { 0 }
    }

    /// Keeps following the output past the bound of the result: the caller looks for a question at
    /// its end.
    pub(crate) fn stay_live(&mut self) {
        self.stays_live = true;
    }

    /// From now on what may be the beginning of a secret waits until it is known: for whoever shows
    /// all of it together.
    pub(crate) fn hold_back(&mut self) {
        self.holds_back = true;
    }

    /// Lets go of what was held back: nothing comes after it for the time being.
    pub(crate) fn release_held(&mut self) {
        self.veil.iter_mut().for_each(|veil| veil.release());
    }

    /// Whether the output that came last ends within a line.
    pub(crate) fn ends_in_line(&self) -> bool {
        self.last_byte.is_some_and(|byte| byte != b'\n')
    }

    /// The last seq that came, whether or not it is shown yet.
    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// The next of what was held back longer than anybody who watches would wait.
    pub(crate) fn overdue(&mut self) -> Option<Record> {
        let veil = self.veil.as_mut()?;
        if veil.deadline()? <= Instant::now() {
            veil.release();
        }
        veil.pop().map(|shown| shown.record)
    }

    /// The next event; `None` after the end. Can be cancelled without losing an event. Where
    /// secrets are hidden, a record that is part of one is empty.
    ///
    /// # Errors
    /// The output can be reached neither through the supervisor nor in the files. The stream stays
    /// where it is: asked again, it tries again.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>> {
        loop {
            let Some(veil) = &mut self.veil else { return self.next_raw().await };
            if let Some(shown) = veil.pop() {
                return Ok(Some(ExecEvent::Record(shown.record)));
            }
            let deadline = veil.deadline();
            if deadline.is_none()
                && let Some(event) = self.after_veil.take()
            {
                return Ok(Some(event));
            }
            let event = match deadline.filter(|_| !self.holds_back) {
                None => self.next_raw().await?,
                Some(deadline) => match timeout_at(deadline, self.next_raw()).await {
                    Ok(event) => event?,
                    Err(_) => {
                        self.veil.iter_mut().for_each(|veil| veil.release());
                        continue;
                    }
                },
            };
            let Some(event) = event else { return Ok(None) };
            self.put_behind_veil(event);
        }
    }

    fn put_behind_veil(&mut self, event: ExecEvent) {
        let Some(veil) = &mut self.veil else { return };
        match event {
            ExecEvent::Record(record) => veil.push(record),
            ExecEvent::Dropped(dropped) => {
                if dropped.to_seq == self.left_out {
                    veil.skip()
                } else {
                    veil.gap()
                }
                self.after_veil = Some(ExecEvent::Dropped(dropped));
            }
            ExecEvent::Ended(mut exec) => {
                veil.finish();
                veil.cover(&mut exec.command);
                self.after_veil = Some(ExecEvent::Ended(exec));
            }
        }
    }

    /// Looks at what lies before the first record that is wanted: a secret may begin there.
    async fn look_back(&mut self) -> Result<()> {
        if self.veil.is_none() || self.last_seq == 0 {
            return Ok(());
        }
        let (exec, last_seq) = (self.exec.id.clone(), self.last_seq);
        let records = self.site.records(&self.exec.cell);
        let before = fault::blocking(move || {
            LogReader::at(&records, &exec)
                .and_then(|mut reader| {
                    reader.read_before(last_seq, REACH_BEFORE as u64, Align::Raw)
                })
                .map_err(|error| fault::io(format_args!("read the output of exec {exec}"), &error))
        })
        .await?;
        self.veil.iter_mut().for_each(|veil| veil.feed_all(before.clone()));
        Ok(())
    }

    /// The next event as it is.
    async fn next_raw(&mut self) -> Result<Option<ExecEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.held.is_some() {
                self.state_gap().await?;
                continue;
            }
            match &mut self.source {
                Source::Live(following) => match following.next().await {
                    Some(FollowEvent::Record(record)) => {
                        self.take(record);
                        self.leave_out_the_middle().await?;
                    }
                    Some(FollowEvent::Ended(end)) => self.source = Source::Ending(end),
                    None => self.source = Source::Broken,
                },
                Source::Beyond(following) => match following.next().await {
                    Some(FollowEvent::Record(_)) => {}
                    Some(FollowEvent::Ended(end)) => self.source = Source::Ending(end),
                    None => self.source = Source::Broken,
                },
                Source::Broken => self.resume().await?,
                Source::Files(_) => self.read_rest().await?,
                Source::Ending(_) => self.end().await?,
                Source::Done => return Ok(None),
            }
        }
    }

    /// The exec as this stream last knew it.
    pub(crate) fn exec(&self) -> &Exec {
        &self.exec
    }

    fn take(&mut self, record: Record) {
        self.failures = 0;
        if record.seq > self.last_seq + 1 {
            self.held = Some(record);
        } else {
            self.deliver(record);
        }
    }

    fn deliver(&mut self, record: Record) {
        if record.seq > self.last_seq {
            self.last_seq = record.seq;
            self.last_byte = record.bytes.last().copied().or(self.last_byte);
            self.count(record.bytes.len() as u64);
            self.ready.push_back(ExecEvent::Record(record));
        }
    }

    fn state(&mut self, dropped: Dropped) {
        if dropped.to_seq > self.last_seq {
            let from_seq = dropped.from_seq.max(self.last_seq + 1);
            self.last_seq = dropped.to_seq;
            self.count(dropped.dropped_bytes);
            self.ready.push_back(ExecEvent::Dropped(Dropped { from_seq, ..dropped }));
        }
    }

    fn count(&mut self, bytes: u64) {
        self.seen_bytes = self.seen_bytes.map(|seen| seen.saturating_add(bytes));
    }

    /// Delivers what was read from the files, in order.
    fn apply(&mut self, batch: Batch) {
        let mut gaps = batch.dropped.into_iter().peekable();
        for record in batch.records {
            while let Some(gap) = gaps.next_if(|gap| gap.from_seq < record.seq) {
                self.state(gap);
            }
            self.deliver(record);
        }
        gaps.for_each(|gap| self.state(gap));
    }

    /// States what is missing before the held record. A gap that has grown beyond that record
    /// meanwhile includes it: the stated numbers stay those of the log.
    async fn state_gap(&mut self) -> Result<()> {
        let before = self.last_seq;
        if let Some(batch) = self.read_after(1, Ended::NotYet, None).await?.batch {
            self.apply(batch);
        }
        let Some(held) = self.held.take() else { return Ok(()) };
        if self.last_seq == before {
            // The log has nothing to say of it: the numbers are all there is.
            self.state(Dropped {
                dropped_bytes: 0,
                from_seq: before + 1,
                to_seq: held.seq.saturating_sub(1),
            });
        }
        self.take(held);
        Ok(())
    }

    /// Finds out where a broken stream goes on.
    async fn resume(&mut self) -> Result<()> {
        if self.failures >= ATTEMPTS {
            self.failures = 0;
            return Err(Error::unavailable(format!(
                "the output of exec {} cannot be followed at present",
                self.exec.id
            ))
            .hint("try again, or read what there is with `hotcell logs`"));
        }
        if self.failures > 0 {
            sleep(PAUSE * self.failures).await;
        }
        // The state first: what is read after an exec has ended is complete.
        self.exec = self.site.get_exec_in(&self.exec.cell, &self.exec.id).await?;
        match self.exec.state {
            ExecState::Ended => self.source = Source::Files(None),
            ExecState::Queued | ExecState::Running => {
                self.attach().await?;
                // Back at zero with the first thing that comes.
                self.failures += 1;
            }
        }
        Ok(())
    }

    /// Follows through the supervisor; the stream stays broken when there is none.
    async fn attach(&mut self) -> Result<()> {
        if let Some(following) =
            self.site.find_following(&self.exec, self.last_seq, self.pace).await?
        {
            self.source = Source::Live(following);
        }
        Ok(())
    }

    /// Reads on in the files of an exec that has ended.
    async fn read_rest(&mut self) -> Result<()> {
        let reader = match &mut self.source {
            Source::Files(reader) => reader.take(),
            Source::Live(_)
            | Source::Beyond(_)
            | Source::Broken
            | Source::Ending(_)
            | Source::Done => return Ok(()),
        };
        let read = self.read_after(READ_BYTES, Ended::Yes, reader).await?;
        match read.batch {
            Some(batch) => {
                self.apply(batch);
                self.source = Source::Files(Some(read.reader));
            }
            None => {
                self.ready.push_back(ExecEvent::Ended(self.exec.clone()));
                self.source = Source::Done;
            }
        }
        Ok(())
    }

    /// Passes the end on, once everything that was printed has been delivered or stated.
    async fn end(&mut self) -> Result<()> {
        let end = match &self.source {
            Source::Ending(end) => end.clone(),
            Source::Live(_)
            | Source::Beyond(_)
            | Source::Broken
            | Source::Files(_)
            | Source::Done => return Ok(()),
        };
        if let Some(bound) = self.result_bound.take() {
            let bound = self.with_reach(bound);
            if self.seen_bytes.is_some_and(|seen| printed(&end.usage) > seen + bound) {
                return self.skip_to_tail(bound, Some(printed(&end.usage))).await;
            }
        }
        if self.seen_bytes != Some(printed(&end.usage))
            && let Some(batch) = self.read_after(READ_BYTES, Ended::Yes, None).await?.batch
        {
            self.apply(batch);
            return Ok(());
        }
        if self.exec.started_at.is_none()
            && let Some(exec) = self.site.find_exec_in(&self.exec.cell, &self.exec.id).await?
        {
            self.exec = exec;
        }
        self.exec.state = ExecState::Ended;
        self.exec.end = Some(end);
        self.ready.push_back(ExecEvent::Ended(self.exec.clone()));
        self.source = Source::Done;
        Ok(())
    }

    /// Once a result has its head, waits for the end alone: what is printed until then need not
    /// come this way.
    async fn leave_out_the_middle(&mut self) -> Result<()> {
        let full = |bound| self.seen_bytes.is_some_and(|seen| seen > bound);
        if !self.stays_live && self.held.is_none() && self.result_bound.is_some_and(full) {
            let beyond = self.site.find_following(&self.exec, u64::MAX, Pace::Free).await?;
            self.source = beyond.map_or(Source::Broken, Source::Beyond);
        }
        Ok(())
    }

    /// Delivers the last bytes of each stream, and states what was left out before them. More may be
    /// left out between them, of streams that go on. How much was printed is known of an exec that
    /// has ended.
    async fn skip_to_tail(&mut self, bound: u64, printed: Option<u64>) -> Result<()> {
        let exec = self.exec.id.clone();
        let records = self.site.records(&self.exec.cell);
        let tail = fault::blocking(move || {
            last_of_each_stream(&records, &exec, bound)
                .map_err(|error| fault::io(format_args!("read the output of exec {exec}"), &error))
        })
        .await?;
        let tail: Vec<Record> =
            tail.into_iter().filter(|record| record.seq > self.last_seq).collect();
        let tail_bytes: u64 = tail.iter().map(|record| record.bytes.len() as u64).sum();
        if let (Some(first), Some(seen)) = (tail.first(), self.seen_bytes)
            && first.seq > self.last_seq + 1
        {
            self.left_out = first.seq - 1;
            self.state(Dropped {
                dropped_bytes: printed.map_or(0, |all| all.saturating_sub(seen + tail_bytes)),
                from_seq: self.last_seq + 1,
                to_seq: first.seq - 1,
            });
        }
        for record in tail {
            self.deliver(record);
        }
        // The first record of the tail may be cut: the sum says nothing any more.
        self.seen_bytes = None;
        Ok(())
    }

    /// Reads from the files what comes after the last seq; `batch` is `None` when nothing does.
    async fn read_after(
        &self,
        max_bytes: u64,
        ended: Ended,
        reader: Option<Box<LogReader>>,
    ) -> Result<ReadOn> {
        let (exec, last_seq) = (self.exec.id.clone(), self.last_seq);
        let records = self.site.records(&self.exec.cell);
        fault::blocking(move || {
            let read = || -> io::Result<ReadOn> {
                let mut reader = match reader {
                    Some(reader) => reader,
                    None => Box::new(LogReader::at(&records, &exec)?),
                };
                let batch = reader.read_after(last_seq, max_bytes, Align::Raw, ended)?;
                let empty = batch.records.is_empty() && batch.dropped.is_empty();
                Ok(ReadOn { batch: (!empty).then_some(batch), reader })
            };
            read()
                .map_err(|error| fault::io(format_args!("read the output of exec {exec}"), &error))
        })
        .await
    }
}

/// The last bytes of each stream, in order.
fn last_of_each_stream(records: &Path, exec: &ExecId, bound: u64) -> io::Result<Vec<Record>> {
    let mut reader = LogReader::at(records, exec)?;
    let mut all = Vec::new();
    for stream in [Stream::Stdout, Stream::Stderr, Stream::Pty] {
        all.append(&mut reader.tail_lines(u64::MAX, Some(stream), bound)?.records);
    }
    all.sort_by_key(|record| record.seq);
    Ok(all)
}

struct ReadOn {
    batch: Option<Batch>,
    reader: Box<LogReader>,
}

fn printed(usage: &Usage) -> u64 {
    usage.stdout_bytes.saturating_add(usage.stderr_bytes)
}

impl fmt::Debug for ExecStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecStream")
            .field("exec", &self.exec.id)
            .field("last_seq", &self.last_seq)
            .finish_non_exhaustive()
    }
}
