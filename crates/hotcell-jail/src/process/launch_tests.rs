//! Programs that are born from the thread under the layers.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::process::{WaitOptions, getgid, getuid, waitpid};

use super::*;

fn launcher() -> Launcher {
    rustix::thread::set_no_new_privs(true).unwrap();
    let (launcher, confinement) = Launcher::new(Surroundings::Cell(SetIds::Allowed)).unwrap();
    assert_eq!(confinement, Confinement::expected());
    launcher
}

/// Runs a program to its end: what it printed, and its exit code.
fn run(launcher: &mut Launcher, words: &[&str]) -> Result<(String, i32), LaunchError> {
    let argv: Vec<CString> = words.iter().map(|word| CString::new(*word).unwrap()).collect();
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let (mut output, theirs) = io::pipe().unwrap();
    let root = File::open("/").unwrap();
    let launch = Launch {
        program: &argv[0],
        argv: &argv,
        env: &[],
        cwd: root.as_fd(),
        streams: Streams::Pipes {
            stdin: null.as_fd(),
            stdout: theirs.as_fd(),
            stderr: null.as_fd(),
        },
        identity: Identity { uid: getuid().as_raw(), gid: getgid().as_raw(), groups: Groups::Kept },
        rlimits: &[],
        cgroup: Cgroup::Inherit,
        extra: &[],
    };
    let pid = launcher.launch(&launch)?;
    drop(theirs);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
    Ok((text, status.exit_status().unwrap()))
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_program_has_both_filters_and_this_process_for_a_parent() {
    let mut launcher = launcher();
    let script = "grep -E '^(Seccomp|NoNewPrivs|PPid|CapEff):' /proc/self/status; echo $PPID";
    let (text, code) = run(&mut launcher, &["/bin/sh", "-c", script]).unwrap();
    assert_eq!(code, 0);
    assert!(text.contains("Seccomp:\t2"), "{text}");
    assert!(
        text.contains("NoNewPrivs:\t1") && text.contains("CapEff:\t0000000000000000"),
        "{text}"
    );
    assert_eq!(text.lines().last(), Some(std::process::id().to_string().as_str()));
    // This process itself is under none.
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(own.contains("Seccomp:\t0"), "{own}");
}

#[test]
fn a_program_that_is_not_there_is_told_and_leaves_no_process() {
    let mut launcher = launcher();
    let error = run(&mut launcher, &["/no/such/program"]).unwrap_err();
    assert_eq!((error.step, error.source.kind()), (EXECVE_STEP, io::ErrorKind::NotFound));
    assert!(waitpid(None, WaitOptions::NOHANG).is_err(), "it has no children");
    assert_eq!(run(&mut launcher, &["/bin/true"]).unwrap().1, 0);
}

#[test]
fn many_programs_are_born_one_after_the_other() {
    let mut launcher = launcher();
    for number in 0..200 {
        let script = format!("exit {}", number % 7);
        assert_eq!(run(&mut launcher, &["/bin/sh", "-c", &script]).unwrap().1, number % 7);
    }
}

#[test]
fn the_thread_ends_before_the_root_changes_and_another_follows() {
    let before = threads();
    let mut launcher = launcher();
    assert_eq!(threads(), before + 1);
    for _ in 0..5 {
        launcher.leave_root();
        assert_eq!(threads(), before);
        assert_eq!(run(&mut launcher, &["/bin/true"]).unwrap().1, 0);
        assert_eq!(threads(), before + 1);
    }
    drop(launcher);
    assert_eq!(threads(), before);
}
