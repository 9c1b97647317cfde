//! Tests of both ends, with a stream between them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{FarPlace, Near, NearPlace, relay, serve};

struct Both {
    far: TempDir,
    near: TempDir,
}

impl Both {
    fn new() -> Self {
        let both = Self {
            far: tempfile::tempdir().expect("a directory"),
            near: tempfile::tempdir().expect("a directory"),
        };
        for place in [both.far.path(), both.near.path()] {
            fs::create_dir(place.join("records")).expect("made");
        }
        both
    }

    fn far(&self) -> FarPlace {
        FarPlace {
            directory: self.far.path().to_owned(),
            records: self.far.path().join("records"),
            doors: vec!["link.sock".to_owned()],
            tells: vec!["ready.json".to_owned()],
            takes: vec!["network.json".to_owned()],
            over: "over.json".to_owned(),
        }
    }

    fn near(&self) -> Near {
        let place = NearPlace {
            directory: self.near.path().to_owned(),
            records: self.near.path().join("records"),
            doors: vec!["link.sock".to_owned()],
            hears: vec!["ready.json".to_owned()],
            ready: "ready.json".to_owned(),
            tells: "network.json".to_owned(),
        };
        Near::look(place).expect("looked")
    }

    /// Both ends with a narrow stream between them.
    fn run(&self, tasks: &mut JoinSet<io::Result<()>>) {
        let (near, far) = duplex(1024);
        let (far_in, far_out) = tokio::io::split(far);
        let (near_in, near_out) = tokio::io::split(near);
        tasks.spawn(serve(self.far(), pieces(far_in), far_out));
        tasks.spawn(relay(self.near(), pieces(near_in), near_out, || Ok(())));
    }
}

fn pieces(reader: impl AsyncRead + Unpin + Send) -> impl Stream<Item = io::Result<Bytes>> + Send {
    futures_util::stream::unfold(reader, |mut reader| async move {
        let mut piece = vec![0; 700];
        match reader.read(&mut piece).await {
            Ok(0) => None,
            Ok(read) => Some((Ok(Bytes::copy_from_slice(&piece[..read])), reader)),
            Err(error) => Some((Err(error), reader)),
        }
    })
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never was so: {what}");
}

/// A supervisor that answers each line with how much it wrote down of it, and writes that down first.
async fn supervise(place: &Path, listener: UnixListener) -> io::Result<()> {
    let log = place.join("records/log");
    fs::create_dir_all(&log)?;
    let mut connections = JoinSet::new();
    loop {
        let (mut stream, _) = listener.accept().await?;
        let log = log.clone();
        connections.spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let read = stream.read(&mut buffer).await?;
                if read == 0 {
                    return Ok::<_, io::Error>(());
                }
                let mut options = fs::OpenOptions::new();
                let mut file = options.create(true).append(true).open(log.join("e_1.0001"))?;
                io::Write::write_all(&mut file, &buffer[..read])?;
                let length = file.metadata()?.len();
                stream.write_all(format!("{length}\n").as_bytes()).await?;
            }
        });
    }
}

#[tokio::test]
async fn what_a_supervisor_says_comes_after_what_it_wrote() {
    let both = Both::new();
    let listener = UnixListener::bind(both.far.path().join("link.sock")).expect("listening");
    let mut tasks = JoinSet::new();
    let place = both.far.path().to_owned();
    tasks.spawn(async move { supervise(&place, listener).await });
    both.run(&mut tasks);
    assert!(!both.near.path().join("link.sock").exists(), "there is no supervisor yet");
    fs::write(both.far.path().join("ready.json"), b"{}").expect("written");
    let door = both.near.path().join("link.sock");
    until("somebody listens", || door.exists()).await;

    let copy = both.near.path().join("records/log/e_1.0001");
    let mut stream = UnixStream::connect(&door).await.expect("connected");
    let mut written = 0;
    for round in 1..200_usize {
        stream.write_all(&vec![b'x'; round]).await.expect("sent");
        // It may come in parts, each of which is answered.
        while written < round * (round + 1) / 2 {
            let mut answer = vec![0; 4096];
            let read = stream.read(&mut answer).await.expect("answered");
            assert!(read > 0, "round {round}");
            let text = String::from_utf8_lossy(&answer[..read]).into_owned();
            let last = text.lines().last().expect("a line").to_owned();
            written = last.parse().expect("a number");
            let there = fs::metadata(&copy).map_or(0, |found| found.len());
            assert!(there >= written as u64, "{written} were said, and {there} are there");
        }
    }
    drop(stream);
    fs::write(both.far.path().join("over.json"), b"{}").expect("written");
    until("nobody listens", || !door.exists()).await;
}

#[tokio::test]
async fn one_that_reads_nothing_holds_up_no_other() {
    let both = Both::new();
    let listener = UnixListener::bind(both.far.path().join("link.sock")).expect("listening");
    let mut tasks = JoinSet::new();
    // Says more to everybody than anything in between holds, and then what it hears.
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await?;
            connections.spawn(async move {
                let mut first = [0];
                stream.read_exact(&mut first).await?;
                match first[0] {
                    b'f' => stream.write_all(&vec![b'x'; 32 << 20]).await,
                    other => stream.write_all(&[other]).await,
                }
            });
        }
    });
    both.run(&mut tasks);
    fs::write(both.far.path().join("ready.json"), b"{}").expect("written");
    let door = both.near.path().join("link.sock");
    until("somebody listens", || door.exists()).await;
    let mut flooded = UnixStream::connect(&door).await.expect("connected");
    flooded.write_all(b"f").await.expect("sent");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut other = UnixStream::connect(&door).await.expect("connected");
    other.write_all(b"o").await.expect("sent");
    let mut answer = Vec::new();
    timeout(Duration::from_secs(60), other.read_to_end(&mut answer))
        .await
        .expect("it is not held up")
        .expect("read");
    assert_eq!(answer, b"o");
    let mut all = Vec::new();
    flooded.read_to_end(&mut all).await.expect("read");
    assert_eq!(all.len(), 32 << 20, "and what it was told is all there");
}

#[tokio::test]
async fn an_end_that_breaks_off_ends_the_other_and_nobody_listens() {
    let both = Both::new();
    let _listener = UnixListener::bind(both.far.path().join("link.sock")).expect("listening");
    fs::write(both.far.path().join("ready.json"), b"{}").expect("written");
    fs::write(both.near.path().join("network.json"), b"[]").expect("written");
    let (near, far) = duplex(1024);
    let (far_in, far_out) = tokio::io::split(far);
    let (near_in, near_out) = tokio::io::split(near);
    let mut far = JoinSet::new();
    far.spawn(serve(both.far(), pieces(far_in), far_out));
    let mut near = JoinSet::new();
    near.spawn(relay(both.near(), pieces(near_in), near_out, || Ok(())));
    let door = both.near.path().join("link.sock");
    until("somebody listens", || door.exists()).await;
    let mut stream = UnixStream::connect(&door).await.expect("connected");
    until("it is told", || both.far.path().join("network.json").exists()).await;
    far.abort_all();
    while far.join_next().await.is_some() {}
    let ended = near.join_next().await.expect("it ends").expect("it does not panic");
    assert!(ended.is_err());
    assert!(!door.exists());
    assert_eq!(stream.read(&mut [0]).await.expect("read"), 0, "whoever was connected is told");
}

#[tokio::test]
async fn a_door_that_there_is_none_of_and_a_file_that_is_not_to_be_replaced_end_it() {
    for (head, payload) in [
        (r#"{"open":{"channel":1,"door":"../secret.sock"}}"#, ""),
        (r#"{"put":{"file":"cell.json"}}"#, "{}"),
    ] {
        let both = Both::new();
        let (near, far) = duplex(1024);
        let (far_in, far_out) = tokio::io::split(far);
        let (_near_in, mut near_out) = tokio::io::split(near);
        let mut frame =
            u32::try_from(head.len() + payload.len()).expect("short").to_le_bytes().to_vec();
        frame.extend(u16::try_from(head.len()).expect("short").to_le_bytes());
        frame.extend(head.bytes());
        frame.extend(payload.bytes());
        near_out.write_all(&frame).await.expect("sent");
        let served = serve(both.far(), pieces(far_in), far_out).await;
        assert!(served.is_err(), "{head}");
        assert!(!both.far.path().join("cell.json").exists());
    }
}
