//! Secrets that a cell uses without having them: headers that are added outside of it.

use std::fs;

use serde_json::{Value, json};

use crate::egress::carrier;
use crate::secrets::files_with;
use crate::world::{
    Era, Finished, Kind, McpClient, Upstream, World, descendants, eventually, is_alive, kill_9,
};

in_worlds! { [root, rootless, single_id, docker]
    what_programs_trust_is_set_for_them,
}

in_worlds! { [root, rootless, single_id]
    requests_get_the_header_and_the_value_is_nowhere_in_the_cell,
    an_echo_is_masked_and_every_length_stays,
    a_request_for_another_host_is_refused,
    a_name_without_a_secret_is_carried_as_it_is,
    a_host_that_is_not_to_be_trusted_gets_nothing,
    a_client_that_trusts_another_certificate_is_named_in_the_log,
    the_proxy_adds_it_too,
    a_killed_carrier_is_replaced_by_one_that_has_the_value,
    without_the_value_nothing_is_sent,
    a_cell_that_slept_and_a_restored_one_use_it_again,
}

in_worlds! { [rootless, single_id, docker]
    a_disk_limit_holds_where_a_value_is_kept,
}

in_worlds! { [root]
    without_encryption_it_is_added_where_the_grant_says_so,
    many_requests_of_one_connection_each_get_it,
    what_cannot_be_masked_is_refused,
    the_next_exec_uses_what_was_set_anew,
    agents_use_what_the_operator_lent,
    grants_that_cannot_be_are_refused,
}

pub(crate) const VALUE: &str = "hunter2/hunter2+hunter2";

pub(crate) fn set(world: &World, name: &str, value: &str) {
    world.hotcell(["secret", "set", name]).input(value).run().succeeded();
}

/// The grant of `token` as a bearer token at `name`, at the port where TLS is spoken.
pub(crate) fn bearer(upstream: &Upstream, name: &str) -> String {
    format!("token:header=Authorization: Bearer {{}}@{name}:{}", upstream.port)
}

/// A cell named c that may reach names, of which the first gets the secret.
pub(crate) fn cell(world: &World, names: &[&str]) -> Upstream {
    let upstream = Upstream::start(world, names, names);
    set(world, "token", VALUE);
    upstream.spawn(world, "c", names, &[&bearer(&upstream, names[0])]);
    upstream
}

pub(crate) fn run(world: &World, upstream: &Upstream, command: &str) -> Finished {
    upstream.hotcell(world, ["run", "--cell", "c", command]).run()
}

fn records(world: &World) -> Vec<Value> {
    let text = world.text(["net", "log", "--json", "c"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for a line of the log that says this.
#[track_caller]
pub(crate) fn await_reason(world: &World, text: &str) {
    let says = |it: &Value| it["reason"].as_str().is_some_and(|reason| reason.contains(text));
    eventually(&format!("the log says {text:?}"), || records(world).iter().any(says));
}

#[track_caller]
fn got_it(upstream: &Upstream, count: usize) {
    let seen = upstream.seen();
    assert_eq!(seen.len(), count, "{seen:?}");
    for head in seen {
        let lines = head.lines().filter(|line| line.starts_with("authorization:"));
        let expected = format!("authorization: Bearer {VALUE}");
        assert_eq!(lines.collect::<Vec<_>>(), [expected.as_str()], "{head}");
    }
}

/// Whether a process's memory, which it can write to, holds a text.
pub(crate) fn memory_holds(pid: i32, text: &str) -> bool {
    use std::io::{Read, Seek, SeekFrom};
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let Ok(mut memory) = fs::File::open(format!("/proc/{pid}/mem")) else { return false };
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        if memory.seek(SeekFrom::Start(start)).is_err() || memory.read_exact(&mut bytes).is_err() {
            continue;
        }
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            return true;
        }
    }
    false
}

fn requests_get_the_header_and_the_value_is_nowhere_in_the_cell(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let url = format!("https://api.test:{}", upstream.port);
    let mut asked = 0;
    let mut ask = |what: &str, command: &str| {
        let told = run(world, &upstream, command).succeeded().stdout();
        assert!(told.contains("hello"), "{what}: {told}");
        asked += 1;
    };
    ask("curl", &format!("curl -sS -H 'Authorization: Bearer mine' {url}/"));
    let urllib = format!("import urllib.request; print(urllib.request.urlopen('{url}/').read())");
    ask("urllib", &format!("python3 -c \"{urllib}\""));
    let node = format!(
        "require('https').get('{url}/', it => it.on('data', part => console.log(String(part))))"
    );
    if has(world, &upstream, "node --version") {
        ask("node", &format!("node -e \"{node}\""));
    }
    for module in ["requests", "pip._vendor.requests"] {
        if has(world, &upstream, &format!("python3 -c 'import {module}'")) {
            let script = format!("import {module} as r; print(r.get('{url}/').text)");
            ask(module, &format!("python3 -c \"{script}\""));
        }
    }
    if has(world, &upstream, "wget --version") {
        ask("wget", &format!("wget -q -O - --ca-certificate=$SSL_CERT_FILE {url}/"));
    }
    if has(world, &upstream, "git --version") {
        run(world, &upstream, &format!("git ls-remote {url}/repo.git")).succeeded();
        asked += 1;
    }
    got_it(&upstream, asked);
    let live = upstream
        .hotcell(world, ["run", "--cell", "c", "-e", "MARK=in-the-environment"])
        .arg("echo in-a-file > /workspace/mark; echo printed-by-it; sleep 300")
        .start();
    live.await_stdout("printed-by-it");
    // In the cell: no file, no variable of any process, no memory of any process.
    let inside = format!(
        "grep -rsl '{}' /dev/hotcell /workspace /tmp /home /etc /run /var | grep -c . ; \
         cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c 'hunter2/h[u]nter2'",
        VALUE.replace("2+h", "2+[h]")
    );
    assert_eq!(run(world, &upstream, &inside).stdout(), "0\n0\n");
    let processes: Vec<i32> =
        std::iter::once(world.supervisor("c")).chain(descendants(world.supervisor("c"))).collect();
    assert!(processes.len() > 1, "{processes:?}");
    for pid in &processes {
        assert!(!memory_holds(*pid, VALUE), "the memory of {pid}");
    }
    // On the host: in no file, no argument and no variable, and in the log neither.
    assert_eq!(files_with(&world.state_dir(), VALUE), Vec::<String>::new());
    let everywhere = |name: &str, text: &str| {
        let has_it = |pid: &i32| {
            let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        };
        let own = [world.keeper("c"), carrier(world, "c")];
        own.iter().chain(&processes).filter(|pid| has_it(pid)).count()
    };
    assert_eq!((everywhere("environ", VALUE), everywhere("cmdline", VALUE)), (0, 0));
    let log = world.text(["net", "log", "--json", "c"]);
    assert!(log.contains("with token") && !log.contains(VALUE), "{log}");
    let ca_key = fs::read_to_string(world.cell_dir("c").join("authority.json")).unwrap();
    let ca_key: Value = serde_json::from_str(&ca_key).unwrap();
    let ca_key = ca_key["key"].as_str().unwrap();
    assert!(!processes.iter().any(|pid| memory_holds(*pid, ca_key)));
    // What is there is found in each of these ways.
    assert!(!files_with(&world.state_dir(), "in-a-file").is_empty());
    assert!(!files_with(&world.state_dir(), "printed-by-it").is_empty());
    assert!(everywhere("environ", "in-the-environment") > 0);
    assert!(everywhere("cmdline", "sleep") > 0);
    assert!(processes.iter().any(|pid| memory_holds(*pid, "in-the-environment")));
    assert!(memory_holds(carrier(world, "c"), VALUE));
    assert!(memory_holds(carrier(world, "c"), ca_key));
    // Whoever opens sockets for the carrier has neither of it.
    let makers = descendants(carrier(world, "c"));
    assert_eq!(makers.len(), 1, "{makers:?}");
    assert!(!memory_holds(makers[0], VALUE) && !memory_holds(makers[0], ca_key));
    assert!(memory_holds(makers[0], "hotcell"), "its memory can be read");
    for pid in [carrier(world, "c"), makers[0]] {
        hides_itself(pid);
    }
    live.kill();
}

fn has(world: &World, upstream: &Upstream, command: &str) -> bool {
    run(world, upstream, &format!("{command} >/dev/null 2>&1")).code() == 0
}

fn what_programs_trust_is_set_for_them(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let shown =
        run(world, &upstream, "env | grep -c /dev/hotcell/; ls -l /dev/hotcell").succeeded();
    assert!(shown.stdout().starts_with("6\n"), "{shown:?}");
    // What the machine trusts is in it as well, and nobody in the cell changes it.
    let counts = "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; grep -c BEGIN $SSL_CERT_FILE; \
                  grep -c BEGIN $NODE_EXTRA_CA_CERTS";
    let counts = run(world, &upstream, counts).stdout();
    let counts: Vec<usize> = counts.lines().map(|count| count.parse().unwrap()).collect();
    if let [of_machine, bundle, own] = counts[..] {
        assert_eq!((bundle, own), (of_machine + 1, 1));
    }
    let change = "echo x >> $SSL_CERT_FILE; rm $SSL_CERT_FILE; mv /dev/hotcell /dev/other; \
                  mount -o remount,rw /dev/hotcell; echo x > /dev/hotcell/other; \
                  cat /dev/hotcell/* | sha256sum";
    let before = run(world, &upstream, "cat /dev/hotcell/* | sha256sum").stdout();
    assert_eq!(run(world, &upstream, change).stdout(), before);
    if world.kind().has_root_inside() {
        let as_root = upstream.hotcell(world, ["run", "--cell", "c", "--as-root", change]).run();
        assert_eq!(as_root.stdout(), before);
    }
    // A variable that the caller sets stays what it is; other cells have none of this.
    let own = upstream.hotcell(world, ["run", "--cell", "c", "-e", "SSL_CERT_FILE=/own"]);
    assert_eq!(own.arg("echo $SSL_CERT_FILE").run().stdout(), "/own\n");
    let none = "env | grep -c CERT; ls /dev/hotcell";
    assert_eq!(upstream.hotcell(world, ["run", none]).run().stdout(), "0\n");
}

fn an_echo_is_masked_and_every_length_stays(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let stars = "*".repeat(VALUE.len());
    for path in ["echo", "bytes", "chunked", "moved"] {
        let url = format!("https://api.test:{}/{path}", upstream.port);
        let fetch = format!("curl -sS -L -i --raw {url} | tee /workspace/{path}");
        let told = run(world, &upstream, &fetch).succeeded().stdout();
        assert!(!told.contains(VALUE) && !told.contains("hunter2"), "{path}: {told}");
        // A body in chunks has others than it came in.
        let plain: String = match path {
            "chunked" => {
                let told = run(world, &upstream, &format!("curl -sS -i {url}")).succeeded();
                told.stdout()
            }
            _ => told,
        };
        assert!(plain.contains(&format!("authorization: Bearer {stars}")), "{path}: {plain}");
        assert!(plain.contains("accept-encoding: identity"), "{path}: {plain}");
        assert_eq!(
            run(world, &upstream, &format!("grep -c h[u]nter2 /workspace/{path}")).stdout(),
            "0\n"
        );
    }
    let url = format!("https://api.test:{}/echo", upstream.port);
    let told = run(world, &upstream, &format!("curl -sS -i {url}")).stdout().to_lowercase();
    assert!(told.contains(&format!("x-echo: bearer {stars}")), "{told}");
    assert!(told.starts_with("http/1.1 200 ok"), "{told}");
    // It went out all the same, also where only the head comes back.
    run(world, &upstream, &format!("curl -sS --head --max-time 20 {url}")).succeeded();
    let seen = upstream.seen();
    assert!(seen.len() >= 7 && seen.iter().all(|head| head.contains(VALUE)), "{seen:?}");
}

fn a_request_for_another_host_is_refused(world: &World) {
    let upstream = cell(world, &["api.test", "front.test"]);
    let port = upstream.port;
    let to = |host: &str| {
        format!("curl -sS -w '%{{http_code}}' -H 'Host: {host}' https://api.test:{port}/")
    };
    for host in ["front.test", "evil.test", "api.test:1", "api.test.evil.test"] {
        let told = run(world, &upstream, &to(host)).succeeded().stdout();
        assert!(told.ends_with("421") && told.contains("the secret is for api.test"), "{told}");
    }
    assert_eq!(upstream.seen(), Vec::<String>::new());
    await_reason(world, "the request is for \"front.test\"");
    // Another name of the same address, in the handshake.
    let other = format!(
        "curl -sS --connect-to front.test:{port}:api.test:{port} https://front.test:{port}/"
    );
    assert_ne!(run(world, &upstream, &other).code(), 0);
    assert_eq!(upstream.seen(), Vec::<String>::new());
    await_reason(world, "for another name");
    let told = run(world, &upstream, &to(&format!("API.test:{port}"))).succeeded().stdout();
    assert_eq!(told, "hello\n200");
    got_it(&upstream, 1);
}

fn a_name_without_a_secret_is_carried_as_it_is(world: &World) {
    let upstream = cell(world, &["api.test", "other.test"]);
    let issuer = |name: &str| {
        let command = format!(
            "openssl s_client -connect {name}:{} -servername {name} </dev/null 2>/dev/null | \
             openssl x509 -noout -issuer",
            upstream.port
        );
        run(world, &upstream, &command).succeeded().stdout()
    };
    let own = issuer("other.test");
    assert!(own.contains("the upstream's own authority"), "{own}");
    let stood_for = issuer("api.test");
    assert!(stood_for.contains("hotcell c_"), "{stood_for}");
    let url = format!("https://other.test:{}/echo", upstream.port);
    let told = run(world, &upstream, &format!("curl -sSk {url}")).succeeded().stdout();
    assert!(!told.contains("authorization") && !told.contains("identity"), "{told}");
    // The cell's authority is believed for the names it was made for alone, whoever has its key.
    assert_eq!(upstream.seen().len(), 1);
}

fn a_host_that_is_not_to_be_trusted_gets_nothing(world: &World) {
    let upstream = Upstream::start(world, &["api.test", "named.test"], &["named.test"]);
    set(world, "token", VALUE);
    let port = upstream.port;
    let grant =
        format!("token:header=Authorization: Bearer {{}}@api.test:{port} named.test:{port}");
    // One that does not have its name in its certificate.
    upstream.spawn(world, "c", &["api.test", "named.test"], &[&grant]);
    let ask = |name: &str| {
        let command = format!("curl -sS -w '%{{http_code}}' https://{name}:{port}/");
        run(world, &upstream, &command).succeeded().stdout()
    };
    let told = ask("api.test");
    assert!(told.ends_with("502") && told.contains("not to be trusted"), "{told}");
    await_reason(world, "the certificate of api.test is not to be trusted, and no secret was sent");
    assert_eq!(upstream.seen(), Vec::<String>::new());
    assert_eq!(ask("named.test"), "hello\n200");
    got_it(&upstream, 1);
    // One whose authority nobody knows.
    world.text(["kill", "--volumes", "--force", "c"]);
    let rule = format!("named.test:{port}");
    upstream
        .outside
        .hotcell(world, ["spawn", "c", "--persistent", "--allow", &rule, "--secret", &grant])
        .run()
        .succeeded();
    let told = ask("named.test");
    assert!(told.ends_with("502") && told.contains("not to be trusted"), "{told}");
    assert_eq!(upstream.seen(), Vec::<String>::new());
}

fn a_client_that_trusts_another_certificate_is_named_in_the_log(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let url = format!("https://api.test:{}/", upstream.port);
    let refused = run(world, &upstream, &format!("curl -sS --cacert /dev/null {url}"));
    assert_ne!(refused.code(), 0, "{refused:?}");
    let bundle = "grep -v hotcell /etc/ssl/certs/ca-certificates.crt > /workspace/own.pem";
    run(world, &upstream, bundle);
    let pinned = format!("curl -sS --cacert /workspace/own.pem {url}");
    assert_ne!(run(world, &upstream, &pinned).code(), 0);
    await_reason(
        world,
        "the client refused the certificate that the cell's authority made for api.test",
    );
    let pin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let pinned = run(world, &upstream, &format!("curl -sS --pinnedpubkey {pin} {url}"));
    assert_ne!(pinned.code(), 0, "{pinned:?}");
    await_reason(world, "pin another certificate");
    let plain = format!("curl -sS http://api.test:{}/", upstream.port);
    assert_ne!(run(world, &upstream, &plain).code(), 0);
    await_reason(world, "the client does not speak TLS");
    assert_eq!(upstream.seen(), Vec::<String>::new());
    run(world, &upstream, &format!("curl -sS {url}")).succeeded();
    got_it(&upstream, 1);
}

fn the_proxy_adds_it_too(world: &World) {
    let upstream = Upstream::start(world, &["api.test"], &["api.test"]);
    set(world, "token", VALUE);
    let plain = format!(
        "token:header=Authorization: Bearer {{}}@api.test:{} http://api.test:{}",
        upstream.port, upstream.plain_port
    );
    upstream.spawn(world, "c", &["api.test"], &[&plain]);
    for url in [
        format!("https://api.test:{}/", upstream.port),
        format!("http://api.test:{}/", upstream.plain_port),
    ] {
        let command = format!("curl -sS -x http://127.64.0.1:3128 {url}");
        assert_eq!(run(world, &upstream, &command).succeeded().stdout(), "hello\n", "{url}");
        got_it(&upstream, 1);
    }
}

fn without_encryption_it_is_added_where_the_grant_says_so(world: &World) {
    let upstream = Upstream::start(world, &["api.test", "plain.test"], &["api.test"]);
    set(world, "token", VALUE);
    let plain = format!(
        "token:header=Authorization: Basic {{basic:me}}@http://plain.test:{}",
        upstream.plain_port
    );
    let grants = [bearer(&upstream, "api.test"), plain];
    upstream.spawn(world, "c", &["api.test", "plain.test"], &[&grants[0], &grants[1]]);
    let ask = |name: &str| {
        let url = format!("http://{name}:{}/echo", upstream.plain_port);
        run(world, &upstream, &format!("curl -sS {url}")).succeeded().stdout()
    };
    let told = ask("plain.test");
    assert!(told.contains(&format!("authorization: Basic {}\n", "*".repeat(36))), "{told}");
    let seen = upstream.seen();
    assert!(
        seen[0].contains("authorization: Basic bWU6aHVudGVyMi9odW50ZXIyK2h1bnRlcjI="),
        "{seen:?}"
    );
    // What is granted for HTTPS never goes out in clear.
    let told = ask("api.test");
    assert!(!told.contains("authorization"), "{told}");
}

fn many_requests_of_one_connection_each_get_it(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let url = format!("https://api.test:{}", upstream.port);
    let script = format!(
        "
import http.client, ssl
c = http.client.HTTPSConnection('api.test', {}, context=ssl.create_default_context(), timeout=30)
for n in range(20):
    c.request('GET', '/%d' % n, headers={{'authorization': 'mine'}})
    assert c.getresponse().read() == b'hello\\n'
data = b'x' * 3_000_000
c.request('POST', '/count', body=data)
print(c.getresponse().read())
c.request('POST', '/count', body=iter([data, data]), encode_chunked=True,
          headers={{'Transfer-Encoding': 'chunked'}})
print(c.getresponse().read())
c.request('POST', '/count', body=b'')
print(c.getresponse().read())",
        upstream.port
    );
    let script = format!("python3 -c \"$(cat <<'PYTHON'{script}\nPYTHON\n)\"");
    let told = run(world, &upstream, &script).succeeded().stdout();
    assert_eq!(told, "b'3000000\\n'\nb'6000000\\n'\nb'0\\n'\n");
    got_it(&upstream, 23);
    await_reason(world, "23 requests with token");
    let many = format!("seq 50 | xargs -P 10 -I N curl -sS {url}/N | grep -c hello");
    assert_eq!(run(world, &upstream, &many).stdout(), "50\n");
    got_it(&upstream, 50);
}

fn what_cannot_be_masked_is_refused(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let url = format!("https://api.test:{}", upstream.port);
    let code = |arguments: &str| {
        let command = format!("curl -sS -o /dev/null -w '%{{http_code}}' {arguments}");
        run(world, &upstream, &command).stdout()
    };
    assert_eq!(code(&format!("{url}/packed")), "502");
    await_reason(world, "packed its answer");
    let socket = "-H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
                  -H 'Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw=='";
    assert_eq!(code(&format!("{socket} {url}/")), "501");
    assert_eq!(code(&format!("-X TRACE {url}/")), "405");
    assert_eq!(upstream.seen().len(), 1);
    // A part of an answer is not asked for, and a protocol that nobody needs is not either.
    assert_eq!(code(&format!("-r 0-3 -H 'Connection: Upgrade' -H 'Upgrade: h2c' {url}/")), "200");
    let seen = upstream.seen();
    assert!(!seen[0].contains("range:") && !seen[0].contains("upgrade"), "{seen:?}");
}

/// Asks in the cell until told to stop, and prints each answer that differs from the one before.
fn asking(world: &World, upstream: &Upstream) -> crate::world::Live {
    let script = format!(
        "last=; while [ ! -e /workspace/stop ]; do \
         now=$(curl -s --max-time 20 -o /dev/null -w '%{{http_code}}' https://api.test:{}/); \
         [ \"$now\" = \"$last\" ] || echo \"told $now\"; last=$now; sleep 0.1; done",
        upstream.port
    );
    let live = upstream.hotcell(world, ["run", "--cell", "c", &script]).start();
    live.await_stdout("told 200");
    live
}

fn a_killed_carrier_is_replaced_by_one_that_has_the_value(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let live = asking(world, &upstream);
    let first = carrier(world, "c");
    kill_9(first);
    eventually("another carries", || carrier(world, "c") != first);
    upstream.seen();
    // No exec was started meanwhile: it has the value from its keeper.
    eventually("requests get there", || !upstream.seen().is_empty());
    upstream.hotcell(world, ["run", "--cell", "c", "touch /workspace/stop"]).run().succeeded();
    live.finish().succeeded();
    assert!(upstream.seen().iter().all(|head| head.contains(VALUE)));
    assert!(is_roots(world.keeper("c")), "others look into the keeper");
    let carrier = carrier(world, "c");
    for pid in std::iter::once(carrier).chain(descendants(carrier)) {
        hides_itself(pid);
    }
}

/// Whether nobody but root can look into a process, whoever it belongs to.
pub(crate) fn is_roots(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}/environ")).is_ok_and(|found| found.uid() == 0)
}

/// Neither others of its user nor a collector of crashes see what is in a process.
#[track_caller]
pub(crate) fn hides_itself(pid: i32) {
    assert!(is_roots(pid), "others look into {pid}");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let cores = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    let most: Vec<&str> = cores.split_whitespace().take(2).collect();
    assert!(most == ["1", "1"] || most == ["0", "0"], "{cores}");
}

fn without_the_value_nothing_is_sent(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let live = asking(world, &upstream);
    let (keeper, first) = (world.keeper("c"), carrier(world, "c"));
    kill_9(keeper);
    // The next keeper finds a carrier that has the value, and has none itself.
    upstream.hotcell(world, ["cat", "c:/etc/hostname"]).run().succeeded();
    eventually("another keeper is there", || world.keeper("c") != keeper);
    kill_9(first);
    if world.kind() != Kind::Root {
        // Nobody but root gets into a cell again whose keeper is gone.
        world.text(["kill", "--volumes", "--force", "c"]);
        drop(live.kill());
        return;
    }
    eventually("another carries", || carrier(world, "c") != first && is_alive(carrier(world, "c")));
    live.await_stdout("told 000");
    await_reason(world, "the value of the secret token, which requests to it get, is not here");
    upstream.seen();
    // An exec brings it again.
    run(world, &upstream, "true").succeeded();
    eventually("requests get there", || !upstream.seen().is_empty());
    run(world, &upstream, "touch /workspace/stop").succeeded();
    live.finish().succeeded();
    assert!(upstream.seen().iter().all(|head| head.contains(VALUE)));
}

fn a_cell_that_slept_and_a_restored_one_use_it_again(world: &World) {
    let upstream = Upstream::start(world, &["api.test"], &["api.test"]);
    set(world, "token", VALUE);
    let (rule, grant) = (format!("api.test:{}", upstream.port), bearer(&upstream, "api.test"));
    upstream
        .hotcell(world, ["spawn", "c", "--persistent", "--allow", &rule, "--secret", &grant])
        .env("HOTCELL_SLEEP_AFTER_S", "1")
        .run()
        .succeeded();
    let ask = || {
        let command = format!("curl -sS https://api.test:{}/", upstream.port);
        assert_eq!(run(world, &upstream, &command).succeeded().stdout(), "hello\n");
        got_it(&upstream, 1);
    };
    ask();
    let kept = upstream.hotcell(world, ["checkpoint", "create", "c"]).run().succeeded().stdout();
    eventually("the cell is asleep", || {
        world.json(["info", "--json", "c"])["cell"]["state"] == "asleep"
    });
    ask();
    upstream.hotcell(world, ["checkpoint", "restore", "c", kept.trim()]).run().succeeded();
    ask();
    // A fork has an authority of its own.
    upstream.hotcell(world, ["fork", "c", "--name", "f"]).run().succeeded();
    let command = format!("curl -sS https://api.test:{}/", upstream.port);
    upstream.hotcell(world, ["run", "--cell", "f", &command]).run().succeeded();
    got_it(&upstream, 1);
    let authority = |cell| fs::read(world.cell_dir(cell).join("authority.pem")).unwrap();
    assert_ne!(authority("c"), authority("f"));
}

fn the_next_exec_uses_what_was_set_anew(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let command = format!("curl -sS https://api.test:{}/echo", upstream.port);
    run(world, &upstream, &command).succeeded();
    got_it(&upstream, 1);
    set(world, "token", "another-value-of-it");
    let told = run(world, &upstream, &command).succeeded().stdout();
    assert!(!told.contains("another-value"), "{told}");
    assert!(upstream.seen()[0].contains("authorization: Bearer another-value-of-it"));
    world.text(["secret", "rm", "token"]);
    let refused = run(world, &upstream, &command).exited(125);
    assert!(refused.stderr().contains("granted the secret token"), "{refused:?}");
    assert_eq!(upstream.seen(), Vec::<String>::new());
}

/// What an agent is told that is refused.
#[track_caller]
fn refused_to(agent: &mut McpClient, tool: &str, arguments: Value) -> String {
    let id = agent.ask_tool(tool, arguments);
    let answer = agent.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer.to_string()
}

fn agents_use_what_the_operator_lent(world: &World) {
    let upstream = Upstream::start(world, &["api.test", "other.test"], &["api.test", "other.test"]);
    set(world, "token", VALUE);
    let grant = bearer(&upstream, "api.test");
    let rules = ["api.test", "other.test"].map(|name| format!("{name}:{}", upstream.port));
    let serve = upstream
        .hotcell(world, ["serve", "--allow", &rules[0], "--allow", &rules[1]])
        .env("HOTCELL_SERVE_SECRETS", &grant);
    let mut agent = McpClient::start_with(serve, Era::Legacy);
    let network = json!({ "allow": rules });
    let spawn = |agent: &mut McpClient, alias: &str, secret: &str| {
        agent.call("cell_spawn", json!({ "alias": alias, "network": network, "secrets": [secret] }))
    };
    // Its name stands for what was lent.
    spawn(&mut agent, "good", "token");
    let command = format!("echo \"$TOKEN\"; curl -sS https://api.test:{}/echo", upstream.port);
    let ran = agent.call("exec_run", json!({ "cell": "good", "command": command }));
    assert!(ran["stdout"].as_str().is_some_and(|it| it.starts_with("\nGET /echo")), "{ran}");
    assert!(!ran.to_string().contains(VALUE), "{ran}");
    got_it(&upstream, 1);
    // Nothing else is.
    for more in [
        "token=TOKEN_",
        &bearer(&upstream, "other.test"),
        &grant.replace("Authorization", "X-Other"),
        &grant.replace("Bearer {}", "Bearer x{}"),
    ] {
        let refused =
            refused_to(&mut agent, "cell_spawn", json!({ "network": network, "secrets": [more] }));
        assert!(refused.contains("may not be granted the secret token in this form"), "{refused}");
    }
    // A cell that has the value itself is not the agent's to use.
    world.text(["spawn", "operators", "--persistent", "--secret", "token"]);
    let refused =
        refused_to(&mut agent, "exec_run", json!({ "cell": "operators", "command": "env" }));
    assert!(refused.contains("may not be granted the secret token"), "{refused}");
    upstream.spawn(world, "same", &["api.test"], &[&grant]);
    agent.call("exec_run", json!({ "cell": "same", "command": "true" }));
}

/// A keeper that hides itself has to see to the files of its cell all the same.
fn a_disk_limit_holds_where_a_value_is_kept(world: &World) {
    set(world, "token", VALUE);
    let grant = "token:header=X-Key: {}@api.test";
    let write = "head -c 200M /dev/zero > /workspace/much; sleep 60";
    let ended = world.hotcell(["run", "--disk", "16M", "--secret", grant, write]).run();
    assert!(ended.stderr().contains("over its disk limit"), "{ended:?}");
}

fn grants_that_cannot_be_are_refused(world: &World) {
    set(world, "token", VALUE);
    set(world, "short", "1234567");
    set(world, "lines", "line-one\nline-two");
    let refused = |grant: &str, code: i32, why: &str| {
        let told = world.hotcell(["run", "--secret", grant, "true"]).run().exited(code);
        assert!(told.stderr().contains(why), "{grant}: {told:?}");
        assert!(!told.stderr().contains("1234567") && !told.stderr().contains("line-"), "{told:?}");
    };
    refused("token:header=Host: {}@api.test", 125, "cannot be a secret");
    refused("token:header=X-Key: {}@*.test", 125, "is no name of a host");
    refused("token:header=X-Key: value@api.test", 125, "does not say where the value goes");
    refused("short:header=X-Key: {}@api.test", 125, "fewer than 8 bytes");
    refused("lines:header=X-Key: {}@api.test", 125, "line breaks");
    refused("absent:header=X-Key: {}@api.test", 125, "absent");
}
