//! One log serves everyone: from any seq, at any pace, over any connection.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_link::{Ask, FollowEvent, Frame, FrameKind, Peer, RecordHead, record_cost};
use hotcell_model::{ExecId, ExecState, Record};
use tokio::time::sleep;

use super::guest::{Guest, Outcome, sh, text_of};
use super::{DriverPlace, LOOK_AGAIN};

/// What `seq 1 most` prints.
fn numbers(most: u32) -> String {
    (1..=most).map(|number| format!("{number}\n")).collect()
}

pub(super) async fn output_goes_on_from_any_seq(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = sh("for i in 1 2 3 4 5 6; do echo $i; echo e$i >&2; sleep 0.01; done");
    let all = guest.run(spec.clone()).await?.records;
    ensure!(all.len() > 2, "too few records to tell: {all:?}");
    for after in 0..=all.len() {
        let seq = after as u64;
        let rest = Outcome::of(guest.link.follow(spec.id.clone(), seq).await?).await?;
        ensure!(rest.records == all[after..], "after {seq} came {:?}", rest.records);
        ensure!(guest.log_after(&spec.id, seq)?.records == all[after..], "the file differs");
    }
    let beyond = guest.link.follow(spec.id, u64::MAX).await?;
    ensure!(Outcome::of(beyond).await?.records.is_empty(), "something came after everything");
    Ok(())
}

pub(super) async fn a_record_is_on_disk_before_it_is_seen(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = sh("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.005; done; exit 2");
    let (_, mut following) = guest.link.start(spec.clone()).await?;
    loop {
        match following.next().await.context("the connection was lost")? {
            FollowEvent::Record(record) => {
                let on_disk = guest.log_after(&spec.id, record.seq - 1)?.records;
                ensure!(on_disk.first() == Some(&record), "{record:?} is not in {on_disk:?}");
            }
            FollowEvent::Ended(end) => {
                let exec = guest.journal_of(&spec.id)?;
                ensure!(exec.end == Some(end), "the end is not in the journal: {exec:?}");
                return Ok(());
            }
        }
    }
}

pub(super) async fn a_window_is_kept_to(place: &DriverPlace) -> Result<()> {
    const WINDOW: u32 = 40_000;
    let guest = Guest::start(place).await?;
    let spec = sh("seq 1 50000");
    let all = guest.run(spec.clone()).await?.records;
    let stream = guest.driver.connect(&guest.spec.id).await?.context("no supervisor")?;
    // The other end of a link does not block; it is spoken to from a thread that may.
    let exec = spec.id.clone();
    let got =
        tokio::task::spawn_blocking(move || RawLink::open(stream)?.read_in_windows(exec, WINDOW))
            .await??;
    ensure!(got == all, "{} of {} records came", got.len(), all.len());
    Ok(())
}

/// A link without the comfort of one: windows are given by hand.
struct RawLink {
    stream: UnixStream,
    peer: Peer,
}

impl RawLink {
    fn open(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(false)?;
        let mut link = Self { stream, peer: Peer::new() };
        link.flush()?;
        Ok(link)
    }

    fn flush(&mut self) -> Result<()> {
        let length = self.peer.unsent().len();
        self.stream.write_all(self.peer.unsent())?;
        self.peer.mark_sent(length);
        Ok(())
    }

    fn frame(&mut self) -> Result<Frame> {
        loop {
            if let Some(frame) = self.peer.next_frame()? {
                return Ok(frame);
            }
            let mut buffer = [0; 4096];
            let length = self.stream.read(&mut buffer)?;
            ensure!(length > 0, "the supervisor closed the connection");
            self.peer.receive(&buffer[..length]);
        }
    }

    /// Reads an exec's output window by window. After each the supervisor is asked something else:
    /// whatever it was still going to send comes before that answer.
    fn read_in_windows(&mut self, exec: ExecId, window: u32) -> Result<Vec<Record>> {
        const FOLLOWED: u32 = 1;
        let mut asked = FOLLOWED;
        self.peer.send(FrameKind::Ask, FOLLOWED, &Ask::Follow { exec, after_seq: 0, window });
        let mut records = Vec::new();
        loop {
            asked += 1;
            self.peer.send(FrameKind::Ask, asked, &Ask::Stats);
            self.flush()?;
            let (mut cost, mut last) = (0, 0);
            loop {
                let frame = self.frame()?;
                match (frame.kind, frame.channel) {
                    (FrameKind::Record, FOLLOWED) => {
                        let RecordHead { seq, ts, stream } = frame.head()?;
                        last = record_cost(frame.blob.len());
                        cost += last;
                        records.push(Record { seq, ts, stream, bytes: frame.blob });
                    }
                    (FrameKind::Ended, FOLLOWED) => return Ok(records),
                    (FrameKind::Tell, channel) if channel == asked => break,
                    (FrameKind::Tell, FOLLOWED) => {}
                    (kind, channel) => bail!("unasked: {kind:?} on channel {channel}"),
                }
            }
            ensure!(cost > 0, "the window is open and nothing came");
            // The record that uses a window up may go beyond it.
            ensure!(cost < window + last, "{cost} came through a window of {window}");
            self.peer.send(FrameKind::Credit, FOLLOWED, &cost);
        }
    }
}

pub(super) async fn a_slow_reader_stops_nobody(place: &DriverPlace) -> Result<()> {
    const MOST: u32 = 400_000;
    let guest = Guest::start(place).await?;
    let spec = sh(&format!("seq 1 {MOST}"));
    // Far more than any window, and not read.
    let (_, unread) = guest.link.start(spec.clone()).await?;
    while guest.journal_of(&spec.id)?.state != ExecState::Ended {
        ensure!(guest.stats().await?.queued == 0);
        sleep(LOOK_AGAIN).await;
    }
    let outcome = Outcome::of(unread).await?;
    ensure!(text_of(&outcome.records, None) == numbers(MOST), "what came late is not all");
    Ok(())
}

pub(super) async fn a_reader_that_comes_back_misses_nothing(place: &DriverPlace) -> Result<()> {
    const MOST: u32 = 200_000;
    let mut guest = Guest::start(place).await?;
    let spec = sh(&format!("seq 1 {MOST}; exit 8"));
    let (_, mut following) = guest.link.start(spec.clone()).await?;
    let mut records: Vec<Record> = Vec::new();
    let end = loop {
        match following.next().await.context("the connection was lost")? {
            FollowEvent::Record(record) => records.push(record),
            FollowEvent::Ended(end) => break end,
        }
        if records.len().is_multiple_of(10) {
            let last = records.last().map_or(0, |record| record.seq);
            guest.link = guest.connect().await?;
            following = guest.link.follow(spec.id.clone(), last).await?;
        }
    };
    ensure!(end.exit_code == Some(8), "it ended as {end:?}");
    ensure!(text_of(&records, None) == numbers(MOST), "output is missing or came twice");
    Ok(())
}

pub(super) async fn head_and_tail_of_too_much_are_kept(place: &DriverPlace) -> Result<()> {
    const BOUND: u64 = 1 << 20;
    const MOST: u32 = 1_000_000;
    let guest = Guest::start_with(place, |spec| spec.output_bytes = BOUND).await?;
    let spec = sh(&format!("seq 1 {MOST}"));
    let end = guest.run(spec.clone()).await?.end;
    let all = numbers(MOST);
    ensure!(end.usage.stdout_bytes == all.len() as u64, "{:?}", end.usage);
    let batch = guest.log_after(&spec.id, 0)?;
    let kept: u64 = batch.records.iter().map(|record| record.bytes.len() as u64).sum();
    let dropped: u64 = batch.dropped.iter().map(|gap| gap.dropped_bytes).sum();
    ensure!(kept <= BOUND && kept > BOUND / 2, "{kept} bytes are kept of {BOUND}");
    ensure!(kept + dropped == all.len() as u64, "{kept} kept, {dropped} dropped");
    let [gap] = batch.dropped[..] else { bail!("not one gap: {:?}", batch.dropped) };
    let place = batch.records.partition_point(|record| record.seq < gap.from_seq);
    let (head, tail) = batch.records.split_at(place);
    let (head, tail) = (text_of(head, None), text_of(tail, None));
    ensure!(!head.is_empty() && all.starts_with(&head), "the head is not what was printed");
    ensure!(!tail.is_empty() && all.ends_with(&tail), "the tail is not what was printed");
    Ok(())
}
