//! The first example of RFC 9204 appendix B, broken blocks, and both directions against each other, without a
//! dynamic table. Never in here: frames.

mod model;
mod table;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::Known;
use crate::compression::{BrokenBlock, Decoded, ListTooLarge, Token};

const LIST_BYTES_MAX: usize = 1 << 20;

/// Decodes a block to lines, without a dynamic table.
fn decode(block: &[u8]) -> Result<String, BrokenBlock> {
    decode_by(&mut Decoder::default(), 0, block)
}

/// The same with a decoder's table.
fn decode_by(decoder: &mut Decoder, stream: u64, block: &[u8]) -> Result<String, BrokenBlock> {
    let mut out = Vec::new();
    let mut end = 0;
    let outcome = decoder.decode::<ListTooLarge>(stream, block, LIST_BYTES_MAX, &mut out, |out, field| {
        assert_eq!(field.name.start, end);
        assert_eq!(&out[field.name.end..field.value.start], b": ");
        assert_eq!(&out[field.value.end..], b"\r\n");
        end = out.len();
        Ok(())
    })?;
    assert_eq!(outcome, Ok(()));
    Ok(String::from_utf8_lossy(&out).replace("\r\n", "\n"))
}

/// Writes a block without a dynamic table.
fn written(write: impl FnOnce(&mut SectionWriter<'_>)) -> Vec<u8> {
    written_by(&mut Encoder::default(), 0, write)
}

/// The same with an encoder's table.
fn written_by(encoder: &mut Encoder, stream: u64, write: impl FnOnce(&mut SectionWriter<'_>)) -> Vec<u8> {
    let mut section = encoder.begin(stream);
    write(&mut section);
    section.finish().concat()
}

/// The fields of a block as the decoder passes them on.
fn fields(block: &[u8]) -> Vec<Decoded> {
    let mut seen = Vec::new();
    let _ = Decoder::default().decode::<ListTooLarge>(0, block, 1000, &mut Vec::new(), |_, field| {
        seen.push(field);
        Ok(())
    });
    seen
}

/// RFC 9204 appendix B.1.
#[test]
fn the_example_of_the_standard_is_decoded() {
    let block = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(decode(block).unwrap(), ":path: /index.html\n");
    assert_eq!(written(|section| section.field(b":path", b"/index.html")), block);
}

#[test]
fn every_representation_is_decoded() {
    for (block, lines) in [
        (&b"\x00\x00\xd9"[..], ":status: 200\n"),
        (b"\x00\x00\xff\x23", "x-frame-options: sameorigin\n"),
        (b"\x00\x00\x5f\x50\x01a", "user-agent: a\n"),
        (b"\x00\x00\x7f\x50\x00", "user-agent: \n"),
        (b"\x00\x00\x21a\x01b", "a: b\n"),
        (b"\x00\x00\x31a\x01b", "a: b\n"),
        (b"\x00\x00\x29\x1f\x81\x1f", "a: a\n"),
        (b"\x00\x05\xd1", ":method: GET\n"),
    ] {
        assert_eq!(decode(block).as_deref(), Ok(lines), "{block:x?}");
    }
}

#[test]
fn blocks_that_are_not_valid_are_broken() {
    for block in [
        &b""[..],
        b"\x00",
        // Entries of a dynamic table are needed; the base is below the first.
        b"\x01\x00",
        b"\x00\x80",
        // References to a dynamic table, of all four kinds.
        b"\x00\x00\x80",
        b"\x00\x00\x40\x00",
        b"\x00\x00\x10",
        b"\x00\x00\x00\x00",
        // An index without an entry.
        b"\x00\x00\xff\x24",
        b"\x00\x00\x5f\x54\x00",
        // Strings that are cut off, and a Huffman code that is none.
        b"\x00\x00\x22a",
        b"\x00\x00\x21a",
        b"\x00\x00\x21a\x02b",
        b"\x00\x00\x21a\x84\xff\xff\xff\xff",
        // An integer of more than 32 bits.
        b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f",
    ] {
        assert_eq!(decode(block), Err(BrokenBlock), "{block:x?}");
    }
}

#[test]
fn a_list_that_is_too_large_is_cut_off() {
    let block = written(|section| (0..10).for_each(|_| section.field(b"abcd", b"efgh")));
    let mut out = Vec::new();
    let outcome = Decoder::default().decode::<ListTooLarge>(0, &block, 100, &mut out, |_, _| Ok(()));
    assert_eq!((outcome, out.len()), (Ok(Err(ListTooLarge)), 2 * b"abcd: efgh\r\n".len()));
}

#[test]
fn secrets_are_not_to_be_stored() {
    for (name, value, is_secret) in [
        ("set-cookie", "a=b", true),
        ("authorization", "Basic eA==", true),
        ("cookie", "a=b", true),
        ("cookie", "a=0123456789abcdef0123456789abcdef", false),
        ("user-agent", "a", false),
    ] {
        let block = written(|section| section.field(name.as_bytes(), value.as_bytes()));
        let seen: Vec<_> = fields(&block).iter().map(|field| field.is_never_indexed).collect();
        assert_eq!(seen, [is_secret], "{name}: {value}");
    }
}

#[test]
fn statuses_are_written_by_index_where_there_is_one() {
    for (code, bytes) in [(200, &b"\xd9"[..]), (304, b"\xda"), (403, b"\xff\x05"), (418, b"\x5f\x09\x03418")]
    {
        assert_eq!(written(|section| section.status(code))[2..], *bytes, "{code}");
    }
}

#[test]
fn streams_of_instructions_may_say_next_to_nothing_without_a_table() {
    let mut encoder = &[0x20, 0x20][..];
    let mut stream = EncoderStream::default();
    assert_eq!(stream.receive(&mut Decoder::default(), &mut encoder, || Ok(())), Ok(()));
    assert!(encoder.is_empty());
    for wrong in [&[0x21][..], &[0x3f, 0x01], &[0x41, b'a', 0], &[0x00], &[0xc0, 0]] {
        let mut stream = EncoderStream::default();
        let outcome = stream.receive(&mut Decoder::default(), &mut { wrong }, || Ok(()));
        assert!(outcome.is_err(), "{wrong:x?}");
    }
    let receive = |bytes: &[u8]| {
        let mut encoder = Encoder::default();
        DecoderStream::default().receive(&mut encoder, &mut { bytes }, || Ok(()))
    };
    for right in [&[0x40][..], &[0x7f, 0x80, 0x01, 0x44], &[]] {
        assert_eq!(receive(right), Ok(()), "{right:x?}");
    }
    for wrong in [&[0x80][..], &[0x01], &[0x00], &[0x7f, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]] {
        assert!(receive(wrong).is_err(), "{wrong:x?}");
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_again(
        fields in proptest::collection::vec(
            ("[a-zA-Z-]{1,80}|content-type|cache-control|:path", "[ -~]{0,300}|text/css|no-cache"), 0..20)
    ) {
        let block = written(|section| {
            for (name, value) in &fields {
                section.field(name.as_bytes(), value.as_bytes());
            }
        });
        let mut lines = String::new();
        for (name, value) in &fields {
            let _ = writeln!(lines, "{}: {value}", name.to_lowercase());
        }
        prop_assert_eq!(decode(&block), Ok(lines));
    }

    #[test]
    fn noise_is_decoded_without_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode(&noise);
        let _ = decode(&[&[0, 0][..], &noise].concat());
    }

    #[test]
    fn names_are_known_as_http_1_knows_them(name in "[a-z-]{1,20}|host|te|cookie|x-request-id") {
        let block = written(|section| section.field(name.as_bytes(), b"v"));
        let tokens: Vec<_> = fields(&block).iter().map(|field| field.token).collect();
        let token = if name == "cookie" { Token::Cookie } else { Token::Field(Known::of(name.as_bytes())) };
        prop_assert_eq!(tokens, [token]);
    }
}
