//! Ways out of a cell that were found in other sandboxes, each tried inside and outside: what is
//! refused in a cell must be allowed without one, or the test shows nothing.
//!
//! `docs/isolation.md` names for every point of the list the test that holds it.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::{Kind, World, fates, is_root, try_ways, unique};

in_worlds! { [root, without_cgroups, container_root, rootless, single_id]
    our_own_processes_are_out_of_reach,
    nothing_of_the_program_can_be_run_or_written,
    an_exec_begins_with_nothing_of_ours,
    nothing_of_the_kernel_can_be_written,
    what_the_kernel_knows_of_the_host_is_not_told,
    no_control_group_is_there_to_be_written,
    devices_are_the_six_and_no_others_can_be_made,
    ids_and_capabilities_stay_as_they_are,
    no_program_gains_by_its_owner,
    namespaces_and_roots_stay_as_they_are,
    abstract_sockets_of_the_host_are_not_there,
    nothing_tells_whose_machine_it_is,
    mounts_tell_no_path_of_the_host,
    links_lead_nowhere_outside,
    cells_share_nothing,
    a_crash_runs_nothing_on_the_host,
}

in_worlds! { [root, rootless, single_id]
    a_device_in_a_lent_directory_opens_nothing,
}

/// What became of each thing that was tried.
type Told = BTreeMap<String, String>;

fn told(text: &str) -> Told {
    fates(text).into_iter().collect()
}

/// A cell with the program that tries.
struct Tried<'a> {
    world: &'a World,
    program: PathBuf,
    cell: String,
}

impl<'a> Tried<'a> {
    fn new(world: &'a World) -> Self {
        let program = try_ways(world.home());
        let cell = world.text(["spawn"]).trim().to_owned();
        world.text(["cp", program.to_str().unwrap(), &format!("{cell}:/workspace/try_ways")]);
        Self { world, program, cell }
    }

    /// As whom commands can run in this cell.
    fn users(&self) -> &'static [&'static [&'static str]] {
        match self.world.kind().has_root_inside() {
            false => &[&[]],
            true => &[&[], &["--as-root"]],
        }
    }

    /// What is said inside, to each user that commands can run as.
    fn inside(&self, arguments: &[&str]) -> Vec<Told> {
        let run = |options: &&[&str]| {
            let run = self.world.hotcell(["run", "--cell", &self.cell]);
            let run = run.args(options.iter().copied()).args(["--", "/workspace/try_ways"]);
            told(&run.args(arguments.iter().copied()).run().succeeded().stdout())
        };
        self.users().iter().map(run).collect()
    }

    /// What is said outside, to whoever runs the tests: root where it can be.
    fn outside(&self, arguments: &[&str]) -> Told {
        let run = Command::new(&self.program)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        told(&String::from_utf8(run.stdout).unwrap())
    }

    /// Whatever is tried is refused inside and allowed outside.
    fn only_outside(&self, inside: &[&str], outside: &[&str]) {
        let control = self.outside(outside);
        for told in self.inside(inside) {
            assert!(!told.is_empty(), "nothing was tried");
            for (name, fate) in &told {
                assert!(fate.starts_with("refused"), "{name} in a cell: {fate}; {told:?}");
            }
            if is_root() {
                let shown: Vec<_> =
                    told.keys().filter(|name| control[*name] == "allowed").collect();
                assert_eq!(shown.len(), told.len(), "only {shown:?} of {control:?}");
            }
        }
    }

    /// What a script prints inside as each user.
    fn script(&self, script: &str) -> Vec<String> {
        let run = |options: &&[&str]| {
            let run = self.world.hotcell(["run", "--cell", &self.cell]);
            run.args(options.iter().copied()).arg(script).run().stdout()
        };
        self.users().iter().map(run).collect()
    }

    /// A process of ours in the cell, as the cell numbers it.
    fn files_server(&self) -> Option<String> {
        let find = "grep -lx hotcell-files /proc/[0-9]*/comm 2>/dev/null | tr -dc '0-9\\n'";
        self.script(find).first().map(|pid| pid.trim().to_owned()).filter(|pid| !pid.is_empty())
    }
}

/// A process whose every part whoever runs the tests may look at.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn our_own_processes_are_out_of_reach(world: &World) {
    let tried = Tried::new(world);
    let sleeper = Sleeper::start();
    tried.only_outside(&["process", "1"], &["process", &sleeper.pid()]);
    let server = tried.files_server().unwrap();
    tried.only_outside(&["process", &server], &["process", &sleeper.pid()]);
}

/// By the link that every process has to its own program, which between fork and execve is ours, as
/// CVE-2019-5736 of runc did it.
fn nothing_of_the_program_can_be_run_or_written(world: &World) {
    if world.text(["doctor", "--json"]).contains("no Landlock") {
        return; // That it runs there all the same is said in docs/isolation.md.
    }
    let tried = Tried::new(world);
    let cell = tried.cell.as_str();
    for options in tried.users() {
        let run = |argv: &[&str]| {
            let run = world.hotcell(["run", "--cell", cell]).args(options.iter().copied());
            run.arg("--").args(argv.iter().copied()).run()
        };
        for program in ["/proc/self/exe", "/proc/thread-self/exe", "/proc/1/exe"] {
            let refused = run(&[program, "--version"]);
            assert_ne!(refused.code(), 0, "{program}: {refused:?}");
            assert!(!refused.stdout().contains("hotcell"), "{program}: {refused:?}");
        }
        // The kernel looks an interpreter up for whoever calls execve.
        run(&[
            "sh",
            "-c",
            "printf '#!/proc/self/exe --version\\n' > /tmp/script; chmod +x /tmp/script",
        ])
        .succeeded();
        let refused = run(&["/tmp/script", "given"]);
        assert_ne!(refused.code(), 0, "{refused:?}");
        assert!(!refused.stdout().contains("hotcell"), "{refused:?}");
        run(&["rm", "-f", "/tmp/script"]).succeeded();
    }
    // The same outside: the program runs by this link.
    let shown = Command::new("sh")
        .args(["-c", "exec /proc/self/exe -c 'echo ran'"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "ran\n");
}

/// Neither descriptors nor a directory, also not by naming one of ours as where to begin, as
/// CVE-2024-21626 of runc did it.
fn an_exec_begins_with_nothing_of_ours(world: &World) {
    let tried = Tried::new(world);
    let look = "for fd in /proc/self/fd/*; do readlink $fd; done; echo; readlink /proc/self/cwd";
    for seen in tried.script(look) {
        let (open, cwd) = seen.split_once("\n\n").unwrap();
        assert_eq!(cwd.trim(), "/workspace");
        for target in open.lines() {
            let is_stream = target.starts_with("pipe:") || target == "/dev/null";
            // The list itself is open while it is read.
            assert!(is_stream || target.starts_with("/proc/"), "{seen}");
        }
    }
    let places = (3..30).map(|number| format!("/proc/self/fd/{number}"));
    for place in places.chain(["/proc/1/cwd", "/proc/1/root", "/proc/self/root"].map(String::from))
    {
        let refused =
            world.hotcell(["run", "--cell", &tried.cell, "--cwd", &place, "pwd -P"]).run();
        assert_ne!(refused.code(), 0, "{place}: {refused:?}");
        assert_eq!(refused.stdout(), "", "{place}: {refused:?}");
    }
    // The same outside: whoever has a directory open is led there.
    let script = "exec 7</usr; cd /proc/self/fd/7 && pwd -P";
    let shown = Command::new("sh").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "/usr\n");
}

/// What of `/proc`, `/sys` and `/dev` may be written to. Whatever hides a file takes what is written
/// to it and does nothing with it.
const HARMLESS: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "ptmx"];

fn nothing_of_the_kernel_can_be_written(world: &World) {
    let tried = Tried::new(world);
    for told in tried.inside(&["writable", "/proc", "/sys", "/dev"]) {
        for path in told.keys().map(Path::new) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_device = path.starts_with("/dev") && HARMLESS.contains(&name);
            // A character device in /proc is what hides something.
            assert!(is_device || is_hidden(&tried, path), "{} can be written", path.display());
        }
    }
    if is_root() {
        let control = tried.outside(&["writable", "/proc/sys/kernel", "/proc/sysrq-trigger"]);
        assert!(control.contains_key("/proc/sys/kernel/core_pattern"), "{control:?}");
        assert!(control.len() > 20, "{control:?}");
    }
}

fn is_hidden(tried: &Tried<'_>, path: &Path) -> bool {
    let look = format!("stat -c %t:%T {}", path.display());
    path.starts_with("/proc") && tried.script(&look)[0].trim() == "1:3"
}

fn what_the_kernel_knows_of_the_host_is_not_told(world: &World) {
    const TOLD: &[&str] = &[
        "/proc/kcore",
        "/proc/keys",
        "/proc/key-users",
        "/proc/kmsg",
        "/proc/kallsyms",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/latency_stats",
        "/proc/interrupts",
        "/proc/cmdline",
        "/proc/sysrq-trigger",
        "/proc/scsi",
        "/proc/acpi",
        "/proc/asound",
        "/proc/kpagecount",
        "/proc/slabinfo",
        "/proc/vmallocinfo",
        "/sys/firmware",
        "/sys/kernel",
        "/sys/fs",
        "/sys/class",
        "/sys/module",
        "/sys/block",
        "/sys/bus",
        "/sys/power",
        "/sys/devices/virtual",
        "/dev/mem",
        "/dev/kmem",
        "/dev/port",
        "/dev/kmsg",
        "/dev/fuse",
        "/dev/net/tun",
        "/dev/kvm",
        "/dev/vda",
        "/dev/sda",
        "/dev/console",
        "/dev/input",
        "/dev/vsock",
        "/dev/mapper/control",
    ];
    let tried = Tried::new(world);
    let arguments: Vec<&str> = std::iter::once("readable").chain(TOLD.iter().copied()).collect();
    for told in tried.inside(&arguments) {
        assert_eq!(told.len(), TOLD.len());
        for (path, fate) in told {
            assert!(fate.starts_with("refused"), "{path} in a cell: {fate}");
        }
    }
    if is_root() {
        let control = tried.outside(&arguments);
        let shown = control.values().filter(|fate| *fate == "allowed").count();
        // What is there differs from machine to machine.
        assert!(shown > 12, "{control:?}");
        for path in ["/proc/keys", "/proc/kallsyms", "/proc/cmdline", "/sys/kernel", "/sys/fs"] {
            assert_eq!(control[path], "allowed", "{path}");
        }
    }
}

fn no_control_group_is_there_to_be_written(world: &World) {
    let tried = Tried::new(world);
    let look = "find / -xdev -name 'cgroup.*' -o -name release_agent -o -name notify_on_release \
                2>/dev/null; ls -A /sys/fs 2>/dev/null; grep cgroup /proc/self/mountinfo";
    for seen in tried.script(look) {
        assert_eq!(seen, "", "nothing of control groups is in sight");
    }
    // Nor can they be brought into sight.
    for kind in ["cgroup", "cgroup2"] {
        for seen in tried.script(&format!("mount -t {kind} none /mnt 2>&1 && echo mounted; true")) {
            assert!(!seen.contains("mounted"), "{seen}");
        }
    }
    let outside = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(outside.contains(" - cgroup") || !is_root(), "{outside}");
}

fn devices_are_the_six_and_no_others_can_be_made(world: &World) {
    let tried = Tried::new(world);
    // Directories tell of files where something is mounted on them.
    let nodes = "find / -xdev \\( -type b -o -type c \\) 2>/dev/null; cd /dev; for name in *; do \
                 if test -b $name || test -c $name && ! test -L $name; then echo $name; fi; done";
    for seen in tried.script(nodes) {
        assert_eq!(seen, "full\nnull\nrandom\ntty\nurandom\nzero\n");
    }
    let places = ["/workspace", "/tmp", "/dev/shm", "/home/cell"];
    let scratch = world.home().join("scratch");
    fs::create_dir(&scratch).unwrap();
    fs::write(scratch.join("left-device"), "").unwrap();
    for place in places {
        tried.only_outside(&["nodes", place], &["nodes", scratch.to_str().unwrap()]);
    }
}

/// One that root of the host made there, for everybody to use.
fn a_device_in_a_lent_directory_opens_nothing(world: &World) {
    if !is_root() {
        return;
    }
    let project = world.home().join("lent");
    fs::create_dir(&project).unwrap();
    let device = project.join("left-device");
    let made = Command::new("mknod").arg(&device).args(["-m", "666", "c", "1", "3"]).status();
    assert!(made.unwrap().success());
    match world.user().uid {
        0 => std::os::unix::fs::chown(&project, Some(54_321), Some(54_321)).unwrap(),
        _ => world.own(&project),
    }
    for mode in ["rw", "cow", "ro"] {
        let shown = format!("{}:{mode}", project.display());
        let script = "test -c left-device && (echo x > left-device) 2>&1; cat left-device 2>&1";
        let seen = world.hotcell(["run", "--workspace", &shown, script]).run().stdout();
        assert_eq!(seen.matches("Permission denied").count(), 2, "{mode}: {seen}");
    }
    fs::write(&device, "outside it takes everything").unwrap();
}

fn ids_and_capabilities_stay_as_they_are(world: &World) {
    let tried = Tried::new(world);
    let control = tried.outside(&["ids"]);
    for told in tried.inside(&["ids"]) {
        assert!(told.len() >= 9, "{told:?}");
        for (name, fate) in told {
            assert!(fate.starts_with("refused"), "{name} in a cell: {fate}");
            // An ambient capability is asked for in a way that nobody may without having it.
            assert!(!is_root() || control[&name] == "allowed" || name == "ambient_capability");
        }
    }
}

fn no_program_gains_by_its_owner(world: &World) {
    let tried = Tried::new(world);
    let find = "find / -xdev -perm /6000 -type f 2>/dev/null | head -20; command -v su";
    let found = &tried.script(find)[0];
    // Programs of the host that would be root's outside are nobody's in a cell.
    for program in found.lines() {
        let run = format!("{program} -c 'id -u' </dev/null 2>/dev/null | grep -x 0; true");
        assert_eq!(tried.script(&run)[0], "", "{program} gained the rights of its owner");
    }
    if world.kind().has_root_inside() {
        let plant = "cp /usr/bin/id /tmp/id && chown 0:0 /tmp/id && \
                     chmod 6755 /tmp/id && stat -c %a /tmp/id";
        let planted =
            world.hotcell(["run", "--cell", &tried.cell, "--as-root", plant]).run().succeeded();
        assert_eq!(planted.stdout(), "6755\n");
        let seen = world.text(["run", "--cell", &tried.cell, "/tmp/id -u; /tmp/id -g"]);
        assert_eq!(seen, "1000\n1000\n");
    }
    if is_root() {
        // The same outside, for another user.
        let planted = world.home().join("id");
        fs::copy("/usr/bin/id", &planted).unwrap();
        std::os::unix::fs::chown(&planted, Some(0), Some(0)).unwrap();
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o6755)).unwrap();
        let seen = Command::new("setpriv")
            .args(["--reuid", "54321", "--regid", "54321", "--clear-groups"])
            .arg(&planted)
            .arg("-u")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&seen.stdout), "0\n", "{seen:?}");
    }
}

fn namespaces_and_roots_stay_as_they_are(world: &World) {
    let tried = Tried::new(world);
    tried.only_outside(&["namespaces"], &["namespaces"]);
}

fn abstract_sockets_of_the_host_are_not_there(world: &World) {
    let tried = Tried::new(world);
    let name = unique("hotcell-abstract-");
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    tried.only_outside(&["sockets", &name], &["sockets", &name]);
    for seen in tried.script("tail -n +2 /proc/net/unix | grep -c @ ; true") {
        assert_eq!(seen.trim(), "0", "an abstract socket is in sight");
    }
}

fn nothing_tells_whose_machine_it_is(world: &World) {
    let secret = unique("of-the-host-");
    let spawn = world.hotcell(["spawn", "plain"]).env("SECRET_OF_THE_HOST", &secret);
    spawn.run().succeeded();
    let look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/task/*/environ; env; \
                cat /etc/machine-id /var/lib/dbus/machine-id /etc/hostname /etc/hosts /etc/shadow \
                /etc/gshadow /etc/sudoers /etc/fstab /etc/crypttab /etc/krb5.keytab /etc/ssh/*; \
                hostname; find / -xdev -type s; ls -A /run /root /srv /opt /mnt /media /boot; \
                cat /proc/self/cgroup /proc/self/mountinfo /proc/self/mountstats";
    let script = format!("{{ {look}; }} 2>/dev/null; true");
    let run = world.hotcell(["run", "--cell", "plain"]).env("SECRET_OF_THE_HOST", &secret);
    let seen = run.arg(&script).run().succeeded().stdout();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let own = [secret.clone(), read("/etc/machine-id"), world.cell_id("plain")];
    for told in own.iter().filter(|told| !told.is_empty()) {
        assert!(!seen.contains(told.as_str()), "{told} is in {seen}");
    }
    assert!(!seen.lines().any(|line| line == host), "{host} is in {seen}");
    assert!(!seen.lines().any(|line| line.starts_with("root:")), "/etc/shadow is in {seen}");
    assert!(seen.lines().any(|line| line == "cell"), "{seen}");
    // The same outside of a cell.
    let control = world.other("sh", ["-c", &script]).env("SECRET_OF_THE_HOST", &secret).run();
    assert!(control.stdout().contains(&secret) && control.stdout().contains(&host));
}

/// What is lent is the one thing whose place is told: the kernel has its path in `mountinfo`.
fn mounts_tell_no_path_of_the_host(world: &World) {
    let tried = Tried::new(world);
    let state = world.state_dir().to_str().unwrap().to_owned();
    let home = world.home().file_name().unwrap().to_str().unwrap().to_owned();
    let look = "cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats /proc/1/mountinfo \
                /proc/swaps /proc/self/maps /proc/locks 2>/dev/null; true";
    for seen in tried.script(look) {
        assert!(seen.contains(" /proc "), "{seen}");
        for path in [state.as_str(), home.as_str(), "/native/", "hotcell"] {
            assert!(!seen.contains(path), "{path} is told: {seen}");
        }
    }
    // It would tell a path that is mounted.
    if world.kind() == Kind::ContainerRoot {
        return;
    }
    let project = world.home().join("lent");
    fs::create_dir(&project).unwrap();
    match world.user().uid {
        0 => std::os::unix::fs::chown(&project, Some(54_321), Some(54_321)).unwrap(),
        _ => world.own(&project),
    }
    let shown = format!("{}:rw", project.display());
    let seen = world.text(["run", "--workspace", &shown, "cat /proc/self/mountinfo"]);
    assert!(seen.contains("/lent /workspace"), "{seen}");
}

fn links_lead_nowhere_outside(world: &World) {
    let secret = world.home().join("secret-of-the-host");
    fs::write(&secret, "hush").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let tried = Tried::new(world);
    let up = "../".repeat(30);
    let path = secret.to_str().unwrap().trim_start_matches('/');
    let ways = [
        format!("/{path}"),
        format!("{up}{path}"),
        format!("/proc/self/root/{path}"),
        format!("/proc/self/root/{up}{path}"),
        format!("/proc/self/cwd/{up}{path}"),
        format!("/proc/1/root/{path}"),
        format!("/proc/1/cwd/{path}"),
        format!("/proc/self/task/1/root/{path}"),
        format!("/dev/fd/0/{path}"),
    ];
    for (number, way) in ways.iter().enumerate() {
        for seen in
            tried.script(&format!("cat {way} 2>/dev/null; ln -sfn {way} link{number}; true"))
        {
            assert_eq!(seen, "", "{way}");
        }
        // Nor do they lead whoever serves files.
        let read = world.hotcell(["cat", &format!("{}:link{number}", tried.cell)]).run();
        assert_ne!(read.code(), 0, "{way}: {read:?}");
        assert!(!read.stdout().contains("hush"), "{way}: {read:?}");
    }
    let control = world.other("cat", [&format!("/proc/self/root/{path}")]).run();
    assert_eq!(control.stdout(), "hush");
}

fn cells_share_nothing(world: &World) {
    world.text(["spawn", "one"]);
    world.text(["spawn", "other"]);
    let name = unique("shared-");
    let make = format!(
        "import ctypes, socket, time, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget(0x1234, 4096, 0o1666) >= 0 and libc.msgget(0x1234, 0o1666) >= 0
open('/dev/shm/{name}', 'w').write('x'); open('/tmp/{name}', 'w').write('x')
open('/workspace/{name}', 'w').write('x'); os.mkfifo('/home/cell/{name}')
s = socket.socket(socket.AF_UNIX); s.bind('\\0{name}'); s.listen()
t = socket.create_server(('127.0.0.1', 7777))
print('made', flush=True); time.sleep(1000)"
    );
    let look = format!(
        "import ctypes, socket, os
libc = ctypes.CDLL(None, use_errno=True)
def connects(family, place):
    try: socket.socket(family).connect(place); return True
    except OSError: return False
paths = ['/dev/shm/{name}', '/tmp/{name}', '/workspace/{name}', '/home/cell/{name}']
print(libc.shmget(0x1234, 4096, 0) >= 0, libc.msgget(0x1234, 0) >= 0, *map(os.path.exists, paths),
      connects(socket.AF_UNIX, '\\0{name}'), connects(socket.AF_INET, ('127.0.0.1', 7777)),
      any('{name}' in open('/proc/%s/cmdline' % p).read() for p in os.listdir('/proc') if p.isdigit()))"
    );
    let run = |cell: &str, script: &str| {
        world.hotcell(["run", "--cell", cell, "--", "python3", "-c", script]).run().succeeded()
    };
    let made = world.hotcell(["run", "-d", "--cell", "one", "--", "python3", "-c", &make]).run();
    let exec = made.succeeded().stdout().trim().to_owned();
    crate::world::eventually("it is made", || world.text(["logs", &exec]).contains("made"));
    let (own, others) = (run("one", &look).stdout(), run("other", &look).stdout());
    // The command that looks names it as well.
    assert_eq!(own.trim(), [&"True"; 9].map(|it| *it).join(" "), "within one cell it is all there");
    assert_eq!(others.trim(), format!("{} True", ["False"; 8].join(" ")));
}

/// A kernel that hands core dumps to a program runs that program outside, as root, whatever the
/// limit of their size is: only a limit of one byte tells it not to.
fn a_crash_runs_nothing_on_the_host(world: &World) {
    let tried = Tried::new(world);
    let look = "ulimit -c 0 2>/dev/null; ulimit -c unlimited 2>/dev/null; \
                sed -n 's/^Max core file size *//p' /proc/self/limits";
    for seen in tried.script(look) {
        assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["1", "1", "bytes"]);
    }
    // Outside it is whatever whoever sets it says.
    let script = "ulimit -c 0; sed -n 's/^Max core file size *//p' /proc/self/limits";
    let control = world.other("sh", ["-c", script]).run().stdout();
    assert_eq!(control.split_whitespace().next(), Some("0"), "{control}");
}
