//! Which engine a new cell goes to: the one with most room, of those that have what was asked for.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use hotcell_model::{CellSpec, Error, Result};

use crate::docker_host::DockerHost;
use crate::engine_address::EngineSettings;
use crate::engines::Engine;
use crate::known_engine::machine;

/// The label that every engine has.
pub(crate) const NAME_LABEL: &str = "engine";

/// How much of an engine's memory is given away.
#[derive(Debug, Clone, Copy)]
struct Room<'a> {
    name: &'a str,
    weight: u32,
    machine_mb: u64,
    given_mb: u64,
}

/// The engines that have all of these labels.
///
/// # Errors
/// `not_found`, with what there is.
pub(crate) fn with_labels<'a>(
    engines: &'a [Engine],
    on: &BTreeMap<String, String>,
) -> Result<Vec<&'a Engine>> {
    let fitting: Vec<&Engine> =
        engines.iter().filter(|engine| has_labels(engine.settings(), on)).collect();
    if fitting.is_empty() {
        let asked: Vec<String> = on.iter().map(|(label, it)| format!("{label}={it}")).collect();
        let there: Vec<String> = engines.iter().map(|it| described(it.settings())).collect();
        return Err(Error::not_found(format!("no Docker engine has {}", asked.join(" and ")))
            .hint(format!("there is {}", there.join("; "))));
    }
    Ok(fitting)
}

fn has_labels(settings: &EngineSettings, on: &BTreeMap<String, String>) -> bool {
    on.iter().all(|(label, value)| match label == NAME_LABEL {
        true => settings.name == *value,
        false => settings.labels.get(label) == Some(value),
    })
}

/// An engine with its labels, for people.
fn described(settings: &EngineSettings) -> String {
    let labels = settings.labels.iter().map(|(label, value)| format!(" {label}={value}"));
    format!("{NAME_LABEL}={}{}", settings.name, labels.collect::<String>())
}

/// The engine of a new cell, when so much is given away already, by the names of engines or what they
/// call themselves. Those that cannot be reached are passed over.
///
/// # Errors
/// `not_found` where none has the labels; `unavailable` where none of those can have it now, with each
/// and why.
pub(crate) async fn choose(
    engines: &[Engine],
    spec: &CellSpec,
    given: &BTreeMap<String, u64>,
    check: impl Fn(&DockerHost) -> Result<()>,
) -> Result<Arc<DockerHost>> {
    let fitting = with_labels(engines, &spec.on)?;
    let reached = join_all(fitting.iter().map(|engine| engine.reach())).await;
    let mut hosts = Vec::new();
    let mut passed_over = Vec::new();
    for host in reached {
        let fits = |host: Arc<DockerHost>| {
            check_size(&host, spec)?;
            check(&host)?;
            Ok(host)
        };
        match host.and_then(fits) {
            Ok(host) => hosts.push(host),
            Err(error) => passed_over.push(error),
        }
    }
    let is_named = spec.on.contains_key(NAME_LABEL);
    let rooms = hosts.iter().map(|host| Room {
        name: host.name(),
        // Whoever names it means it.
        weight: if is_named { host.settings().weight.max(1) } else { host.settings().weight },
        machine_mb: machine(host).memory_mb,
        given_mb: [host.name(), host.id()].iter().filter_map(|it| given.get(*it)).sum(),
    });
    let rooms: Vec<Room<'_>> = rooms.collect();
    match roomiest(&rooms, spec.limits.memory_mb) {
        Some(at) => Ok(Arc::clone(&hosts[at])),
        None => Err(nowhere(&rooms, passed_over)),
    }
}

/// Where the memory that is given away is the smallest part of what there is, by weight, once the cell
/// is there; of equals the first by name. An engine of weight 0 gets none.
fn roomiest(rooms: &[Room<'_>], wanted_mb: u64) -> Option<usize> {
    let fuller = |one: &Room<'_>, other: &Room<'_>| -> Ordering {
        let load = |room: &Room<'_>| u128::from(room.given_mb) + u128::from(wanted_mb);
        let size = |room: &Room<'_>| u128::from(room.machine_mb.max(1)) * u128::from(room.weight);
        let (one_load, other_load) = (load(one) * size(other), load(other) * size(one));
        one_load.cmp(&other_load).then_with(|| one.name.cmp(other.name))
    };
    let open = rooms.iter().enumerate().filter(|(_, room)| room.weight > 0);
    open.min_by(|(_, one), (_, other)| fuller(one, other)).map(|(at, _)| at)
}

fn check_size(host: &DockerHost, spec: &CellSpec) -> Result<()> {
    let (has, wants) = (machine(host), &spec.limits);
    let too_small = |has: String| {
        Err(Error::unavailable(format!("the Docker engine {} has only {has}", host.address)))
    };
    if wants.memory_mb > has.memory_mb {
        return too_small(format!("{} MiB of memory", has.memory_mb));
    }
    match wants.cpus {
        Some(cpus) if cpus > f64::from(has.cpus) => too_small(format!("{} CPUs", has.cpus)),
        Some(_) | None => Ok(()),
    }
}

fn nowhere(closed: &[Room<'_>], mut passed_over: Vec<Error>) -> Error {
    if closed.is_empty() && passed_over.len() == 1 {
        return passed_over.remove(0);
    }
    let closed = closed.iter().map(|room| format!("{} has the weight 0", room.name));
    let why = passed_over.iter().map(|error| error.message.clone()).chain(closed);
    let why: Vec<String> = why.collect();
    Error::unavailable(format!("no Docker engine can have a new cell now: {}", why.join("; ")))
        .hint("look at the engines with `hotcell doctor`; cells that run go on")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(name: &str, weight: u32, machine_mb: u64, given_mb: u64) -> Room<'_> {
        Room { name, weight, machine_mb, given_mb }
    }

    /// Places so many cells of 512 MiB, and counts what each engine got.
    fn spread(mut rooms: Vec<Room<'_>>, cells: usize) -> Vec<u64> {
        for _ in 0..cells {
            let at = roomiest(&rooms, 512).expect("an engine");
            rooms[at].given_mb += 512;
        }
        rooms.iter().map(|room| room.given_mb / 512).collect()
    }

    #[test]
    fn cells_are_spread_by_weight_and_by_size() {
        assert_eq!(spread(vec![room("a", 1, 8192, 0), room("b", 1, 8192, 0)], 10), [5, 5]);
        assert_eq!(spread(vec![room("a", 1, 8192, 0), room("b", 3, 8192, 0)], 40), [10, 30]);
        assert_eq!(spread(vec![room("a", 1, 8192, 0), room("b", 1, 16384, 0)], 30), [10, 20]);
        // Also past what the machines have: limits are no reservations.
        assert_eq!(spread(vec![room("a", 1, 1024, 0), room("b", 1, 1024, 0)], 100), [50, 50]);
        assert_eq!(spread(vec![room("a", 1, 8192, 4096), room("b", 1, 8192, 0)], 8), [8, 8]);
    }

    #[test]
    fn equals_are_told_apart_by_name_whatever_their_order() {
        let (one, other) = (room("a", 1, 8192, 0), room("b", 1, 8192, 0));
        assert_eq!(roomiest(&[one, other], 512), Some(0));
        assert_eq!(roomiest(&[other, one], 512), Some(1));
    }

    #[test]
    fn an_engine_of_weight_0_gets_none() {
        let (closed, open) = (room("a", 0, 8192, 0), room("b", 1, 1024, 8192));
        assert_eq!(roomiest(&[closed, open], 512), Some(1));
        assert_eq!(roomiest(&[closed], 512), None);
        assert_eq!(roomiest(&[], 512), None);
    }

    #[test]
    fn labels_are_all_asked_for_and_the_name_is_one() {
        let mut settings = EngineSettings::new("west", "unix:///w".parse().expect("an address"));
        settings.labels.insert("gpu".to_owned(), "yes".to_owned());
        let asked = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(label, it)| ((*label).to_owned(), (*it).to_owned()));
            has_labels(&settings, &labels.collect())
        };
        assert!(asked(&[]) && asked(&[("gpu", "yes")]) && asked(&[("engine", "west")]));
        assert!(asked(&[("gpu", "yes"), ("engine", "west")]));
        assert!(!asked(&[("gpu", "no")]) && !asked(&[("zone", "a")]));
        assert!(!asked(&[("gpu", "yes"), ("engine", "east")]));
    }
}
