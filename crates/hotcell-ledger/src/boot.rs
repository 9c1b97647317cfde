//! Which start of the machine this is.

use std::fs;

/// Names one start of the machine; zeros where the kernel does not say.
pub(crate) type Boot = [u8; 16];

/// This one.
pub(crate) fn this_boot() -> Boot {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let mut boot = Boot::default();
    for (byte, at) in boot.iter_mut().zip((0..digits.len()).step_by(2)) {
        let pair = digits.get(at..at + 2).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
    }
    boot
}
