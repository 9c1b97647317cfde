//! Addresses of names.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use hotcell_model::HostName;

use crate::name_table::NameTable;

fn name(number: usize) -> HostName {
    format!("n{number}.example").parse().unwrap()
}

fn add(table: &mut NameTable<bool>, number: usize) -> Option<Ipv4Addr> {
    let address = table.place_for(&name(number), |_, may_go| *may_go)?;
    table.insert(name(number), address, true);
    Some(address)
}

#[test]
fn every_name_has_an_address_of_its_own_in_the_range() {
    let mut table = NameTable::new(20_000);
    let addresses: HashSet<Ipv4Addr> =
        (0..20_000).map(|number| add(&mut table, number).unwrap()).collect();
    assert_eq!(addresses.len(), 20_000);
    let is_in_range = |address: &Ipv4Addr| {
        let [a, b, c, _] = address.octets();
        a == 127 && (64..128).contains(&b) && (b, c) != (64, 0)
    };
    assert!(addresses.iter().all(is_in_range));
}

#[test]
fn a_name_has_the_same_address_after_a_restart() {
    let (mut one, mut other) = (NameTable::new(10), NameTable::new(10));
    add(&mut other, 7);
    assert_eq!(add(&mut one, 3), add(&mut other, 3));
}

#[test]
fn the_name_that_was_used_longest_ago_goes_first() {
    let mut table = NameTable::new(3);
    for number in 0..3 {
        add(&mut table, number).unwrap();
    }
    table.get(&name(0)).unwrap();
    table.get(&name(1)).unwrap().value = false;
    add(&mut table, 3).unwrap();
    assert!(table.get(&name(2)).is_none(), "it was used longest ago");
    table.get(&name(3)).unwrap().value = false;
    table.get(&name(0)).unwrap().value = false;
    assert_eq!(add(&mut table, 4), None, "no name may go");
    assert_eq!(table.names().len(), 3);
}
