//! What a cell sees of the host and what it keeps of its caller: nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use crate::world::{
    Era, McpClient, World, descendants, eventually, fd_count, is_root, processes_of, program,
};

in_worlds! { [root, without_cgroups, container_root, rootless, single_id]
    the_files_of_the_host_are_not_there,
    only_the_processes_of_the_cell_are_there,
    the_network_is_a_loopback_and_nothing_else,
    an_exec_has_no_privileges,
    settings_of_the_kernel_cannot_be_changed,
    what_pid_1_has_is_out_of_reach,
    pid_1_has_nothing_open_but_what_it_works_with,
    a_supervisor_and_its_keeper_can_be_told_apart,
    a_cell_keeps_no_descriptor_of_its_caller,
    a_cell_keeps_nothing_of_its_callers_habits,
}

in_worlds! { [root]
    the_program_runs_in_an_empty_root,
    an_agent_is_root_in_its_cell_only_where_the_operator_lets_it,
}

fn an_agent_is_root_in_its_cell_only_where_the_operator_lets_it(world: &World) {
    for (setting, is_allowed) in [("true", true), ("false", false)] {
        let serve = world.hotcell(["serve", "--cell", "own"]).env("HOTCELL_SERVE_AS_ROOT", setting);
        let mut agent = McpClient::start_with(serve, Era::Legacy);
        let mut run = |as_root: bool| {
            let arguments = json!({ "command": "id -u", "as_root": as_root });
            let call = json!({ "name": "exec_run", "arguments": arguments });
            agent.request("tools/call", call)["result"].clone()
        };
        assert_eq!(run(false)["structuredContent"]["stdout"], "1000\n");
        let answer = run(true);
        match is_allowed {
            true => assert_eq!(answer["structuredContent"]["stdout"], "0\n", "{answer}"),
            false => assert!(answer.to_string().contains("serve.as_root"), "{answer}"),
        }
    }
    // Who runs a command by hand is the operator.
    let by_hand =
        world.hotcell(["run", "--as-root", "id -u"]).env("HOTCELL_SERVE_AS_ROOT", "false");
    assert_eq!(by_hand.run().stdout(), "0\n");
}

fn the_files_of_the_host_are_not_there(world: &World) {
    let secret = world.home().join("secret-of-the-host");
    fs::write(&secret, "hush").unwrap();
    let script = format!(
        "cat {}; ls -A /root /home /run /mnt /media /var/lib /boot; ls -A /home/cell",
        secret.display()
    );
    let finished = world.hotcell(["run", &script]).run();
    assert!(!finished.stdout().contains("hush"), "{finished:?}");
    let hosts = fs::read_dir("/home").into_iter().flatten().flatten();
    for name in hosts.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        assert!(!finished.stdout().lines().any(|line| line == name), "{name}: {finished:?}");
    }
    let shadow = world.hotcell(["run", "cat /etc/shadow /etc/sudoers /etc/ssh/*"]).run();
    assert_eq!(shadow.stdout(), "", "{shadow:?}");
}

fn only_the_processes_of_the_cell_are_there(world: &World) {
    let script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null; \
                  echo; echo pid $$";
    let text = world.text(["run", script]);
    let count = text.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(count < 12, "{text}");
    let own: u32 = text.lines().last().unwrap().trim_start_matches("pid ").parse().unwrap();
    assert!(own < 50, "pids begin anew in a cell: {own}");
}

fn the_network_is_a_loopback_and_nothing_else(world: &World) {
    let text = world.text([
        "run",
        "cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | tail -n +2",
    ]);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["lo"]);
}

fn an_exec_has_no_privileges(world: &World) {
    let text = world.text([
        "run",
        "grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs' /proc/self/status; umask; ulimit -c",
    ]);
    assert!(text.contains("NoNewPrivs:\t1"), "{text}");
    assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
    assert!(text.contains("\n0022\n") && text.ends_with("0\n"), "{text}");
    let mounted = world.hotcell(["run", "mount -t tmpfs none /mnt"]).run();
    assert_ne!(mounted.code(), 0, "{mounted:?}");
}

fn settings_of_the_kernel_cannot_be_changed(world: &World) {
    let script = "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches \
                  /proc/sysrq-trigger /sys/kernel/mm/transparent_hugepage/enabled; \
                  do (echo x > $f) 2>/dev/null && echo wrote $f; done; true";
    assert_eq!(world.text(["run", script]), "");
    if world.kind().has_root_inside() {
        assert_eq!(world.text(["run", "--as-root", script]), "");
    }
}

fn what_pid_1_has_is_out_of_reach(world: &World) {
    // Its memory began as its keeper's: whatever would show a piece of it must be closed.
    let script = "cd /proc/1; ls fd root/ cwd/ map_files; readlink exe root cwd ns/user; \
                  cat environ maps smaps mem auxv stack syscall; \
                  kill -9 1; tr '\\0' ' ' < cmdline; echo; cat comm";
    let runs: &[&[&str]] = match world.kind().has_root_inside() {
        false => &[&[]],
        true => &[&[], &["--as-root"]],
    };
    for options in runs {
        let run = world.hotcell(["run"]).args(options.iter().copied());
        let finished = run.args([script]).run();
        let text = finished.stdout();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines, ["hotcell supervise", "hotcell-pid1"], "{options:?}: {finished:?}");
    }
}

fn pid_1_has_nothing_open_but_what_it_works_with(world: &World) {
    if !is_root() {
        return;
    }
    world.text(["spawn", "bare"]);
    world.text(["run", "--cell", "bare", "true"]);
    let process = format!("/proc/{}", world.supervisor("bare"));
    let own_program = fs::read_link(format!("{process}/exe")).unwrap();
    let links = fs::read_dir(format!("{process}/fd")).unwrap().flatten().map(|entry| entry.path());
    // It works while it is looked at: what it closes meanwhile is not there any more.
    let open: Vec<(String, u64)> = links
        .filter_map(|link| {
            let target = fs::read_link(&link).ok()?.to_string_lossy().into_owned();
            Some((target, fs::metadata(&link).ok()?.ino()))
        })
        .collect();
    // Of the host's files its records, its control groups, what lies in both, and its own program.
    // The records are a mount of their own, and so are called `/`.
    let cell = world.cell_id("bare");
    let records = world.state_dir().join("cells").join(&cell).join("records");
    let lie_in = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap().flatten();
        entries.map(|entry| entry.metadata().unwrap().ino()).collect::<Vec<_>>()
    };
    let mut in_records = lie_in(&records);
    in_records.push(fs::metadata(&records).unwrap().ino());
    let groups = format!("/hotcell/{cell}");
    let expected = |target: &str, inode: u64| {
        let is_record = target.starts_with('/') && in_records.contains(&inode);
        let is_below = target == "/" || Path::new(target).parent() == Some(Path::new("/"));
        (is_record && is_below)
            || target.contains(&groups)
            || target == "/dev/null"
            || Path::new(target) == own_program
            || ["socket:", "anon_inode:"].iter().any(|kind| target.starts_with(kind))
    };
    let unexpected: Vec<_> =
        open.iter().filter(|(target, inode)| !expected(target, *inode)).collect();
    assert!(unexpected.is_empty(), "{unexpected:?} of {open:?}");
    assert!(open.len() >= 6, "streams, socket, events, children and records: {open:?}");
}

fn a_supervisor_and_its_keeper_can_be_told_apart(world: &World) {
    let cell = world.text(["spawn", "told-apart"]);
    let line = |pid: i32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        String::from_utf8(bytes).unwrap().trim_end_matches('\0').replace('\0', " ")
    };
    let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let (keeper, supervisor) = (world.keeper("told-apart"), world.supervisor("told-apart"));
    assert_eq!(line(keeper), format!("hotcell keep {}", cell.trim()));
    assert_eq!(name(keeper), "hotcell-keeper\n");
    assert_eq!(line(supervisor), "hotcell supervise");
    assert_eq!(name(supervisor), "hotcell-pid1\n");
}

fn a_cell_keeps_no_descriptor_of_its_caller(world: &World) {
    let pipe = world.home().join("pipe");
    let script = format!(
        "mkfifo {pipe}; exec 9<>{pipe}; {program} spawn held; \
         {program} run -d --cell held 'sleep 1000'",
        pipe = pipe.display(),
        program = program().display()
    );
    world.other("bash", ["-c", &script]).run().succeeded();
    let holders = processes_of(&pipe);
    assert_eq!(holders, Vec::<i32>::new(), "they would keep the pipe open for ever");
    if is_root() {
        // Three streams for the command, one pipe for its reaper.
        eventually("nothing else is open", || {
            descendants(world.supervisor("held")).into_iter().all(|pid| fd_count(pid) <= 3)
        });
    }
    assert_eq!(
        world.text(["run", "--cell", "held", "ls /proc/self/fd | tr '\\n' ' '"]),
        "0 1 2 3 "
    );
}

fn a_cell_keeps_nothing_of_its_callers_habits(world: &World) {
    let script = format!(
        "umask 077; trap '' INT TERM PIPE CHLD HUP USR1; exec {} spawn plain",
        program().display()
    );
    world.other("bash", ["-c", &script]).run().succeeded();
    assert_eq!(
        world.text(["run", "--cell", "plain", "umask; grep SigIgn /proc/self/status | cut -f2"]),
        "0022\n0000000000000000\n"
    );
    let exec = world.detach("plain", "echo up; sleep 1000");
    eventually("it runs", || world.text(["logs", &exec]).contains("up"));
    world.text(["input", "--signal", "INT", &exec]);
    assert_eq!(world.ended(&exec)["end"]["signal"], "INT");
}

fn the_program_runs_in_an_empty_root(world: &World) {
    let root = world.home().join("root");
    fs::create_dir(&root).unwrap();
    fs::copy(program(), root.join("hotcell")).unwrap();
    let run = |args: &[&str]| {
        let chroot = world.other("chroot", [root.to_str().unwrap(), "/hotcell"]);
        chroot.args(args.iter().copied()).env("HOTCELL_STATE_DIR", "/state").run()
    };
    assert!(run(&["--version"]).succeeded().stdout().starts_with("hotcell "));
    assert!(run(&["--help"]).succeeded().stdout().contains("Usage"));
    run(&["config"]).succeeded();
    // Without /proc and programs there is no cell; that is said, and nothing panics.
    let refused = run(&["run", "true"]);
    assert!([125, 126, 127].contains(&refused.code()), "{refused:?}");
    assert!(refused.stderr().starts_with("error: "), "{refused:?}");
    assert!(refused.stderr().contains("hint: "), "{refused:?}");
}
