//! A word of somebody else on an image before it is used.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotcell_model::{Error, Result};

/// A scanner that takes longer hangs.
const WITHIN: Duration = Duration::from_secs(600);
const APART: Duration = Duration::from_millis(20);
/// What is told of what it said.
const MOST_SAID: usize = 2000;

/// A program whose verdict on images counts: an exit code of 0 lets one be used, any other does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageScan {
    /// The program.
    pub program: PathBuf,
}

impl ImageScan {
    /// Asks about an image: by its name, what its content is called by, and where it lies, if it lies
    /// on this machine as a layout or an archive.
    ///
    /// # Errors
    /// `denied` with what the program said, `unavailable` where it gave no verdict.
    #[expect(clippy::disallowed_methods, reason = "the verdict is that of a program")]
    pub fn check(&self, name: &str, digest: &str, place: Option<&Path>) -> Result<()> {
        let failed = |error: io::Error| {
            Error::unavailable(format!(
                "{}, which scans images, gave no verdict on {name}: {error}",
                self.program.display()
            ))
            .hint("without a verdict no image is used; see images.scan")
        };
        let mut command = Command::new(&self.program);
        command.arg(name).arg(digest).args(place);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let said = child.stderr.take().map(|stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                // What it said explains, and decides nothing.
                let _ = stderr.take(1 << 20).read_to_end(&mut said);
                String::from_utf8_lossy(&said).trim().to_owned()
            })
        });
        let accepted = await_end(&mut child).map_err(failed)?;
        if accepted {
            return Ok(());
        }
        let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
        let said: String = said.chars().take(MOST_SAID).collect();
        Err(Error::denied(format!(
            "the image {name} ({digest}) was refused by {}: {said}",
            self.program.display()
        ))
        .hint("use another image, or ask whoever keeps the scanner"))
    }
}

/// Whether it ended well.
fn await_end(child: &mut Child) -> io::Result<bool> {
    let until = Instant::now() + WITHIN;
    loop {
        if let Some(status) = child.try_wait()? {
            return match status.code() {
                Some(code) => Ok(code == 0),
                None => Err(io::Error::other(format!("it ended by itself: {status}"))),
            };
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not end in time"));
        }
        std::thread::sleep(APART);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use hotcell_model::ErrorCode;

    use super::*;

    fn scan(script: &str) -> (tempfile::TempDir, ImageScan) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("scan");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (directory, ImageScan { program })
    }

    #[test]
    fn only_a_good_end_is_a_good_verdict() {
        let asked = |script: &str| {
            let (_directory, scan) = scan(script);
            scan.check("debian:12", "sha256:00", Some(Path::new("/somewhere")))
        };
        assert!(asked("test \"$1 $2 $3\" = 'debian:12 sha256:00 /somewhere'").is_ok());
        let denied = asked("echo CVE-1 >&2; exit 3").unwrap_err();
        assert_eq!(denied.code, ErrorCode::Denied);
        assert!(denied.message.contains("CVE-1"), "{denied:?}");
        assert_eq!(asked("kill -9 $$").unwrap_err().code, ErrorCode::Unavailable);
        let nobody = ImageScan { program: PathBuf::from("/no/such/scanner") };
        assert_eq!(nobody.check("a", "b", None).unwrap_err().code, ErrorCode::Unavailable);
    }
}
