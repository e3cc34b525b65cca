//! The dynamic table: the examples of RFC 9204 appendix B, and peers that break a rule of it.

use super::*;
use crate::h3::code::{Code, Fault};

const WRONG: Fault = Fault::of_connection(Code::QPACK_ENCODER_STREAM_ERROR);
const UNDECODABLE: Fault = Fault::of_connection(Code::QPACK_DECOMPRESSION_FAILED);

/// Gives a decoder instructions of the peer's encoder.
fn instruct(decoder: &mut Decoder, bytes: &[u8]) -> Result<(), Fault> {
    EncoderStream::default().receive(decoder, &mut { bytes }, || Ok(()))
}

/// Gives an encoder instructions of the peer's decoder.
fn answer(encoder: &mut Encoder, bytes: &[u8]) -> Result<(), Fault> {
    DecoderStream::default().receive(encoder, &mut { bytes }, || Ok(()))
}

/// A decoder with a table of 220 bytes, and the two entries of RFC 9204 appendix B.2.
fn with_two() -> Decoder {
    let mut decoder = Decoder::new(TABLE_BYTES_MAX);
    let instructions = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
    assert_eq!(instruct(&mut decoder, instructions), Ok(()));
    decoder
}

/// RFC 9204 appendices B.2 to B.5.
#[test]
fn the_examples_of_the_standard_are_decoded() {
    let mut decoder = with_two();
    let block = b"\x03\x81\x10\x11";
    let lines = ":authority: www.example.com\n:path: /sample/path\n";
    assert_eq!(decode_by(&mut decoder, 4, block), Ok(lines.to_owned()));
    assert_eq!(std::mem::take(decoder.out()), [0x02, 0x84]);
    assert_eq!(instruct(&mut decoder, b"\x4acustom-key\x0ccustom-value"), Ok(()));
    assert_eq!(std::mem::take(decoder.out()), [0x01]);
    assert_eq!(instruct(&mut decoder, b"\x02"), Ok(()));
    let block = b"\x05\x00\x80\xc1\x81";
    let lines = ":authority: www.example.com\n:path: /\ncustom-key: custom-value\n";
    assert_eq!(decode_by(&mut decoder, 8, block), Ok(lines.to_owned()));
    decoder.abandon(8);
    assert_eq!(std::mem::take(decoder.out()), [0x01, 0x88, 0x48]);
    assert_eq!(instruct(&mut decoder, b"\x81\x0dcustom-value2"), Ok(()));
    // The first entry was evicted, as the standard says.
    assert_eq!(decode_by(&mut decoder, 12, b"\x06\x00\x84"), Err(BrokenBlock));
    let newest = decode_by(&mut decoder, 12, b"\x06\x00\x80");
    assert_eq!(newest.as_deref(), Ok("custom-key: custom-value2\n"));
}

#[test]
fn instructions_that_break_a_rule_end_the_connection() {
    for instructions in [
        // A capacity above the setting (section 4.3.1).
        &b"\x3f\xe2\x1f"[..],
        // Names and entries that do not exist (sections 4.3.2 and 4.3.4).
        b"\xff\x24\x00",
        b"\x82\x00",
        b"\x02",
        // An entry that is larger than the table (section 3.2.2).
        b"\x3f\x01\xc0\x01a",
        // A string that cannot have room.
        b"\x5f\xff\xff\x7f",
        // An integer that does not end (section 4.1.1).
        b"\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        // A Huffman code that is none.
        b"\xc0\x84\xff\xff\xff\xff",
    ] {
        assert_eq!(instruct(&mut with_two(), instructions), Err(WRONG), "{instructions:x?}");
    }
}

#[test]
fn blocks_refer_only_to_entries_that_they_declare_and_that_are_there() {
    for block in [
        // The declared count is that of no block: the encoder would have sent 0 (section 4.5.1.1).
        &b"\xff\x02\x00"[..],
        // One insertion is declared, the second entry is referred to (section 2.2.3).
        b"\x02\x01\x80",
        b"\x02\x00\x10",
        // Below the first entry, and above the last.
        b"\x03\x00\x82",
        b"\x03\x00\x10",
        // A base below the first entry (section 4.5.1.2).
        b"\x03\x82\x10",
        // Names of such entries.
        b"\x03\x00\x42\x00",
        b"\x03\x00\x00\x00",
    ] {
        assert_eq!(decode_by(&mut with_two(), 0, block), Err(BrokenBlock), "{block:x?}");
    }
    let mut decoder = with_two();
    // A smaller capacity evicts (section 3.2.2).
    assert_eq!(instruct(&mut decoder, b"\x20"), Ok(()));
    assert_eq!(decode_by(&mut decoder, 0, b"\x03\x81\x10"), Err(BrokenBlock));
}

#[test]
fn a_block_waits_for_its_entries_and_few_may() {
    let mut decoder = with_two();
    // Three insertions are declared.
    let block = b"\x04\x00\x80";
    for stream in 0..BLOCKED_STREAMS_MAX as u64 {
        assert_eq!(decoder.blocks(4 * stream, block), Ok(true));
    }
    assert_eq!(decoder.blocks(400, b"\x03\x00\x80"), Ok(false));
    assert_eq!(decoder.blocks(400, block), Err(UNDECODABLE));
    // One that is given up makes room, and is told (section 4.4.2).
    decoder.out().clear();
    decoder.abandon(8);
    assert_eq!(std::mem::take(decoder.out()), [0x48]);
    assert_eq!(decoder.blocks(400, block), Ok(true));
    assert_eq!(decoder.unblocked(), None);
    assert_eq!(instruct(&mut decoder, b"\x41a\x01b"), Ok(()));
    let mut unblocked: Vec<_> = std::iter::from_fn(|| decoder.unblocked()).collect();
    unblocked.sort_unstable();
    assert_eq!((unblocked.len(), unblocked[2], unblocked[15]), (BLOCKED_STREAMS_MAX, 12, 400));
    assert_eq!(decode_by(&mut decoder, 400, block).as_deref(), Ok("a: b\n"));
}

#[test]
fn names_and_values_of_entries_are_checked_as_literals_are() {
    let mut decoder = Decoder::new(TABLE_BYTES_MAX);
    let instructions = b"\x3f\xbd\x01\x41A\x01b\x41a\x03b\r\n";
    assert_eq!(instruct(&mut decoder, instructions), Ok(()));
    let mut validity = Vec::new();
    let _ = decoder.decode::<ListTooLarge>(0, b"\x03\x00\x81\x80", 1000, &mut Vec::new(), |_, field| {
        validity.push([field.name_is_valid, field.value_is_valid]);
        Ok(())
    });
    assert_eq!(validity, [[false, true], [true, false]]);
}

/// Sends a field until it is in the table of the peer, which acknowledges it.
fn store(encoder: &mut Encoder, name: &[u8], value: &[u8]) {
    for _ in 0..2 {
        written_by(encoder, 0, |section| section.field(name, value));
    }
    assert!(answer(encoder, &[0x01]).is_ok());
}

#[test]
fn a_field_is_inserted_at_its_second_time_and_used_once_it_is_acknowledged() {
    let mut encoder = Encoder::default();
    let write = |encoder: &mut Encoder| written_by(encoder, 4, |section| section.field(b"X-A", b"abc"));
    let literal = write(&mut encoder);
    encoder.set_peer_table_bytes(220);
    assert_eq!(write(&mut encoder), literal);
    assert!(encoder.out().is_empty());
    assert_eq!(write(&mut encoder), literal);
    assert!(encoder.out().starts_with(&[0x3f, 0xbd, 0x01]));
    let len = encoder.out().len();
    assert_eq!(write(&mut encoder), literal);
    assert_eq!(answer(&mut encoder, &[0x01]), Ok(()));
    assert_eq!(write(&mut encoder), [2, 0, 0x80]);
    assert_eq!(encoder.out().len(), len);
    assert_eq!(answer(&mut encoder, &[0x84]), Ok(()));
}

#[test]
fn answers_that_break_a_rule_end_the_connection() {
    const WRONG: Fault = Fault::of_connection(Code::QPACK_DECODER_STREAM_ERROR);
    let mut encoder = Encoder::default();
    encoder.set_peer_table_bytes(220);
    store(&mut encoder, b"x-a", b"abc");
    for bytes in [
        // A block without references is not acknowledged (section 4.4.1).
        &[0x80][..],
        // No insertion, or more than there are (section 4.4.3).
        &[0x00],
        &[0x01],
        &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(answer(&mut encoder, bytes), Err(WRONG), "{bytes:x?}");
    }
    written_by(&mut encoder, 4, |section| section.field(b"x-a", b"abc"));
    assert_eq!(answer(&mut encoder, &[0x44]), Ok(()));
    assert_eq!(answer(&mut encoder, &[0x84]), Err(WRONG));
}

/// A peer that acknowledges nothing is not sent references without end.
#[test]
fn references_that_are_not_acknowledged_are_bounded() {
    let mut encoder = Encoder::default();
    encoder.set_peer_table_bytes(4096);
    store(&mut encoder, b"x-a", b"abc");
    let mut with_references = 0;
    for stream in 0..10_000 {
        let block = written_by(&mut encoder, stream, |section| section.field(b"x-a", b"abc"));
        with_references += u32::from(block[0] > 0);
    }
    assert_eq!(with_references, 256);
}

#[test]
fn entries_that_are_needed_are_not_evicted_and_instructions_are_bounded() {
    let mut encoder = Encoder::default();
    encoder.set_peer_table_bytes(100);
    store(&mut encoder, b"x-a", b"abc");
    // The second entry has no room beside the first, to which a block refers.
    written_by(&mut encoder, 4, |section| section.field(b"x-a", b"abc"));
    let size = encoder.table_bytes();
    let long = [b'v'; 60];
    for _ in 0..3 {
        written_by(&mut encoder, 8, |section| section.field(b"x-b", &long));
    }
    assert_eq!(encoder.table_bytes(), size);
    assert_eq!(answer(&mut encoder, &[0x84]), Ok(()));
    written_by(&mut encoder, 8, |section| section.field(b"x-b", &long));
    assert_eq!(encoder.table_bytes(), 32 + 3 + 60);

    let mut encoder = Encoder::default();
    encoder.set_peer_table_bytes(u64::MAX >> 2);
    for number in 0..10_000 {
        for _ in 0..2 {
            let value = number.to_string();
            written_by(&mut encoder, 0, |section| section.field(b"x-a", value.as_bytes()));
        }
    }
    assert!(encoder.out().len() < 5000 && encoder.table_bytes() <= 4096);
}

#[test]
fn instructions_are_paid_for() {
    let mut left = 3;
    let mut pay = || {
        left -= 1;
        if left < 0 { Err(Fault::of_connection(Code::EXCESSIVE_LOAD)) } else { Ok(()) }
    };
    let mut decoder = with_two();
    let flood = [0; 100];
    let outcome = EncoderStream::default().receive(&mut decoder, &mut &flood[..], &mut pay);
    assert_eq!(outcome, Err(Fault::of_connection(Code::EXCESSIVE_LOAD)));
}
