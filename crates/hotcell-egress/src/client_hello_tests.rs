//! Host names in TLS `ClientHello` messages, also in broken ones.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::client_hello::HelloReader;

/// The first flight of a real client.
pub(crate) fn real_hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

fn vector(length_bytes: usize, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    [&length[length.len() - length_bytes..], content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(2, content)].concat()
}

fn server_name(names: &[(u8, &[u8])]) -> Vec<u8> {
    let names: Vec<u8> =
        names.iter().flat_map(|(kind, name)| [vec![*kind], vector(2, name)].concat()).collect();
    extension(0, &vector(2, &names))
}

/// The message, with its extensions in one piece.
fn message(extensions: &[u8]) -> Vec<u8> {
    let body = [&[3, 3][..], &[7; 32], &vector(1, &[1; 32]), &vector(2, &[19, 1]), &[1, 0]];
    let body = [body.concat(), extensions.to_vec()].concat();
    [&[1][..], &vector(3, &body)].concat()
}

/// Records of at most so many bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &vector(2, part)].concat()).collect()
}

fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    records(&message(&vector(2, &extensions.concat())), 1 << 14)
}

fn read(bytes: &[u8]) -> Result<Option<String>, &'static str> {
    let read = HelloReader::default().take(bytes)?;
    Ok(read.map(|(name, all)| {
        assert_eq!(all, bytes, "every byte goes on");
        name.to_string()
    }))
}

#[test]
fn the_name_of_a_real_client_is_found() {
    assert_eq!(read(&real_hello("Api.Example.org")).unwrap().unwrap(), "api.example.org");
    let refused = read(&real_hello("192.0.2.1")).unwrap_err();
    assert!(refused.contains("no SNI"), "{refused}");
    let refused = read(&real_hello("::1")).unwrap_err();
    assert!(refused.contains("no SNI"), "{refused}");
}

#[test]
fn one_host_name_is_needed() {
    let plain = server_name(&[(0, b"a.test")]);
    let other = extension(43, &[2, 3, 4]);
    assert_eq!(read(&hello(&[other.clone(), plain.clone()])).unwrap().unwrap(), "a.test");
    for (why, extensions) in [
        ("no SNI", vec![other.clone()]),
        ("no SNI", vec![]),
        ("two hosts", vec![plain.clone(), plain.clone()]),
        ("two hosts", vec![plain, other, server_name(&[(0, b"b.test")])]),
        ("two hosts", vec![server_name(&[(0, b"a.test"), (0, b"b.test")])]),
        ("malformed", vec![server_name(&[(1, b"a.test")])]),
        ("malformed", vec![server_name(&[])]),
        ("malformed", vec![extension(0, &[0, 9, 0, 0, 1, b'a'])]),
        ("malformed", vec![extension(0, &[0, 4, 0, 0, 1, b'a', 0])]),
        ("not a host name", vec![server_name(&[(0, b"192.0.2.1")])]),
        ("not a host name", vec![server_name(&[(0, b"::1")])]),
        ("not a host name", vec![server_name(&[(0, b"")])]),
        ("not a host name", vec![server_name(&[(0, b"a.test\0.b.test")])]),
        ("not a host name", vec![server_name(&[(0, b"\xff\xfe")])]),
        ("not a host name", vec![server_name(&[(0, &[b'a'; 300])])]),
    ] {
        let refused = read(&hello(&extensions)).unwrap_err();
        assert!(refused.contains(why), "{why}: {refused}");
    }
    assert!(read(&records(&message(&[]), 999)).unwrap_err().contains("no SNI"));
}

#[test]
fn what_is_no_hello_is_refused() {
    let right = hello(&[server_name(&[(0, b"a.test")])]);
    let body = message(&vector(2, &server_name(&[(0, b"a.test")])));
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = right.clone();
        change(&mut bytes);
        bytes
    };
    for (why, bytes) in [
        ("begin with", with(|it| it[0] = 23)),
        ("begin with", with(|it| it[1] = 2)),
        ("wrong length", with(|it| it[3..5].fill(0))),
        ("wrong length", with(|it| it[3..5].fill(0xff))),
        ("not a ClientHello", with(|it| it[5] = 2)),
        ("malformed", with(|it| it[43] = 255)),
        ("another message", records(&[body.clone(), body.clone()].concat(), 1 << 14)),
        // An alert between two parts of the message.
        ("begin with", [&records(&body[..20], 20)[..], &[21, 3, 3, 0, 2, 1, 0]].concat()),
        ("malformed", records(&message(&[vector(2, &[]), vec![0]].concat()), 999)),
    ] {
        let refused = read(&bytes).expect_err(why);
        assert!(refused.contains(why), "{why}: {refused}");
    }
}

#[test]
fn a_long_hello_is_refused_before_it_is_complete() {
    let long = message(&vector(2, &extension(21, &[0; 65_000])));
    assert!(read(&records(&long, 1 << 14)).unwrap_err().contains("no SNI"), "it is short enough");
    let endless = [&[1, 0xff, 0xff, 0xff][..], &[0; 200_000]].concat();
    let mut reader = HelloReader::default();
    let mut taken = 0;
    let refused = records(&endless, 1 << 14).chunks(1000).find_map(|part| {
        taken += part.len();
        reader.take(part).err()
    });
    assert!(refused.unwrap().contains("64 KiB"));
    assert!(taken < 100_000, "{taken}");
}

proptest! {
    #[test]
    fn splits_change_nothing(size in 1_usize..200, pieces in proptest::collection::vec(1_usize..90, 1..40)) {
        let extensions = [extension(21, &[0; 150]), server_name(&[(0, b"a.b.test")])].concat();
        let bytes = records(&message(&vector(2, &extensions)), size);
        let mut reader = HelloReader::default();
        let (mut rest, mut pieces) = (bytes.as_slice(), pieces.into_iter().cycle());
        while !rest.is_empty() {
            let (part, after) = rest.split_at(pieces.next().unwrap().min(rest.len()));
            let read = reader.take(part).unwrap();
            prop_assert_eq!(read.is_some(), after.is_empty());
            if let Some((name, all)) = read {
                prop_assert_eq!(name.as_str(), "a.b.test");
                prop_assert_eq!(&all, &bytes);
            }
            rest = after;
        }
    }

    #[test]
    fn no_bytes_make_it_panic(at in 0_usize..250, change in any::<u8>(), more in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = HelloReader::default().take(&more);
        let mut bytes = hello(&[extension(21, &[0; 150]), server_name(&[(0, b"a.test")])]);
        let at = at.min(bytes.len() - 1);
        bytes[at] = change;
        // Whatever was changed, no other name is read than one that stands there.
        if let Ok(Some(name)) = read(&bytes) {
            prop_assert!(name == "a.test" || at + 20 > bytes.len(), "{name}");
        }
    }
}
