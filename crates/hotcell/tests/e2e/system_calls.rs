//! What the programs of a cell may ask of the kernel: all that ordinary programs need, and little
//! else.

use std::collections::BTreeMap;
use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
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
    the_limits_that_a_cell_reports_are_in_force,
    execs_of_a_cell_reach_one_another,
    after_a_checkpoint_programs_are_confined_to_the_new_root,
    a_descriptor_of_the_host_opens_nothing,
    the_process_that_serves_files_is_out_of_reach,
    no_set_user_id_bit_reaches_the_host,
    a_cell_leaves_nothing_that_runs_as_root_in_directories_of_root,
    directories_that_pass_their_group_on_work,
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

/// Every layer that a cell reports, and so every one that a test reads back.
const LAYERS: [&str; 19] = [
    "user_namespace",
    "mount_namespace",
    "pid_namespace",
    "network_namespace",
    "ipc_namespace",
    "uts_namespace",
    "cgroup_namespace",
    "no_capabilities",
    "no_new_privs",
    "seccomp_filter",
    "landlock",
    "private_ids",
    "memory_limit",
    "pids_limit",
    "cpu_limit",
    "swap_limit",
    // Shown by `ways_out`, `tree_kill` and `runaways`.
    "masked_proc",
    "tree_kill",
    "disk_limit",
];

fn the_limits_that_a_cell_reports_are_in_force(world: &World) {
    let told = world.json(["doctor", "--json"]);
    let layers = told["drivers"][0]["isolation"]["layers"].as_array().unwrap();
    let has_groups = layers.iter().any(|layer| layer["name"] == "memory_limit");
    let spawn = world.hotcell(["spawn", "bounded", "--pids", "50"]);
    let spawn = match has_groups {
        // What cannot be kept is refused.
        false => spawn,
        true => spawn.args(["--memory", "100M", "--cpus", "0.5"]),
    };
    spawn.run().succeeded();
    let info = world.json(["info", "--json", "bounded"]);
    let isolation = &info["cell"]["isolation"];
    let layers = isolation["layers"].as_array().unwrap();
    let means = |name: &str| {
        let layer = layers.iter().find(|layer| layer["name"] == name);
        layer.map(|layer| layer["means"].as_str().unwrap_or_default().to_owned())
    };
    for layer in layers {
        assert!(LAYERS.contains(&layer["name"].as_str().unwrap()), "no test reads {layer} back");
    }
    let groups = world.cgroups_of(&world.cell_id("bounded"));
    let in_groups = |file: &str| -> Vec<String> {
        let paths = groups.iter().map(|group| group.trim_start_matches("cgroup ").to_owned());
        paths.filter_map(|path| fs::read_to_string(format!("{path}/{file}")).ok()).collect()
    };
    let kept_by_group = [
        ("memory_limit", ["memory.max", "memory.limit_in_bytes"], "104857600\n"),
        ("pids_limit", ["pids.max", "pids.max"], "51\n"),
        ("cpu_limit", ["cpu.max", "cpu.cfs_quota_us"], "50000"),
        ("swap_limit", ["memory.swap.max", "memory.memsw.limit_in_bytes"], ""),
    ];
    for (name, files, value) in kept_by_group {
        let is_reported = means(name).is_some_and(|means| !means.starts_with("rlimit"));
        let set: Vec<String> = files.iter().flat_map(|file| in_groups(file)).collect();
        let is_set = set.iter().any(|text| text.starts_with(value));
        // Where nothing is swapped to there is nothing to set.
        let needs_no_file = name == "swap_limit" && set.is_empty();
        assert!(is_set == is_reported || needs_no_file, "{name}: {set:?}, {isolation}");
    }
    if means("pids_limit").is_some_and(|means| means.starts_with("rlimit")) {
        let limits = world.text(["run", "--cell", "bounded", "ulimit -u"]);
        assert_eq!(limits.trim(), "50");
    }
    // Ids of the host behind those of the cell: never root's, and the user's own only without a
    // range of others.
    let maps =
        world.text(["run", "--cell", "bounded", "cat /proc/self/uid_map /proc/self/gid_map"]);
    let numbers = |line: &str| -> Vec<u64> {
        line.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let ranges: Vec<Vec<u64>> = maps.lines().map(numbers).collect();
    assert!(!ranges.is_empty());
    let user = u64::from(world.user().uid);
    let has_others = ranges.iter().any(|range| range[2] > 1);
    assert_eq!(means("private_ids").is_some(), has_others, "{maps}");
    assert!(ranges.iter().all(|range| range[1] != 0 && (user != 0 || range[1] != user)), "{maps}");
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

fn a_cell_leaves_nothing_that_runs_as_root_in_directories_of_root(world: &World) {
    use std::os::unix::fs::MetadataExt;
    if world.user().uid != 0 {
        // Nothing of root's can be its workspace.
        return;
    }
    let project = world.home().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("real"), "0\n").unwrap();
    let shown = format!("{}:rw", project.display());
    let spawned = world.hotcell(["spawn", "--workspace", &shown]).run();
    if spawned.code() != 0 {
        // Without ids of the cell's own nothing maps root's to them.
        assert!(spawned.stderr().contains("workspace"), "{spawned:?}");
        return;
    }
    let cell = spawned.stdout().trim().to_owned();
    let run = |options: &[&str], script: &str| {
        world
            .hotcell(["run", "--cell", &cell])
            .args(options.iter().copied())
            .args(["--", "sh", "-c", script])
            .run()
    };
    run(&[], "echo 1 >> real; cp /bin/true plain; mkdir d; chmod 1777 d; id -u").succeeded();
    assert_eq!(fs::read_to_string(project.join("real")).unwrap(), "0\n1\n");
    assert_eq!(fs::metadata(project.join("plain")).unwrap().uid(), 0);
    let attempts = [
        "chmod u+s plain",
        "chmod g+s plain",
        "chmod 6755 plain",
        "install -m 4755 /bin/true made",
        "install -m 2755 /bin/true made",
        "chmod g+s d",
        "mknod zero c 1 5",
        "mknod disk b 8 0",
        "setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 plain",
        "chown 1234 plain",
    ];
    let options: &[&[&str]] =
        if world.kind().has_root_inside() { &[&[], &["--as-root"]] } else { &[&[]] };
    for attempt in attempts {
        for options in options {
            let tried = run(options, attempt);
            assert_ne!(tried.code(), 0, "{attempt} {options:?}: {tried:?}");
        }
    }
    for entry in fs::read_dir(&project).unwrap().flatten() {
        let metadata = entry.metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o6000, 0, "{:?}", entry.path());
        assert!(!metadata.file_type().is_char_device() && !metadata.file_type().is_block_device());
        assert_eq!(metadata.uid(), 0, "{:?}", entry.path());
    }
    let capabilities =
        rustix::fs::getxattr(project.join("plain"), "security.capability", &mut [0; 64]);
    assert!(capabilities.is_err(), "{capabilities:?}");
    // The same outside of a cell, where root may do all of it.
    let outside = "cp /bin/true control; chmod 6755 control; test -u control; test -g control; mknod zero c 1 5";
    let script = format!("cd {}; {outside}", project.display());
    world.other("sh", ["-ec", &script]).run().succeeded();
    // Where root's own programs look for files no cell writes, whoever asks.
    let refused = world.hotcell(["run", "--workspace", "/usr/local/lib:rw", "true"]).run();
    refused.exited(125);
}

fn directories_that_pass_their_group_on_work(world: &World) {
    use std::os::unix::fs::MetadataExt;
    let project = world.home().join("project");
    let others = project.join("others");
    for directory in [&project, &others] {
        fs::create_dir(directory).unwrap();
        give(world, directory);
    }
    if is_root() && world.user().uid != 0 {
        // Of a group that is nobody's in the cell.
        chown(&others, None, Some(NOBODY_ELSES)).unwrap();
    }
    for directory in [&project, &others] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o2775)).unwrap();
    }
    let shown = format!("{}:rw", project.display());
    let script = "umask 002; mkdir -p a/b others/c; echo x > a/file; echo x > others/file; cp -a a copy
                  install -d -m 2775 made; chmod g+s a/b; mkdir un; tar c a | tar xp -C un; mv a/file .
                  stat -c %a a a/b copy made un/a others/c";
    let seen = world.text(["run", "--workspace", &shown, "--", "sh", "-ec", script]);
    assert_eq!(seen, "2775\n".repeat(6));
    let group = |path: &str| fs::metadata(project.join(path)).unwrap().gid();
    for path in ["a", "a/b", "file", "copy", "made", "un/a"] {
        assert_eq!(group(path), group("."), "{path}");
    }
    for path in ["others/c", "others/file"] {
        assert_eq!(group(path), group("others"), "{path}");
    }
}
