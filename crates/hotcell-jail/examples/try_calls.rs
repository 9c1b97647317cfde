//! Makes system calls that nothing in a cell may make, and some that everything may, and prints what
//! the kernel says to each. The end-to-end tests run it inside and outside of cells.
//!
//! Every argument is one that a kernel which carries the call out finds fault with, or that changes
//! nothing: `EFAULT`, `EINVAL` and `EBADF` mean that the call was let through.
#![expect(unsafe_code, reason = "calls of the kernel by their numbers")]
#![expect(clippy::print_stdout, reason = "what it finds is printed")]

use libc::{c_int, c_long};

/// No process has anything there.
const NOWHERE: c_long = 1;
const NO_FD: c_long = -1;

/// The fate of one call.
enum Fate {
    /// It was carried out, or its arguments were found fault with.
    Reached,
    /// This error.
    Failed(c_int),
    /// The process that made it was ended by this signal.
    Ended(c_int),
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let tries: Vec<(&str, Fate)> = match arguments.next().as_deref() {
        Some("wanted") => wanted(),
        Some("received") => return open_received(&arguments.next().unwrap_or_default()),
        Some(_) | None => unwanted(),
    };
    for (name, fate) in tries {
        match fate {
            Fate::Reached => println!("{name} allowed"),
            Fate::Failed(libc::EPERM) => println!("{name} refused EPERM"),
            Fate::Failed(libc::ENOSYS) => println!("{name} absent ENOSYS"),
            Fate::Failed(libc::EAFNOSUPPORT) => println!("{name} absent EAFNOSUPPORT"),
            Fate::Failed(libc::EPROTONOSUPPORT) => println!("{name} absent EPROTONOSUPPORT"),
            // The kernel's own words on arguments.
            Fate::Failed(_) => println!("{name} allowed"),
            Fate::Ended(libc::SIGSYS) => println!("{name} refused SIGSYS"),
            Fate::Ended(signal) => println!("{name} ended {signal}"),
        }
    }
}

fn call(number: c_long, arguments: [c_long; 5]) -> Fate {
    let [first, second, third, fourth, fifth] = arguments;
    // SAFETY: no argument is the address of anything.
    match unsafe { libc::syscall(number, first, second, third, fourth, fifth) } {
        -1 => Fate::Failed(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        _ => Fate::Reached,
    }
}

/// The same in a process of its own, for what would change this one.
fn apart(attempt: impl FnOnce() -> Fate) -> Fate {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            let code = match attempt() {
                Fate::Reached => 0,
                Fate::Failed(errno) => errno,
                Fate::Ended(_) => 255,
            };
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer is valid for the call.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            match (libc::WIFSIGNALED(status), libc::WEXITSTATUS(status)) {
                (true, _) => Fate::Ended(libc::WTERMSIG(status)),
                (false, 0) => Fate::Reached,
                (false, errno) => Fate::Failed(errno),
            }
        }
    }
}

fn unwanted() -> Vec<(&'static str, Fate)> {
    let of_signal = c_long::from(libc::SIGCHLD);
    let new_user = c_long::from(libc::CLONE_NEWUSER);
    let mut tries = vec![
        ("mount", call(libc::SYS_mount, [NOWHERE; 5])),
        ("umount2", call(libc::SYS_umount2, [NOWHERE, 0, 0, 0, 0])),
        ("pivot_root", call(libc::SYS_pivot_root, [NOWHERE; 5])),
        ("chroot", call(libc::SYS_chroot, [NOWHERE; 5])),
        ("open_tree", call(libc::SYS_open_tree, [NO_FD, NOWHERE, 0, 0, 0])),
        ("move_mount", call(libc::SYS_move_mount, [NO_FD, NOWHERE, NO_FD, NOWHERE, 0])),
        ("fsopen", call(libc::SYS_fsopen, [NOWHERE, 0, 0, 0, 0])),
        ("fspick", call(libc::SYS_fspick, [NO_FD, NOWHERE, 0, 0, 0])),
        ("fsmount", call(libc::SYS_fsmount, [NO_FD, 0, 0, 0, 0])),
        ("mount_setattr", call(libc::SYS_mount_setattr, [NO_FD, NOWHERE, 0, 0, 0])),
        ("sethostname", call(libc::SYS_sethostname, [NOWHERE, -1, 0, 0, 0])),
        ("setns", call(libc::SYS_setns, [NO_FD, 0, 0, 0, 0])),
        ("keyctl", call(libc::SYS_keyctl, [0, -3, 0, 0, 0])),
        ("add_key", call(libc::SYS_add_key, [NOWHERE; 5])),
        ("request_key", call(libc::SYS_request_key, [NOWHERE; 5])),
        ("perf_event_open", call(libc::SYS_perf_event_open, [NOWHERE, 0, 0, NO_FD, 0])),
        ("userfaultfd", call(libc::SYS_userfaultfd, [1, 0, 0, 0, 0])),
        ("io_uring_setup", call(libc::SYS_io_uring_setup, [1, NOWHERE, 0, 0, 0])),
        ("io_uring_register", call(libc::SYS_io_uring_register, [NO_FD, 0, 0, 0, 0])),
        ("process_vm_readv", call(libc::SYS_process_vm_readv, [own_pid(), 0, 0, 0, 0])),
        ("process_vm_writev", call(libc::SYS_process_vm_writev, [own_pid(), 0, 0, 0, 0])),
        ("kcmp", call(libc::SYS_kcmp, [own_pid(), own_pid(), 1, 0, 0])),
        ("pidfd_getfd", call(libc::SYS_pidfd_getfd, [NO_FD, 0, 0, 0, 0])),
        ("process_madvise", call(libc::SYS_process_madvise, [NO_FD, 0, 0, 0, 0])),
        ("process_mrelease", call(libc::SYS_process_mrelease, [NO_FD, 0, 0, 0, 0])),
        ("move_pages", call(libc::SYS_move_pages, [own_pid(), 0, 0, 0, 0])),
        ("fsconfig", call(libc::SYS_fsconfig, [NO_FD, 99, 0, 0, 0])),
        ("memfd_secret", call(libc::SYS_memfd_secret, [-1, 0, 0, 0, 0])),
        ("fanotify_init", call(libc::SYS_fanotify_init, [0x200, 0, 0, 0, 0])),
        ("open_by_handle_at", call(libc::SYS_open_by_handle_at, [NO_FD, NOWHERE, 0, 0, 0])),
        ("quotactl", call(libc::SYS_quotactl, [0xff, 0, 0, 0, 0])),
        ("clock_settime", call(libc::SYS_clock_settime, [0, NOWHERE, 0, 0, 0])),
        ("adjtimex", call(libc::SYS_adjtimex, [NOWHERE; 5])),
        ("mbind", call(libc::SYS_mbind, [0, 0, -1, 0, 0])),
        ("clone3", call(libc::SYS_clone3, [NOWHERE, 64, 0, 0, 0])),
        ("clone_namespace", apart(|| cloned(of_signal | new_user))),
        ("unshare_user", apart(|| call(libc::SYS_unshare, [new_user, 0, 0, 0, 0]))),
        ("terminal_input", call(libc::SYS_ioctl, [NO_FD, 0x5412, NOWHERE, 0, 0])),
        ("terminal_input_high", call(libc::SYS_ioctl, [NO_FD, 0x5412 | 1 << 32, NOWHERE, 0, 0])),
        ("terminal_linux", call(libc::SYS_ioctl, [NO_FD, 0x541c, NOWHERE, 0, 0])),
        ("terminal_linux_high", call(libc::SYS_ioctl, [NO_FD, 0x541c | 7 << 40, NOWHERE, 0, 0])),
        ("terminal_console", call(libc::SYS_ioctl, [NO_FD, 0x541d, 0, 0, 0])),
        ("terminal_discipline", call(libc::SYS_ioctl, [NO_FD, 0x5423, NOWHERE, 0, 0])),
        ("personality", apart(|| call(libc::SYS_personality, [0x040_0000, 0, 0, 0, 0]))),
        ("memory_map", call(libc::SYS_prctl, [35, 0, 0, 0, 1])),
        ("device", call(libc::SYS_mknodat, [NO_FD, NOWHERE, 0o020_666, 0x103, 0])),
        ("limits_of_another", limits_of_another()),
        ("raw_socket", socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
        ("packet_socket", socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)),
        ("vsock", socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
        ("crypto_socket", socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
        ("bluetooth", socket(libc::AF_BLUETOOTH, libc::SOCK_STREAM, 0)),
        ("sctp", socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP)),
        ("netfilter", socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)),
        ("device_events", socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT)),
        ("generic_netlink", socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC)),
        // Only root of the host is let through by the kernel itself.
        ("bpf", call(libc::SYS_bpf, [0, NOWHERE, 0, 0, 0])),
        ("swapon", call(libc::SYS_swapon, [NOWHERE, 0, 0, 0, 0])),
        ("reboot", call(libc::SYS_reboot, [0; 5])),
        ("init_module", call(libc::SYS_init_module, [NOWHERE, 0, NOWHERE, 0, 0])),
        ("finit_module", call(libc::SYS_finit_module, [NO_FD, NOWHERE, 0, 0, 0])),
        ("delete_module", call(libc::SYS_delete_module, [NOWHERE, 0, 0, 0, 0])),
        ("kexec_load", call(libc::SYS_kexec_load, [0, 0xffff, 0, 0, 0])),
        ("acct", call(libc::SYS_acct, [NOWHERE, 0, 0, 0, 0])),
        ("syslog", call(libc::SYS_syslog, [10, 0, 0, 0, 0])),
    ];
    #[cfg(target_arch = "x86_64")]
    tries.extend([
        ("iopl", call(libc::SYS_iopl, [4, 0, 0, 0, 0])),
        ("modify_ldt", call(libc::SYS_modify_ldt, [0, NOWHERE, 0, 0, 0])),
        ("ioperm", call(libc::SYS_ioperm, [0, 0, 0, 0, 0])),
        ("32_bit_entry", apart(entered_as_32_bit)),
        // `getpid` by the entry point of programs with short pointers.
        ("x32_entry", apart(|| call(0x4000_0000 | libc::SYS_getpid, [0; 5]))),
    ]);
    tries
}

fn wanted() -> Vec<(&'static str, Fate)> {
    vec![
        ("unix_socket", socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)),
        ("tcp", socket(libc::AF_INET, libc::SOCK_STREAM, 0)),
        ("udp_v6", socket(libc::AF_INET6, libc::SOCK_DGRAM, 0)),
        ("routes", socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)),
        ("fork", apart(|| cloned(c_long::from(libc::SIGCHLD)))),
        ("name", call(libc::SYS_prctl, [libc::PR_SET_NAME.into(), NOWHERE, 0, 0, 0])),
        ("own_limits", call(libc::SYS_prlimit64, [0, 7, 0, 0, 0])),
        ("limits_seen", call(libc::SYS_prlimit64, [own_pid(), 7, 0, 0, 0])),
        ("personality_seen", call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0])),
        ("pipe", call(libc::SYS_mknodat, [NO_FD, NOWHERE, 0o010_666, 0, 0])),
        ("traced", apart(|| call(libc::SYS_ptrace, [0; 5]))),
        ("seccomp", call(libc::SYS_seccomp, [1, 0, NOWHERE, 0, 0])),
        ("landlock", call(libc::SYS_landlock_create_ruleset, [0, 0, 1, 0, 0])),
        ("memfd", call(libc::SYS_memfd_create, [NOWHERE, 0, 0, 0, 0])),
        ("membarrier", call(libc::SYS_membarrier, [0; 5])),
        ("inotify", call(libc::SYS_inotify_init1, [0; 5])),
        ("pidfd", call(libc::SYS_pidfd_open, [own_pid(), 0, 0, 0, 0])),
        ("shared_files", apart(|| call(libc::SYS_unshare, [libc::CLONE_FS.into(), 0, 0, 0, 0]))),
        ("window_size", call(libc::SYS_ioctl, [NO_FD, 0x5413, NOWHERE, 0, 0])),
    ]
}

/// Takes a directory from whoever listens at a socket, and reads the file `secret` in it.
fn open_received(socket: &str) {
    let secret = std::os::unix::net::UnixStream::connect(socket).and_then(|stream| {
        let (_, directories) = hotcell_jail::receive_fds(&stream, &mut [0])?;
        let directory = directories.first().ok_or(std::io::ErrorKind::NotFound)?;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, "secret", flags, rustix::fs::Mode::empty())?;
        std::io::read_to_string(std::fs::File::from(file))
    });
    match secret {
        Ok(secret) => println!("read {secret}"),
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => println!("refused EACCES"),
        Err(error) => println!("failed: {error}"),
    }
}

fn own_pid() -> c_long {
    std::process::id().into()
}

fn socket(family: c_int, kind: c_int, protocol: c_int) -> Fate {
    call(libc::SYS_socket, [family.into(), kind.into(), protocol.into(), 0, 0])
}

/// A fork by the older call; the child ends at once.
fn cloned(flags: c_long) -> Fate {
    // SAFETY: without a stack this is a fork, in a process of one thread.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        -1 => Fate::Failed(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        // SAFETY: ends the process.
        0 => unsafe { libc::_exit(0) },
        _ => Fate::Reached,
    }
}

/// Sets the limits of a child to what they are.
fn limits_of_another() -> Fate {
    // SAFETY: this process has one thread; the child waits for its end, and the pointers are valid.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::pause();
            libc::_exit(0);
        }
        let mut limits: libc::rlimit64 = std::mem::zeroed();
        libc::getrlimit64(libc::RLIMIT_NOFILE, &raw mut limits);
        let set = libc::syscall(
            libc::SYS_prlimit64,
            child,
            libc::RLIMIT_NOFILE,
            &raw const limits,
            std::ptr::null_mut::<libc::rlimit64>(),
        );
        let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
        if set == 0 { Fate::Reached } else { Fate::Failed(error) }
    }
}

/// `getpid` by the entry point of 32-bit programs.
#[cfg(target_arch = "x86_64")]
fn entered_as_32_bit() -> Fate {
    let result: i32;
    // SAFETY: the call changes nothing; a kernel without the entry point sends a signal.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20 => result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    if result > 0 { Fate::Reached } else { Fate::Failed(-result) }
}
