//! What a cell reaches over the network: names that the operator allowed, and nothing else.

use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, symlink};

use serde_json::{Value, json};

use crate::world::{Era, Live, McpClient, Outside, World, eventually, is_alive, pattern};

in_worlds! { [root, rootless, single_id, docker, remote]
    an_allowed_name_is_reached_and_others_are_not_there,
    bytes_go_both_ways_and_each_way_ends_by_itself,
    the_proxy_has_the_same_rules,
    a_change_takes_hold_in_a_cell_that_runs,
    what_is_denied_is_cut,
}

in_worlds! { [root, rootless, single_id, docker]
    a_name_stands_for_its_ports_alone,
    names_below_a_suffix_are_there,
    what_is_not_public_is_for_names_that_are_written_out,
    a_name_that_moves_to_an_inner_address_is_refused,
    nothing_is_reached_without_a_name,
    localhost_is_the_cell_itself,
    no_packet_hurts_the_resolver,
    a_flood_of_lookups_starves_nothing,
    a_denial_that_was_broken_off_takes_hold,
    a_link_among_the_records_leads_nowhere,
    connections_and_bytes_are_limited,
    every_connection_is_written_down,
    a_connection_that_ends_with_its_cell_is_written_down,
    a_hundred_connections_at_once_carry_every_byte,
    agents_reach_what_the_operator_allowed,
    only_cells_with_a_network_have_a_carrier,
    a_carrier_is_bounded,
}

/// Connects, says a line, and returns what comes. A connection that breaks off is found out by
/// whatever is done with it next: it is always told as a reset.
const ASK: &str = "
import errno, socket, sys
BROKEN = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN, errno.ECONNABORTED)
def ask(name, port, line, more=b''):
    with socket.create_connection((name, int(port)), 100) as s:
        try:
            s.sendall(line.encode() + b'\\n' + more)
            s.shutdown(socket.SHUT_WR)
            got = b''
            while True:
                part = s.recv(65536)
                if not part:
                    return got
                got += part
        except OSError as error:
            if error.errno in BROKEN:
                raise ConnectionResetError(errno.ECONNRESET, 'broken off') from None
            raise
";

pub(crate) fn python(script: &str) -> String {
    format!("python3 -c \"$(cat <<'PYTHON'\n{ASK}{script}\nPYTHON\n)\"")
}

fn records(world: &World, cell: &str) -> Vec<Value> {
    let text = world.text(["net", "log", "--json", cell]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn in_cell(
    world: &World,
    outside: &Outside,
    cell: &str,
    script: &str,
) -> crate::world::Finished {
    outside.hotcell(world, ["run", "--cell", cell, &python(script)]).run()
}

pub(crate) fn spawn(world: &World, outside: &Outside, cell: &str, rules: &[String]) {
    let allowed = rules.iter().flat_map(|rule| ["--allow", rule]);
    outside.hotcell(world, ["spawn", cell, "--persistent"]).args(allowed).run().succeeded();
}

fn an_allowed_name_is_reached_and_others_are_not_there(world: &World) {
    let outside = Outside::start(&["good.test", "other.test"]);
    let url = format!("http://good.test:{}/page", outside.port);
    let fetch =
        |url: &str| format!("import urllib.request; print(urllib.request.urlopen('{url}').read())");
    let allow = outside.rule("good.test");
    let run =
        |script: &str| outside.hotcell(world, ["run", "--allow", &allow, &python(script)]).run();
    assert_eq!(run(&fetch(&url)).succeeded().stdout(), "b'you asked for /page\\n'\n");
    let denied = run(&fetch(&url.replace("good", "other")));
    assert!(denied.stderr().contains("Name or service not known"), "{denied:?}");
    // Without a network no name is there.
    let none = world.hotcell(["run", &python(&fetch(&url))]).run();
    assert_ne!(none.code(), 0, "{none:?}");
}

fn a_name_stands_for_its_ports_alone(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &["good.test".to_owned(), "good.test:8081".to_owned()]);
    let script = "
import errno
def told(port):
    with socket.socket() as s:
        s.settimeout(100)
        code = s.connect_ex((socket.gethostbyname('good.test'), port))
        # Nobody is there outside, so that what was taken breaks off, sometimes at once.
        return 'open' if code in (0, errno.ECONNRESET) else errno.errorcode[code]
print(*[told(port) for port in (22, 80, 443, 8081, 8080, 53, 3128)])";
    let told = in_cell(world, &outside, "c", script).succeeded().stdout();
    let refused = ["ECONNREFUSED"; 3].join(" ");
    assert_eq!(told, format!("open open open open {refused}\n"));
}

fn bytes_go_both_ways_and_each_way_ends_by_itself(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let port = outside.port;
    let script = format!(
        "
import os
data = os.urandom(3_000_000)
print(ask('good.test', {port}, 'echo', data) == data, ask('good.test', {port}, 'echo') == b'')
print(len(ask('good.test', {port}, 'send 2000000')))"
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told, "True True\n2000000\n");
}

fn names_below_a_suffix_are_there(world: &World) {
    let outside = Outside::start(&["a.sub.test", "a.b.sub.test", "sub.test", "notsub.test"]);
    spawn(world, &outside, "c", &[outside.rule("*.sub.test")]);
    let script = "
for name in ('a.sub.test', 'A.B.SUB.test.', 'sub.test', 'notsub.test', 'sub.test.evil'):
    try:
        print(socket.gethostbyname(name).split('.')[0])
    except socket.gaierror:
        print('not there')";
    let told = in_cell(world, &outside, "c", script).succeeded().stdout();
    assert_eq!(told, "127\n127\nnot there\nnot there\nnot there\n");
}

fn what_is_not_public_is_for_names_that_are_written_out(world: &World) {
    let outside = Outside::start(&["a.sub.test", "b.sub.test", "other.test"]);
    let rules = ["*.sub.test", "*", "a.sub.test"].map(|rule| outside.rule(rule));
    spawn(world, &outside, "c", &rules);
    let script = format!(
        "
for name in ('a.sub.test', 'b.sub.test', 'other.test'):
    try:
        print(len(ask(name, {port}, 'send 5')))
    except ConnectionResetError:
        print('reset')",
        port = outside.port
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told, "5\nreset\nreset\n");
    let refused: Vec<Value> =
        records(world, "c").into_iter().filter(|it| it["verdict"] == "denied").collect();
    let reasons = refused.iter().map(|it| (it["name"].as_str(), it["reason"].as_str()));
    let why = Some("the name leads to a loopback address");
    assert_eq!(reasons.collect::<Vec<_>>(), [(Some("b.sub.test"), why), (Some("other.test"), why)]);
}

fn a_name_that_moves_to_an_inner_address_is_refused(world: &World) {
    let outside = Outside::start(&["moving.test"]);
    let (rule, inner) =
        (outside.rule("moving.test"), format!("moving.test:{}", outside.inner_port));
    spawn(world, &outside, "c", &[rule, inner]);
    let ask = |port: u16| {
        let script = format!("print(ask('moving.test', {port}, 'send 5'))");
        in_cell(world, &outside, "c", &script)
    };
    // It is there, so that what comes next is the doing of the address.
    ask(outside.port).succeeded();
    // The service that is nobody's business is there as well.
    assert!(TcpStream::connect(("127.0.0.1", outside.inner_port)).is_ok());
    let addresses =
        ["127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:127.0.0.1", "10.0.0.1"];
    for address in addresses {
        outside.lead("moving.test", address);
        let refused = ask(outside.inner_port);
        assert!(refused.stderr().contains("ConnectionResetError"), "{address}: {refused:?}");
        let last = records(world, "c").pop().unwrap();
        assert_eq!(
            (&last["verdict"], &last["port"]),
            (&json!("denied"), &json!(outside.inner_port))
        );
        assert!(last["reason"].as_str().unwrap().contains("leads to"), "{last}");
    }
    outside.lead("moving.test", "127.0.0.2");
    ask(outside.port).succeeded();
}

fn nothing_is_reached_without_a_name(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test"), "*".to_owned()]);
    let (port, inner) = (outside.port, outside.inner_port);
    let own = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // The address that this machine would send from; nothing is sent.
    let own = match own.connect("1.1.1.1:9") {
        Ok(()) => own.local_addr().unwrap().ip().to_string(),
        Err(_) => "192.0.2.1".to_owned(),
    };
    let script = format!(
        "
def connects(family, kind, place, protocol=0):
    try:
        with socket.socket(family, kind, protocol) as s:
            s.settimeout(5)
            if kind == socket.SOCK_STREAM:
                s.connect(place)
            else:
                s.sendto(b'x', place)
            return True
    except OSError:
        return False
tcp, udp, raw = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
four, six = socket.AF_INET, socket.AF_INET6
for place in [('1.1.1.1', 443), ('169.254.169.254', 80), ('127.0.0.2', {port}), ('127.0.0.1', {inner}), ('{own}', 22), ('{own}', {port})]:
    print(place[0], connects(four, tcp, place))
print('six', connects(six, tcp, ('2606:4700:4700::1111', 443)), connects(six, tcp, ('::1', {inner})))
print('udp', connects(four, udp, ('1.1.1.1', 53)), connects(four, udp, ('{own}', 53)))
print('icmp', connects(four, raw, ('1.1.1.1', 0), 1), connects(four, udp, ('1.1.1.1', 0), 1))
print('multicast', connects(four, udp, ('224.0.0.251', 5353)))
print('by name', connects(four, tcp, (socket.gethostbyname('good.test'), {port})))"
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    let (others, last) = told.trim().rsplit_once('\n').unwrap();
    assert_eq!(last, "by name True");
    assert!(!others.contains("True"), "{told}");
    // The same outside of a cell, so that it is the cell that stops it.
    let control = world
        .other(
            "python3",
            [
                "-c",
                &format!("{ASK}{script}")
                    .replace("gethostbyname('good.test')", "gethostbyname('127.0.0.2')"),
            ],
        )
        .run()
        .stdout();
    assert!(control.contains("127.0.0.2 True") && control.contains("127.0.0.1 True"), "{control}");
}

fn localhost_is_the_cell_itself(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let port = outside.port;
    let script = format!(
        "
import threading
own = socket.create_server(('127.0.0.1', {port}))
def answer():
    peer, _ = own.accept()
    while peer.recv(10): pass
    peer.sendall(b'own'); peer.close()
threading.Thread(target=answer).start()
print(socket.gethostbyname('localhost'), ask('localhost', {port}, ''), len(ask('good.test', {port}, 'send 7')))"
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told, "127.0.0.1 b'own' 7\n");
}

fn no_packet_hurts_the_resolver(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test"), "*.wide.test".to_owned()]);
    let script = format!(
        "
import os, struct
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.connect(('127.64.0.1', 53))
head = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0'
odd = [b'', b'x', head, head + b'\\xc0\\x0c\\0\\1\\0\\1', head + b'\\x7f' + b'a' * 127 + b'\\0\\0\\1\\0\\1',
       head + b'\\x3f' + b'a' * 63 + b'\\xc0\\x0c', head + (b'\\x3f' + b'a' * 63) * 20 + b'\\0\\0\\1\\0\\1']
for packet in odd + [os.urandom(n % 600) for n in range(500)]:
    try:
        udp.send(packet)
    except ConnectionRefusedError:
        pass
tcp = socket.create_connection(('127.64.0.1', 53), 10)
tcp.sendall(struct.pack('>H', 40000) + b'x' * 100); tcp.close()
idle = [socket.create_connection(('127.64.0.1', 53), 10) for _ in range(20)]
for name in ('a' * 63 + '.test', ('a' * 60 + '.') * 4 + 'test', 'b' * 63 + '.wide.test'):
    try:
        print(socket.gethostbyname(name).split('.')[0])
    except socket.gaierror as error:
        print('not there')
for n in range(2000):
    socket.gethostbyname('n%d.wide.test' % n)
print(len(ask('good.test', {port}, 'send 9')))",
        port = outside.port
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told, "not there\nnot there\n127\n9\n");
}

fn a_flood_of_lookups_starves_nothing(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let script = format!(
        "
import os, signal
query = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6denied\\4test\\0\\0\\1\\0\\1'
def flood():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.connect(('127.64.0.1', 53))
    while True:
        udp.send(query)
floods = []
for n in range(3):
    child = os.fork()
    if child == 0: flood()
    floods.append(child)
import time
time.sleep(0.5)
try:
    for n in range(10):
        head = 'GET http://good.test:{port}/%d HTTP/1.1\\r\\nHost: x\\r\\n\\r' % n
        print(ask('127.64.0.1', 3128, head).split(b' ')[1].decode(), end=' ')
finally:
    for child in floods: os.kill(child, signal.SIGKILL)
print(len(ask('good.test', {port}, 'send 5')))",
        port = outside.port
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told, format!("{}5\n", "200 ".repeat(10)));
    // What was opened is still there, and of the rest there is a part.
    let found = records(world, "c");
    let count = |verdict: &str| found.iter().filter(|it| it["verdict"] == verdict).count();
    assert_eq!(count("opened"), 11);
    assert!(count("denied") >= 50, "{}", count("denied"));
    assert!(count("denied") <= 500, "{}", count("denied"));
}

fn the_proxy_has_the_same_rules(world: &World) {
    let outside = Outside::start(&["good.test", "other.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let port = outside.port;
    let script = format!(
        "
def through(line):
    got = ask('127.64.0.1', 3128, line + ' HTTP/1.1\\r\\nHost: x\\r\\n\\r')
    return got.split(b' ')[1].decode(), got.split(b'\\n')[-2].decode()
print(through('GET http://good.test:{port}/page'))
for line in ('GET http://other.test:{port}/', 'GET http://127.0.0.2:{port}/', 'CONNECT other.test:{port}',
             'CONNECT 127.0.0.2:{port}', 'CONNECT [::1]:{port}', 'CONNECT good.test:1', 'GET /', 'CONNECT x'):
    print(through(line)[0])
with socket.create_connection(('127.64.0.1', 3128), 100) as s:
    s.sendall(b'CONNECT good.test:{port} HTTP/1.1\\r\\n\\r\\n')
    print(s.recv(1000).split(b'\\r')[0].decode())
    s.sendall(b'send 5\\n')
    got = b''
    while len(got) < 5: got += s.recv(10)
    print(len(got))"
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    let expected = "('200', 'you asked for /page')\n403\n403\n403\n403\n403\n403\n400\n400\n\
                    HTTP/1.1 200 Connection established\n5\n";
    assert_eq!(told, expected);
    let used = outside
        .hotcell(world, ["run", "--cell", "c", "-e", "http_proxy=http://127.64.0.1:3128"])
        .arg(&python(&format!(
            "import urllib.request as u; print(u.urlopen('http://good.test:{port}/x').status)"
        )))
        .run();
    assert_eq!(used.succeeded().stdout(), "200\n");
}

pub(crate) fn waiting(world: &World, outside: &Outside, name: &str) -> Live {
    let script = format!(
        "
import time
print('waits', flush=True)
while True:
    try:
        print(len(ask('{name}', {}, 'send 5')), flush=True)
        break
    except OSError:
        time.sleep(0.02)",
        outside.port
    );
    let live = outside.hotcell(world, ["run", "--cell", "c", &python(&script)]).start();
    live.await_stdout("waits\n");
    live
}

fn a_change_takes_hold_in_a_cell_that_runs(world: &World) {
    let outside = Outside::start(&["good.test", "late.test"]);
    // Made without a network.
    spawn(world, &outside, "c", &[]);
    let live = waiting(world, &outside, "late.test");
    let shown = outside.hotcell(world, ["net", "allow", "c", &outside.rule("late.test")]).run();
    assert!(shown.succeeded().stdout().starts_with("late.test:"));
    live.await_stdout("waits\n5\n");
    live.finish().succeeded();
    assert_eq!(
        world.json(["info", "--json", "c"])["cell"]["network"]["allow"],
        json!([outside.rule("late.test")])
    );
    // It stays so when the cell is looked at by others, and when it is taken back.
    outside.hotcell(world, ["net", "deny", "c", "late.test"]).run().succeeded();
    assert_eq!(world.json(["net", "show", "--json", "c"])["network"], "none");
    let gone =
        in_cell(world, &outside, "c", &format!("ask('late.test', {}, 'send 5')", outside.port));
    assert!(gone.stderr().contains("Name or service not known"), "{gone:?}");
    world.hotcell(["net", "allow", "c", "10.0.0.1"]).run().exited(2);
    world.hotcell(["net", "allow", "c", "no such name"]).run().exited(2);
}

/// Takes what drips until it breaks off.
pub(crate) fn dripping(world: &World, outside: &Outside, cell: &str, name: &str) -> Live {
    let script = format!(
        "
with socket.create_connection(('{name}', {}), 100) as s:
    s.sendall(b'drip\\n')
    print('drips', s.recv(5), flush=True)
    count = 0
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            print('reset', flush=True); break
        if not part:
            print('end', flush=True); break
        count += len(part)
        if count % 1000 < 10: print('more', flush=True)",
        outside.port
    );
    let live = outside.hotcell(world, ["run", "--cell", cell, &python(&script)]).start();
    live.await_stdout("drips b'drip\\n'\n");
    live
}

fn what_is_denied_is_cut(world: &World) {
    let outside = Outside::start(&["cut.test", "kept.test"]);
    spawn(world, &outside, "c", &[outside.rule("cut.test"), outside.rule("kept.test")]);
    let cut = dripping(world, &outside, "c", "cut.test");
    let kept = dripping(world, &outside, "c", "kept.test");
    outside.hotcell(world, ["net", "deny", "c", "cut.test"]).run().succeeded();
    cut.await_stdout("reset\n");
    cut.finish().succeeded();
    kept.await_stdout("more\n");
    let is_cut = |record: &Value| record["verdict"] == "cut" && record["name"] == "cut.test";
    assert!(records(world, "c").iter().any(is_cut));
    outside.hotcell(world, ["net", "deny", "c", "*"]).run().succeeded();
    kept.await_stdout("reset\n");
    kept.finish().succeeded();
}

/// Somebody is gone after the new rules were written down, and before the carrier was told.
fn a_denial_that_was_broken_off_takes_hold(world: &World) {
    let outside = Outside::start(&["cut.test", "kept.test"]);
    spawn(world, &outside, "c", &[outside.rule("cut.test"), outside.rule("kept.test")]);
    let cut = dripping(world, &outside, "c", "cut.test");
    let kept = dripping(world, &outside, "c", "kept.test");
    let process = carrier(world, "c");
    let rules = json!({ "allow": [outside.rule("kept.test")] });
    // In the place of the one that is there, as the program does it.
    let (file, new) =
        (world.cell_dir("c").join("network.json"), world.cell_dir("c").join("network.new"));
    std::fs::write(&new, rules.to_string()).unwrap();
    std::fs::rename(&new, &file).unwrap();
    cut.await_stdout("reset\n");
    cut.finish().succeeded();
    kept.await_stdout("more\n");
    assert_eq!(carrier(world, "c"), process);
    world.text(["kill", "--volumes", "--force", "c"]);
    kept.finish();
}

/// The directory of records belongs to the cell's supervisor, which may put anything there.
fn a_link_among_the_records_leads_nowhere(world: &World) {
    let outside = Outside::start(&["good.test"]);
    let rule = outside.rule("good.test");
    outside
        .hotcell(world, ["spawn", "c", "--persistent", "--allow", &rule])
        .env("HOTCELL_SLEEP_AFTER_S", "1")
        .run()
        .succeeded();
    eventually("the cell is asleep", || {
        world.json(["info", "--json", "c"])["cell"]["state"] == "asleep"
    });
    let target = world.home().join("target");
    std::fs::write(&target, "mine").unwrap();
    let owner = || {
        let status = std::fs::metadata(&target).unwrap();
        (status.uid(), status.gid())
    };
    let before = owner();
    let records = world.state_dir().join("cells").join(world.cell_id("c")).join("records");
    for name in
        ["some", "network.jsonl", "network.1.jsonl", "network-used.json", "network-used.new"]
    {
        let link = records.join(name);
        let _ = std::fs::remove_file(&link);
        symlink(&target, link).unwrap();
    }
    // What cannot be written down does not happen.
    let script = format!("ask('good.test', {}, 'send 5')", outside.port);
    let refused = in_cell(world, &outside, "c", &script);
    assert!(refused.stderr().contains("ConnectionResetError"), "{refused:?}");
    assert_eq!(owner(), before);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
    assert_ne!(world.hotcell(["net", "log", "c"]).run().code(), 0);
    for name in ["network.jsonl", "network.1.jsonl"] {
        std::fs::remove_file(records.join(name)).unwrap();
    }
    in_cell(world, &outside, "c", &script).succeeded();
}

fn connections_and_bytes_are_limited(world: &World) {
    let outside = Outside::start(&["good.test"]);
    let port = outside.port;
    let hotcell = |args: [&str; 4]| {
        let limited = outside.hotcell(world, args).env("HOTCELL_EGRESS_MAX_CONNECTIONS", "3");
        limited.env("HOTCELL_EGRESS_MAX_MB", "2")
    };
    hotcell(["spawn", "c", "--allow", &outside.rule("good.test")]).run().succeeded();
    let script = format!(
        "
held = []
for n in range(5):
    try:
        s = socket.create_connection(('good.test', {port}), 100)
        s.sendall(b'hold\\n')
        held.append(s) if s.recv(5) else print('no more')
    except ConnectionError:
        print('no more')
print(len(held), flush=True)
for s in held: s.close()
import time
total = 0
for n in range(400):
    try:
        total += len(ask('good.test', {port}, 'send 500000'))
    except ConnectionError:
        if total: break
        time.sleep(0.05)
print(total <= 2 << 20, total >= 1_500_000)"
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told, "no more\nno more\n3\nTrue True\n");
    let reasons: Vec<String> = records(world, "c")
        .iter()
        .filter_map(|it| Some(it["reason"].as_str()?.to_owned()))
        .collect();
    assert!(reasons.iter().any(|it| it.contains("3 connections")), "{reasons:?}");
    assert!(reasons.iter().any(|it| it.contains("all the bytes")), "{reasons:?}");
}

fn every_connection_is_written_down(world: &World) {
    let outside = Outside::start(&["good.test", "denied.test"]);
    let closed = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    spawn(
        world,
        &outside,
        "c",
        &[outside.rule("good.test"), format!("good.test:{closed}"), outside.rule("gone.test")],
    );
    let script = format!(
        "
print(len(ask('good.test', {port}, 'send 1234')))
for name, port in (('denied.test', {port}), ('good.test', {closed}), ('gone.test', {port})):
    try:
        ask(name, port, 'send 1')
    except OSError as error:
        print(type(error).__name__)",
        port = outside.port
    );
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told, "1234\ngaierror\nConnectionResetError\nConnectionResetError\n");
    let found = records(world, "c");
    let of = |name: &str, verdict: &str| {
        let is = |it: &&Value| it["name"] == name && it["verdict"] == verdict;
        found.iter().find(is).cloned().unwrap_or_else(|| panic!("{name} {verdict}: {found:?}"))
    };
    let (opened, closed_one) = (of("good.test", "opened"), of("good.test", "closed"));
    assert_eq!(opened["connection"], closed_one["connection"]);
    assert_eq!(closed_one["address"], "127.0.0.2");
    assert_eq!(closed_one["port"], outside.port);
    assert_eq!(closed_one["received_bytes"], 1234);
    assert_eq!(closed_one["sent_bytes"], "send 1234\n".len());
    assert!(closed_one["duration_ms"].is_u64());
    of("denied.test", "denied");
    assert_eq!(of("good.test", "failed")["port"], closed);
    of("gone.test", "failed");
    let used = &world.json(["info", "--json", "c"])["stats"]["network"];
    assert_eq!(used["received_bytes"], 1234, "{used}");
    // It is known for a while after the cell is gone.
    let id = world.cell_id("c");
    world.text(["kill", "--volumes", "--force", "c"]);
    assert_eq!(records(world, &id).len(), found.len());
}

fn a_connection_that_ends_with_its_cell_is_written_down(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let open = dripping(world, &outside, "c", "good.test");
    let id = world.cell_id("c");
    world.text(["kill", "--volumes", "--force", "c"]);
    open.finish();
    let last = records(world, &id).pop().unwrap();
    assert_eq!(last["name"], "good.test", "{last}");
    assert!(last["verdict"] == "cut" || last["verdict"] == "closed", "{last}");
    assert!(last["received_bytes"].as_u64().unwrap() > 0, "{last}");
}

fn a_hundred_connections_at_once_carry_every_byte(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let script = format!(
        "
import threading, hashlib
sums = []
def one():
    sums.append(hashlib.sha256(ask('good.test', {}, 'send 1000000')).hexdigest())
threads = [threading.Thread(target=one) for n in range(100)]
for t in threads: t.start()
for t in threads: t.join()
print(len(sums), len(set(sums)), sums[0])",
        outside.port
    );
    let all: Vec<u8> = (0..1_000_000).map(pattern).collect();
    let path = world.home().join("pattern");
    std::fs::write(&path, all).unwrap();
    let sum = world.other("sha256sum", [path.to_str().unwrap()]).run().succeeded().stdout();
    let told = in_cell(world, &outside, "c", &script).succeeded().stdout();
    assert_eq!(told.trim(), format!("100 1 {}", sum.split_whitespace().next().unwrap()));
}

/// What an agent is told that asks for more than it may have.
fn refusal(agent: &mut McpClient, name: &str) -> String {
    let arguments = json!({ "network": { "allow": [name] } });
    let answer =
        agent.request("tools/call", json!({ "name": "cell_spawn", "arguments": arguments }));
    assert_eq!(answer["result"]["isError"], true, "{name}: {answer}");
    answer["result"].to_string()
}

fn agents_reach_what_the_operator_allowed(world: &World) {
    let outside = Outside::start(&["good.test"]);
    let rule = outside.rule("good.test");
    let start = |args: &[&str]| {
        let serve = world.hotcell(["serve"]).args(args.iter().copied());
        let serve = outside.settings().into_iter().fold(serve, |it, (k, v)| it.env(k, v));
        McpClient::start_with(serve, Era::Legacy)
    };
    let mut agent = start(&["--allow", &rule, "--allow", "*.wide.test", "--cell", "own"]);
    let script = python(&format!("print(len(ask('good.test', {}, 'send 5')))", outside.port));
    let ran = agent.call("exec_run", json!({ "command": script }));
    assert_eq!(ran["stdout"], "5\n", "{ran}");
    let made = agent.call("cell_spawn", json!({ "network": { "allow": ["a.wide.test", &rule] } }));
    assert_eq!(made["network"]["allow"], json!(["a.wide.test", rule]), "{made}");
    let none = agent.call("cell_spawn", json!({}));
    assert_eq!(none["network"], "none", "{none}");
    for wider in ["*", "wide.test", "good.test", "a.wide.test:8080", "*.test"] {
        let refused = refusal(&mut agent, wider);
        assert!(
            refused.contains("denied") && refused.contains("serve.allow"),
            "{wider}: {refused}"
        );
    }
    drop(agent);
    let mut agent = start(&["--cell", "other"]);
    let refused = refusal(&mut agent, &rule);
    assert!(refused.contains("denied") && refused.contains("--allow"), "{refused}");
    let listed = agent.request("tools/list", json!({}));
    assert!(!listed.to_string().contains("net_"), "no tool changes the network");
    let ran = agent.call("exec_run", json!({ "command": script }));
    assert_ne!(ran["exit_code"], 0, "{ran}");
}

pub(crate) fn carrier(world: &World, cell: &str) -> i32 {
    let text = std::fs::read(world.cell_dir(cell).join("carrier.json")).unwrap();
    let process: Value = serde_json::from_slice(&text).unwrap();
    i32::try_from(process["pid"].as_i64().unwrap()).unwrap()
}

fn only_cells_with_a_network_have_a_carrier(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "none", &[]);
    world.text(["run", "--cell", "none", "true"]);
    assert!(!world.cell_dir("none").join("carrier.json").exists());
    spawn(world, &outside, "some", &[outside.rule("good.test")]);
    let process = carrier(world, "some");
    // Whoever it works for, it can do nothing on the host that others cannot.
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    assert!(!status.contains("Uid:\t0\t"), "{status}");
    let open = std::fs::read_dir(format!("/proc/{process}/fd"));
    // Only root and its owner may look.
    if let Ok(open) = open {
        let lock = world.cell_dir("some").join("keeper.lock");
        let links = open.flatten().filter_map(|it| std::fs::read_link(it.path()).ok());
        assert!(links.into_iter().all(|to| to != lock), "it holds nothing of the keeper");
    }
    world.text(["kill", "--volumes", "--force", "some"]);
    eventually("it goes with its cell", || !is_alive(process));
}

/// A cell cannot use the host's memory or its processes through what carries its connections.
fn a_carrier_is_bounded(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let told = world.json(["doctor", "--json"]);
    let layers = told["drivers"][0]["isolation"]["layers"].as_array().unwrap();
    // The groups of a container are its engine's.
    let by_group = !world.kind().has_containers()
        && layers.iter().any(|layer| layer["name"] == "memory_limit");
    let carrier = carrier(world, "c");
    let limits = std::fs::read_to_string(format!("/proc/{carrier}/limits")).unwrap();
    let of = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(of("Max processes"), "0", "{limits}");
    let groups = std::fs::read_to_string(format!("/proc/{carrier}/cgroup")).unwrap();
    let name = format!("{}-carrier", world.cell_id("c"));
    assert_eq!(groups.contains(&name), by_group, "{groups}");
    if by_group {
        let made = world.cgroups_of(&world.cell_id("c"));
        let made: Vec<&String> = made.iter().filter(|group| group.ends_with(&name)).collect();
        let read = |file: &str| -> Vec<String> {
            let paths = made.iter().map(|group| group.trim_start_matches("cgroup "));
            paths
                .filter_map(|path| std::fs::read_to_string(format!("{path}/{file}")).ok())
                .collect()
        };
        let memory = [read("memory.max"), read("memory.limit_in_bytes")].concat();
        assert_eq!(memory, ["268435456\n"], "{made:?}");
        // Both processes, the one that opens sockets as well.
        let members = [read("cgroup.procs")].concat().concat();
        assert!(members.lines().any(|line| line == carrier.to_string()), "{members}");
        assert!(read("pids.current").contains(&"2\n".to_owned()), "{made:?}");
    } else {
        assert_eq!(of("Max data size"), "268435456", "{limits}");
    }
    // It carries all the same, also after it was ended.
    let ask = format!("print(len(ask('good.test', {}, 'send 1000000')))", outside.port);
    assert_eq!(in_cell(world, &outside, "c", &ask).succeeded().stdout(), "1000000\n");
    crate::world::kill_9(carrier);
    eventually("another one carries", || {
        in_cell(world, &outside, "c", &ask).stdout() == "1000000\n"
    });
}
