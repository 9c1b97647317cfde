//! Tests of questions and answers over a link, and of its end.

use hotcell_model::{Error, ErrorCode, ExecState, Timestamp};
use tokio::io::AsyncWriteExt;

use crate::other_end::{connected, exec_id, exec_spec};
use crate::{Ask, FrameKind, LinkError, MAX_FRAME_BYTES, Started, Tell};

#[tokio::test]
async fn answers_find_their_questions_in_any_order() {
    let (link, mut other) = connected().await;
    let cancelled = Tell::Cancelled(hotcell_model::CancelStatus::Cancelled);
    let (first, second, ()) =
        tokio::join!(link.ask(&Ask::Hold, &[]), link.ask(&Ask::Watch, b"blob"), async {
            let (one, ask) = other.question().await;
            assert_eq!(ask, Ask::Hold);
            let frame = other.frame().await;
            assert_eq!(frame.blob, b"blob");
            assert_ne!(frame.channel, one);
            other.tell(frame.channel, &cancelled).await;
            other.tell(one, &Tell::Done).await;
        });
    assert_eq!(first.unwrap(), Tell::Done);
    assert_eq!(second.unwrap(), cancelled);
}

#[tokio::test]
async fn a_no_is_an_error_of_that_question_alone() {
    let (link, mut other) = connected().await;
    let said = Error::conflict("execs are running").hint("use force");
    let (first, second, ()) =
        tokio::join!(link.ask(&Ask::Stats, &[]), link.ask(&Ask::Hold, &[]), async {
            let (one, _) = other.question().await;
            let (two, _) = other.question().await;
            other.tell(one, &Tell::Failed(said.clone())).await;
            other.tell(two, &Tell::Done).await;
        });
    assert_eq!(Error::from(first.unwrap_err()), said);
    assert_eq!(second.unwrap(), Tell::Done);
    assert!(!link.is_closed());
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_ends_its_question_alone() {
    let (link, mut other) = connected().await;
    let (first, second, started, ()) = tokio::join!(
        link.ask(&Ask::Stats, &[]),
        link.ask(&Ask::Hold, &[]),
        link.start(exec_spec()),
        async {
            let (one, _) = other.question().await;
            let (two, _) = other.question().await;
            let (three, _) = other.question().await;
            other.send(FrameKind::Tell, one, &"something_of_a_later_version").await;
            other.tell(three, &Tell::Done).await;
            other.tell(two, &Tell::Done).await;
        }
    );
    assert!(matches!(first, Err(LinkError::Confused)));
    assert!(matches!(started, Err(LinkError::Confused)));
    assert_eq!(second.unwrap(), Tell::Done);
}

#[tokio::test]
async fn answers_that_nobody_waits_for_do_no_harm() {
    let (link, mut other) = connected().await;
    {
        let ask = link.ask(&Ask::Hold, &[]);
        tokio::select! {
            biased;
            _ = ask => panic!("nobody answered"),
            (channel, _) = other.question() => other.tell(channel, &Tell::Done).await,
        }
    }
    for channel in [0, 77, u32::MAX] {
        other.tell(channel, &Tell::Done).await;
        other.record(channel, 1, b"for nobody").await;
    }
    let (told, ()) = tokio::join!(link.ask(&Ask::Stats, &[]), async {
        let (channel, ask) = other.question().await;
        assert_eq!(ask, Ask::Stats);
        other.tell(channel, &Tell::Stats(hotcell_model::CellStats::default())).await;
    });
    assert!(matches!(told.unwrap(), Tell::Stats(_)));
}

#[tokio::test]
async fn a_question_beyond_the_bound_is_refused_and_the_link_goes_on() {
    let (link, mut other) = connected().await;
    let input = Ask::Input { exec: exec_id(), eof: false };
    let error = Error::from(link.ask(&input, &vec![0; MAX_FRAME_BYTES]).await.unwrap_err());
    assert_eq!(error.code, ErrorCode::Invalid);
    assert!(error.hint.is_some());
    let blob = vec![7; MAX_FRAME_BYTES / 2];
    let (told, ()) = tokio::join!(link.ask(&input, &blob), async {
        let frame = other.frame().await;
        assert_eq!(frame.blob, blob);
        other.tell(frame.channel, &Tell::Done).await;
    });
    assert_eq!(told.unwrap(), Tell::Done);
}

#[tokio::test]
async fn a_lost_link_ends_every_wait() {
    let (link, mut other) = connected().await;
    let (started, ()) = tokio::join!(link.start(exec_spec()), async {
        let (channel, _) = other.question().await;
        let started = Started {
            state: ExecState::Running,
            queued_at: Timestamp(1),
            started_at: Some(Timestamp(2)),
            pid: None,
            approval: None,
            end: None,
        };
        other.tell(channel, &Tell::Started(started)).await;
        other.record(channel, 1, b"before").await;
    });
    let (_, mut following) = started.unwrap();
    let (asked, begun, followed, last, ()) = tokio::join!(
        link.ask(&Ask::Stats, &[]),
        link.start(exec_spec()),
        link.follow(exec_id(), 0),
        async {
            let mut events = 0;
            while following.next().await.is_some() {
                events += 1;
            }
            events
        },
        async {
            for _ in 0..3 {
                other.question().await;
            }
            drop(other);
        }
    );
    assert!(matches!(asked, Err(LinkError::Lost)));
    assert!(matches!(begun, Err(LinkError::Lost)));
    assert!(matches!(followed, Err(LinkError::Lost)));
    assert_eq!(last, 1, "what came before is not lost");
    assert!(link.is_closed());
    assert!(matches!(link.ask(&Ask::Stats, &[]).await, Err(LinkError::Lost)));
    let error = Error::from(LinkError::Lost);
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.hint.is_some());
}

#[tokio::test]
async fn garbage_ends_the_link_in_both_directions() {
    let (link, mut other) = connected().await;
    let (asked, ()) = tokio::join!(link.ask(&Ask::Stats, &[]), async {
        other.question().await;
        other.stream.write_all(&[0xFF; 32]).await.unwrap();
        assert!(other.find_frame().await.is_none(), "the other end is told by the end of it");
    });
    let Err(LinkError::Refused(reason)) = asked else { panic!("{asked:?}") };
    assert!(reason.contains("longer"), "{reason}");
    assert!(matches!(link.ask(&Ask::Stats, &[]).await, Err(LinkError::Refused(_))));
}

#[tokio::test]
async fn a_frame_that_is_required_and_unknown_ends_the_link_and_another_does_not() {
    let (link, mut other) = connected().await;
    let foreign = |flags: u8| [10_u8, 0, 0, 0, 99, flags, 1, 0, 0, 0, 0, 0, 0, 0];
    let (told, ()) = tokio::join!(link.ask(&Ask::Hold, &[]), async {
        let (channel, _) = other.question().await;
        other.stream.write_all(&foreign(0)).await.unwrap();
        other.tell(channel, &Tell::Done).await;
    });
    assert_eq!(told.unwrap(), Tell::Done);
    let (told, ()) = tokio::join!(link.ask(&Ask::Hold, &[]), async {
        other.question().await;
        other.stream.write_all(&foreign(1)).await.unwrap();
    });
    let Err(LinkError::Refused(reason)) = told else { panic!("{told:?}") };
    assert!(reason.contains("99"), "{reason}");
}
