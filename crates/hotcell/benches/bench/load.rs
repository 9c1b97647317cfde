//! Calls under load: how long each of them took, and how many were done in a second.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::samples::Samples;

/// So many calls, and so many of them under way at any moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) calls: usize,
    pub(crate) at_once: usize,
}

/// Whatever does calls.
pub(crate) trait Worker {
    /// Does all calls of a load; how long each took.
    fn work(&mut self, load: Load) -> Result<Vec<Duration>>;
}

/// How a worker did, over all rounds.
#[derive(Debug)]
pub(crate) struct Done {
    /// Single calls.
    pub(crate) each: Samples,
    /// Whole rounds.
    rounds: Samples,
    calls: usize,
}

impl Done {
    /// Calls a second.
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.rounds.p50().as_secs_f64()
    }
}

/// Lets several workers do the same load, in turns.
pub(crate) fn take_turns<const N: usize>(
    rounds: usize,
    load: Load,
    mut workers: [&mut dyn Worker; N],
) -> Result<[Done; N]> {
    for worker in &mut workers {
        worker.work(Load { calls: load.at_once, ..load })?;
    }
    let mut taken = [const { (Vec::new(), Vec::new()) }; N];
    for _ in 0..rounds {
        for (worker, (each, all)) in workers.iter_mut().zip(&mut taken) {
            let began = Instant::now();
            each.extend(worker.work(load)?);
            all.push(began.elapsed());
        }
    }
    Ok(taken.map(|(each, all)| Done {
        each: Samples::from_all(each),
        rounds: Samples::from_all(all),
        calls: load.calls,
    }))
}
