//! The etag of a file: made of what the kernel changes whenever the content does.

use hotcell_model::{Error, Etag, EtagMatch, Precondition, Result, stable_hash};
use rustix::fs::Stat;

use crate::path::CellPath;

/// The etag of a state. What is told to a caller must be settled (`settled.rs`); what is compared
/// with an etag that was told need not be.
pub(crate) fn etag_of(stat: &Stat) -> Etag {
    let fields = [
        stat.st_ino,
        stat.st_size.cast_unsigned(),
        stat.st_mtime.cast_unsigned(),
        stat.st_mtime_nsec,
        stat.st_ctime.cast_unsigned(),
        stat.st_ctime_nsec,
    ];
    let mut bytes = [0; 56];
    for (place, field) in bytes.chunks_exact_mut(8).skip(1).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    // Two halves from two beginnings.
    let (whole, fields) = (stable_hash(&bytes), stable_hash(&bytes[8..]));
    Etag::from_bits((u128::from(whole) << 64) | u128::from(fields))
}

/// Whether a file, or its absence, is as it must be for a change.
pub(crate) fn require(
    path: &CellPath,
    precondition: &Precondition,
    now: Option<&Etag>,
) -> Result<()> {
    let present = match now {
        Some(now) => format!("it has etag {now}"),
        None => "it is not there".to_owned(),
    };
    let conflict = |wanted: String| {
        Err(Error::conflict(format!("{path} was to {wanted}, but {present}"))
            .hint("read it again and repeat the change on what is there now"))
    };
    match (&precondition.if_match, now) {
        (None, _) | (Some(EtagMatch::Any), Some(_)) => {}
        (Some(EtagMatch::Etag(wanted)), Some(now)) if wanted == now => {}
        (Some(EtagMatch::Etag(wanted)), _) => return conflict(format!("have etag {wanted}")),
        (Some(EtagMatch::Any), None) => return conflict("be there".to_owned()),
    }
    match (&precondition.if_none_match, now) {
        (Some(EtagMatch::Any), Some(_)) => conflict("not be there yet".to_owned()),
        (Some(EtagMatch::Etag(unwanted)), Some(now)) if unwanted == now => {
            conflict(format!("have another etag than {unwanted}"))
        }
        (Some(_) | None, _) => Ok(()),
    }
}
