//! Signals that reach this process, except those it was started to ignore.

use std::future::pending;
use std::io;
use std::pin::pin;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What happened to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalSignal {
    /// Ctrl-C, or SIGINT by other means.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// The terminal went away.
    HangUp,
    /// The terminal has another size.
    Resize,
}

impl LocalSignal {
    /// The exit code of a process that this signal ended.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 128 + 2,
            Self::Terminate => 128 + 15,
            Self::HangUp => 128 + 1,
            Self::Resize => 128 + 28,
        }
    }
}

/// Listens for signals. From the first one on they no longer end this process.
#[derive(Debug)]
pub(crate) struct LocalSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
    resize: Option<Signal>,
}

impl LocalSignals {
    /// Listens from now on. What was ignored when we were started stays ignored, so that `nohup`
    /// and a shell's background jobs work.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored_mask(&std::fs::read_to_string("/proc/self/status")?);
        let unless_ignored = |kind: SignalKind| {
            let bit = 1u64 << (kind.as_raw_value() - 1);
            if ignored & bit == 0 { signal(kind).map(Some) } else { Ok(None) }
        };
        Ok(Self {
            interrupt: unless_ignored(SignalKind::interrupt())?,
            terminate: unless_ignored(SignalKind::terminate())?,
            hang_up: unless_ignored(SignalKind::hangup())?,
            resize: unless_ignored(SignalKind::window_change())?,
        })
    }

    /// Does some work, unless a signal comes that tells us to leave: then the work is dropped.
    pub(crate) async fn unless_told_to_leave<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, LocalSignal> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                signal = self.next() => match signal {
                    LocalSignal::Resize => {}
                    LocalSignal::Interrupt | LocalSignal::Terminate | LocalSignal::HangUp => {
                        return Err(signal);
                    }
                },
            }
        }
    }

    /// The next signal. Cancelling the wait loses none.
    pub(crate) async fn next(&mut self) -> LocalSignal {
        tokio::select! {
            () = arrival(&mut self.interrupt) => LocalSignal::Interrupt,
            () = arrival(&mut self.terminate) => LocalSignal::Terminate,
            () = arrival(&mut self.hang_up) => LocalSignal::HangUp,
            () = arrival(&mut self.resize) => LocalSignal::Resize,
        }
    }
}

async fn arrival(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            if signal.recv().await.is_none() {
                pending().await
            }
        }
        None => pending().await,
    }
}

/// The signals that a process ignores, by its `/proc/…/status`.
pub(crate) fn ignored_mask(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
