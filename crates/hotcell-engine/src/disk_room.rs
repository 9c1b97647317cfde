//! Whether the disk of the state directory has room left.

use hotcell_model::{Collect, Error, Result};

use crate::collect::collect;
use crate::site::Site;

/// Of a small disk no more than this part is kept free.
const PART: u64 = 20;

/// How full the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    free: u64,
    reserve: u64,
}

impl Site {
    /// Whether there is so little room that more is removed than usual.
    pub(crate) fn is_disk_scarce(&self) -> bool {
        self.disk_room().is_some_and(|room| room.free < room.reserve)
    }

    /// Refuses what would fill a disk that is nearly full; what can be removed is removed first.
    pub(crate) async fn check_disk_room(&self) -> Result<()> {
        if !self.is_disk_scarce() {
            return Ok(());
        }
        Box::pin(collect(self, Collect { dry_run: false })).await?;
        let Some(Room { free, reserve }) = self.disk_room() else { return Ok(()) };
        if free >= reserve / 2 {
            return Ok(());
        }
        Err(Error::limit_exceeded(format!(
            "only {} MiB are free on the disk of the state directory {}",
            free >> 20,
            self.state_dir().display()
        ))
        .hint(format!(
            "free some space there, remove volumes with `hotcell volume remove`, or let the operator \
             lower disk_reserve_mb, which is {}",
            self.settings.disk_reserve_mb
        )))
    }

    /// `None` where that cannot be told.
    fn disk_room(&self) -> Option<Room> {
        let found = rustix::fs::statvfs(self.state_dir()).ok()?;
        let total = found.f_blocks.saturating_mul(found.f_frsize);
        let reserve = (self.settings.disk_reserve_mb << 20).min(total / PART);
        Some(Room { free: found.f_bavail.saturating_mul(found.f_frsize), reserve })
    }
}
