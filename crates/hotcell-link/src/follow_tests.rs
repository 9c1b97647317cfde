//! Tests of followed output: order, windows, and ends.

use hotcell_model::{Error, ErrorCode, Record};
use tokio::task::JoinSet;

use crate::other_end::{OtherEnd, connected, exec_end, exec_id};
use crate::{Ask, FollowEvent, Following, FrameKind, Link, LinkError, Tell, record_cost};

const WINDOW: u32 = crate::inflow::WINDOW;

/// A follower, its channel and the window it gave.
async fn followed(link: &Link, other: &mut OtherEnd) -> (Following, u32) {
    let (following, channel) = tokio::join!(link.follow(exec_id(), 4), async {
        let (channel, ask) = other.question().await;
        assert_eq!(ask, Ask::Follow { exec: exec_id(), after_seq: 4, window: WINDOW });
        other.tell(channel, &Tell::Done).await;
        channel
    });
    (following.unwrap(), channel)
}

fn seq(event: Option<FollowEvent>) -> u64 {
    match event {
        Some(FollowEvent::Record(record)) => record.seq,
        Some(FollowEvent::Ended(_)) | None => panic!("no record: {event:?}"),
    }
}

/// Sees what a question sees that is asked now: all that was sent before it has come.
async fn next_kind(link: &Link, other: &mut OtherEnd) -> FrameKind {
    let ask = link.ask(&Ask::Stats, &[]);
    tokio::select! {
        biased;
        _ = ask => panic!("nobody answers"),
        frame = other.frame() => frame.kind,
    }
}

/// Sends records of `size` as a supervisor does, within its window, and counts them.
struct Sender {
    channel: u32,
    size: usize,
    credit: i64,
    sent: u64,
    most: u64,
}

impl Sender {
    fn new(channel: u32, size: usize, most: u64) -> Self {
        Self { channel, size, credit: i64::from(WINDOW), sent: 0, most }
    }

    async fn send_all_it_may(&mut self, other: &mut OtherEnd) {
        while self.credit > 0 && self.sent < self.most {
            self.sent += 1;
            self.credit -= i64::from(record_cost(self.size));
            other.record(self.channel, self.sent, &vec![1; self.size]).await;
        }
    }

    async fn take_credit(&mut self, other: &mut OtherEnd) {
        let frame = other.frame().await;
        assert_eq!((frame.kind, frame.channel), (FrameKind::Credit, self.channel));
        let credit: u32 = frame.head().unwrap();
        assert!(credit > 0);
        self.credit += i64::from(credit);
        assert!(self.credit <= i64::from(WINDOW), "more was given back than was taken");
    }

    async fn run(&mut self, other: &mut OtherEnd) {
        self.send_all_it_may(other).await;
        while self.sent < self.most {
            self.take_credit(other).await;
            self.send_all_it_may(other).await;
        }
        other.send(FrameKind::Ended, self.channel, &exec_end()).await;
    }
}

#[tokio::test]
async fn records_come_in_order_and_then_the_end() {
    let (link, mut other) = connected().await;
    let (mut following, channel) = followed(&link, &mut other).await;
    other.record(channel, 5, b"five\xFF").await;
    other.record(channel, 6, b"").await;
    other.send(FrameKind::Ended, channel, &exec_end()).await;
    let Some(FollowEvent::Record(Record { seq: 5, bytes, .. })) = following.next().await else {
        panic!("no record")
    };
    assert_eq!(bytes, b"five\xFF");
    assert_eq!(seq(following.next().await), 6);
    assert_eq!(following.next().await, Some(FollowEvent::Ended(exec_end())));
    assert_eq!(following.next().await, None);
    // There is nothing left that the other end would have to forget.
    drop(following);
    assert_eq!(next_kind(&link, &mut other).await, FrameKind::Ask);
}

#[tokio::test]
async fn output_may_come_before_anyone_reads_it() {
    let (link, mut other) = connected().await;
    let (following, ()) = tokio::join!(link.follow(exec_id(), 0), async {
        let (channel, _) = other.question().await;
        other.peer.send(FrameKind::Tell, channel, &Tell::Done);
        other.record(channel, 1, b"at once").await;
        other.send(FrameKind::Ended, channel, &exec_end()).await;
    });
    let mut following = following.unwrap();
    assert_eq!(seq(following.next().await), 1);
    assert!(matches!(following.next().await, Some(FollowEvent::Ended(_))));
}

#[tokio::test]
async fn a_follower_that_is_dropped_is_forgotten() {
    let (link, mut other) = connected().await;
    let (following, channel) = followed(&link, &mut other).await;
    other.record(channel, 1, b"unread").await;
    drop(following);
    let frame = other.frame().await;
    assert_eq!((frame.kind, frame.channel), (FrameKind::Forget, channel));
    // What was under way meanwhile goes nowhere.
    other.record(channel, 2, b"too late").await;
    let (_again, next) = followed(&link, &mut other).await;
    assert_ne!(next, channel);
}

#[tokio::test]
async fn a_follow_that_is_cancelled_is_forgotten() {
    let (link, mut other) = connected().await;
    let asked = {
        let follow = link.follow(exec_id(), 0);
        tokio::select! {
            biased;
            _ = follow => panic!("nobody answered"),
            (channel, _) = other.question() => channel,
        }
    };
    let frame = other.frame().await;
    assert_eq!((frame.kind, frame.channel), (FrameKind::Forget, asked));
}

#[tokio::test]
async fn a_follow_that_is_refused_leaves_nothing_behind() {
    let (link, mut other) = connected().await;
    let (refused, ()) = tokio::join!(link.follow(exec_id(), 0), async {
        let (channel, _) = other.question().await;
        other.tell(channel, &Tell::Failed(Error::not_found("no such exec"))).await;
    });
    let Err(LinkError::Failed(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.code, ErrorCode::NotFound);
    assert_eq!(next_kind(&link, &mut other).await, FrameKind::Ask);
}

#[tokio::test]
async fn a_slow_reader_holds_up_its_own_output_alone() {
    for size in [0, 1, 16 * 1024] {
        let (link, mut other) = connected().await;
        let (mut slow, slow_channel) = followed(&link, &mut other).await;
        let mut sender = Sender::new(slow_channel, size, u64::MAX);
        sender.send_all_it_may(&mut other).await;
        // Nothing was taken, so nothing is given back, and all else goes on.
        assert_eq!(next_kind(&link, &mut other).await, FrameKind::Ask);
        let (mut quick, quick_channel) = followed(&link, &mut other).await;
        other.record(quick_channel, 1, b"quick").await;
        assert_eq!(seq(quick.next().await), 1);

        // All that was sent is there, and goes on from there.
        let before = sender.sent;
        sender.most = before * 3;
        let (seen, ()) = tokio::join!(
            async {
                let mut seen = 0;
                loop {
                    match slow.next().await.unwrap() {
                        FollowEvent::Record(record) => {
                            seen += 1;
                            assert_eq!(record.seq, seen);
                        }
                        FollowEvent::Ended(_) => return seen,
                    }
                }
            },
            sender.run(&mut other)
        );
        assert_eq!(seen, before * 3);
    }
}

#[tokio::test]
async fn credit_comes_late_rather_than_never_when_the_queue_is_full() {
    let (link, mut other) = connected().await;
    let (mut following, channel) = followed(&link, &mut other).await;
    let link = std::sync::Arc::new(link);
    // The other end does not read: what is asked fills the stream, what is being written, and the
    // queue behind it.
    let mut asks = JoinSet::new();
    for _ in 0..1500 {
        let link = std::sync::Arc::clone(&link);
        asks.spawn(async move {
            let input = Ask::Input { exec: exec_id(), eof: false };
            link.ask(&input, &vec![0; 8 * 1024]).await
        });
    }
    let mut sender = Sender::new(channel, 16 * 1024, u64::MAX);
    sender.send_all_it_may(&mut other).await;
    for expected in 1..=sender.sent {
        assert_eq!(seq(following.next().await), expected);
    }
    // The whole window was taken. Only now does the other end read, and must find credit.
    let next = sender.sent + 1;
    let (got, ()) = tokio::join!(following.next(), async {
        loop {
            let frame = other.frame().await;
            if frame.kind == FrameKind::Credit {
                break;
            }
            other.tell(frame.channel, &Tell::Done).await;
        }
        other.record(channel, next, b"more").await;
    });
    assert_eq!(seq(got), next);
}

#[tokio::test]
async fn an_end_that_ignores_the_window_is_cut_off_and_the_rest_goes_on() {
    for size in [1, 16 * 1024, 4 << 20] {
        let (link, mut other) = connected().await;
        let (mut following, channel) = followed(&link, &mut other).await;
        let most = 4 * u64::from(WINDOW) / u64::from(record_cost(size)) + 2;
        for number in 1..=most {
            other.record(channel, number, &vec![1; size]).await;
        }
        other.send(FrameKind::Ended, channel, &exec_end()).await;
        let (told, ()) = tokio::join!(link.ask(&Ask::Hold, &[]), async {
            let (asked, _) = other.question().await;
            other.tell(asked, &Tell::Done).await;
        });
        assert_eq!(told.unwrap(), Tell::Done, "the link is alive");

        let mut held = 0;
        let mut last = 0;
        while let Some(event) = following.next().await {
            let FollowEvent::Record(record) = event else { panic!("an end after a gap") };
            assert_eq!(record.seq, last + 1, "no gap before the break");
            last = record.seq;
            held += u64::from(record_cost(record.bytes.len()));
        }
        assert!(last < most);
        assert!(held <= 2 * u64::from(WINDOW), "{held} bytes were kept");
        drop(following);
        loop {
            let frame = other.frame().await;
            if frame.kind == FrameKind::Forget {
                assert_eq!(frame.channel, channel);
                break;
            }
            assert_eq!(frame.kind, FrameKind::Credit);
        }
    }
}

#[tokio::test]
async fn a_cancelled_wait_for_output_loses_nothing() {
    let (link, mut other) = connected().await;
    let (mut following, channel) = followed(&link, &mut other).await;
    let mut sender = Sender::new(channel, 1000, 3000);
    let (cancelled, ()) = tokio::join!(
        async {
            let (mut cancelled, mut last) = (0, 0);
            loop {
                tokio::select! {
                    biased;
                    event = following.next() => match event.unwrap() {
                        FollowEvent::Record(record) => {
                            last += 1;
                            assert_eq!(record.seq, last);
                        }
                        FollowEvent::Ended(_) => {
                            assert_eq!(last, 3000);
                            return cancelled;
                        }
                    },
                    () = tokio::task::yield_now() => cancelled += 1,
                }
            }
        },
        sender.run(&mut other)
    );
    assert!(cancelled > 0, "no wait was cancelled");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_breaks_its_stream_alone() {
    let (link, mut other) = connected().await;
    let (mut broken, one) = followed(&link, &mut other).await;
    let (mut whole, two) = followed(&link, &mut other).await;
    other.record(one, 1, b"good").await;
    other.send(FrameKind::Record, one, &"of a later version").await;
    other.record(one, 3, b"after the gap").await;
    other.record(two, 1, b"whole").await;
    assert_eq!(seq(whole.next().await), 1);
    assert_eq!(seq(broken.next().await), 1);
    assert_eq!(broken.next().await, None);
    drop(broken);
    let frame = other.frame().await;
    assert_eq!((frame.kind, frame.channel), (FrameKind::Forget, one));
}

#[tokio::test]
async fn a_link_that_is_dropped_ends_what_follows_over_it() {
    let (link, mut other) = connected().await;
    let (mut following, channel) = followed(&link, &mut other).await;
    other.record(channel, 1, b"one").await;
    assert_eq!(seq(following.next().await), 1);
    drop(link);
    assert_eq!(following.next().await, None);
    assert!(other.find_frame().await.is_none());
}
