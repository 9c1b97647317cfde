//! How far a pull has come, on one line of the terminal.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use hotcell_model::{PullProgress, PullWatch};

const WIDTH: u64 = 24;

/// A line that is written over and over; nothing until it is asked for, and nothing where nobody looks.
#[derive(Debug, Default)]
pub(crate) struct PullBar(AtomicBool);

impl PullBar {
    /// Shows pulls from now on.
    pub(crate) fn show(&self) {
        self.0.store(std::io::stderr().is_terminal(), Ordering::Relaxed);
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.0.swap(false, Ordering::Relaxed) {
            // A terminal that is gone needs no line either.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl PullWatch for PullBar {
    fn told(&self, progress: &PullProgress) {
        if self.0.load(Ordering::Relaxed) {
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(progress));
        }
    }
}

fn line(progress: &PullProgress) -> String {
    let PullProgress { name, bytes, of_bytes } = progress;
    let done = bytes.saturating_mul(WIDTH).checked_div(*of_bytes).unwrap_or(WIDTH).min(WIDTH);
    let bar: String = (0..WIDTH).map(|at| if at < done { '#' } else { '.' }).collect();
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    format!("{name} [{bar}] {}/{} MiB", mib(*bytes), mib(*of_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_it_is() {
        let at = |bytes, of_bytes| {
            line(&PullProgress { name: "a/b:1".parse().unwrap(), bytes, of_bytes })
        };
        assert_eq!(at(0, 24 << 20), format!("docker.io/a/b:1 [{}] 0/24 MiB", ".".repeat(24)));
        assert_eq!(
            at(12 << 20, 24 << 20),
            format!("docker.io/a/b:1 [{}{}] 12/24 MiB", "#".repeat(12), ".".repeat(12))
        );
        assert_eq!(at(0, 0), format!("docker.io/a/b:1 [{}] 0/0 MiB", "#".repeat(24)));
    }
}
