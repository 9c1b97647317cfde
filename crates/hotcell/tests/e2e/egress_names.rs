//! What a cell says over a connection: an allowed name is no way to another one on the same server.

use serde_json::Value;

use crate::egress::python;
use crate::world::{Finished, Upstream, World};

in_worlds! { [root, rootless, single_id, docker]
    tls_reaches_the_allowed_name_and_no_other,
    http_reaches_the_allowed_name_and_no_other,
    the_proxy_inspects_tunnels_too,
}

/// A server for both names, of which a cell may reach the first.
fn start(world: &World) -> Upstream {
    let names = ["good.test", "other.test"];
    let upstream = Upstream::start(world, &names, &names);
    let rules = [upstream.port, upstream.plain_port].map(|port| format!("good.test:{port}"));
    let allowed = rules.iter().flat_map(|rule| ["--allow", rule]);
    upstream.hotcell(world, ["spawn", "c", "--persistent"]).args(allowed).run().succeeded();
    upstream
}

fn run(world: &World, upstream: &Upstream, command: &str) -> Finished {
    upstream.hotcell(world, ["run", "--cell", "c", command]).run()
}

/// The reasons of what was denied since the last look.
fn denials(world: &World) -> Vec<String> {
    let text = world.text(["net", "log", "--json", "c"]);
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let denied = records.filter(|it| it["verdict"] == "denied" && it["name"] == "good.test");
    denied.map(|it| it["reason"].as_str().unwrap().to_owned()).collect()
}

/// The hosts of the requests that came, by their headers.
fn hosts(upstream: &Upstream) -> Vec<String> {
    let seen = upstream.seen();
    let host = |head: &String| {
        let line = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        line.split(':').next().unwrap().to_owned()
    };
    seen.iter().map(host).collect()
}

fn tls_reaches_the_allowed_name_and_no_other(world: &World) {
    let upstream = start(world);
    let port = upstream.port;
    let curl = |name: &str| {
        // To the address of the allowed name, whatever the name is.
        let to = format!("--connect-to {name}:{port}:good.test:{port}");
        run(world, &upstream, &format!("curl -sSk {to} https://{name}:{port}/"))
    };
    assert_eq!(curl("good.test").succeeded().stdout(), "hello\n");
    assert_eq!(hosts(&upstream), ["good.test"]);
    let refused = curl("other.test");
    assert_ne!(refused.code(), 0, "{refused:?}");
    assert!(refused.stderr().contains("unrecognized name"), "{refused:?}");
    let script = format!(
        "
import ssl
context = ssl._create_unverified_context()
for name in ('good.test', None, '192.0.2.1'):
    with socket.create_connection(('good.test', {port}), 100) as s:
        try:
            with context.wrap_socket(s, server_hostname=name) as t:
                t.sendall(b'GET / HTTP/1.1\\r\\nHost: by-python.test\\r\\nConnection: close\\r\\n\\r\\n')
                print(t.recv(12).decode())
        except OSError as error:
            print('refused')"
    );
    let told = run(world, &upstream, &python(&script)).succeeded().stdout();
    assert_eq!(told, "HTTP/1.1 200\nrefused\nrefused\n");
    assert_eq!(hosts(&upstream), ["by-python.test"], "what a tunnel carries is not seen");
    let denied = denials(world);
    assert_eq!(denied.len(), 3, "{denied:?}");
    assert!(denied[0].contains("(SNI) is for other.test"), "{denied:?}");
    assert!(denied[1].contains("no SNI") && denied[2].contains("no SNI"), "{denied:?}");
    // The control: the server answers for the other name, and only inspection kept it away.
    let rule = format!("good.test:{port}/raw");
    upstream.hotcell(world, ["net", "allow", "c", &rule]).run().succeeded();
    assert_eq!(curl("other.test").succeeded().stdout(), "hello\n");
    assert_eq!(hosts(&upstream), ["other.test"]);
    // Back again, as the rule without it says.
    upstream.hotcell(world, ["net", "allow", "c", &format!("good.test:{port}")]).run().succeeded();
    assert_ne!(curl("other.test").code(), 0);
    assert!(hosts(&upstream).is_empty());
}

fn http_reaches_the_allowed_name_and_no_other(world: &World) {
    let upstream = start(world);
    let port = upstream.plain_port;
    let curl = |host: &str| {
        let header = format!("-H 'Host: {host}:{port}'");
        run(world, &upstream, &format!("curl -sS {header} http://good.test:{port}/"))
    };
    assert_eq!(curl("good.test").succeeded().stdout(), "hello\n");
    let told = curl("other.test").succeeded().stdout();
    assert!(told.contains("other.test") && told.contains("not allowed"), "{told}");
    assert_eq!(hosts(&upstream), ["good.test"]);
    // The second request of a connection, with a body before it that looks like one.
    let script = format!(
        "
import http.client
c = http.client.HTTPConnection('good.test', {port}, timeout=100)
for host in ('good.test', 'good.test', 'other.test'):
    try:
        c.request('POST', '/count', b'GET / HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n', {{'Host': host}})
        r = c.getresponse()
        print(r.status, r.read().decode().strip())
    except OSError as error:
        print('refused')
        break
        "
    );
    let told = run(world, &upstream, &python(&script)).succeeded().stdout();
    assert_eq!(told, "200 36\n200 36\nrefused\n");
    assert_eq!(hosts(&upstream), ["good.test", "good.test"]);
    let chunked = format!(
        "curl -sS -H 'Transfer-Encoding: chunked' -d 0123456789 http://good.test:{port}/count"
    );
    assert_eq!(run(world, &upstream, &chunked).succeeded().stdout(), "10\n");
    assert_eq!(hosts(&upstream), ["good.test"]);
    let denied = denials(world);
    assert_eq!(denied.len(), 2, "{denied:?}");
    assert!(denied.iter().all(|why| why.contains("HTTP request is for other.test")), "{denied:?}");
    let rule = format!("good.test:{port}/raw");
    upstream.hotcell(world, ["net", "allow", "c", &rule]).run().succeeded();
    assert_eq!(curl("other.test").succeeded().stdout(), "hello\n");
    assert_eq!(hosts(&upstream), ["other.test"]);
}

fn the_proxy_inspects_tunnels_too(world: &World) {
    let upstream = start(world);
    let (port, plain_port) = (upstream.port, upstream.plain_port);
    let curl = |name: &str, rest: &str| {
        let proxy = "-x http://127.64.0.1:3128";
        run(world, &upstream, &format!("curl -sSkp {proxy} {rest} {name}/"))
    };
    let to = |name: &str| format!("--connect-to {name}:{port}:good.test:{port}");
    let tls = |name: &str| curl(&format!("https://{name}:{port}"), &to(name));
    assert_eq!(tls("good.test").succeeded().stdout(), "hello\n");
    let refused = tls("other.test");
    assert!(refused.stderr().contains("unrecognized name"), "{refused:?}");
    let plain = format!("http://good.test:{plain_port}");
    assert_eq!(curl(&plain, "").succeeded().stdout(), "hello\n");
    let told = curl(&plain, &format!("-H 'Host: other.test:{plain_port}'")).succeeded().stdout();
    assert!(told.contains("not allowed"), "{told}");
    assert_eq!(hosts(&upstream), ["good.test", "good.test"]);
    assert_eq!(denials(world).len(), 2);
}
