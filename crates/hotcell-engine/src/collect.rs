//! Removes what is over or that nobody needs, and tells what it was.

use std::time::{Duration, SystemTime};

use hotcell_journal::{KeptLog, forget_output, list_logs};
use hotcell_model::{
    CellId, Collect, Collectable, Collected, Exec, Removed, Result, Tenants, Thrift, Timestamp,
};

use crate::fault;
use crate::site::Site;
use crate::sweep::Sweep;

/// How long clients are remembered that were not seen.
const ATTACHMENT_KEEP_MS: u64 = 7 * 24 * 3600 * 1000;
/// How long records and output are kept where there is little room on the disk.
const SCARCE_KEEP_S: u64 = 3600;

/// Output that was written to less than this ago is not looked at, whatever it was asked to be kept for.
const LEAST_KEEP: Duration = Duration::from_secs(10);

/// Removes what is over or that nobody needs, or tells what that would be.
pub(crate) async fn collect(site: &Site, request: Collect) -> Result<Collected> {
    let is_scarce = site.is_disk_scarce();
    let dry_run = request.dry_run;
    let mut done = Collected { dry_run, disk_pressure: is_scarce, ..Collected::default() };
    let keep_s = match is_scarce {
        true => site.settings.log_keep_s.min(SCARCE_KEEP_S),
        false => site.settings.log_keep_s,
    };
    let sweep = Sweep { dry_run, most: usize::MAX, log_keep_s: keep_s, measured: true };
    site.sweep_over(&sweep, &mut done).await;
    for stored in site.store.list_cells(&Tenants::All).await? {
        if stored.ended_at.is_none() || stored.kept {
            let id = &stored.spec.id;
            if let Err(error) = site.collect_logs(id, &sweep, &mut done).await {
                done.errors.push(format!("logs of cell {id}: {error}"));
            }
        }
    }
    let unseen = Timestamp(Timestamp::now().0.saturating_sub(ATTACHMENT_KEEP_MS));
    match site.store.forget_attachments(unseen, dry_run).await {
        Ok(count) => done.add_all(Removed { kind: Collectable::Attachments, count, bytes: 0 }),
        Err(error) => done.errors.push(format!("clients: {error}")),
    }
    let thrift = Thrift { dry_run, image_keep_s: site.settings.image_keep_s };
    for driver in &site.drivers {
        match driver.collect(&thrift).await {
            Ok(removed) => removed.into_iter().for_each(|removed| done.add_all(removed)),
            Err(error) => done.errors.push(format!("driver {}: {error}", driver.name())),
        }
    }
    Ok(done)
}

/// Whether the cell keeps more output than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TooMuch {
    Yes,
    No,
}

impl Site {
    /// Lets go of output of a cell's execs that ended long ago, and of the oldest where it is too much.
    /// That it was there stays stated.
    async fn collect_logs(&self, cell: &CellId, sweep: &Sweep, done: &mut Collected) -> Result<()> {
        let records = self.records(cell);
        let listing = records.clone();
        let mut logs = fault::blocking(move || {
            list_logs(&listing).map_err(|error| fault::io("list output logs", &error))
        })
        .await?;
        logs.sort_by_key(|log| std::cmp::Reverse(log.written_at));
        let keep = Duration::from_secs(sweep.log_keep_s);
        let mut total = 0_u64;
        let mut due: Vec<(KeptLog, TooMuch)> = Vec::new();
        for log in logs {
            total = total.saturating_add(log.bytes);
            let rested = SystemTime::now().duration_since(log.written_at).unwrap_or_default();
            if total > self.settings.log_bytes {
                due.push((log, TooMuch::Yes));
            } else if rested >= keep.min(LEAST_KEEP) {
                due.push((log, TooMuch::No));
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        self.settle(cell).await?;
        let now = Timestamp::now();
        for (log, too_much) in due {
            let exec = self.store.find_exec(&log.exec).await?;
            let Some(Exec { end: Some(end), keep_s, .. }) = exec else { continue };
            let keep_s = keep_s.map_or(sweep.log_keep_s, |asked| asked.min(sweep.log_keep_s));
            // One that was silent for long before it ended is kept as long as any other.
            let is_old = end.ended_at.plus_seconds(keep_s) <= now;
            if too_much == TooMuch::No && !is_old {
                continue;
            }
            if !sweep.dry_run {
                let (records, exec) = (records.clone(), log.exec.clone());
                fault::blocking(move || {
                    forget_output(&records, &exec).map_err(|error| {
                        fault::io(format_args!("remove the output of exec {exec}"), &error)
                    })
                })
                .await?;
            }
            done.add(Collectable::Logs, log.bytes);
        }
        Ok(())
    }
}
