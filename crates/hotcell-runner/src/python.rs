//! The runner for Python: its text, its command line, its descriptors.

use crate::order::Warmth;

/// The descriptor of the socket for tool calls, in a cold run.
pub const CALLS: i32 = 3;
/// The descriptor of the socket to the supervisor, in a zygote.
pub const CONTROL: i32 = 3;
/// The descriptor that the report is written to, in a cold run.
pub const REPORT: i32 = 4;
/// The descriptor of the order.
pub const ORDER: i32 = 5;
/// The descriptor of the runner's own text.
pub const SOURCE: i32 = 6;
/// The descriptor of the socket on which a session is told of its next runs, where it starts cold.
pub const TURNS: i32 = 7;

/// What a zygote says when it can fork, and a child when it can run.
pub const READY: &[u8] = b"ready";
/// The message that makes a zygote fork.
pub const FORK: &[u8] = b"fork";
/// The message that makes a child run.
pub const RUN: &[u8] = b"run";

/// What a process of a session says when a run is over and it can take the next: this, the run's id
/// and the exit code.
pub const DONE: &str = "done";

const BOOT: &str = r#"exec(compile(open(6,"rb").read(),"<hotcell>","exec"))"#;

/// Parts are compiled by the runner when they are first needed, so that a cold start is short.
macro_rules! part {
    ($name:literal) => {
        concat!(
            "PARTS['",
            $name,
            "'] = r'''",
            include_str!(concat!("python/", $name, ".py")),
            "'''\n"
        )
    };
}

const TEXT: &str = concat!(
    "PARTS = {}\n",
    part!("artifacts"),
    part!("failure"),
    part!("preview"),
    part!("tools"),
    part!("turns"),
    part!("values"),
    part!("zygote"),
    include_str!("python/main.py"),
);

/// The text of the runner, for [`SOURCE`].
#[must_use]
pub fn source() -> &'static str {
    TEXT
}

/// What follows the path of the interpreter on its command line.
#[must_use]
pub fn arguments(warmth: Warmth) -> [&'static str; 6] {
    let how = match warmth {
        Warmth::Cold => "run",
        Warmth::Zygote => "zygote",
    };
    ["-I", "-X", "utf8", "-c", BOOT, how]
}
