//! Carries what a cell sends through the inspection of its connection.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use crate::carrier::Carrier;
use crate::connection::{BUFFER_BYTES, Broken, pass};
use crate::inspection::Inspector;
use crate::meter::Way;

/// How long a client has for the rest of what it began.
const COMPLETE_WITHIN: Duration = Duration::from_secs(30);
/// How long a client that is refused has to read the answer, and how much it may still send.
const READ_WITHIN: Duration = Duration::from_secs(1);
const REST_BYTES: u64 = 1 << 20;

impl Carrier {
    /// Carries what comes from the cell as far as that is allowed, and the end of it.
    pub(crate) async fn one_way_inspected(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut OwnedWriteHalf,
        count: &AtomicU64,
        inspector: &Mutex<Inspector>,
    ) -> Result<(), Broken> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut passed = Vec::new();
        let mut deadline: Option<Instant> = None;
        loop {
            let reading = from.read(&mut buffer);
            let read = match deadline {
                None => reading.await,
                Some(deadline) => match tokio::time::timeout_at(deadline, reading).await {
                    Ok(read) => read,
                    Err(_) => {
                        let why = format!("{} s passed", COMPLETE_WITHIN.as_secs());
                        return Err(Broken::Inspected(lock(inspector).unfinished(&why)));
                    }
                },
            };
            let read = read.map_err(Broken::Io)?;
            let checked = {
                let (mut inspector, rules) = (lock(inspector), self.rules.borrow());
                let checked = match read {
                    0 => inspector.end(&mut passed),
                    _ => inspector.take(&buffer[..read], &rules, &mut passed),
                };
                deadline = match (inspector.holds(), deadline) {
                    (false, _) => None,
                    (true, Some(deadline)) if passed.is_empty() => Some(deadline),
                    (true, _) => Some(Instant::now() + COMPLETE_WITHIN),
                };
                checked
            };
            if !passed.is_empty() {
                pass(&passed, to, &self.meter, Way::Out, count).await?;
                passed.clear();
            }
            checked.map_err(Broken::Inspected)?;
            if read == 0 {
                return to.shutdown().await.map_err(Broken::Io);
            }
        }
    }
}

/// Sends a refused client its answer. What it still sends is read: a connection that is closed with
/// unread bytes is reset, and the answer lost.
pub(crate) async fn tell(answer: &[u8], read: &mut OwnedReadHalf, write: &mut OwnedWriteHalf) {
    let telling = async {
        write.write_all(answer).await?;
        write.shutdown().await?;
        tokio::io::copy(&mut read.take(REST_BYTES), &mut tokio::io::sink()).await
    };
    // It may be gone.
    let _ = tokio::time::timeout(READ_WITHIN, telling).await;
}

pub(crate) fn lock(inspector: &Mutex<Inspector>) -> MutexGuard<'_, Inspector> {
    inspector.lock().unwrap_or_else(PoisonError::into_inner)
}
