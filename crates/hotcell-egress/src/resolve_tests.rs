//! Which of the addresses of a name are dialled.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hotcell_model::NameRules;

use crate::resolve::{AskedBy, HostResolver, NoAddress, why_not};
use crate::{EgressSettings, IpRange};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_address_of_which_the_kernel_cannot_tell_is_refused() {
    let cannot_tell = |_| Err(io::ErrorKind::NetworkUnreachable.into());
    assert!(why_not(address("1.1.1.1"), &[], cannot_tell).is_some());
    assert!(why_not(address("1.1.1.1"), &[], |_| Ok(false)).is_none());
    assert!(why_not(address("1.1.1.1"), &[], |_| Ok(true)).is_some());
}

#[test]
fn an_address_in_other_clothing_is_asked_about_as_what_it_is() {
    let plain = |asked| Ok(asked == address("1.1.1.1"));
    assert!(why_not(address("::ffff:1.1.1.1"), &[], plain).is_some());
    let range: IpRange = "10.0.0.0/8".parse().unwrap();
    assert!(why_not(address("::ffff:10.1.1.1"), &[range], |_| Ok(true)).is_none());
}

fn rules(allow: &[&str], deny: &[&str]) -> NameRules {
    let all = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    NameRules { allow: all(allow), deny: all(deny) }
}

#[test]
fn only_a_rule_that_writes_a_name_out_asks_by_name() {
    let asked = |allow: &[&str], deny: &[&str], name: &str, port: u16| {
        AskedBy::of(&rules(allow, deny), &name.parse().unwrap(), port)
    };
    assert_eq!(asked(&["db.test"], &[], "db.test", 443), AskedBy::Name);
    assert_eq!(asked(&["*"], &[], "db.test", 443), AskedBy::Pattern);
    assert_eq!(asked(&["*.test"], &[], "db.test", 443), AskedBy::Pattern);
    assert_eq!(asked(&["*", "db.test:5432"], &[], "db.test", 5432), AskedBy::Name);
    assert_eq!(asked(&["*", "db.test:5432"], &[], "db.test", 443), AskedBy::Pattern);
    assert_eq!(asked(&["*", "other.test"], &[], "db.test", 443), AskedBy::Pattern);
}

#[test]
fn a_name_with_an_address_is_for_rules_that_write_it_out() {
    let settings = EgressSettings {
        hosts: vec!["localhost.test=127.0.0.9".parse().unwrap()],
        // Nobody answers there.
        nameservers: vec!["127.0.0.1:1".parse().unwrap()],
        ..EgressSettings::default()
    };
    let name = "localhost.test".parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let resolver = HostResolver::new(&settings);
        let found = resolver.find(&name, AskedBy::Name).await;
        assert_eq!(found, Ok(vec![address("127.0.0.9")]));
        let asking = resolver.find(&name, AskedBy::Pattern);
        match tokio::time::timeout(Duration::from_millis(200), asking).await {
            // It is still asked for.
            Err(_) | Ok(Err(NoAddress::Unknown(_))) => {}
            Ok(found) => panic!("{found:?}"),
        }
    });
}
