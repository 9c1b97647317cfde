//! What the programs of a cell may ask of the kernel: all that ordinary programs need, and little
//! else.

use std::collections::BTreeMap;
use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;

use crate::world::{
    Fates, Kind, World, descendants, eventually, eventually_some, fates, is_root, kill_9, marked,
    try_calls, unique,
};

in_every_world! {
    dangerous_calls_are_refused_inside_and_not_outside,
    calls_that_programs_need_are_let_through,
    the_layers_that_a_cell_reports_are_in_force,
    everyday_programs_work,
    execs_of_a_cell_reach_one_another,
    after_a_checkpoint_programs_are_confined_to_the_new_root,
    a_descriptor_of_the_host_opens_nothing,
    the_process_that_serves_files_is_out_of_reach,
    no_set_user_id_bit_reaches_the_host,
}

/// What the kernel says without a cell: with every capability in a user namespace, and as whoever
/// makes cells.
fn outside(world: &World, program: &Path) -> [BTreeMap<String, String>; 2] {
    let program = program.to_str().unwrap();
    let powers = ["--user", "--map-root-user", "--mount", "--net", "--uts", program];
    [world.other("unshare", powers), world.other(program, [])]
        .map(|run| fates(&run.run().succeeded().stdout()).into_iter().collect())
}

/// What it says to execs of a new cell.
fn inside(world: &World, program: &Path, arguments: &[&str]) -> Vec<Fates> {
    let cell = world.text(["spawn"]);
    let cell = cell.trim();
    world.text(["cp", program.to_str().unwrap(), &format!("{cell}:/workspace/try_calls")]);
    let users: &[&[&str]] = match world.kind().has_root_inside() {
        false => &[&[]],
        true => &[&[], &["--as-root"]],
    };
    let run = |options: &&[&str]| {
        let run = world.hotcell(["run", "--cell", cell]).args(options.iter().copied());
        let run = run.args(["--", "/workspace/try_calls"]).args(arguments.iter().copied());
        fates(&run.run().succeeded().stdout())
    };
    users.iter().map(run).collect()
}

fn dangerous_calls_are_refused_inside_and_not_outside(world: &World) {
    let program = try_calls(world.home());
    let controls = outside(world, &program);
    let mut shown = 0;
    for fates in inside(world, &program, &[]) {
        assert!(fates.len() > 50, "{fates:?}");
        for (name, fate) in fates {
            let is_refused = fate.starts_with("refused ") || fate.starts_with("absent ");
            assert!(is_refused, "{name} in a cell: {fate}");
            if controls.iter().any(|control| control[&name] == "allowed") {
                shown += 1;
                continue;
            }
            // The kernel lacks it, or keeps it for root of the host.
            let is_absent = controls.iter().any(|control| control[&name].starts_with("absent "));
            let is_roots = !matches!(world.kind(), Kind::Root | Kind::RootWithoutCgroups);
            assert!(is_absent || is_roots, "{name} outside of a cell: {controls:?}");
        }
    }
    assert!(shown > 35, "most of it can be done outside of a cell: {controls:?}");
}

fn calls_that_programs_need_are_let_through(world: &World) {
    let program = try_calls(world.home());
    for fates in inside(world, &program, &["wanted"]) {
        assert!(fates.len() > 15, "{fates:?}");
        let refused: Vec<_> = fates.iter().filter(|(_, fate)| fate != "allowed").collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

fn the_layers_that_a_cell_reports_are_in_force(world: &World) {
    if !is_root() {
        return; // Nobody else may look.
    }
    world.text(["spawn", "layered"]);
    let mark = unique("52");
    world.detach("layered", &format!("exec sleep {mark}"));
    let pid = eventually_some("it runs", || marked(&mark).into_iter().next());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.strip_prefix(':')).map_or("", str::trim)
    };
    let sets: Vec<&str> = status.lines().filter(|line| line.starts_with("Cap")).collect();
    let info = world.json(["info", "--json", "layered"]);
    let isolation = &info["cell"]["isolation"];
    let reported = |name: &str| {
        let layers = isolation["layers"].as_array().unwrap();
        layers.iter().find(|layer| layer["name"] == name)
    };
    let is_own = |namespace: &str| {
        let link = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
        link(&pid.to_string()) != link("self")
    };
    let in_force = [
        ("seccomp_filter", field("Seccomp") == "2"),
        ("no_new_privs", field("NoNewPrivs") == "1"),
        (
            "no_capabilities",
            sets.len() == 5 && sets.iter().all(|line| line.ends_with("\t0000000000000000")),
        ),
        ("pid_namespace", is_own("pid") && field("NSpid").split_whitespace().count() > 1),
        ("user_namespace", is_own("user")),
        ("mount_namespace", is_own("mnt")),
        ("network_namespace", is_own("net")),
        ("ipc_namespace", is_own("ipc")),
        ("uts_namespace", is_own("uts")),
        ("cgroup_namespace", is_own("cgroup")),
    ];
    for (name, is_in_force) in in_force {
        assert!(is_in_force, "{name} is not in force: {status}");
        assert!(reported(name).is_some(), "{name} is not reported: {isolation}");
    }
    let means = |name: &str| reported(name).map_or(Value::Null, |layer| layer["means"].clone());
    let calls = means("seccomp_filter");
    assert!(calls.as_str().unwrap().starts_with("allowlist of "), "{calls}");
    // Landlock is nowhere to be read; what it does another test shows.
    let landlock = means("landlock");
    let missing = isolation["missing"].to_string();
    assert!(landlock.is_string() != missing.contains("landlock"), "{isolation}");
}

/// A name and a script that fails where what it tries does not work. Each begins in a directory of
/// its own; one that needs what is not installed is left out.
const EVERYDAY: &[(&str, &str, &str)] = &[
    (
        "python3",
        "threads, processes, sockets and memory of Python",
        "python3 -c '
import asyncio, mmap, multiprocessing, os, resource, socket, subprocess, threading
threads = [threading.Thread(target=len, args=([],)) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert subprocess.check_output([\"echo\", \"hi\"]) == b\"hi\\n\"
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
asyncio.run(asyncio.sleep(0))
server = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(server.getsockname())
mmap.mmap(-1, 4096); os.memfd_create(\"x\"); resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))'",
    ),
    (
        "node",
        "workers, processes and a server of Node",
        "node -e '
const { Worker } = require(\"worker_threads\"), http = require(\"http\"), fs = require(\"fs\");
new Worker(\"1\", { eval: true }).on(\"exit\", () => {
  require(\"child_process\").execSync(\"true\");
  const server = http.createServer((_, reply) => reply.end(\"x\")).listen(0, \"127.0.0.1\", () =>
    http.get({ port: server.address().port }, () =>
      fs.promises.readFile(\"/etc/passwd\").then(() => process.exit(0))));
});'",
    ),
    (
        "git",
        "a repository and two clones of it",
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q r; cd r; echo 1 > f; git add f; git commit -qm m; git gc -q; cd ..
        git clone -q r s; git clone -q file://$PWD/r t; test -f s/f; test -f t/f",
    ),
    (
        "cc",
        "a program with a thread, compiled and run",
        "echo '#include <pthread.h>
        static void *f(void *a) { return a; }
        int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }' > a.c
        cc -pthread a.c -o a; ./a",
    ),
    (
        "strace",
        "a program under a tracer",
        "strace -f -o trace sh -c 'true; true'; grep -q execve trace",
    ),
    (
        "gdb",
        "a program under a debugger",
        "gdb -batch -ex run -ex 'print $_exitcode' --args /bin/true 2>&1 | grep 'exited normally'",
    ),
    ("ip", "addresses", "ip addr show lo | grep 127.0.0.1"),
    (
        "tar",
        "an archive with a pipe, a link and modes",
        "mkdir d o; mkfifo d/p; ln -s p d/l; touch d/x; chmod 750 d/x; tar cf d.tar d
        tar xpf d.tar -C o; test -p o/d/p; test -L o/d/l; test $(stat -c %a o/d/x) = 750",
    ),
    (
        "bash",
        "jobs of a shell",
        "set +e; bash -mc 'sleep 100 & kill -STOP %1; kill -CONT %1; kill %1; wait %1'; test $? = 143",
    ),
    (
        "mv",
        "renaming and linking between directories",
        "mkdir a b; echo 1 > a/f; mv a b/; mv b/a/f f; ln f b/g; rm -r b; cat f",
    ),
    (
        "sh",
        "what programs write below /dev and /proc",
        "echo x > /dev/stdout; echo x > /dev/null; echo x > /dev/shm/x; rm /dev/shm/x
        echo name > /proc/self/comm; echo 600 > /proc/self/oom_score_adj",
    ),
];

fn everyday_programs_work(world: &World) {
    world.text(["spawn", "everyday"]);
    let mut tried = 0;
    for (needed, what, script) in EVERYDAY {
        let script = format!(
            "command -v {needed} >/dev/null || exit 42; set -e; export HOME=$(mktemp -d); cd $HOME\n{script}"
        );
        let finished = world.hotcell(["run", "--cell", "everyday", &script]).run();
        match finished.code() {
            42 => {}
            0 => tried += 1,
            _ => panic!("{what}: {finished:?}"),
        }
    }
    assert!(tried >= 4, "there is little on this machine to try");
}

fn execs_of_a_cell_reach_one_another(world: &World) {
    world.text(["spawn", "together"]);
    let mark = unique("53");
    let server = world.detach("together", &format!("exec sleep {mark}"));
    eventually("it runs", || !marked(&mark).is_empty());
    let look = format!(
        "pid=$(pgrep -f '^sleep {mark}') && readlink /proc/$pid/exe && ls /proc/$pid/fd && kill $pid"
    );
    let text = world.text(["run", "--cell", "together", &look]);
    assert!(text.contains("sleep"), "{text}");
    assert_eq!(world.ended(&server)["end"]["signal"], "TERM");
}

fn after_a_checkpoint_programs_are_confined_to_the_new_root(world: &World) {
    let write = "mkdir -p a b && echo x > a/f && mv a/f b/ && echo y >> b/f && \
                 echo z > /tmp/z && echo z > /dev/null && cat b/f && rm -r b";
    world.text(["run", "--cell", "swapped", write]);
    let supervisor = world.supervisor("swapped");
    for _ in 0..3 {
        world.text(["checkpoint", "create", "swapped"]);
        assert_eq!(world.text(["run", "--cell", "swapped", write]), "x\ny\n");
        let filters = "grep ^Seccomp: /proc/self/status";
        assert_eq!(world.text(["run", "--cell", "swapped", filters]), "Seccomp:\t2\n");
        execs_see_each_other(world, "swapped");
    }
    assert_eq!(world.supervisor("swapped"), supervisor, "it was given new layers as it ran");
    let threads = format!("/proc/{supervisor}/task");
    if is_root() {
        assert_eq!(fs::read_dir(threads).unwrap().count(), 2, "pid 1 and what starts programs");
    }
}

fn execs_see_each_other(world: &World, cell: &str) {
    let mark = unique("54");
    let exec = world.detach(cell, &format!("exec sleep {mark}"));
    eventually("it runs", || !marked(&mark).is_empty());
    world.text(["run", "--cell", cell, &format!("pkill -f '^sleep {mark}'")]);
    assert_eq!(world.ended(&exec)["end"]["signal"], "TERM");
}

/// Gives a file to the world's user; to somebody for root, whose directories no cell writes to.
fn give(world: &World, path: &Path) {
    match world.user().uid {
        0 => chown(path, Some(NOBODY_ELSES), Some(NOBODY_ELSES)).unwrap(),
        _ => world.own(path),
    }
}

const NOBODY_ELSES: u32 = 54_321;

/// Only with a directory of the host as its workspace can a cell get a descriptor from there.
fn a_descriptor_of_the_host_opens_nothing(world: &World) {
    let program = try_calls(world.home());
    let project = world.home().join("project");
    let secrets = world.home().join("secrets");
    for directory in [&project, &secrets] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::write(secrets.join("secret"), "hush").unwrap();
    fs::copy(&program, project.join("try_calls")).unwrap();
    let listener = UnixListener::bind(project.join("socket")).unwrap();
    fs::set_permissions(project.join("socket"), fs::Permissions::from_mode(0o777)).unwrap();
    for path in ["", "try_calls", "socket"] {
        give(world, &project.join(path));
    }
    let told = secrets.clone();
    let host = std::thread::spawn(move || {
        for _ in 0..2 {
            let (stream, _) = listener.accept().unwrap();
            let directory = fs::File::open(&told).unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut message = SendAncillaryBuffer::new(&mut space);
            let fds = [directory.as_fd()];
            assert!(message.push(SendAncillaryMessage::ScmRights(&fds)));
            let word = [IoSlice::new(b"d")];
            sendmsg(&stream, &word, &mut message, SendFlags::empty()).unwrap();
        }
    });
    let control = world.other(
        project.join("try_calls").to_str().unwrap(),
        ["received", project.join("socket").to_str().unwrap()],
    );
    assert_eq!(control.run().succeeded().stdout(), "read hush\n");
    let shown = format!("{}:rw", project.display());
    let run = world.hotcell(["run", "--workspace", &shown, "--", "/workspace/try_calls"]);
    let finished = run.args(["received", "/workspace/socket"]).run().succeeded();
    host.join().unwrap();
    let lacks_landlock = world.text(["doctor", "--json"]).contains("no Landlock");
    if !lacks_landlock {
        assert_eq!(finished.stdout(), "refused EACCES\n");
    }
}

fn the_process_that_serves_files_is_out_of_reach(world: &World) {
    world.text(["spawn", "served"]);
    let note = world.home().join("note");
    fs::write(&note, "hi").unwrap();
    world.own(&note);
    let copy = || world.text(["cp", note.to_str().unwrap(), "served:/workspace/note"]);
    copy();
    let serving = || {
        let is_it = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "hotcell-files\n")
        };
        descendants(world.supervisor("served")).into_iter().find(is_it)
    };
    let before = eventually_some("it serves", serving);
    let killed = world.hotcell(["run", "--cell", "served", "pkill -9 hotcell-files"]).run();
    copy();
    if killed.stderr().contains("not permitted") {
        assert_eq!(serving(), Some(before));
    }
    if is_root() {
        let status = fs::read_to_string(format!("/proc/{before}/status")).unwrap();
        assert!(status.contains("Seccomp:\t2"), "{status}");
        // From outside it can be killed, and another takes its place.
        kill_9(before);
        eventually("it is served again", || {
            let copied = world.hotcell(["cp", note.to_str().unwrap(), "served:/workspace/again"]);
            copied.run().code() == 0
        });
        assert_ne!(serving(), Some(before));
    }
}

fn no_set_user_id_bit_reaches_the_host(world: &World) {
    let project = world.home().join("project");
    fs::create_dir(&project).unwrap();
    give(world, &project);
    let shown = format!("{}:rw", project.display());
    let cell = world.text(["spawn", "--workspace", &shown]);
    let run = |script: &str| world.hotcell(["run", "--cell", cell.trim(), script]).run();
    run("cp /bin/true plain; chmod 2755 plain; chmod 755 plain").succeeded();
    for attempt in ["chmod 4755 plain", "chmod u+s plain", "install -m 4755 /bin/true installed"] {
        let refused = run(attempt);
        assert_ne!(refused.code(), 0, "{attempt}: {refused:?}");
        assert!(refused.stderr().contains("not permitted"), "{attempt}: {refused:?}");
    }
    for entry in fs::read_dir(&project).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o4000, 0, "{:?}", entry.path());
    }
    // The same where nothing is the host's.
    world.text(["run", "cp /bin/true plain && chmod 4755 plain && test -u plain"]);
}
