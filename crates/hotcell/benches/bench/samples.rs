//! Measurements taken in turns, so that whatever else the machine does hits all of them alike.

use std::time::Duration;

use anyhow::Result;

/// Does a thing once and tells how long it took.
pub(crate) type Shot<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// How long one thing took, many times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn from_all(mut all: Vec<Duration>) -> Self {
        all.sort();
        Self(all)
    }

    pub(crate) fn min(&self) -> Duration {
        self.0.first().copied().unwrap_or_default()
    }

    pub(crate) fn p50(&self) -> Duration {
        self.at(0.50)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.at(0.99)
    }

    fn at(&self, part: f64) -> Duration {
        let place = (self.0.len().saturating_sub(1)) as f64 * part;
        self.0.get(place.round() as usize).copied().unwrap_or_default()
    }

    /// How many times the other's median this median is.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        self.p50().as_secs_f64() / other.p50().as_secs_f64()
    }

    /// The same of the smallest, which noise can only raise.
    pub(crate) fn min_ratio_to(&self, other: &Self) -> f64 {
        self.min().as_secs_f64() / other.min().as_secs_f64()
    }
}

/// How often each thing is measured: in so many rounds, so many times in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    pub(crate) rounds: usize,
    pub(crate) in_a_row: usize,
}

/// Measures several things in turns.
pub(crate) fn take_turns<const N: usize>(
    turns: Turns,
    mut shots: [Shot<'_>; N],
) -> Result<[Samples; N]> {
    let mut taken = [const { Vec::new() }; N];
    measure(turns, &mut shots, &mut taken)?;
    Ok(taken.map(Samples::from_all))
}

/// The same for as many things as there are.
pub(crate) fn take_all_turns(turns: Turns, mut shots: Vec<Shot<'_>>) -> Result<Vec<Samples>> {
    let mut taken = vec![Vec::new(); shots.len()];
    measure(turns, &mut shots, &mut taken)?;
    Ok(taken.into_iter().map(Samples::from_all).collect())
}

fn measure(turns: Turns, shots: &mut [Shot<'_>], taken: &mut [Vec<Duration>]) -> Result<()> {
    for shot in &mut *shots {
        shot()?;
    }
    for _ in 0..turns.rounds {
        for (shot, taken) in shots.iter_mut().zip(&mut *taken) {
            for _ in 0..turns.in_a_row {
                taken.push(shot()?);
            }
        }
    }
    Ok(())
}
