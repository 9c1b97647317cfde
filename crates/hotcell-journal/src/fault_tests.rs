//! Tests of damaged and truncated segments.

use std::fs;

use hotcell_model::{Stream, Timestamp};

use crate::segment::HEADER_BYTES;
use crate::testing::{Model, Records, read_all};
use crate::{Align, Ended};

/// A log of several segments of several records.
fn small_log(records: &Records) -> Model {
    let mut log = records.log(16 * 60);
    let mut model = Model::default();
    for number in 0..20_u8 {
        model.append(&mut log, Stream::Stdout, &[b'a' + number; 18]);
    }
    log.finish();
    assert!(records.segments().len() > 4);
    model
}

#[test]
fn the_last_segment_cut_anywhere_is_not_there_yet_and_stated_at_the_end() {
    let records = Records::new();
    let model = small_log(&records);
    let last = records.segments().pop().unwrap();
    let whole = fs::read(&last).unwrap();
    let all = read_all(&records, Ended::Yes);
    for cut in 0..whole.len() {
        fs::write(&last, &whole[..cut]).unwrap();
        let live = read_all(&records, Ended::NotYet);
        assert_eq!(live.dropped, [], "cut at {cut}");
        model.check(&live.records, &live.dropped);
        assert!(all.records.starts_with(&live.records));
        let ended = read_all(&records, Ended::Yes);
        assert_eq!(ended.records, live.records);
        let torn = cut > HEADER_BYTES && !ended.dropped.is_empty();
        let boundary = all.records.len() - live.records.len() > 0 && ended.dropped.is_empty();
        assert!(torn || boundary, "cut at {cut}");
        for gap in &ended.dropped {
            assert_eq!(gap.from_seq, live.next_seq + 1);
        }
    }
}

#[test]
fn a_segment_in_the_middle_cut_anywhere_costs_only_its_own_records() {
    let records = Records::new();
    let model = small_log(&records);
    let all = read_all(&records, Ended::NotYet);
    for middle in [0, 2] {
        let path = &records.segments()[middle];
        let whole = fs::read(path).unwrap();
        for cut in 0..whole.len() {
            fs::write(path, &whole[..cut]).unwrap();
            for ended in [Ended::Yes, Ended::NotYet] {
                let read = read_all(&records, ended);
                if read.next_seq == all.next_seq {
                    assert_eq!(model.check(&read.records, &read.dropped), 0, "cut at {cut}");
                    assert_eq!(read.dropped.len(), 1);
                    assert!(read.records.len() >= all.records.len() - 4);
                } else {
                    // Too short to be full: as far as a reader can tell, it is being written.
                    // That the output has ended tells otherwise, after a first segment only if
                    // something in it is torn.
                    let boundary = [96, 139, 182, 225].contains(&cut);
                    assert!(ended == Ended::NotYet || (middle == 0 && boundary), "cut at {cut}");
                }
            }
        }
        fs::write(path, &whole).unwrap();
    }
}

#[test]
fn every_flipped_bit_is_found_and_stated() {
    let records = Records::new();
    let model = small_log(&records);
    let all = read_all(&records, Ended::NotYet);
    for path in records.segments() {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, &damaged).unwrap();
            let read = read_all(&records, Ended::Yes);
            let missing: Vec<_> =
                all.records.iter().filter(|record| !read.records.contains(record)).collect();
            assert_eq!(read.records.len() + missing.len(), all.records.len(), "nothing invented");
            if at < HEADER_BYTES {
                assert!(missing.is_empty(), "a header tells nothing that is needed here");
                assert_eq!(read.dropped, []);
            } else {
                assert_eq!(missing.len(), 1, "byte {at} of {path:?}");
                let gap = read.dropped[0];
                assert_eq!((gap.from_seq, gap.to_seq), (missing[0].seq, missing[0].seq));
                assert_eq!(gap.dropped_bytes, missing[0].bytes.len() as u64);
                assert_eq!(model.check(&read.records, &read.dropped), 0);
            }
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_damaged_record_is_passed_while_the_log_is_written() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    let mut model = Model::default();
    model.append(&mut log, Stream::Stdout, b"first");
    let path = records.segments().pop().unwrap();
    model.append(&mut log, Stream::Stdout, b"second");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 1] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let mut reader = records.reader();
    let before = reader.read_after(0, 100, Align::Raw, Ended::NotYet).unwrap();
    assert_eq!((before.next_seq, before.dropped.len()), (1, 0));
    model.append(&mut log, Stream::Stdout, b"third");
    let after = reader.read_after(1, 100, Align::Raw, Ended::NotYet).unwrap();
    assert_eq!((after.records[0].seq, after.dropped[0].dropped_bytes), (3, 6));
}

#[test]
fn a_log_of_a_newer_version_is_refused() {
    let records = Records::new();
    records.log(1 << 20).append(Stream::Stdout, Timestamp(0), b"x");
    let path = records.segments().pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4] = 2;
    let crc = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = records.reader().read_after(0, 1, Align::Raw, Ended::Yes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn the_format_stays_what_it_is() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    log.append(Stream::Stderr, Timestamp(0x0102_0304), "hi €".as_bytes());
    let path = records.segments().pop().unwrap();
    assert!(path.ends_with("log/e_7000000000.00000000000000000001"));
    let hash = crc32fast::hash(&fs::read(&path).unwrap());
    assert_eq!((fs::read(&path).unwrap().len(), hash), (96 + 25 + 6, 199_282_068));
}
