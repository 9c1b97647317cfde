//! Lookups, well-formed and not.

use std::net::Ipv4Addr;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use hotcell_model::HostName;
use proptest::prelude::*;

use crate::dns::{Told, Wanted, answer};

const HERE: Ipv4Addr = Ipv4Addr::new(127, 64, 1, 2);

fn decide(name: Result<&HostName, &str>, _: Wanted) -> Told {
    match name {
        Ok(name) if name.as_str() == "good.test" => Told::Address(HERE),
        Ok(name) if name.as_str() == "broken.test" => Told::Failed,
        Ok(_) | Err(_) => Told::Denied,
    }
}

fn query(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(77, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.metadata.recursion_desired = true;
    message
}

fn ask(message: &Message) -> Message {
    let reply = answer(&message.to_vec().unwrap(), decide).expect("an answer");
    Message::from_vec(&reply).unwrap()
}

#[test]
fn an_allowed_name_has_its_address_and_nothing_of_other_kinds() {
    let reply = ask(&query("GOOD.test.", RecordType::A));
    assert_eq!((reply.metadata.id, reply.metadata.response_code), (77, ResponseCode::NoError));
    assert!(matches!(reply.answers[0].data, RData::A(address) if address.0 == HERE));
    for kind in [RecordType::AAAA, RecordType::MX, RecordType::TXT, RecordType::HTTPS] {
        let reply = ask(&query("good.test.", kind));
        assert_eq!(reply.metadata.response_code, ResponseCode::NoError, "{kind}");
        assert!(reply.answers.is_empty(), "{kind}");
    }
}

#[test]
fn every_other_name_does_not_exist() {
    let long = format!("{}.test.", "a".repeat(63));
    for name in ["bad.test.", "x.good.test.", ".", &long, "1.0.0.127.in-addr.arpa.", "1.2.3.4."] {
        for kind in [RecordType::A, RecordType::AAAA, RecordType::PTR] {
            let reply = ask(&query(name, kind));
            assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain, "{name} {kind}");
        }
    }
    let reply = ask(&query("broken.test.", RecordType::A));
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
}

#[test]
fn what_is_no_plain_question_is_refused() {
    let mut two = query("good.test.", RecordType::A);
    two.add_query(Query::query(Name::from_ascii("bad.test.").unwrap(), RecordType::A));
    assert_eq!(ask(&two).metadata.response_code, ResponseCode::FormErr);

    let mut other_class = Message::new(1, MessageType::Query, OpCode::Query);
    let mut chaos = Query::query(Name::from_ascii("version.bind.").unwrap(), RecordType::TXT);
    chaos.set_query_class(DNSClass::CH);
    other_class.add_query(chaos);
    assert_eq!(ask(&other_class).metadata.response_code, ResponseCode::Refused);

    let update = Message::new(1, MessageType::Query, OpCode::Update);
    assert_eq!(ask(&update).metadata.response_code, ResponseCode::NotImp);

    let reply = Message::new(1, MessageType::Response, OpCode::Query);
    assert_eq!(answer(&reply.to_vec().unwrap(), decide), None, "an answer is not answered");
}

#[test]
fn loops_of_pointers_and_long_labels_do_no_harm() {
    let head = [0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let points_at_itself = [0xc0, 12, 0, 1, 0, 1];
    let points_forward = [0xc0, 200, 0, 1, 0, 1];
    let long_label = [&[0x7f_u8][..], &[b'a'; 127], &[0, 0, 1, 0, 1]].concat();
    let no_end: Vec<u8> = [63_u8].into_iter().chain([b'a'; 63]).collect::<Vec<_>>().repeat(8);
    for tail in [&points_at_itself[..], &points_forward[..], &long_label, &no_end, &[]] {
        let reply = answer(&[&head[..], tail].concat(), decide).expect("an answer");
        let reply = Message::from_vec(&reply).unwrap();
        assert_eq!((reply.metadata.id, reply.metadata.response_code), (9, ResponseCode::FormErr));
    }
    assert_eq!(answer(&[], decide), None);
    assert_eq!(answer(&[0; 11], decide), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        if let Some(reply) = answer(&bytes, decide) {
            prop_assert!(Message::from_vec(&reply).is_ok());
        }
    }

    #[test]
    fn no_damage_to_a_question_makes_it_fail(
        at in 0usize..40, byte: u8, cut in 0usize..40
    ) {
        let mut bytes = query("good.test.", RecordType::A).to_vec().unwrap();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        if let Some(reply) = answer(&bytes, decide) {
            prop_assert!(Message::from_vec(&reply).is_ok());
        }
    }
}
