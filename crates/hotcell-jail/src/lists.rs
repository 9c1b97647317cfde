//! What of the kernel's file systems a cell sees.

/// Devices that every program may expect and none can do harm with.
pub(crate) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Names in `/dev` that lead elsewhere.
pub(crate) const DEVICE_LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Parts of `/proc` that can be read but not written.
pub(crate) const PROC_READ_ONLY: [&str; 6] =
    ["bus", "fs", "irq", "pressure", "sys", "sysrq-trigger"];

/// Files of `/proc` that tell of the host or reach into it.
pub(crate) const PROC_HIDDEN_FILES: [&str; 10] = [
    "cmdline",
    "interrupts",
    "kallsyms",
    "kcore",
    "keys",
    "key-users",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "timer_list",
];

/// Directories of `/proc` that tell of the host or reach into it.
pub(crate) const PROC_HIDDEN_DIRECTORIES: [&str; 3] = ["acpi", "asound", "scsi"];

/// The one part of `/sys` that programs need: how many CPUs of which kind.
pub(crate) const SYS_VISIBLE: &str = "devices/system/cpu";

/// What is mounted below `/` besides the layers: it is the cell's own and begins empty.
pub(crate) const FRESH: [&str; 4] = ["dev", "proc", "sys", "tmp"];
