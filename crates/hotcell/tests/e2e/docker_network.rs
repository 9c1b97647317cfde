//! What is different about the network and the disk of cells in containers: who opens sockets, who
//! keeps values, and what stays of it all when a container ends.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::process::Signal;

use crate::docker::{EngineImage, root_archive};
use crate::egress::{carrier, in_cell, python, spawn};
use crate::secret_headers::{
    VALUE, await_reason, bearer, cell, hides_itself, is_roots, memory_holds, run, set,
};
use crate::world::{
    Live, Need, Outside, Upstream, World, ask_engine, descendants, docker, eventually, is_alive,
    kill_9, processes_of, require, send, session_of, unique,
};

in_worlds! { [rootless, single_id]
    an_ordinary_user_has_a_network_and_no_disk_limit,
}

in_worlds! { [docker]
    sockets_are_opened_for_the_host_alone,
    a_supervisor_that_does_not_answer_costs_a_carrier,
    keepers_and_carriers_end_with_their_container,
    requests_get_the_header_and_the_value_is_nowhere_in_the_container,
    a_value_is_kept_by_the_keeper_and_brought_again,
    what_an_image_trusts_is_trusted_still,
    what_is_on_disk_is_told_and_outlives_a_keeper,
}

/// Asks for a listener at an address of the cell's network; the answer is the number of an error.
fn ask_for_listener(world: &World, cell: &str, address: [u8; 4], port: u16) -> i32 {
    let mut stream = UnixStream::connect(world.cell_dir(cell).join("sockets.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = [&b"s"[..], &address, &port.to_be_bytes()].concat();
    std::io::Write::write_all(&mut stream, &request).unwrap();
    let mut answer = [0; 4];
    std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
    i32::from_be_bytes(answer)
}

fn sockets_are_opened_for_the_host_alone(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    // Whoever is outside is answered: with a listener, and with why there is none.
    assert_eq!(ask_for_listener(world, "c", [127, 64, 9, 9], 443), 0);
    let not_there = ask_for_listener(world, "c", [192, 0, 2, 1], 443);
    assert_eq!(not_there, rustix::io::Errno::ADDRNOTAVAIL.raw_os_error());
    // In the cell nothing of it is to be found: no path, no name, no descriptor.
    let look = "
import os
def has_socket(line):
    return 'sockets' in line or 'link' in line or 'hotcell' in line
print([line for line in open('/proc/net/unix') if has_socket(line)])
for directory, _, names in os.walk('/.hotcell', onerror=print):
    print(directory, names)
print(sorted(os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if int(fd) > 2 and os.path.exists(f'/proc/self/fd/{fd}')))
try:
    print(os.listdir('/proc/1/fd'))
except PermissionError:
    print('not told')";
    let told = in_cell(world, &outside, "c", look).succeeded().stdout();
    assert!(!told.contains("sockets") && !told.contains(".sock"), "{told}");
    assert!(told.starts_with("[]\n") && told.ends_with("not told\n"), "{told}");
    // No interface but its own leads anywhere.
    let interfaces =
        in_cell(world, &outside, "c", "print([it[1] for it in socket.if_nameindex()])");
    assert_eq!(interfaces.succeeded().stdout(), "['lo']\n");
    // What the host reaches the cell does not, by address.
    let address = format!("ask('127.0.0.2', {}, 'send 5')", outside.port);
    assert_ne!(in_cell(world, &outside, "c", &address).code(), 0);
    let by_name = format!("print(len(ask('good.test', {}, 'send 5')))", outside.port);
    assert_eq!(in_cell(world, &outside, "c", &by_name).succeeded().stdout(), "5\n");
}

fn a_supervisor_that_does_not_answer_costs_a_carrier(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test"), "*.wide.test".to_owned()]);
    let first = carrier(world, "c");
    let script = "
import os, time
print('begun', flush=True)
while not os.path.exists('/workspace/stop'):
    try:
        socket.gethostbyname(f'n{time.monotonic_ns()}.wide.test')
    except socket.gaierror:
        pass
    time.sleep(0.05)";
    let live = outside.hotcell(world, ["run", "--cell", "c", &python(script)]).start();
    live.await_stdout("begun");
    let supervisor = world.supervisor("c");
    send(supervisor, Signal::STOP);
    // Nothing is carried on a guess: an answer that comes late could be that to another question.
    eventually("the carrier gives up", || !is_alive(first));
    send(supervisor, Signal::CONT);
    let by_name = format!("print(len(ask('good.test', {}, 'send 5')))", outside.port);
    eventually("another carries", || in_cell(world, &outside, "c", &by_name).stdout() == "5\n");
    world.text(["run", "--cell", "c", "touch /workspace/stop"]);
    live.finish().succeeded();
}

fn keepers_and_carriers_end_with_their_container(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let (keeper, process) = (world.keeper("c"), carrier(world, "c"));
    assert_eq!(session_of(keeper), Some(keeper), "it belongs to nobody");
    assert!(descendants(process).is_empty(), "nothing goes into the container");
    // It is neither root nor whom the container runs as, who may be a person.
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let supervisor = fs::read_to_string(format!("/proc/{}/status", world.supervisor("c"))).unwrap();
    assert!(supervisor.contains("Uid:\t1000\t"), "{supervisor}");
    assert!(!status.contains("Uid:\t1000\t") && !status.contains("Uid:\t0\t"), "{status}");
    for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Groups:\t\n"] {
        assert!(status.replace(' ', "").contains(line), "{status}");
    }
    let id = world.cell_id("c");
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1"));
    eventually("both are gone", || !is_alive(keeper) && !is_alive(process));
    // The next life of the cell has others, and what it may reach is the same.
    let by_name = format!("print(len(ask('good.test', {}, 'send 5')))", outside.port);
    assert_eq!(in_cell(world, &outside, "c", &by_name).succeeded().stdout(), "5\n");
    assert_ne!((world.keeper("c"), carrier(world, "c")), (keeper, process));
    // One whose engine removes it while no keeper is there leaves no carrier either.
    let (keeper, process) = (world.keeper("c"), carrier(world, "c"));
    kill_9(keeper);
    assert!(is_alive(process));
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1"));
    eventually("it is gone", || !is_alive(process));
}

/// Asks in the cell until told to stop, and prints each answer that differs from the one before.
fn asking(world: &World, upstream: &Upstream) -> Live {
    let script = format!(
        "
import os, time, urllib.request
last = None
while not os.path.exists('/workspace/stop'):
    try:
        now = urllib.request.urlopen('https://api.test:{}/', timeout=20).status
    except Exception as error:
        now = 'nothing'
    if now != last:
        print('told', now, flush=True)
    last = now
    time.sleep(0.1)",
        upstream.port
    );
    let live = upstream.hotcell(world, ["run", "--cell", "c", &python(&script)]).start();
    live.await_stdout("told 200");
    live
}

fn requests_get_the_header_and_the_value_is_nowhere_in_the_container(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let fetch = |path: &str| {
        let url = format!("https://api.test:{}/{path}", upstream.port);
        let script = format!(
            "import urllib.request; print(urllib.request.urlopen('{url}').read().decode())"
        );
        run(world, &upstream, &python(&script)).succeeded().stdout()
    };
    assert!(fetch("").contains("hello"));
    let seen = upstream.seen();
    assert!(
        seen.len() == 1 && seen[0].contains(&format!("authorization: Bearer {VALUE}")),
        "{seen:?}"
    );
    let echoed = fetch("echo");
    assert!(echoed.contains(&"*".repeat(VALUE.len())) && !echoed.contains("hunter2"), "{echoed}");
    let live = upstream
        .hotcell(world, ["run", "--cell", "c", "-e", "MARK=in-the-environment"])
        .arg("echo begun; sleep 300")
        .start();
    live.await_stdout("begun");
    let processes: Vec<i32> =
        std::iter::once(world.supervisor("c")).chain(descendants(world.supervisor("c"))).collect();
    assert!(processes.len() > 1, "{processes:?}");
    let carrier = carrier(world, "c");
    let key = fs::read_to_string(world.cell_dir("c").join("authority.json")).unwrap();
    let key: serde_json::Value = serde_json::from_str(&key).unwrap();
    for secret in [VALUE, key["key"].as_str().unwrap()] {
        assert!(!processes.iter().any(|pid| memory_holds(*pid, secret)));
        assert!(memory_holds(carrier, secret), "it is found where it is");
    }
    assert!(processes.iter().any(|pid| memory_holds(*pid, "in-the-environment")));
    hides_itself(carrier);
    // The engine is told nothing of it, and shows the container neither value nor key.
    let made = ask_engine("GET", &format!("/containers/hotcell-{}/json", world.cell_id("c")));
    assert!(!made.to_string().contains(VALUE), "{made}");
    let readable = fs::metadata(world.cell_dir("c").join("authority.json")).unwrap().mode();
    assert_eq!(readable & 0o077, 0);
    assert_eq!(run(world, &upstream, "ls /dev/hotcell").stdout(), "authority.pem\nbundle.pem\n");
    live.kill();
}

fn a_value_is_kept_by_the_keeper_and_brought_again(world: &World) {
    let upstream = cell(world, &["api.test"]);
    let live = asking(world, &upstream);
    let first = carrier(world, "c");
    kill_9(first);
    eventually("another carries", || carrier(world, "c") != first);
    upstream.seen();
    // No exec was started meanwhile: it has the value from its keeper.
    eventually("requests get there", || !upstream.seen().is_empty());
    assert!(is_roots(world.keeper("c")), "others look into the keeper");
    let (keeper, second) = (world.keeper("c"), carrier(world, "c"));
    kill_9(keeper);
    // The next keeper finds a carrier that has the value, and has none itself.
    upstream.hotcell(world, ["cat", "c:/etc/hostname"]).run().succeeded();
    eventually("another keeper is there", || world.keeper("c") != keeper);
    assert_eq!(carrier(world, "c"), second);
    kill_9(second);
    eventually("another carries", || carrier(world, "c") != second);
    live.await_stdout("told nothing");
    await_reason(world, "the value of the secret token, which requests to it get, is not here");
    upstream.seen();
    // An exec brings it again.
    run(world, &upstream, "true").succeeded();
    eventually("requests get there", || !upstream.seen().is_empty());
    run(world, &upstream, "touch /workspace/stop").succeeded();
    live.finish().succeeded();
    assert!(upstream.seen().iter().all(|head| head.contains(VALUE)));
}

fn what_an_image_trusts_is_trusted_still(world: &World) {
    set(world, "token", VALUE);
    let upstream = Upstream::start(world, &["api.test"], &["api.test"]);
    let grant = bearer(&upstream, "api.test");
    let pem = fs::read_to_string(&upstream.ca_file).unwrap();
    let own = |image: &str| {
        let counted = upstream
            .hotcell(world, ["run", "--image", image, "--secret", &grant])
            .arg("grep -c BEGIN $SSL_CERT_FILE; grep -c BEGIN $NODE_EXTRA_CA_CERTS")
            .run();
        counted.succeeded().stdout()
    };
    let root = |name: &str| {
        let root = world.home().join(unique(name));
        fs::create_dir_all(root.join("bin")).unwrap();
        for tool in ["sh", "grep"] {
            fs::copy("/bin/busybox", root.join("bin").join(tool)).unwrap();
        }
        root
    };
    let give = |root: &std::path::Path| {
        let packed =
            std::process::Command::new("tar").arg("-C").arg(root).args(["-c", "."]).output();
        EngineImage::give(&packed.unwrap().stdout)
    };
    // None, a file, and a link to one as some distributions have it.
    let bare = EngineImage::give(&root_archive(
        world,
        &[("/bin/busybox", "bin/sh"), ("/bin/busybox", "bin/grep")],
    ));
    assert_eq!(own(&bare.0), "1\n1\n");
    let with_file = root("file");
    fs::create_dir_all(with_file.join("etc/ssl/certs")).unwrap();
    fs::write(with_file.join("etc/ssl/certs/ca-certificates.crt"), pem.repeat(2)).unwrap();
    assert_eq!(own(&give(&with_file).0), "3\n1\n");
    let with_link = root("link");
    fs::create_dir_all(with_link.join("etc/ssl")).unwrap();
    fs::create_dir_all(with_link.join("var/lib")).unwrap();
    fs::write(with_link.join("var/lib/bundle.pem"), pem.trim_end()).unwrap();
    symlink("../../var/lib/bundle.pem", with_link.join("etc/ssl/ca-bundle.pem")).unwrap();
    assert_eq!(own(&give(&with_link).0), "2\n1\n");
    // One that leads nowhere, or round and round, is none.
    let with_loop = root("loop");
    fs::create_dir_all(with_loop.join("etc/ssl")).unwrap();
    symlink("ca-bundle.pem", with_loop.join("etc/ssl/ca-bundle.pem")).unwrap();
    symlink("/nowhere", with_loop.join("etc/ssl/cert.pem")).unwrap();
    assert_eq!(own(&give(&with_loop).0), "1\n1\n");
}

fn what_is_on_disk_is_told_and_outlives_a_keeper(world: &World) {
    world.text(["spawn", "c", "--persistent", "--disk", "64M"]);
    world.text(["run", "--cell", "c", "head -c 20M /dev/zero > big; cp big ~/other; sleep 0.5"]);
    let used = || world.json(["info", "c", "--json"])["stats"]["disk_bytes"].as_u64().unwrap_or(0);
    eventually("both volumes are measured", || used() >= 40 << 20);
    assert!(used() < 48 << 20, "{}", used());
    kill_9(world.keeper("c"));
    assert!(used() >= 40 << 20, "{}", used());
    world.text(["run", "--cell", "c", "rm big; sleep 0.5"]);
    eventually("the next keeper measures as well", || used() < 30 << 20);
    // There is one, whoever comes.
    let lock = world.cell_dir("c").join("keeper.lock");
    for _ in 0..3 {
        world.text(["run", "--cell", "c", "true"]);
    }
    assert_eq!(processes_of(&lock), [world.keeper("c")]);
}

/// A socket that anybody may connect to and that leads to the engine, as for members of its group.
fn open_engine(world: &World, engine: &str) -> String {
    let path = world.home().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let engine = engine.to_owned();
    std::thread::spawn(move || {
        for theirs in listener.incoming().flatten() {
            let ours = UnixStream::connect(&engine).unwrap();
            let ends = [(theirs.try_clone(), ours.try_clone()), (Ok(ours), Ok(theirs))];
            for (from, to) in ends.map(|(from, to)| (from.unwrap(), to.unwrap())) {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut &from, &mut &to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    format!("unix://{}", path.display())
}

fn an_ordinary_user_has_a_network_and_no_disk_limit(world: &World) {
    let found = docker().ok_or_else(|| "HOTCELL_TEST_DOCKER names no Docker engine".to_owned());
    let Some((engine, image)) = require(Need::Docker, found) else { return };
    let outside = Outside::start(&["good.test"]);
    let address = open_engine(world, &engine);
    let hotcell = |args: &[&str]| {
        outside
            .hotcell(world, [])
            .args(args.iter().copied())
            .env("HOTCELL_DRIVER", "docker")
            .env("DOCKER_HOST", &address)
            .env("HOTCELL_DOCKER_IMAGE", &image)
    };
    let refused = hotcell(&["run", "--disk", "1G", "true"]).run();
    assert!(refused.stderr().contains("a disk limit cannot be enforced"), "{refused:?}");
    hotcell(&["spawn", "c"]).run().succeeded();
    let told = hotcell(&["info", "--json", "c"]).run().succeeded().stdout();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let missing = told["cell"]["isolation"]["missing"].as_array().unwrap();
    assert!(missing.iter().any(|layer| layer["name"] == "disk_limit"), "{told}");
    let id = told["cell"]["id"].as_str().unwrap();
    let lock = world.state_dir().join("docker/cells").join(id).join("keeper.lock");
    let ask = format!("print(len(ask('good.test', {}, 'send 5')))", outside.port);
    let ask = || hotcell(&["run", "--cell", "c", &python(&ask)]).run();
    assert_ne!(ask().code(), 0);
    // Nobody looks after what needs no looking after.
    assert_eq!(processes_of(&lock), Vec::<i32>::new());
    hotcell(&["net", "allow", "c", &outside.rule("good.test")]).run().succeeded();
    assert_eq!(ask().succeeded().stdout(), "5\n");
    assert_eq!(processes_of(&lock).len(), 1);
    hotcell(&["net", "deny", "c", "good.test"]).run().succeeded();
    assert_ne!(ask().code(), 0);
    hotcell(&["kill", "--force", "c"]).run().succeeded();
    eventually("it is removed", || {
        hotcell(&["cells"]).run();
        !lock.parent().unwrap().exists()
    });
}
