//! Cells where no namespace can be made: what they are, what they say of themselves, and what their
//! commands do not reach. Whatever is refused to a command is shown to be allowed outside of a cell.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::{
    AS_IN_A_CONTAINER, Kind, World, descendants, eventually, eventually_some, is_alive, kill_9,
    marked, program, unique,
};

in_worlds! { [without_namespaces]
    without_the_setting_no_cell_is_made_and_the_remedy_names_it,
    where_namespaces_can_be_made_the_setting_changes_nothing,
    the_level_is_told_wherever_a_cell_is,
    what_is_told_is_what_the_kernel_shows,
    the_doctor_says_what_is_in_use,
    files_are_reached_by_the_paths_of_any_cell,
    programs_are_built_and_run,
    private_files_are_neither_read_nor_changed,
    attributes_of_files_are_neither_read_nor_listed,
    modes_and_times_are_changed_in_the_cell_alone,
    nothing_is_written_outside,
    no_socket_is_opened,
    no_socket_of_the_host_is_reached,
    no_process_of_the_user_is_signalled_or_looked_into,
    processes_of_the_user_are_not_scheduled,
    nothing_of_another_cell_is_reached,
    what_needs_namespaces_is_refused_by_its_name,
    a_command_reaches_no_thread_of_its_supervisor,
    what_a_dead_supervisor_and_keeper_left_is_ended_by_whoever_comes_by,
    nobody_else_wakes_such_a_cell,
    tasks_of_the_user_that_cannot_be_seen_leave_room_for_those_of_the_cell,
}

/// Runs something in a cell; what it printed, whatever came of it.
fn inside(world: &World, script: &str) -> (i32, String) {
    let finished = world.hotcell(["run", "--cell", "held", script]).run();
    (finished.code(), format!("{}{}", finished.stdout(), finished.stderr()))
}

/// Runs the same as the same user outside of a cell.
fn outside(world: &World, script: &str) -> (i32, String) {
    let finished = world.other("bash", ["-c", script]).run();
    (finished.code(), format!("{}{}", finished.stdout(), finished.stderr()))
}

/// Shows that a script works for the user and not for a command.
#[track_caller]
fn is_kept_from(world: &World, script: &str) {
    let refused = inside(world, script);
    assert_ne!(refused.0, 0, "in a cell {script:?} came to {refused:?}");
    let allowed = outside(world, script);
    assert_eq!(allowed.0, 0, "outside {script:?} came to {allowed:?}");
}

/// A file of the user that nobody else may read.
fn private_file(world: &World) -> PathBuf {
    let path = world.home().join("private");
    fs::write(&path, "secret\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    world.own(&path);
    path
}

/// A process of the user that has nothing to do with any cell.
fn bystander(world: &World) -> (crate::world::Live, i32) {
    let mark = unique("67");
    let live = world.other("sleep", [&mark]).start();
    let pid = eventually_some("it runs", || marked(&mark).into_iter().next());
    (live, pid)
}

fn python(script: &str) -> String {
    format!("python3 -c '{script}'")
}

fn without_the_setting_no_cell_is_made_and_the_remedy_names_it(world: &World) {
    let refused = world.hotcell(["run", "true"]).env("HOTCELL_NATIVE_LEVEL", "limited").run();
    assert_eq!(refused.code(), 125, "{refused:?}");
    assert!(refused.stderr().contains("native.level = \"process\""), "{refused:?}");
    let seen = world.hotcell(["doctor"]).env("HOTCELL_NATIVE_LEVEL", "limited").run();
    assert_ne!(seen.code(), 0, "{seen:?}");
    assert!(seen.stdout().contains("possible with native.level = \"process\""), "{seen:?}");
    // A cell that was made under the setting does not wake without it.
    world.text(["spawn", "made", "--persistent"]);
    kill_9(world.supervisor("made"));
    let woken = world.hotcell(["run", "--cell", "made", "true"]);
    let woken = woken.env("HOTCELL_NATIVE_LEVEL", "limited").run();
    assert!(woken.stderr().contains("level limited is required and this is process"), "{woken:?}");
}

fn where_namespaces_can_be_made_the_setting_changes_nothing(world: &World) {
    let Some(free) = World::enter(Kind::SingleId) else { return };
    let spawned = free.hotcell(["spawn", "better"]).env("HOTCELL_NATIVE_LEVEL", "process").run();
    spawned.succeeded();
    let told = free.json(["info", "better", "--json"]);
    assert_eq!(told["cell"]["isolation"]["level"], "limited", "{told}");
    drop(free);
    assert_eq!(world.text(["run", "echo here"]), "here\n");
}

fn the_level_is_told_wherever_a_cell_is(world: &World) {
    let spawned = world.json(["spawn", "held", "--json"]);
    assert_eq!(spawned["isolation"]["level"], "process", "{spawned}");
    let told = world.json(["info", "held", "--json"]);
    let isolation = &told["cell"]["isolation"];
    assert_eq!(isolation["level"], "process", "{told}");
    let missing: Vec<&str> = isolation["missing"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    for name in ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"] {
        assert!(missing.contains(&format!("{name}_namespace").as_str()), "{missing:?}");
    }
    for name in ["masked_proc", "private_ids", "memory_limit"] {
        assert!(missing.contains(&name), "{missing:?}");
    }
    for layer in isolation["missing"].as_array().unwrap() {
        assert!(!layer["reason"].as_str().unwrap().is_empty(), "{layer}");
        assert!(!layer["remedy"].as_str().unwrap().is_empty(), "{layer}");
    }
    assert!(world.text(["cells"]).contains("process"));
}

fn layers(world: &World) -> Vec<String> {
    let told = world.json(["info", "held", "--json"]);
    let layers = told["cell"]["isolation"]["layers"].as_array().unwrap().clone();
    layers.iter().map(|layer| layer["name"].as_str().unwrap().to_owned()).collect()
}

fn what_is_told_is_what_the_kernel_shows(world: &World) {
    world.text(["spawn", "held"]);
    let mark = unique("71");
    let exec = world.detach("held", &format!("exec sleep {mark}"));
    let pid = eventually_some("it runs", || marked(&mark).into_iter().next());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:\t")));
        line.unwrap().to_owned()
    };
    let layers = layers(world);
    let has = |name: &str| layers.iter().any(|layer| layer == name);
    assert!(has("seccomp_filter") && of("Seccomp") == "2", "{status}");
    assert!(has("no_new_privs") && of("NoNewPrivs") == "1", "{status}");
    for set in ["CapEff", "CapPrm", "CapAmb"] {
        assert!(has("no_capabilities") && of(set) == "0000000000000000", "{status}");
    }
    let uid = world.user().uid;
    assert_eq!(of("Uid"), format!("{uid}\t{uid}\t{uid}\t{uid}"));
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/{kind}")).unwrap();
        assert_eq!(namespace(&pid.to_string()), namespace("self"), "{kind}");
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let processes = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
    let most: u32 = processes.split_ascii_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(has("pids_limit") && (1024..8192).contains(&most), "{processes}");
    assert_eq!(fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), 3);
    world.text(["cancel", "--grace", "0", &exec]);
}

fn the_doctor_says_what_is_in_use(world: &World) {
    let told = world.json(["doctor", "--json"]);
    let driver = &told["drivers"][0];
    let spawned = world.json(["spawn", "held", "--json"]);
    assert_eq!(driver["isolation"], spawned["isolation"]);
    let checks = driver["checks"].as_array().unwrap();
    let status = |name: &str| {
        let check: Option<&Value> = checks.iter().find(|check| check["name"] == name);
        check.map(|check| check["status"].as_str().unwrap())
    };
    assert_eq!(status("process_level"), Some("ok"));
    assert_eq!(status("user_namespace"), Some("missing"));
}

fn files_are_reached_by_the_paths_of_any_cell(world: &World) {
    world.text(["spawn", "held", "--persistent"]);
    world.hotcell(["cp", "-", "held:/workspace/sub/in"]).input("from outside\n").run().succeeded();
    let here = world.json(["info", "held", "--json"]);
    assert_eq!(here["cell"]["isolation"]["level"], "process");
    let run = |cwd: &str, script: &str| world.text(["run", "--cell", "held", "--cwd", cwd, script]);
    assert_eq!(run("/workspace/sub", "cat in; echo back > out"), "from outside\n");
    assert_eq!(
        run("sub", "cat $WORKSPACE/sub/in; pwd | grep -c /workspace/sub$"),
        "from outside\n1\n"
    );
    assert_eq!(world.text(["cat", "held:sub/out"]), "back\n");
    run("/tmp", "echo t > f; test $TMPDIR = $PWD && cp f $(mktemp)");
    assert_eq!(world.text(["cat", "held:/tmp/f"]), "t\n");
    assert_eq!(run(".", "cd && pwd | grep -c home/cell$"), "1\n");
    let refused = world.hotcell(["cat", "held:/etc/passwd"]).run();
    assert_ne!(refused.code(), 0, "{refused:?}");
    // What is in /tmp goes when the cell sleeps, and the rest stays.
    kill_9(world.supervisor("held"));
    assert_eq!(run(".", "ls $TMPDIR; cat sub/out"), "back\n");
    // No directory is closed to its owner: it would be closed to who counts and removes it.
    let shut = "mkdir shut && chmod 0 shut && stat -c %a shut; mkdir -m 0 never || umask 0777; mkdir open && stat -c %a open";
    assert_eq!(run(".", &format!("{shut} 2>/dev/null")), "700\n755\n");
    world.text(["kill", "--volumes", "held"]);
    let layers = world.state_dir().join("native/layers");
    eventually("its files are gone", || fs::read_dir(&layers).unwrap().next().is_none());
}

fn programs_are_built_and_run(world: &World) {
    world.text(["spawn", "held"]);
    let script = "set -e
        printf '#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n' > a.c
        cc a.c -o a && ./a
        printf '#!/bin/sh\necho script\n' > s && chmod 755 s && ./s
        mkdir -p d && echo 1 > d/f && chmod 640 d/f && tar cf d.tar d && rm -r d && tar xf d.tar
        stat -c %a d/f
        touch -d 2001-02-03 d/f && cp -p d/f d/g && stat -c %Y d/g
        mv d/g . && cat <(echo substituted)
        echo nothing > /dev/null && head -c 3 /dev/urandom | wc -c
        nproc > /dev/null && cat /proc/meminfo /etc/os-release > /dev/null
        python3 -c 'import os, threading, subprocess; print(subprocess.check_output([\"echo\", \"py\"]).decode(), end=\"\")'";
    let printed = inside(world, script);
    assert_eq!(printed, (0, "built\nscript\n640\n981158400\nsubstituted\n3\npy\n".to_owned()));
}

fn private_files_are_neither_read_nor_changed(world: &World) {
    world.text(["spawn", "held"]);
    let path = private_file(world);
    let file = path.display();
    is_kept_from(world, &format!("cat {file}"));
    is_kept_from(world, &format!("echo more >> {file}"));
    is_kept_from(world, &format!("ln {file} {file}.link && rm {file}.link"));
    is_kept_from(world, &format!("mv {file} {file}.moved && mv {file}.moved {file}"));
    is_kept_from(world, &format!("ls {}", world.home().display()));
    // By a link of the command's own, by a descriptor that it has, by its directory.
    let (_, said) =
        inside(world, &format!("ln -s {file} link; cat link; cat < link; cd /; cat .{file}"));
    assert!(!said.contains("secret"), "{said}");
    is_kept_from(world, &format!("rm {file}"));
    assert!(!path.exists());
    // A file that everybody may read, where no program needs it.
    let public = world.home().join("public");
    fs::write(&public, "open\n").unwrap();
    is_kept_from(world, &format!("cat {}", public.display()));
}

fn modes_and_times_are_changed_in_the_cell_alone(world: &World) {
    world.text(["spawn", "held"]);
    let path = private_file(world);
    let file = path.display();
    is_kept_from(world, &format!("chmod 640 {file}"));
    is_kept_from(world, &format!("touch -c -d 2001-01-01 {file}"));
    let link = "ln -sf {} link; chmod 644 link".replace("{}", &file.to_string());
    assert_ne!(inside(world, &link).0, 0);
    let relative = format!("cd {} && chmod 644 private", world.home().display());
    assert_ne!(inside(world, &relative).0, 0);
    let by_descriptor = python(&format!(
        "import os; os.chmod(\"private\", 0o644, dir_fd=os.open(\"{}\", os.O_PATH))",
        world.home().display()
    ));
    is_kept_from(world, &by_descriptor);
    private_file(world);
    // A path that becomes another while it is looked at is looked at once.
    let racing = format!(
        "touch own; ln -s own a; ln -s {file} b
         (while :; do ln -sfn own a; ln -sfn {file} a; done) &
         for i in $(seq 300); do chmod 644 a; touch -c -d 2001-01-01 a; done 2>/dev/null; kill $!; true"
    );
    assert_eq!(inside(world, &racing).0, 0);
    let found = fs::metadata(&path).unwrap();
    assert_eq!(found.mode() & 0o777, 0o600);
    assert!(found.mtime() > 1_000_000_000, "{}", found.mtime());
    // In the cell they are changed, but for bits that would give the user's rights to others.
    let own = "touch f; chmod 751 f; stat -c %a f; chmod 4755 f; chmod g+s f; stat -c %a f";
    let (_, said) = inside(world, own);
    assert!(said.starts_with("751\n") && said.contains("751\n"), "{said}");
    assert!(!said.contains("4755") && !said.contains("2751"), "{said}");
}

fn attributes_of_files_are_neither_read_nor_listed(world: &World) {
    world.text(["spawn", "held"]);
    let path = private_file(world);
    let file = path.display();
    let set = python(&format!("import os; os.setxattr(\"{file}\", \"user.origin\", b\"there\")"));
    let (code, said) = outside(world, &set);
    assert_eq!(code, 0, "{said}");
    let (at, name) = (format!("\"{file}\""), "\"user.origin\"");
    for follow in ["True", "False"] {
        let read = format!("import os; print(os.getxattr({at}, {name}, follow_symlinks={follow}))");
        is_kept_from(world, &python(&read));
        let list = format!(
            "import os, sys; sys.exit({name} not in os.listxattr({at}, follow_symlinks={follow}))"
        );
        is_kept_from(world, &python(&list));
    }
    // Nor by a descriptor that stands for the file and does not open it.
    let by_descriptor = format!("import os; os.getxattr(os.open({at}, os.O_PATH), {name})");
    assert_ne!(inside(world, &python(&by_descriptor)).0, 0);
    // What lists and copies files goes on without them.
    let own = "echo x > f && ls -l f >&2 && cp -a f g && cat g";
    assert!(inside(world, own).1.starts_with("x\n"));
}

fn nothing_is_written_outside(world: &World) {
    world.text(["spawn", "held"]);
    let home = world.home().display();
    is_kept_from(world, &format!("echo x > {home}/made && rm {home}/made"));
    is_kept_from(world, &format!("mkdir {home}/made && rmdir {home}/made"));
    is_kept_from(world, &format!("ln -s a {home}/made && rm {home}/made"));
    is_kept_from(world, &format!("mkfifo {home}/made && rm {home}/made"));
    let shared = unique("hotcell-e2e-");
    is_kept_from(world, &format!("echo x > /tmp/{shared} && rm /tmp/{shared}"));
    is_kept_from(world, &format!("echo x > /dev/shm/{shared} && rm /dev/shm/{shared}"));
    // What lies beside the cell's own directories is not its own.
    assert_ne!(inside(world, "echo x > ../beside").0, 0);
    assert_ne!(inside(world, "mv ../workspace ../elsewhere").0, 0);
    assert_eq!(inside(world, "echo x > here && mv here $TMPDIR/there && mv $TMPDIR/there ~").0, 0);
}

fn no_socket_is_opened(world: &World) {
    world.text(["spawn", "held"]);
    for family in ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"] {
        let kind = if family == "AF_NETLINK" { "SOCK_RAW" } else { "SOCK_STREAM" };
        is_kept_from(
            world,
            &python(&format!("import socket as s; s.socket(s.{family}, s.{kind})")),
        );
    }
    let datagrams = "import socket as s; s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)";
    is_kept_from(world, &python(datagrams));
    let pair =
        "import socket as s; a, b = s.socketpair(); a.send(b\"x\"); assert b.recv(1) == b\"x\"";
    assert_eq!(inside(world, &python(pair)).0, 0);
    let segment = "import ctypes, sys; sys.exit(ctypes.CDLL(None).shmget(0, 4096, 0o1600) < 0)";
    is_kept_from(world, &python(segment));
}

fn no_socket_of_the_host_is_reached(world: &World) {
    world.text(["spawn", "held"]);
    let name = unique("hotcell-e2e-");
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let connect = |to: &str| {
        python(&format!("import socket as s; s.socket(s.AF_UNIX, s.SOCK_STREAM).connect({to})"))
    };
    is_kept_from(world, &connect(&format!("\"\\0{name}\"")));
    let path = world.home().join("socket");
    let _named = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    is_kept_from(world, &connect(&format!("\"{}\"", path.display())));
}

fn no_process_of_the_user_is_signalled_or_looked_into(world: &World) {
    world.text(["spawn", "held"]);
    let (live, pid) = bystander(world);
    is_kept_from(world, &format!("kill -0 {pid}"));
    is_kept_from(world, &format!("head -c 1 /proc/{pid}/environ"));
    is_kept_from(world, &format!("head -c 1 /proc/{pid}/cmdline"));
    is_kept_from(world, &format!("ls /proc/{pid}/fd"));
    let watch = "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, {}, 0, 0) != 0)";
    is_kept_from(world, &python(&watch.replace("{}", &pid.to_string())));
    let descriptor = "import os, signal; signal.pidfd_send_signal(os.pidfd_open({}), 0)";
    is_kept_from(world, &python(&descriptor.replace("{}", &pid.to_string())));
    // Whoever is meant: everybody that can be reached is of the command itself.
    inside(world, "kill -9 -1");
    assert!(is_alive(pid) && is_alive(world.supervisor("held")) && is_alive(world.keeper("held")));
    assert_eq!(inside(world, "echo on"), (0, "on\n".to_owned()));
    live.kill();
}

fn processes_of_the_user_are_not_scheduled(world: &World) {
    world.text(["spawn", "held"]);
    let (live, pid) = bystander(world);
    is_kept_from(world, &format!("renice -n 19 -p {pid}"));
    is_kept_from(world, &format!("taskset -p 1 {pid}"));
    is_kept_from(world, &format!("prlimit --pid {pid} --nofile=64"));
    assert_eq!(inside(world, "nice -n 3 echo fine"), (0, "fine\n".to_owned()));
    live.kill();
}

fn nothing_of_another_cell_is_reached(world: &World) {
    world.text(["spawn", "held"]);
    world.text(["spawn", "other"]);
    let there = world.text(["run", "--cell", "other", "echo theirs > f; pwd"]);
    let file = Path::new(there.trim()).join("f");
    let file = file.display();
    is_kept_from(world, &format!("cat {file}"));
    is_kept_from(world, &format!("chmod 640 {file}"));
    is_kept_from(world, &format!("ls {}", there.trim()));
    let mark = unique("73");
    let exec = world.detach("other", &format!("exec sleep {mark}"));
    let pid = eventually_some("it runs", || marked(&mark).into_iter().next());
    is_kept_from(world, &format!("kill -0 {pid}"));
    let supervisor = world.supervisor("other");
    is_kept_from(world, &format!("kill -0 {supervisor}"));
    // What hotcell keeps of the cell itself is not the cell's either.
    let records =
        world.state_dir().join("cells").join(world.cell_id("held")).join("records/journal");
    is_kept_from(world, &format!("head -c 1 {}", records.display()));
    world.text(["cancel", "--grace", "0", &exec]);
}

fn what_needs_namespaces_is_refused_by_its_name(world: &World) {
    world.text(["spawn", "held", "--persistent"]);
    world.hotcell(["secret", "set", "token"]).input("hunter2/hunter2").run().succeeded();
    let project = world.home().join("project");
    fs::create_dir(&project).unwrap();
    world.own(&project);
    let project = project.to_str().unwrap();
    for refused in [
        world.hotcell(["run", "--allow", "example.org", "true"]).run(),
        world.hotcell(["run", "--workspace", project, "true"]).run(),
        world.hotcell(["run", "--secret", "token:header=X-Key: {}@api.test", "true"]).run(),
        world.hotcell(["run", "--cell", "held", "--as-root", "true"]).run(),
        world.hotcell(["checkpoint", "create", "held"]).run(),
        world.hotcell(["fork", "held"]).run(),
    ] {
        assert_ne!(refused.code(), 0, "{refused:?}");
        assert!(refused.stderr().contains("level process"), "{refused:?}");
    }
    assert_eq!(world.text(["run", "--cell", "held", "echo on"]), "on\n");
}

/// The thread from which commands are born is under their layers, so that they would reach it.
fn a_command_reaches_no_thread_of_its_supervisor(world: &World) {
    world.text(["spawn", "held"]);
    let supervisor = world.supervisor("held");
    let threads = fs::read_dir(format!("/proc/{supervisor}/task")).unwrap().flatten();
    let threads: Vec<i32> =
        threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    assert!(threads.len() > 1, "{threads:?}");
    for thread in threads {
        is_kept_from(world, &format!("kill -0 {thread}"));
        let call = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall({}) < 0)";
        let tgkill = if cfg!(target_arch = "x86_64") { 234 } else { 131 };
        let numbers = format!("{tgkill}, {supervisor}, {thread}, 0");
        is_kept_from(world, &python(&call.replace("{}", &numbers)));
        let descriptor = format!(
            "import ctypes, sys; call = ctypes.CDLL(None).syscall; \
            sys.exit(call(424, call(434, {thread}, 0o200), 0, 0, 0) < 0)"
        );
        is_kept_from(world, &python(&descriptor));
    }
    let owner = format!("import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, {supervisor})");
    is_kept_from(world, &python(&owner));
    // What stands above it is of its own exec, and its end is the exec's.
    assert_ne!(inside(world, "sleep 0.2; kill -9 $PPID; sleep 1000").0, 0);
    assert_eq!(inside(world, "echo on"), (0, "on\n".to_owned()));
    assert_eq!(world.supervisor("held"), supervisor);
}

fn what_a_dead_supervisor_and_keeper_left_is_ended_by_whoever_comes_by(world: &World) {
    world.text(["spawn", "held", "--persistent"]);
    let mark = unique("83");
    let script = format!("setsid sh -c 'sleep {mark} & exec sleep {mark}' & exec sleep {mark}");
    world.detach("held", &script);
    eventually("all run", || marked(&mark).iter().filter(|pid| is_sleep(**pid)).count() == 3);
    let (keeper, supervisor) = (world.keeper("held"), world.supervisor("held"));
    kill_9(keeper);
    kill_9(supervisor);
    assert!(descendants(supervisor).is_empty());
    assert_eq!(world.text(["run", "--cell", "held", "echo woken"]), "woken\n");
    assert!(marked(&mark).is_empty(), "{:?}", marked(&mark));
}

/// Its commands would be whoever wakes it: root of the host, or another user.
fn nobody_else_wakes_such_a_cell(world: &World) {
    world.text(["spawn", "held", "--persistent"]);
    let supervisor = world.supervisor("held");
    kill_9(supervisor);
    eventually("its supervisor is gone", || !is_alive(supervisor));
    let Some(root) = World::enter(Kind::Root) else { return };
    // The state directory of another user is refused at once: this one is handed over.
    root.own(&world.state_dir());
    let woken = root.hotcell(["run", "--cell", "held", "id -u"]);
    let woken = woken.env("HOTCELL_STATE_DIR", world.state_dir());
    let woken = woken.env("HOTCELL_NATIVE_LEVEL", "process").run();
    world.own(&world.state_dir());
    assert_eq!(woken.code(), 125, "{woken:?}");
    assert!(woken.stderr().contains("root of the host"), "{woken:?}");
    assert_eq!(world.text(["run", "--cell", "held", "echo woken"]), "woken\n");
}

/// As in a container whose user has the number of a user of the host: the kernel counts both as one.
fn tasks_of_the_user_that_cannot_be_seen_leave_room_for_those_of_the_cell(world: &World) {
    let Some(root) = World::enter(Kind::Root) else { return };
    let mark = unique("89");
    let sleepers = format!("for i in $(seq 60); do sleep {mark} & done; wait");
    let sleepers = world.other("bash", ["-c", &sleepers]).start();
    eventually("all sleep", || marked(&mark).iter().filter(|pid| is_sleep(**pid)).count() == 60);
    let script = "ls /proc | grep -c '^[0-9]'
        $0 spawn held --pids 16 > /dev/null
        $0 run --cell held '(true) && (true) && echo forked'
        $0 kill held > /dev/null
        while [ -n \"$(ls $HOTCELL_STATE_DIR/native/cells)\" ]; do sleep 0.02; done";
    let (uid, gid) = (world.user().uid.to_string(), world.user().gid.to_string());
    let user = ["--reuid", &uid, "--regid", &gid, "--clear-groups"];
    let finished = root
        .other("unshare", ["--pid", "--fork", "--mount-proc", "setpriv"])
        .args(user)
        .args(["python3", "-c", AS_IN_A_CONTAINER, "sh", "-c", script])
        .arg(program().to_str().unwrap())
        .env("HOTCELL_STATE_DIR", world.state_dir())
        .env("HOTCELL_NATIVE_LEVEL", "process")
        .env("HOTCELL_NATIVE_CGROUPS", "off")
        .run();
    for pid in marked(&mark) {
        kill_9(pid);
    }
    sleepers.finish();
    let printed = finished.stdout();
    let (seen, printed) = printed.split_once('\n').unwrap();
    assert!(seen.parse::<u32>().unwrap() < 16, "{finished:?}");
    assert_eq!(printed, "forked\n", "{finished:?}");
}

fn is_sleep(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
}
