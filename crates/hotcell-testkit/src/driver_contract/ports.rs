//! Services in a cell: bytes go both ways, each to its own end, and nobody holds up another.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_link::{Ask, Following, Link, LinkError, PortConnection, PortEvent, Stillness};
use hotcell_model::{Error, ErrorCode, ExecId, Keep};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::guest::{Guest, program};
use super::{DriverPlace, LOOK_AGAIN, refusal};

/// Sends back what comes, and a word when no more does.
const ECHO: &str = r#"
import socket, socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
        self.request.sendall(b"end")
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, request_queue_size, daemon_threads = True, 256, True
    address_family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
with Server((sys.argv[2], int(sys.argv[1])), Echo) as server:
    print("listening", flush=True)
    server.serve_forever()
"#;

/// Takes connections and never reads from them.
const DEAF: &str = r#"
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=300)
print("listening", flush=True)
taken = []
while True:
    taken.append(server.accept())
"#;

/// Sends without end to whoever comes.
const FLOOD: &str = r#"
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
one = server.accept()[0]
while True:
    one.sendall(bytes(65536))
"#;

const PORT: u16 = 8080;

/// Starts a service; what it says, and its exec.
async fn serve(guest: &Guest, script: &str, args: &[&str]) -> Result<(Following, ExecId)> {
    let port = PORT.to_string();
    let mut words = vec!["python3", "-c", script, &port];
    words.extend(args);
    let spec = program(&words);
    let exec = spec.id.clone();
    Ok((guest.start_until(spec, "listening").await?, exec))
}

/// Sends something, says that there is no more, and reads all that comes back.
async fn exchange(link: &Link, bytes: &[u8]) -> Result<Vec<u8>> {
    let PortConnection { sender, mut receiver } = link.dial(PORT).await?;
    let send = async {
        sender.send(bytes).await?;
        sender.finish().await
    };
    let receive = async {
        let (mut came, mut ended) = (Vec::new(), false);
        loop {
            match receiver.next().await? {
                PortEvent::Data(bytes) => came.extend_from_slice(&bytes),
                PortEvent::End => ended = true,
                PortEvent::Closed if ended => return Ok(came),
                PortEvent::Closed => bail!("it was over before the service had ended"),
                PortEvent::Failed(error) => bail!("it broke after {} bytes: {error}", came.len()),
            }
        }
    };
    let (sent, came) = tokio::join!(send, receive);
    sent?;
    came
}

async fn data(connection: &mut PortConnection) -> Result<Vec<u8>> {
    match connection.receiver.next().await? {
        PortEvent::Data(bytes) => Ok(bytes),
        other @ (PortEvent::End | PortEvent::Closed | PortEvent::Failed(_)) => {
            bail!("there was no data but {other:?}")
        }
    }
}

pub(super) async fn bytes_go_both_ways_each_to_its_own_end(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let (_, exec) = serve(&guest, ECHO, &["127.0.0.1"]).await?;
    let mut connection = guest.link.dial(PORT).await?;
    for word in [b"one".as_slice(), b"two"] {
        connection.sender.send(word).await?;
        ensure!(data(&mut connection).await? == word);
    }
    // Its client has no more to say; it still has.
    connection.sender.finish().await?;
    ensure!(data(&mut connection).await? == b"end");
    ensure!(connection.receiver.next().await? == PortEvent::End);
    ensure!(connection.receiver.next().await? == PortEvent::Closed);
    ensure!(exchange(&guest.link, b"").await? == b"end");
    guest.cancel(&exec, 0).await?;
    // Where nothing listens at 127.0.0.1 there may be something at ::1.
    if guest.output_of("cat /proc/net/if_inet6 2>/dev/null || true").await?.contains(" lo") {
        while refusal(guest.link.dial(PORT).await).is_err() {
            sleep(LOOK_AGAIN).await;
        }
        serve(&guest, ECHO, &["::1"]).await?;
        ensure!(exchange(&guest.link, b"six").await? == b"sixend");
    }
    Ok(())
}

pub(super) async fn a_port_without_a_service_is_unavailable(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let Err(error) = guest.link.dial(9).await else { bail!("somebody listens at port 9") };
    let error = Error::from(error);
    ensure!(error.code == ErrorCode::Unavailable, "{error:?}");
    ensure!(error.message.contains("nothing listens at port 9") && error.hint.is_some());
    ensure!(refusal(guest.link.dial(0).await)? == ErrorCode::Invalid);
    ensure!(guest.output_of("echo on").await? == "on\n");
    Ok(())
}

pub(super) async fn much_is_carried_whole_by_many_at_once(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    serve(&guest, ECHO, &["127.0.0.1"]).await?;
    let link = std::sync::Arc::new(guest.connect().await?);
    let mut running = JoinSet::new();
    for seed in 0..40_u32 {
        let link = std::sync::Arc::clone(&link);
        running.spawn(async move {
            // One has much more than any window, the others a little.
            let length = if seed == 0 { 8_000_000 } else { 100_000 };
            let mut bytes: Vec<u8> =
                (0..length).map(|n: u32| n.wrapping_mul(seed | 1).to_le_bytes()[1]).collect();
            let came = exchange(&link, &bytes).await.with_context(|| format!("of {seed}"))?;
            bytes.extend_from_slice(b"end");
            ensure!(came == bytes, "{seed}: {} bytes came of {length}", came.len());
            Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

pub(super) async fn who_does_not_read_holds_nobody_up(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    serve(&guest, DEAF, &[]).await?;
    let deaf = guest.link.dial(PORT).await?;
    let piece = vec![7; 1 << 20];
    let mut sent = 0;
    // It takes what the kernel keeps for it and what waits in between, and then no more.
    while tokio::time::timeout(20 * LOOK_AGAIN, deaf.sender.send(&piece)).await.is_ok() {
        sent += 1;
        ensure!(sent < 64, "64 MiB were taken for a service that reads nothing");
    }
    ensure!(guest.output_of("echo on").await? == "on\n", "the cell is held up");
    // The other way round: here nobody reads.
    let other = Guest::start(place).await?;
    serve(&other, FLOOD, &[]).await?;
    let mut unread = other.link.dial(PORT).await?;
    sleep(20 * LOOK_AGAIN).await;
    ensure!(other.output_of("echo on").await? == "on\n", "the link is held up");
    for _ in 0..100 {
        ensure!(!data(&mut unread).await?.is_empty());
    }
    drop(unread);
    ensure!(other.output_of("echo on").await? == "on\n");
    Ok(())
}

pub(super) async fn the_end_of_a_service_is_the_end_of_its_connections(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start(place).await?;
    let (_, exec) = serve(&guest, ECHO, &["127.0.0.1"]).await?;
    let mut connection = guest.link.dial(PORT).await?;
    connection.sender.send(b"one").await?;
    ensure!(data(&mut connection).await? == b"one");
    guest.cancel(&exec, 0).await?;
    // A process that is killed closes what it had.
    match connection.receiver.next().await? {
        PortEvent::End | PortEvent::Failed(_) => {}
        other @ (PortEvent::Data(_) | PortEvent::Closed) => {
            bail!("after the end of the service there came {other:?}")
        }
    }
    let stats = guest.stats().await?;
    ensure!(stats.queued == 0);
    // The end of the cell is that of the link, and of all that is on it.
    serve(&guest, ECHO, &["127.0.0.1"]).await?;
    let mut connection = guest.link.dial(PORT).await?;
    guest.driver.stop(&guest.spec.id).await?;
    loop {
        match connection.receiver.next().await {
            Ok(PortEvent::Data(_)) => bail!("data came from nowhere"),
            Ok(PortEvent::End) => {}
            Ok(PortEvent::Closed | PortEvent::Failed(_)) | Err(LinkError::Lost) => return Ok(()),
            Err(error) => bail!("{error}"),
        }
    }
}

pub(super) async fn a_connection_lives_through_a_pause(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    serve(&guest, ECHO, &["127.0.0.1"]).await?;
    let mut connection = guest.link.dial(PORT).await?;
    connection.sender.send(b"before").await?;
    ensure!(data(&mut connection).await? == b"before");
    let keeper = guest.connect().await?;
    if keeper.ask(&Ask::Pause(Stillness::Frozen), &[]).await.is_err() {
        // Where processes cannot be frozen there is no such pause.
        return Ok(());
    }
    connection.sender.send(b"meanwhile").await?;
    let held = tokio::time::timeout(10 * LOOK_AGAIN, data(&mut connection)).await;
    ensure!(held.is_err(), "a service that is held still answered {held:?}");
    keeper.ask(&Ask::Resume, &[]).await?;
    ensure!(data(&mut connection).await? == b"meanwhile");
    Ok(())
}

pub(super) async fn an_open_connection_keeps_a_cell_awake(place: &DriverPlace) -> Result<()> {
    let lasting = |spec: &mut hotcell_model::CellSpec| {
        spec.keep = Keep::Always;
        spec.sleep_after_s = 5;
    };
    let guest = Guest::start_with(place, lasting).await?;
    // What runs keeps a cell awake by itself; so the service goes, and half of the connection stays.
    let (_, exec) = serve(&guest, ECHO, &["127.0.0.1"]).await?;
    let mut connection = guest.link.dial(PORT).await?;
    connection.sender.send(b"one").await?;
    ensure!(data(&mut connection).await? == b"one");
    guest.cancel(&exec, 0).await?;
    ensure!(connection.receiver.next().await? == PortEvent::End);
    sleep(Duration::from_secs(8)).await;
    ensure!(guest.stats().await?.running == 0, "the service is still there");
    drop(connection);
    guest.gone().await
}

pub(super) async fn connections_are_counted(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    serve(&guest, DEAF, &[]).await?;
    let mut open = Vec::new();
    let error = loop {
        match guest.link.dial(PORT).await {
            Ok(connection) => open.push(connection),
            Err(error) => break Error::from(error),
        }
        ensure!(open.len() < 2000, "there is no bound on connections");
    };
    ensure!(error.code == ErrorCode::LimitExceeded, "after {}: {error:?}", open.len());
    ensure!(open.len() >= 128, "there may be {} connections alone", open.len());
    open.truncate(10);
    while guest.link.dial(PORT).await.is_err() {
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}
