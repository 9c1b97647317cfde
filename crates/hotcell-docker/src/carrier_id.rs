//! Whom the carrier of a cell is on the host, where root starts it: nobody that the host knows, and
//! not whom its container runs as, who may be a person.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use hotcell_model::CellId;
use rustix::fs::{Gid, Uid, chown};
use rustix::io::Errno;

/// Above what distributions give to users, containers and services, and above what native cells have.
const FIRST: u32 = 0xf100_0000;
const IDS: u32 = 0x0800_0000;
/// For the container's user, whose it is, and for the carrier, which removes nothing but its own.
const SHARED: u32 = 0o1770;

/// The user and group of the carrier of a cell; as a rule no other has them.
fn carrier_id(cell: &CellId) -> u32 {
    // FNV-1a: nothing depends on it but that it stays the same.
    let hash = cell
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    FIRST + hash % IDS
}

/// Gives the directory for the records of a cell to whom its container runs as on this side, and lets
/// its carrier write there as well, as somebody else where this machine has an id for that.
pub(crate) fn share_records(records: &Path, cell: &CellId, user: (u32, u32)) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.0), Gid::from_raw(user.1));
    match chown(records, Some(uid), Some(Gid::from_raw(carrier_id(cell)))) {
        Ok(()) => fs::set_permissions(records, fs::Permissions::from_mode(SHARED)),
        // In a user namespace without it.
        Err(Errno::INVAL) => Ok(chown(records, Some(uid), Some(gid))?),
        Err(errno) => Err(errno.into()),
    }
}

/// Whom the carrier of a cell has to be to write to its records.
pub(crate) fn find_carrier(records: &Path, cell: &CellId) -> io::Result<(u32, u32)> {
    let found = fs::metadata(records)?;
    let id = carrier_id(cell);
    Ok(if found.gid() == id { (id, id) } else { (found.uid(), found.gid()) })
}

#[cfg(test)]
#[path = "carrier_id_tests.rs"]
mod tests;
