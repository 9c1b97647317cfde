//! Which addresses may be dialled.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use crate::IpRange;
use crate::address::{is_own, refusal};

fn is_refused(text: &str) -> bool {
    refusal(text.parse().unwrap(), &[]).is_some()
}

#[test]
fn what_is_not_public_is_refused_in_every_clothing() {
    let inner = [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.64.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
    ];
    for text in inner {
        assert!(is_refused(text), "{text}");
        let v4: Ipv4Addr = text.parse().unwrap();
        let [a, b, c, d] = v4.octets();
        let hex = format!("{a:02x}{b:02x}:{c:02x}{d:02x}");
        for clothed in [
            format!("::ffff:{text}"),
            format!("::{text}"),
            format!("64:ff9b::{text}"),
            format!("2002:{hex}::1"),
            format!("64:ff9b:1::{text}"),
        ] {
            assert!(is_refused(&clothed), "{clothed}");
        }
    }
    for text in [
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "2001::1",
        "100::1",
        "fec0::1",
        "4000::1",
        "3fff::1",
    ] {
        assert!(is_refused(text), "{text}");
    }
}

#[test]
fn what_is_public_is_not() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.0.1",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "169.253.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00::1",
        "64:ff9b::1.1.1.1",
        "::ffff:1.1.1.1",
        "2002:0101:0101::1",
    ] {
        assert!(!is_refused(text), "{text}");
    }
}

#[test]
fn the_operator_may_allow_a_range() {
    let allowed: Vec<IpRange> = vec!["10.1.2.0/24".parse().unwrap(), "fd00::/8".parse().unwrap()];
    let refused = |text: &str| refusal(text.parse().unwrap(), &allowed).is_some();
    assert!(
        !refused("10.1.2.255") && refused("10.1.3.0") && !refused("fd12::1") && refused("fc00::1")
    );
    assert!(!refused("::ffff:10.1.2.1"), "the same address in other clothing");
    let all: IpRange = "0.0.0.0/0".parse().unwrap();
    assert!(all.contains("255.1.2.3".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
    let one: IpRange = "10.0.0.1".parse().unwrap();
    assert!(
        one.contains("10.0.0.1".parse().unwrap()) && !one.contains("10.0.0.2".parse().unwrap())
    );
    for wrong in ["10.0.0.0/33", "::/129", "x", "10.0.0.0/", "10.0.0/8", "/8"] {
        assert!(wrong.parse::<IpRange>().is_err(), "{wrong}");
    }
}

#[test]
fn an_address_of_this_machine_is_known() {
    assert!(is_own("127.0.0.1".parse().unwrap()).unwrap());
    assert!(is_own("::ffff:127.0.0.1".parse().unwrap()).unwrap(), "also in other clothing");
    // Without a way to it the kernel cannot tell, and that is no yes.
    assert!(!is_own("1.1.1.1".parse().unwrap()).unwrap_or(false));
}

proptest! {
    #[test]
    fn a_mapped_address_is_treated_as_what_it_is(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        let plain = refusal(IpAddr::V4(v4), &[]).is_some();
        prop_assert_eq!(plain, refusal(IpAddr::V6(v4.to_ipv6_mapped()), &[]).is_some());
    }

    #[test]
    fn a_range_is_read_as_it_is_written(bits: u32, length in 0u8..=32) {
        let text = format!("{}/{length}", Ipv4Addr::from_bits(bits));
        let range: IpRange = text.parse().unwrap();
        prop_assert_eq!(range.to_string(), text);
        prop_assert!(range.contains(IpAddr::V4(Ipv4Addr::from_bits(bits))));
    }
}
