//! Answers to lookups. Pure: bytes in, bytes out.

use std::net::Ipv4Addr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hotcell_model::HostName;

/// How long a program may keep an address.
const TTL_S: u32 = 60;
const HEADER_BYTES: usize = 12;

/// What is to be answered about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is here.
    Address(Ipv4Addr),
    /// It may not be reached.
    Denied,
    /// It may be reached, and something is in the way.
    Failed,
}

/// What is asked about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its address.
    Address,
    /// Whether it may be reached.
    Anything,
}

/// The answer to a packet; none where none is due. `decide` is asked with the name, or with the
/// text of what is none.
pub(crate) fn answer(
    packet: &[u8],
    decide: impl FnOnce(Result<&HostName, &str>, Wanted) -> Told,
) -> Option<Vec<u8>> {
    let Ok(asked) = Message::from_vec(packet) else { return unreadable(packet) };
    if asked.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut reply = Message::response(asked.metadata.id, asked.metadata.op_code);
    reply.metadata.recursion_desired = asked.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    if asked.edns.is_some() {
        reply.edns = Some(Edns::new());
    }
    reply.metadata.response_code = match asked.queries.as_slice() {
        _ if asked.metadata.op_code != OpCode::Query => ResponseCode::NotImp,
        [query] if query.query_class() == DNSClass::IN => {
            reply.add_query(query.clone());
            about(query, &mut reply, decide)
        }
        [_] => ResponseCode::Refused,
        _ => ResponseCode::FormErr,
    };
    reply.to_vec().ok()
}

fn about(
    query: &Query,
    reply: &mut Message,
    decide: impl FnOnce(Result<&HostName, &str>, Wanted) -> Told,
) -> ResponseCode {
    let text = query.name().to_ascii();
    let is_address = query.query_type() == RecordType::A;
    let wanted = if is_address { Wanted::Address } else { Wanted::Anything };
    // What stands for addresses is no name of a host.
    let name = text.parse::<HostName>().ok().filter(|_| !is_reverse(query.name()));
    match (decide(name.as_ref().ok_or(text.as_str()), wanted), wanted) {
        (Told::Denied, _) => ResponseCode::NXDomain,
        (Told::Failed, _) => ResponseCode::ServFail,
        (Told::Address(_), Wanted::Anything) => ResponseCode::NoError,
        (Told::Address(address), Wanted::Address) => {
            let data = RData::A(A::from(address));
            reply.add_answer(Record::from_rdata(query.name().clone(), TTL_S, data));
            ResponseCode::NoError
        }
    }
}

fn is_reverse(name: &Name) -> bool {
    name.iter().next_back().is_some_and(|label| label.eq_ignore_ascii_case(b"arpa"))
}

/// A packet with a head and nothing that could be read: a client that waits is told at once.
fn unreadable(packet: &[u8]) -> Option<Vec<u8>> {
    const IS_ANSWER: u8 = 0x80;
    let [high, low, flags, ..] = packet else { return None };
    if packet.len() < HEADER_BYTES || flags & IS_ANSWER != 0 {
        return None;
    }
    let id = u16::from_be_bytes([*high, *low]);
    Message::error_msg(id, OpCode::Query, ResponseCode::FormErr).to_vec().ok()
}
