//! Tests of connections to ports over a link.

use hotcell_model::{Error, ErrorCode};

use crate::other_end::{OtherEnd, connected, greeting, open_to};
use crate::{
    Ask, DATA_BYTES, DataHead, FrameKind, Link, LinkError, PortConnection, PortEvent, Tell,
    UPLOAD_WINDOW, data_cost,
};

const MORE: DataHead = DataHead { last: false };
const LAST: DataHead = DataHead { last: true };

/// A link with a connection on it, the other end and the connection's channel.
async fn dialled() -> (Link, PortConnection, OtherEnd, u32) {
    let (link, mut other) = connected().await;
    let (dialled, channel) = tokio::join!(link.dial(8080), async {
        let (channel, ask) = other.question().await;
        assert!(matches!(ask, Ask::Dial { port: 8080, window: 1.. }), "{ask:?}");
        other.tell(channel, &Tell::Done).await;
        channel
    });
    (link, dialled.unwrap(), other, channel)
}

async fn data(other: &mut OtherEnd, channel: u32, head: DataHead, bytes: &[u8]) {
    other.peer.send_with_blob(FrameKind::Data, channel, &head, bytes);
    other.flush().await;
}

#[tokio::test]
async fn bytes_go_both_ways_each_to_its_own_end() {
    let (_link, mut connection, mut other, channel) = dialled().await;
    connection.sender.send(b"ping").await.unwrap();
    connection.sender.finish().await.unwrap();
    let frame = other.frame().await;
    assert_eq!((frame.channel, frame.blob.as_slice()), (channel, b"ping".as_slice()));
    assert!(!frame.head::<DataHead>().unwrap().last);
    assert!(other.frame().await.head::<DataHead>().unwrap().last);
    data(&mut other, channel, MORE, b"po").await;
    data(&mut other, channel, LAST, b"ng").await;
    other.tell(channel, &Tell::Done).await;
    for expected in [
        PortEvent::Data(b"po".to_vec()),
        PortEvent::Data(b"ng".to_vec()),
        PortEvent::End,
        PortEvent::Closed,
    ] {
        assert_eq!(connection.receiver.next().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_port_where_nothing_listens_is_an_error_of_that_call_alone() {
    let (link, mut other) = connected().await;
    let said = Error::unavailable("nothing listens").hint("start it");
    let (dialled, told, ()) = tokio::join!(link.dial(1), link.ask(&Ask::Hold, &[]), async {
        let (one, _) = other.question().await;
        let (two, _) = other.question().await;
        other.tell(one, &Tell::Failed(said.clone())).await;
        other.tell(two, &Tell::Done).await;
    });
    assert_eq!(Error::from(dialled.unwrap_err()), said);
    assert_eq!(told.unwrap(), Tell::Done);
}

#[tokio::test]
async fn what_the_service_does_not_take_is_not_sent() {
    let (_link, connection, mut other, channel) = dialled().await;
    let piece = vec![7; DATA_BYTES];
    let fits = UPLOAD_WINDOW / data_cost(DATA_BYTES);
    for _ in 0..fits {
        connection.sender.send(&piece).await.unwrap();
    }
    let mut one_more = Box::pin(connection.sender.send(&piece));
    tokio::select! {
        biased;
        _ = &mut one_more => panic!("the window was overdrawn"),
        () = tokio::task::yield_now() => {}
    }
    for _ in 0..fits {
        assert_eq!(other.frame().await.blob, piece);
    }
    other.send(FrameKind::Credit, channel, &data_cost(DATA_BYTES)).await;
    one_more.await.unwrap();
    assert_eq!(other.frame().await.blob, piece);
}

#[tokio::test]
async fn a_reader_that_reads_nothing_gives_no_credit_and_a_flood_breaks_its_connection_alone() {
    let (link, mut connection, mut other, channel) = dialled().await;
    let piece = vec![7; DATA_BYTES];
    for _ in 0..32 {
        data(&mut other, channel, MORE, &piece).await;
    }
    // What came within the bound is still there; then it is over, and the link is not.
    let (told, ()) = tokio::join!(link.ask(&Ask::Hold, &[]), async {
        let (channel, ask) = other.question().await;
        assert_eq!(ask, Ask::Hold);
        other.tell(channel, &Tell::Done).await;
    });
    assert_eq!(told.unwrap(), Tell::Done);
    let mut came = 0;
    loop {
        match connection.receiver.next().await {
            Ok(PortEvent::Data(bytes)) => came += bytes.len(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert!(matches!(error, LinkError::Confused), "{error:?}");
                break;
            }
        }
    }
    assert!(came < 32 * DATA_BYTES, "{came}");
}

#[tokio::test]
async fn a_connection_that_broke_says_why_and_takes_no_more() {
    let (_link, mut connection, mut other, channel) = dialled().await;
    let said = Error::unavailable("the service reset the connection");
    data(&mut other, channel, MORE, b"half").await;
    other.tell(channel, &Tell::Failed(said.clone())).await;
    assert_eq!(connection.receiver.next().await.unwrap(), PortEvent::Data(b"half".to_vec()));
    assert_eq!(connection.receiver.next().await.unwrap(), PortEvent::Failed(said));
    connection.sender.send(&vec![0; 4 * UPLOAD_WINDOW as usize]).await.unwrap();
}

#[tokio::test]
async fn a_dropped_connection_is_forgotten_at_the_other_end() {
    let (_link, connection, mut other, channel) = dialled().await;
    drop(connection);
    let frame = other.frame().await;
    assert_eq!((frame.kind, frame.channel), (FrameKind::Forget, channel));
}

#[tokio::test]
async fn a_lost_link_ends_its_connections() {
    let (_link, mut connection, other, _) = dialled().await;
    drop(other);
    assert!(matches!(connection.receiver.next().await, Err(LinkError::Lost)));
}

#[tokio::test]
async fn an_older_supervisor_is_not_asked() {
    let (link, _theirs) = open_to(&greeting(1, 1)).await;
    let error = Error::from(link.unwrap().dial(80).await.unwrap_err());
    assert_eq!(error.code, ErrorCode::Unsupported);
    assert!(error.hint.is_some());
}
