//! Services in a cell, reached through `hotcell port` and through the server over HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::world::{Connection, HttpServer, Live, Sent, World, eventually, eventually_some};

in_every_world! {
    a_web_server_in_a_cell_is_reached_by_command_and_over_http,
}

in_worlds! { [root, single_id]
    bytes_go_both_ways_each_to_its_own_end,
    what_is_carried_is_whole,
    a_websocket_is_carried_over_http,
}

in_worlds! { [root]
    many_connections_are_carried_at_once,
    a_port_without_a_service_is_said_to_be_one,
    where_to_listen_is_checked,
    services_are_for_those_who_may_call,
    a_page_of_a_cell_is_not_the_servers_own,
    under_its_own_name_a_service_is_for_its_own_pages,
    what_is_not_for_a_service_stays_outside,
    a_killed_service_breaks_what_it_began,
    who_does_not_read_holds_nobody_up,
    who_breaks_off_is_gone_though_the_service_reads_nothing,
    who_breaks_off_over_http_is_gone_though_the_service_reads_nothing,
    a_sleeping_cell_wakes_with_the_first_connection,
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Against hangs alone.
const DEADLINE: Duration = Duration::from_secs(60);

/// Sends back what comes, and a word when no more does.
const ECHO: &str = r#"
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
        self.request.sendall(b"end")
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, request_queue_size, daemon_threads = True, 256, True
Server(("127.0.0.1", 8080), Echo).serve_forever()
"#;

/// Answers with what it was asked; `/cut` ends in the middle, `/hang` never answers, `/ws` is a
/// websocket that sends back what comes.
const WEB: &str = r#"
import base64, hashlib, http.server, json, time
class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole
        return self.rfile.read(int(self.headers.get("content-length", 0)))
    def answer(self):
        if self.path == "/ws":
            return self.websocket()
        if self.path == "/cut":
            self.send_response(200)
            self.send_header("content-length", "1000000")
            self.end_headers()
            self.wfile.write(b"half")
            time.sleep(1000)
        if self.path == "/hang":
            time.sleep(1000)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("location", "../../../../../v1/cells")
            self.send_header("content-location", "http://localhost/mcp")
            self.send_header("content-length", "0")
            return self.end_headers()
        body = self.body()
        asked = {"method": self.command, "path": self.path, "length": len(body),
                 "sha256": hashlib.sha256(body).hexdigest(), "headers": dict(self.headers.items())}
        told = json.dumps(asked).encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("set-cookie", "stolen=1")
        self.send_header("service-worker-allowed", "/")
        self.send_header("access-control-allow-origin", "*")
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)
    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = answer
    def websocket(self):
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("sec-websocket-accept", accept)
        self.end_headers()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                return
            length = head[1] & 127
            if length == 126:
                length = int.from_bytes(self.rfile.read(2), "big")
            mask, masked = self.rfile.read(4), self.rfile.read(length)
            text = bytes(b ^ mask[i % 4] for i, b in enumerate(masked))
            size = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big")
            self.wfile.write(head[:1] + size + text)
            if head[0] & 15 == 8:
                return
    def log_message(self, *_):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
Server(("127.0.0.1", 8080), Web).serve_forever()
"#;

/// Starts a service in the cell `served` and waits until it listens; its exec.
fn serve(world: &World, script: &str) -> String {
    let started = world.hotcell(["run", "-d", "--cell", "served", "--", "python3", "-c", script]);
    let exec = started.run().succeeded().stdout().trim().to_owned();
    eventually("the service listens", || {
        // Port 8080 as the kernel writes it, in the state of listening.
        let table = world.text(["run", "--cell", "served", "cat /proc/net/tcp"]);
        table.lines().any(|line| line.contains(":1F90 ") && line.contains(" 0A "))
    });
    exec
}

/// A forwarder and where it listens.
struct Forward {
    live: Live,
    address: SocketAddr,
}

impl Forward {
    fn start(world: &World) -> Self {
        let live = world.hotcell(["port", "served", "8080"]).start();
        let address =
            eventually_some("it says where it listens", || live.printed().trim().parse().ok());
        Self { live, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    fn end(self) {
        crate::world::send(self.live.pid(), rustix::process::Signal::INT);
        self.live.finish().succeeded();
    }
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|n| ((n * 31 + seed) % 251) as u8).collect()
}

/// Sends something, says that there is no more, and reads all that comes back.
fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut writer = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        came
    })
}

fn a_web_server_in_a_cell_is_reached_by_command_and_over_http(world: &World) {
    world.text(["run", "--cell", "served", "echo '<h1>hot</h1>' > index.html; mkdir -p sub"]);
    let argv = ["run", "-d", "--cell", "served", "--", "python3", "-m", "http.server", "8080"];
    world.hotcell(argv).run().succeeded();
    let forward = Forward::start(world);
    let get = "GET / HTTP/1.0\r\n\r\n";
    let page = eventually_some("the service answers", || {
        let mut stream = forward.connect();
        let mut page = String::new();
        stream.write_all(get.as_bytes()).ok()?;
        stream.read_to_string(&mut page).ok()?;
        Some(page).filter(|page| !page.is_empty())
    });
    assert!(page.starts_with("HTTP/1.0 200") && page.ends_with("<h1>hot</h1>\n"), "{page}");
    let server = HttpServer::start(world);
    let page = server.ask(&Sent::get("/cells/served/ports/8080/index.html")).is(200);
    assert_eq!(
        (page.body.as_str(), page.header("content-type")),
        ("<h1>hot</h1>\n", Some("text/html"))
    );
    let by_id = format!("/cells/{}/ports/8080/", world.cell_id("served"));
    assert_eq!(server.ask(&Sent::get(&by_id)).is(200).body, "<h1>hot</h1>\n");
    // A directory is moved to its name with a slash, below the path of the port.
    let moved = server.ask(&Sent::get("/cells/served/ports/8080/sub")).is(301);
    assert_eq!(moved.header("location"), Some("/cells/served/ports/8080/sub/"));
    let moved = server.ask(&Sent::get("/cells/served/ports/8080?q=1")).is(308);
    assert_eq!(moved.header("location"), Some("/cells/served/ports/8080/?q=1"));
    assert_eq!(server.ask(&Sent::get("/cells/served/ports/8080/absent")).status, 404);
    assert_eq!(server.terminate().code(), 0);
    forward.end();
}

fn bytes_go_both_ways_each_to_its_own_end(world: &World) {
    serve(world, ECHO);
    let forward = Forward::start(world);
    let mut stream = forward.connect();
    let mut buffer = [0; 3];
    for word in [b"one", b"two"] {
        stream.write_all(word).unwrap();
        stream.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, word);
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "end");
    assert_eq!(exchange(forward.connect(), b""), b"end");
    forward.end();
}

fn what_is_carried_is_whole(world: &World) {
    const MUCH: usize = 50 << 20;
    serve(world, ECHO);
    let forward = Forward::start(world);
    let mut sent = pattern(MUCH, 7);
    let came = exchange(forward.connect(), &sent);
    sent.extend_from_slice(b"end");
    assert!(came == sent, "{} of {} bytes came", came.len(), sent.len());
    forward.end();
}

fn many_connections_are_carried_at_once(world: &World) {
    serve(world, ECHO);
    let forward = Forward::start(world);
    // All are open before the first one says anything.
    let open: Vec<TcpStream> = (0..100).map(|_| forward.connect()).collect();
    std::thread::scope(|scope| {
        for (seed, stream) in open.into_iter().enumerate() {
            scope.spawn(move || {
                let mut sent = pattern(100_000 + seed, seed);
                let came = exchange(stream, &sent);
                sent.extend_from_slice(b"end");
                assert!(came == sent, "{seed}: {} of {} bytes came", came.len(), sent.len());
            });
        }
    });
    forward.end();
}

fn a_port_without_a_service_is_said_to_be_one(world: &World) {
    world.text(["run", "--cell", "served", "true"]);
    let forward = Forward::start(world);
    let mut stream = forward.connect();
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "something came from nowhere");
    forward.live.await_stderr("nothing listens at port 8080 of the cell");
    forward.live.await_stderr("hotcell run -d");
    forward.end();
    let server = HttpServer::start(world);
    let answer = server.ask(&Sent::get("/cells/served/ports/8080/")).is(503).json();
    assert_eq!(answer["code"], "unavailable");
    assert!(answer["message"].as_str().unwrap().contains("nothing listens at port 8080"));
    assert!(answer["hint"].is_string());
    for (path, status) in [
        ("/cells/absent/ports/80/", 404),
        ("/cells/served/ports/0/", 400),
        ("/cells/served/ports/65536/", 400),
        ("/cells/served/ports/http/", 400),
    ] {
        server.ask(&Sent::get(path)).is(status);
    }
    world.hotcell(["port", "absent", "80"]).run().exited(3);
    world.hotcell(["port", "served", "0"]).run().exited(2);
}

fn where_to_listen_is_checked(world: &World) {
    world.text(["run", "--cell", "served", "true"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = world.hotcell(["port", "served", "80", "--listen", &address]).run().exited(4);
    assert!(
        refused.stderr().contains(&format!("somebody else listens at {address}")),
        "{refused:?}"
    );
    assert!(refused.stdout().is_empty());
    world.hotcell(["port", "served", "80", "--listen", "0.0.0.0"]).run().exited(2);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let live = world.hotcell(["port", "served", "80", "--json", "--listen", &free]).start();
    live.await_stdout("\n");
    let said: serde_json::Value = serde_json::from_str(&live.printed()).unwrap();
    assert_eq!(said["listen"], format!("127.0.0.1:{free}"));
    assert_eq!((&said["cell"], &said["port"]), (&world.cell_id("served").into(), &80.into()));
    assert_eq!(live.said(), "");
    live.kill();
    let live = world.hotcell(["port", "served", "80", "--listen", "0.0.0.0:0"]).start();
    live.await_stderr("not asked who they are");
    live.kill();
}

fn services_are_for_those_who_may_call(world: &World) {
    serve(world, WEB);
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_HTTP_TOKEN", TOKEN)]);
    let path = "/cells/served/ports/8080/x";
    server.ask(&Sent::get(path)).is(401);
    server.ask(&Sent::get(path).with("authorization", "Bearer wrong")).is(401);
    let bearer = format!("Bearer {TOKEN}");
    let answer = server.ask(&Sent::get(path).with("authorization", &bearer)).is(200);
    // What opens the door does not go through it.
    assert!(!answer.body.contains(TOKEN), "{answer:?}");
    let mut tunnel = upgrade(&server, &[]);
    assert_eq!(tunnel.head().unwrap().status, 401);
}

fn a_page_of_a_cell_is_not_the_servers_own(world: &World) {
    serve(world, WEB);
    world.text(["run", "--cell", "served", "echo '<script>1</script>' > page.html"]);
    let server = HttpServer::start(world);
    let path = "/cells/served/ports/8080/";
    let page = server.ask(&Sent::get(path)).is(200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("sandbox") && !policy.contains("allow-same-origin"), "{policy}");
    for header in ["set-cookie", "service-worker-allowed", "access-control-allow-origin"] {
        assert_eq!(page.header(header), None);
    }
    // The content of files comes from the cell too.
    let page = server.ask(&Sent::get("/v1/cells/served/files/page.html")).is(200);
    assert_eq!(page.header("content-security-policy"), Some("sandbox"));
    // In a sandbox a page has no origin: what it asks for is refused.
    let run = serde_json::json!({ "cell": "served", "command": "echo broken out > proof" });
    let call = Sent::tool("exec_run", run.clone());
    for sent in [Sent::post("/v1/execs", &run), call, Sent::post(path, &run)] {
        let from = |origin: &str, site: &str| {
            sent.clone().with("origin", origin).with("sec-fetch-site", site)
        };
        server.ask(&from("null", "cross-site")).is(403);
        // The same page by way of `hotcell port` has the origin of another port.
        server.ask(&from("http://localhost:4321", "same-site")).is(403);
        server.ask(&sent.clone().with("sec-fetch-site", "cross-site")).is(403);
        server.ask(&sent.clone().with("sec-fetch-site", "same-site")).is(403);
    }
    server.ask(&Sent::get("/v1/cells").with("sec-fetch-site", "cross-site")).is(403);
    server.ask(&Sent::get(path).with("service-worker", "script")).is(403);
    assert_eq!(upgrade(&server, &[("origin", "null")]).head().unwrap().status, 403);
    world.hotcell(["run", "--cell", "served", "cat proof"]).run().exited(1);
    // The parts of a page of a cell are loaded by it alone, and programs say nothing of sites.
    let part = Sent::get(path).with("sec-fetch-site", "cross-site");
    server.ask(&part).is(403);
    server
        .ask(&part.clone().with("referer", "http://elsewhere.org/cells/served/ports/8080/"))
        .is(403);
    server.ask(&part.clone().with("referer", &format!("http://localhost{path}page.html"))).is(200);
    let going = part.with("sec-fetch-mode", "navigate");
    server.ask(&going.clone().with("sec-fetch-dest", "iframe")).is(403);
    // Whoever goes there is led to where the page has an origin that is not the server's.
    let led = server.ask(&going.with("sec-fetch-dest", "document")).is(307);
    assert_eq!(led.header("location"), Some("http://8080.served.localhost/"));
    server.ask(&Sent::get("/v1/cells")).is(200);
    server.ask(&Sent::get("/v1/cells").with("sec-fetch-site", "none")).is(200);
}

fn under_its_own_name_a_service_is_for_its_own_pages(world: &World) {
    serve(world, WEB);
    let server = HttpServer::start(world);
    let named = |sent: Sent, host: &str| sent.without("host").with("host", host);
    let own = |sent: Sent| named(sent, "8080.served.localhost");
    let page = server.ask(&own(Sent::get("/a/b?c")).with("cookie", "mine=1")).is(200);
    for header in ["content-security-policy", "access-control-allow-origin"] {
        assert_eq!(page.header(header), None);
    }
    assert_eq!(page.header("set-cookie"), Some("stolen=1"), "it is this name's alone");
    let asked = page.json();
    assert_eq!(asked["path"], "/a/b?c");
    let headers = asked["headers"].to_string().to_lowercase();
    assert!(headers.contains("mine=1") && headers.contains("localhost:8080"), "{headers}");
    // Every path is the service's, whatever the server has there.
    for path in ["/v1/cells", "/mcp", "/health", "/metrics", "/cells/served/ports/8080/"] {
        assert_eq!(server.ask(&own(Sent::get(path))).is(200).json()["path"], path);
    }
    let post = own(Sent::post("/api", &serde_json::json!({})));
    let from =
        |origin: &str, site: &str| post.clone().with("origin", origin).with("sec-fetch-site", site);
    server.ask(&from("http://8080.served.localhost", "same-origin")).is(200);
    for origin in [
        "null",
        "http://localhost",
        "http://9090.served.localhost",
        "http://8080.other.localhost",
        "http://8080.served.localhost:1234",
        "http://elsewhere.org",
    ] {
        server.ask(&from(origin, "cross-site")).is(403);
    }
    for site in ["cross-site", "same-site"] {
        server.ask(&own(Sent::get("/")).with("sec-fetch-site", site)).is(403);
        // Nor is the server for the pages of a service.
        server.ask(&Sent::get("/v1/cells").with("sec-fetch-site", site)).is(403);
    }
    let own_page = Sent::get("/v1/cells").with("origin", "http://8080.served.localhost");
    server.ask(&own_page).is(403);
    server.ask(&named(Sent::get("/v1/cells"), "served.localhost")).is(403);
    server.ask(&named(Sent::get("/"), "8080.nobody.localhost")).is(404);
}

fn what_is_not_for_a_service_stays_outside(world: &World) {
    serve(world, WEB);
    let server = HttpServer::start(world);
    let path = "/cells/served/ports/8080/a%20b/?q=%2F&r";
    let request = Sent::get(path)
        .with("cookie", "other=1")
        .with("authorization", "Basic abc")
        .with("x-forwarded-for", "192.0.2.1")
        .with("x-mine", "kept");
    let asked = server.ask(&request).is(200).json();
    assert_eq!(asked["path"], "/a%20b/?q=%2F&r");
    let headers: std::collections::BTreeMap<String, serde_json::Value> = asked["headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .collect();
    for (name, value) in [
        ("host", "localhost:8080"),
        ("x-forwarded-host", "localhost"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-prefix", "/cells/served/ports/8080"),
        ("x-mine", "kept"),
    ] {
        assert_eq!(headers[name], value, "{headers:?}");
    }
    for name in ["cookie", "authorization", "x-forwarded-for", "connection"] {
        assert!(!headers.contains_key(name), "{name}: {headers:?}");
    }
    let moved = server.ask(&Sent::get("/cells/served/ports/8080/moved")).is(302);
    assert_eq!(moved.header("location"), Some("/cells/served/ports/8080/v1/cells"));
    assert_eq!(moved.header("content-location"), Some("/cells/served/ports/8080/mcp"));
    // Methods and bodies, whatever their length.
    let base = "/cells/served/ports/8080/up";
    let content = pattern(20 << 20, 3);
    let asked = server.ask(&Sent::put(base, content.clone())).is(200).json();
    assert_eq!((&asked["method"], &asked["length"]), (&"PUT".into(), &content.len().into()));
    let mut connection = Connection::open(server.address);
    connection.write(format!("POST {base} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n").as_bytes());
    for piece in [b"3\r\nabc\r\n".as_slice(), b"2\r\nde\r\n", b"0\r\n\r\n"] {
        connection.write(piece);
    }
    let asked = connection.answer().unwrap().is(200).json();
    assert_eq!((&asked["method"], &asked["length"]), (&"POST".into(), &5.into()));
    for sent in [Sent::delete(base), Sent::options(base)] {
        server.ask(&sent).is(200);
    }
    assert!(server.ask(&Sent::head(base)).is(200).body.is_empty());
}

/// Asks for a websocket.
fn upgrade(server: &HttpServer, headers: &[(&str, &str)]) -> Connection {
    let mut connection = Connection::open(server.address);
    let mut head = "GET /cells/served/ports/8080/ws HTTP/1.1\r\nhost: localhost\r\n\
         connection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        .to_owned();
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    connection.write(format!("{head}\r\n").as_bytes());
    connection
}

/// A frame as a client sends it: masked.
fn frame(kind: u8, text: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut bytes = vec![0x80 | kind, 0x80 | 126];
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&mask);
    bytes.extend(text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// The text of the next frame that the service sends.
fn next_text(connection: &mut Connection) -> Vec<u8> {
    let head = connection.read_exactly(2);
    let length = match head[1] {
        126 => {
            let two = connection.read_exactly(2);
            usize::from(u16::from_be_bytes([two[0], two[1]]))
        }
        short => usize::from(short),
    };
    connection.read_exactly(length)
}

fn a_websocket_is_carried_over_http(world: &World) {
    serve(world, WEB);
    let server = HttpServer::start(world);
    let mut socket = upgrade(&server, &[]);
    let head = socket.head().unwrap();
    assert_eq!((head.status, head.header("upgrade")), (101, Some("websocket")));
    // The answer to the key of the specification's example.
    assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    for text in [b"hello".to_vec(), pattern(60_000, 1), b"bye".to_vec()] {
        socket.write(&frame(1, &text));
        assert_eq!(next_text(&mut socket), text);
    }
    socket.write(&frame(8, b"\x03\xe8"));
    assert_eq!(next_text(&mut socket), b"\x03\xe8");
    // One that stays open keeps no server from ending, and ends with it.
    let mut open = upgrade(&server, &[]);
    assert_eq!(open.head().unwrap().status, 101);
    open.write(&frame(1, b"still here"));
    assert_eq!(next_text(&mut open), b"still here");
    assert_eq!(server.terminate().code(), 0);
    assert_eq!(open.head().map(|head| head.status), None);
}

fn a_killed_service_breaks_what_it_began(world: &World) {
    let exec = serve(world, WEB);
    let server = HttpServer::start(world);
    let mut begun = server.send(&Sent::get("/cells/served/ports/8080/cut"));
    assert_eq!(begun.head().unwrap().header("content-length"), Some("1000000"));
    let mut hung = server.send(&Sent::get("/cells/served/ports/8080/hang"));
    let mut socket = upgrade(&server, &[]);
    assert_eq!(socket.head().unwrap().status, 101);
    assert_eq!(begun.read_exactly(4), b"half");
    world.hotcell(["cancel", "--grace", "0", &exec]).run().succeeded();
    assert_eq!(begun.read_rest().len(), 0, "more came than the service had sent");
    assert_eq!(hung.answer().unwrap().is(503).json()["code"], "unavailable");
    assert!(socket.read_rest().is_empty());
    server.ask(&Sent::get("/cells/served/ports/8080/")).is(503);
    serve(world, WEB);
    server.ask(&Sent::get("/cells/served/ports/8080/")).is(200);
}

/// Takes connections and reads nothing.
const DEAF: &str = "import socket\n\
    server = socket.create_server(('127.0.0.1', 8080), backlog=50)\n\
    taken = []\n\
    while True: taken.append(server.accept())";

fn who_does_not_read_holds_nobody_up(world: &World) {
    serve(world, DEAF);
    let forward = Forward::start(world);
    let mut stuck = forward.connect();
    stuck.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut taken = 0;
    while stuck.write_all(&[0; 1 << 16]).is_ok() {
        taken += 1;
        assert!(taken < 2000, "125 MB were taken for a service that reads nothing");
    }
    assert_eq!(world.text(["run", "--cell", "served", "echo on"]), "on\n");
    let resident = crate::world::resident_kib(world.supervisor("served"));
    assert!(resident < 40_000, "the supervisor has {resident} KiB");
    drop(stuck);
    forward.end();
}

/// Connections to port 8080 that stand, on the side of whoever made them.
fn standing(world: &World) -> usize {
    let table = world.text(["run", "--cell", "served", "cat /proc/net/tcp"]);
    let stands = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(2).is_some_and(|to| to.ends_with(":1F90")) && words.get(3) == Some(&"01")
    };
    table.lines().filter(stands).count()
}

fn who_breaks_off_over_http_is_gone_though_the_service_reads_nothing(world: &World) {
    serve(world, DEAF);
    let server = HttpServer::start(world);
    let path = "/cells/served/ports/8080/";
    let mut small = TcpStream::connect(server.address).unwrap();
    small.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
    let stuck = || {
        let mut stuck = TcpStream::connect(server.address).unwrap();
        stuck.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n"
        );
        stuck.write_all(head.as_bytes()).unwrap();
        while stuck.write_all(&[0; 1 << 16]).is_ok() {}
        stuck
    };
    let reset = stuck();
    eventually("both are connected", || standing(world) == 2);
    rustix::net::sockopt::set_socket_linger(&reset, Some(Duration::ZERO)).unwrap();
    for (left, stream) in [(1, small), (0, reset)] {
        drop(stream);
        eventually("it is gone in the cell", || standing(world) == left);
    }
    let open = crate::world::fd_count(server.live.pid());
    // And again, so that nothing adds up.
    for _ in 0..3 {
        let again = stuck();
        rustix::net::sockopt::set_socket_linger(&again, Some(Duration::ZERO)).unwrap();
        drop(again);
        eventually("it is gone in the cell", || standing(world) == 0);
    }
    eventually("it is gone in the server", || crate::world::fd_count(server.live.pid()) <= open);
}

fn who_breaks_off_is_gone_though_the_service_reads_nothing(world: &World) {
    serve(world, DEAF);
    let forward = Forward::start(world);
    let standing = || standing(world);
    let mut stuck = forward.connect();
    let said_no_more = forward.connect();
    stuck.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    while stuck.write_all(&[0; 1 << 16]).is_ok() {}
    eventually("both are connected", || standing() == 2);
    // A client that vanished without a word is asked for: 02 is the timer for that.
    let client = said_no_more.local_addr().unwrap().port();
    let ends = format!(":{:04X} 0100007F:{client:04X} 01", forward.address.port());
    eventually("the client is asked now and then", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let line = table.lines().find(|line| line.contains(&ends));
        line.is_some_and(|line| line.split_whitespace().nth(5).unwrap().starts_with("02:"))
    });
    for stream in [stuck, said_no_more] {
        let before = standing();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        eventually("it is gone in the cell", || standing() == before - 1);
    }
    forward.end();
}

fn a_sleeping_cell_wakes_with_the_first_connection(world: &World) {
    let started = world.hotcell(["run", "--cell", "served", "true"]);
    started.env("HOTCELL_SLEEP_AFTER_S", "1").run().succeeded();
    let asleep = || world.json(["info", "--json", "served"])["cell"]["state"] == "asleep";
    let forward = Forward::start(world);
    eventually("the cell sleeps", asleep);
    let mut stream = forward.connect();
    // Nothing listens in a cell that has just woken; that is what is said of it.
    let _ = stream.read(&mut [0; 1]);
    forward.live.await_stderr("nothing listens at port 8080");
    forward.end();
}
