//! System calls without the C library, which keeps `errno` in memory of its own.

use rustix::io::Errno;

/// Makes a system call with up to four arguments.
///
/// # Safety
/// As the call demands of its arguments.
pub(crate) unsafe fn call(number: i64, arguments: [usize; 4]) -> Result<usize, Errno> {
    let [first, second, third, fourth] = arguments;
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the registers of the kernel's calling convention; the caller vouches for the rest.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first as isize => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            options(nostack),
        );
    }
    match usize::try_from(result) {
        Ok(value) => Ok(value),
        Err(_) => Err(Errno::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EINVAL))),
    }
}
