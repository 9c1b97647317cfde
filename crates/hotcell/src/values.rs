//! Reads the values that people write on a command line: durations, sizes, variables.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hotcell_model::{CheckpointBefore, Error, LIMITS, Workspace, WorkspaceMode};

/// Reads a word of the model, such as an id, and keeps its hint.
pub(crate) fn word<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: Error| match error.hint {
        Some(hint) => format!("{}\nhint: {hint}", error.message),
        None => error.message,
    })
}

/// Reads a directory as a workspace, `DIR` or `DIR:MODE`; a relative one is in this directory.
pub(crate) fn workspace(text: &str) -> Result<Workspace, String> {
    let modes = [WorkspaceMode::Cow, WorkspaceMode::Rw, WorkspaceMode::Ro];
    let split = text.rsplit_once(':').and_then(|(dir, mode)| {
        modes.into_iter().find(|known| known.as_str() == mode).map(|mode| (dir, mode))
    });
    let (dir, mode) = split.unwrap_or((text, WorkspaceMode::default()));
    match std::path::absolute(dir) {
        Ok(dir) => Ok(Workspace { dir, mode }),
        Err(error) => Err(format!("{dir:?} is no directory: {error}")),
    }
}

/// Reads a name whose values are masked.
pub(crate) fn redacted_name(text: &str) -> Result<String, String> {
    const MOST: usize = 32;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let first = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    if first >= 3 && text.len() <= MOST && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is no name: it has up to {MOST} letters, digits, _, - and ., and begins with three \
         letters or digits at least"
    ))
}

/// Reads a duration: `30s`, `2h`, `1h 30m`, or a plain number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let read = match trimmed.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => humantime::parse_duration(trimmed).map_err(|error| error.to_string()),
    };
    let duration = read.map_err(|error| {
        format!("{text:?} is not a duration ({error}); write seconds or units: 90, 1.5, 30s, 2h")
    })?;
    if duration > Duration::from_secs(LIMITS.max_seconds) {
        return Err(format!("{text:?} is more than the longest duration, 365 days"));
    }
    Ok(duration)
}

/// Reads a duration in whole seconds, at least one.
pub(crate) fn whole_seconds(text: &str) -> Result<u64, String> {
    let duration = duration(text)?;
    if duration.subsec_nanos() != 0 || duration.is_zero() {
        return Err(format!("{text:?} is not a whole number of seconds, one or more"));
    }
    Ok(duration.as_secs())
}

/// Reads a timeout: any duration but zero.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() {
        return Err(format!("a timeout of {text:?} leaves no time at all; leave it out for none"));
    }
    Ok(duration)
}

/// Reads an address to listen at: `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000`, or a port of
/// this machine alone.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let here = |port: &str| {
        let port = port.parse().ok()?;
        Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    };
    let read = match text.strip_prefix("localhost:") {
        Some(port) => here(port),
        None => text.parse().ok().or_else(|| here(text)),
    };
    read.ok_or_else(|| {
        format!("{text:?} is not an address with a port, such as 127.0.0.1:8000 or [::1]:8000")
    })
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAt {
    /// At an address.
    Address(SocketAddr),
    /// At a socket in the file system.
    Socket(PathBuf),
}

/// Reads where to listen: an address, or `unix:PATH`.
pub(crate) fn listen_at(text: &str) -> Result<ListenAt, String> {
    match text.strip_prefix("unix:") {
        Some("") => {
            Err("unix: needs the path of a socket, such as unix:/run/hotcell/sock".to_owned())
        }
        Some(path) => Ok(ListenAt::Socket(PathBuf::from(path))),
        None => address(text).map(ListenAt::Address),
    }
}

/// Reads a size in MiB: `512M`, `1.5G`, `1GiB`, or a plain number of bytes.
pub(crate) fn mebibytes(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let unit_at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let amount: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is not a size; write a number and a unit: 512M, 1.5G"))?;
    let bytes_each: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1_048_576.0,
        "g" | "gb" | "gib" => 1_073_741_824.0,
        "t" | "tb" | "tib" => 1_099_511_627_776.0,
        other => {
            return Err(format!("{text:?} has the unknown unit {other:?}; use K, M, G or T"));
        }
    };
    let mebibytes = (amount * bytes_each / 1_048_576.0).floor();
    if mebibytes < 1.0 {
        return Err(format!("{text:?} is less than one MiB; a unit may be missing, as in 512M"));
    }
    if mebibytes > 1e12 {
        return Err(format!("{text:?} is more than any machine has"));
    }
    Ok(mebibytes as u64)
}

/// Reads `NAME=VALUE`.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => {
            Err(format!("{text:?} is not a variable; write NAME=VALUE, as in LANG=C.UTF-8"))
        }
    }
}

/// Reads `LABEL=VALUE`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((label, value)) if !label.is_empty() && !value.is_empty() => {
            Ok((label.to_owned(), value.to_owned()))
        }
        Some(_) | None => Err(format!("{text:?} is no label; write LABEL=VALUE, as in gpu=yes")),
    }
}

/// Reads a number of CPUs, in fractions too.
pub(crate) fn cpus(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(cpus) if cpus.is_finite() && cpus > 0.0 => Ok(cpus),
        Ok(_) | Err(_) => {
            Err(format!("{text:?} is not a number of CPUs; write one above zero, as in 1.5"))
        }
    }
}

/// A span of time in the one unit that tells most, such as `45s`, `3m` or `2d`.
pub(crate) fn short(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number of bytes in the largest unit that leaves at least one whole.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = count as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if amount.fract() == 0.0 {
        format!("{amount} {}", UNITS[unit])
    } else {
        format!("{amount:.1} {}", UNITS[unit])
    }
}

/// Before which commands a checkpoint is made.
pub(crate) fn checkpoint_before(text: &str) -> Result<CheckpointBefore, String> {
    match text {
        "destructive" => Ok(CheckpointBefore::Destructive),
        _ => Err("it is not `destructive`".to_owned()),
    }
}
