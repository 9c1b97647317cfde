//! Which address in the cell stands for which name.
//!
//! An address follows from its name, so that it is the same after a restart and a program that kept
//! it is not led to another name.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

use hotcell_model::{HostName, stable_hash};

/// `127.64.0.0/10`, without the first addresses, which are for services, and the last.
const FIRST: u32 = Ipv4Addr::new(127, 64, 1, 0).to_bits();
const COUNT: u32 = Ipv4Addr::new(127, 127, 255, 0).to_bits() - FIRST;

/// Names and their addresses; `T` is what belongs to a name besides.
#[derive(Debug)]
pub(crate) struct NameTable<T> {
    most: usize,
    clock: u64,
    names: HashMap<HostName, Entry<T>>,
    taken: BTreeSet<u32>,
}

/// What is known of a name.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) address: Ipv4Addr,
    pub(crate) value: T,
    used: u64,
}

impl<T> NameTable<T> {
    /// A table of at most so many names.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, clock: 0, names: HashMap::new(), taken: BTreeSet::new() }
    }

    /// A name that is there, which counts as used.
    pub(crate) fn get(&mut self, name: &HostName) -> Option<&mut Entry<T>> {
        self.clock += 1;
        let entry = self.names.get_mut(name)?;
        entry.used = self.clock;
        Some(entry)
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<HostName> {
        self.names.keys().cloned().collect()
    }

    /// The address that a name would have. Where all places are taken, the name that was used
    /// longest ago and `may_go` loses its own; none if none may.
    pub(crate) fn place_for(
        &mut self,
        name: &HostName,
        may_go: impl Fn(&HostName, &T) -> bool,
    ) -> Option<Ipv4Addr> {
        if self.names.len() >= self.most {
            let oldest = self.names.iter().filter(|(name, entry)| may_go(name, &entry.value));
            let oldest = oldest.min_by_key(|(_, entry)| entry.used);
            let oldest = oldest.map(|(name, _)| name.clone())?;
            self.remove(&oldest);
        }
        let hash = stable_hash(name.as_str().as_bytes());
        let start = u32::try_from(hash % u64::from(COUNT)).unwrap_or_default();
        let places = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
        places.into_iter().find(|place| !self.taken.contains(place)).map(Ipv4Addr::from_bits)
    }

    /// Gives a name its address.
    pub(crate) fn insert(&mut self, name: HostName, address: Ipv4Addr, value: T) {
        self.clock += 1;
        self.taken.insert(address.to_bits());
        self.names.insert(name, Entry { address, value, used: self.clock });
    }

    /// Takes a name out.
    pub(crate) fn remove(&mut self, name: &HostName) {
        if let Some(entry) = self.names.remove(name) {
            self.taken.remove(&entry.address.to_bits());
        }
    }
}
