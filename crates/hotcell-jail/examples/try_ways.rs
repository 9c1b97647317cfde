//! Tries ways out of a cell that were found elsewhere, and prints what the kernel says to each. The
//! end-to-end tests run it inside and outside of cells.
//!
//! Nothing is changed by what succeeds: files are opened and not written to, ids are changed in a
//! process that ends, and what is made is removed.
#![expect(unsafe_code, reason = "calls of the kernel by their numbers")]
#![expect(clippy::print_stdout, reason = "what it finds is printed")]

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use libc::{c_int, c_long};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let way = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    match way.as_str() {
        "process" => rest.iter().for_each(|pid| process(pid)),
        "writable" => rest.iter().for_each(|path| writable(Path::new(path))),
        "readable" => rest.iter().for_each(|path| readable(path)),
        "nodes" => rest.iter().for_each(|directory| nodes(Path::new(directory))),
        "ids" => ids(),
        "namespaces" => namespaces(),
        "sockets" => rest.iter().for_each(|name| abstract_socket(name)),
        other => println!("{other} unknown"),
    }
}

fn tell<T>(name: &str, tried: io::Result<T>) {
    match tried {
        Ok(_) => println!("{name} allowed"),
        // Whoever is told that it is in use was let through to it.
        Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => println!("{name} allowed"),
        Err(error) => println!("{name} refused {error}"),
    }
}

fn result(value: c_long) -> io::Result<c_long> {
    if value == -1 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Tries in a process of its own, for what would change this one.
fn apart(attempt: impl FnOnce() -> io::Result<c_long>) -> io::Result<()> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            let code = attempt().map_or_else(|error| error.raw_os_error().unwrap_or(255), |_| 0);
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer is valid for the call.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            match libc::WEXITSTATUS(status) {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }
}

/// What a process has that is nobody else's business, and ways to get hold of it.
fn process(pid: &str) {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    for name in ["environ", "mem", "maps", "smaps", "auxv", "syscall"] {
        let read = File::open(directory.join(name)).and_then(|mut file| file.read(&mut [0; 8]));
        // The first page of memory is nobody's: an error that comes after the permission.
        tell(name, read.or_else(|error| is_other_than_refusal(error, libc::EIO)));
    }
    for name in ["fd", "map_files", "root/", "cwd/"] {
        tell(name, fs::read_dir(directory.join(name)));
    }
    for name in ["exe", "root", "cwd", "ns/user", "ns/mnt"] {
        tell(&format!("link_{name}"), fs::read_link(directory.join(name)));
    }
    let open = |options: &mut OpenOptions| options.open(directory.join("exe"));
    tell("exe_read", open(OpenOptions::new().read(true)));
    tell("exe_written", open(OpenOptions::new().write(true)));
    tell("mem_written", OpenOptions::new().write(true).open(directory.join("mem")));
    let path = CString::new(directory.join("exe").into_os_string().into_encoded_bytes());
    let argv = [c"exe".as_ptr(), c"--version".as_ptr(), std::ptr::null()];
    tell(
        "exe_run",
        apart(|| {
            silence();
            let path = path.map_err(io::Error::other)?;
            // SAFETY: strings and an array that end with a null.
            result(unsafe { libc::execv(path.as_ptr(), argv.as_ptr()) }.into())
        }),
    );
    let number: c_int = pid.parse().unwrap_or(-1);
    for (name, request) in [("traced", libc::PTRACE_ATTACH), ("traced_quietly", libc::PTRACE_SEIZE)]
    {
        // The kernel lets go of it when the tracer ends.
        // SAFETY: these requests read no memory of this process.
        tell(name, apart(|| result(unsafe { libc::ptrace(request, number, 0, 0) })));
    }
}

/// What a command prints is of no interest.
fn silence() {
    // SAFETY: changes this process's own streams, in a process that runs another program.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        libc::dup2(null, 1);
        libc::dup2(null, 2);
    }
}

fn is_other_than_refusal(error: io::Error, harmless: c_int) -> io::Result<usize> {
    if error.raw_os_error() == Some(harmless) { Ok(0) } else { Err(error) }
}

/// Prints every file below that can be opened for writing, but for what belongs to processes.
fn writable(path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if found.is_dir() {
        let is_process = path.parent() == Some(Path::new("/proc"))
            && name.bytes().all(|byte| byte.is_ascii_digit());
        let entries = if is_process { None } else { fs::read_dir(path).ok() };
        entries.into_iter().flatten().flatten().for_each(|entry| writable(&entry.path()));
    } else if !found.is_symlink() {
        let opened = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
        if opened.is_ok() {
            println!("{} allowed", path.display());
        }
    }
}

/// Prints whether something can be read there: a file with content, or a directory with entries.
fn readable(path: &str) {
    let something = || -> io::Result<()> {
        let found = fs::metadata(path)?;
        let is_empty = if found.is_dir() {
            fs::read_dir(path)?.next().is_none()
        } else {
            let mut file =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            file.read(&mut [0; 64]).or_else(|error| is_other_than_refusal(error, libc::EAGAIN))?
                == 0
        };
        if is_empty { Err(io::Error::other("empty")) } else { Ok(()) }
    };
    tell(path, something());
}

/// Makes devices in a directory, which are what they are wherever they lie, and opens what is there.
fn nodes(directory: &Path) {
    let kinds = [
        ("null", libc::S_IFCHR, (1, 3)),
        ("memory", libc::S_IFCHR, (1, 1)),
        ("disk", libc::S_IFBLK, (8, 0)),
        ("fuse", libc::S_IFCHR, (10, 229)),
        // What an overlay takes for a file that was removed.
        ("whiteout", libc::S_IFCHR, (0, 0)),
    ];
    for (name, kind, (major, minor)) in kinds {
        let path = directory.join(format!("node-{name}"));
        let text = CString::new(path.clone().into_os_string().into_encoded_bytes());
        let made = text.map_err(io::Error::other).and_then(|text| {
            let device = libc::makedev(major, minor);
            // SAFETY: the path ends with a null.
            result(unsafe { libc::mknod(text.as_ptr(), kind | 0o666, device) }.into())
        });
        tell(name, made);
        let _ = fs::remove_file(path);
    }
    let left = directory.join("left-device");
    tell("left_device", OpenOptions::new().write(true).open(left));
}

/// Takes on ids and capabilities that this process does not have.
fn ids() {
    // SAFETY: these calls read nothing of this process but what is given, and it ends after them.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let another = |id: u32| if id == 0 { 1000 } else { 0 };
    let (uid, gid) = (another(uid), another(gid));
    // SAFETY: as above.
    unsafe {
        tell("setuid", apart(|| result(libc::setuid(uid).into())));
        tell("setgid", apart(|| result(libc::setgid(gid).into())));
        tell("setresuid", apart(|| result(libc::setresuid(uid, uid, uid).into())));
        tell("setresgid", apart(|| result(libc::setresgid(gid, gid, gid).into())));
        tell("setgroups", apart(|| result(libc::setgroups(1, &raw const gid).into())));
        tell("no_groups", apart(|| result(libc::setgroups(0, std::ptr::null()).into())));
        let raise = || result(libc::prctl(libc::PR_CAP_AMBIENT, 2, 0, 0, 0).into());
        tell("ambient_capability", apart(raise));
        // Version 3, this process; every capability.
        let head: [u32; 2] = [0x2008_0522, 0];
        let sets: [u32; 6] = [0x3f, 0x3f, 0x3f, 0, 0, 0];
        let call = || result(libc::syscall(libc::SYS_capset, head.as_ptr(), sets.as_ptr()));
        tell("capset", apart(call));
        tell(
            "securebits",
            apart(|| result(libc::prctl(libc::PR_SET_SECUREBITS, 0, 0, 0, 0).into())),
        );
        tell("nice", apart(|| result(libc::setpriority(libc::PRIO_PROCESS, 0, -20).into())));
    }
}

/// Enters namespaces by the ways in that everybody has to the own ones, and makes a new root.
fn namespaces() {
    for name in ["mnt", "user", "net", "pid", "uts", "ipc", "cgroup"] {
        let entered = File::open(format!("/proc/self/ns/{name}")).and_then(|namespace| {
            use std::os::fd::AsRawFd;
            // Nobody enters the user namespace that he is in.
            let again = |error: io::Error| match error.raw_os_error() {
                Some(libc::EINVAL) => Ok(0),
                _ => Err(error),
            };
            // SAFETY: takes a descriptor and flags.
            let enter = || result(unsafe { libc::setns(namespace.as_raw_fd(), 0) }.into());
            apart(|| enter().or_else(again))
        });
        tell(&format!("setns_{name}"), entered);
    }
    // SAFETY: each string ends with a null.
    unsafe {
        tell("chroot", apart(|| result(libc::chroot(c"/".as_ptr()).into())));
        let flags = libc::MS_BIND;
        let (here, none) = (c"/tmp".as_ptr(), std::ptr::null());
        let mount = || result(libc::mount(here, here, none, flags, none.cast()).into());
        tell(
            "bind_mount",
            apart(|| result(libc::unshare(libc::CLONE_NEWNS).into()).and_then(|_| mount())),
        );
    }
}

/// Connects to an abstract socket.
fn abstract_socket(name: &str) {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
    let connected = address.and_then(|it| std::os::unix::net::UnixStream::connect_addr(&it));
    tell(name, connected);
}
