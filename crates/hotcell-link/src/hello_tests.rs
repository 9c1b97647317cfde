//! Tests of the greeting: each end with another that speaks older and newer versions.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::other_end::{OtherEnd, greeting, open_to, streams};
use crate::{
    Ask, FrameKind, Hello, HelloError, Link, LinkError, Peer, PeerError, SUPPORTED, Tell, Versions,
};

/// Ranges that meet what this build speaks: an older, an equal and a newer one.
fn meeting() -> [(u32, u32); 4] {
    let Versions { min, max } = SUPPORTED;
    [(min - 1, min), (min, max), (max, max + 6), (0, u32::MAX)]
}

/// Ranges that do not: too old, too new, and one that is none.
fn apart() -> [(u32, u32); 3] {
    let Versions { min, max } = SUPPORTED;
    [(0, min - 1), (max + 1, max + 8), (max + 1, min)]
}

fn common((min, max): (u32, u32)) -> u32 {
    assert!(min <= SUPPORTED.max);
    max.min(SUPPORTED.max)
}

#[tokio::test]
async fn the_engine_talks_to_an_older_and_to_a_newer_supervisor() {
    for range in meeting() {
        let (link, theirs) = open_to(&greeting(range.0, range.1)).await;
        let link = link.unwrap();
        assert_eq!(link.version(), common(range));
        let mut other = OtherEnd { peer: Peer::new(), stream: theirs };
        let (told, ()) = tokio::join!(link.ask(&Ask::Hold, &[]), async {
            let (channel, ask) = other.question().await;
            assert_eq!(ask, Ask::Hold);
            let mut bytes = Peer::new();
            bytes.mark_sent(bytes.unsent().len());
            bytes.send(FrameKind::Tell, channel, &Tell::Done);
            other.stream.write_all(bytes.unsent()).await.unwrap();
        });
        assert_eq!(told.unwrap(), Tell::Done);
    }
}

#[tokio::test]
async fn the_supervisor_talks_to_an_older_and_to_a_newer_engine() {
    for range in meeting() {
        let mut peer = Peer::new();
        peer.receive(&greeting(range.0, range.1));
        assert_eq!(peer.version(), None);
        assert!(peer.next_frame().unwrap().is_none());
        assert!(peer.is_greeted());
        assert_eq!(peer.version(), Some(common(range)));
    }
}

#[tokio::test]
async fn the_engine_refuses_a_supervisor_that_it_cannot_understand() {
    for (min, max) in apart() {
        let (link, mut theirs) = open_to(&greeting(min, max)).await;
        let Err(LinkError::Refused(reason)) = link else { panic!("{min} to {max} was accepted") };
        assert!(reason.contains("hotcell of another time"), "{reason}");
        assert!(reason.contains(&format!("{min} to {max}")), "{reason}");
        let error = hotcell_model::Error::from(LinkError::Refused(reason));
        assert_eq!(error.code, hotcell_model::ErrorCode::Unavailable);
        assert!(error.hint.is_some());

        // The other end has the greeting, so that it can say the same, and then the end.
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, Peer::new().unsent());
    }
}

#[test]
fn the_supervisor_refuses_an_engine_that_it_cannot_understand() {
    for (min, max) in apart() {
        let mut peer = Peer::new();
        assert!(!peer.unsent().is_empty(), "its own greeting goes out first");
        peer.receive(&greeting(min, max));
        let error = peer.next_frame().unwrap_err();
        assert!(error.to_string().contains(&format!("{min} to {max}")), "{error}");
        assert!(matches!(error, PeerError::Hello(HelloError::NoCommonVersion { .. })));
        assert!(!peer.is_greeted());
    }
}

#[tokio::test]
async fn what_comes_first_must_be_a_greeting() {
    let mut early = Peer::new();
    early.mark_sent(early.unsent().len());
    early.send(FrameKind::Tell, 1, &Tell::Done);
    for bytes in [early.unsent(), &[0xFF; 64]] {
        let (link, _theirs) = open_to(bytes).await;
        assert!(matches!(link, Err(LinkError::Refused(_))));
        let mut peer = Peer::new();
        peer.receive(bytes);
        assert!(peer.greet().is_err());
    }
}

#[tokio::test]
async fn an_end_that_goes_away_before_it_greets_is_lost() {
    let (ours, theirs) = streams();
    drop(theirs);
    assert!(matches!(Link::open(ours).await, Err(LinkError::Lost)));
    let (ours, mut theirs) = streams();
    let greeting = greeting(1, 1);
    theirs.write_all(&greeting[..greeting.len() - 1]).await.unwrap();
    drop(theirs);
    assert!(matches!(Link::open(ours).await, Err(LinkError::Lost)));
}

#[tokio::test]
async fn a_greeting_may_come_byte_by_byte_and_with_more_behind_it() {
    let (ours, mut theirs) = streams();
    let greeting = greeting(1, 1);
    let (link, ()) = tokio::join!(Link::open(ours), async {
        for byte in &greeting {
            theirs.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(link.unwrap().version(), 1);
}

fn hello(versions: Versions) -> Hello {
    Hello { versions, features: Vec::new(), software: String::new() }
}

proptest! {
    #[test]
    fn both_ends_come_to_the_same_newest_common_version(
        a in 0_u32..12, b in 0_u32..12, c in 0_u32..12, d in 0_u32..12,
    ) {
        let (ours, theirs) = (Versions { min: a, max: b }, Versions { min: c, max: d });
        let agreed = hello(ours).agree(&hello(theirs)).ok();
        prop_assert_eq!(agreed, hello(theirs).agree(&hello(ours)).ok());
        let newest = (a.max(c)..=b.min(d)).max();
        prop_assert_eq!(agreed, newest);
    }
}
