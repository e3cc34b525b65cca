//! The examples of RFC 7541 appendix C, broken blocks, and both directions against each other. Never in here:
//! frames.

use proptest::prelude::*;

use super::*;
use crate::Known;
use crate::compression::{huffman, primitive};

/// The largest list that tests decode, unless they are about this bound.
const LIST_BYTES_MAX: usize = 1 << 20;

/// Bytes from hexadecimal digits and white space.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        digits.bytes().filter_map(|digit| char::from(digit).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Decodes a block to lines, and checks the positions of each field.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, BrokenBlock> {
    let mut out = Vec::new();
    let mut end = 0;
    let outcome = decoder.decode::<ListTooLarge>(block, LIST_BYTES_MAX, &mut out, |out, field| {
        assert_eq!(field.name.start, end);
        assert_eq!(&out[field.name.end..field.value.start], b": ");
        assert_eq!(&out[field.value.end..], b"\r\n");
        end = out.len();
        Ok(())
    })?;
    assert_eq!(outcome, Ok(()));
    Ok(String::from_utf8_lossy(&out).replace("\r\n", "\n"))
}

/// The fields of a block.
fn fields(decoder: &mut Decoder, block: &[u8]) -> Vec<Decoded> {
    let mut fields = Vec::new();
    let each = |_: &mut Vec<u8>, field| -> Result<(), ListTooLarge> {
        fields.push(field);
        Ok(())
    };
    assert_eq!(decoder.decode(block, LIST_BYTES_MAX, &mut Vec::new(), each), Ok(Ok(())));
    fields
}

fn broken(block: &str) {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    assert_eq!(decode(&mut decoder, &hex(block)), Err(BrokenBlock), "{block}");
}

// === RFC 7541 appendix C ===

#[test]
fn integers_of_appendix_c_1() {
    for (prefix_bits, value, bytes) in [(5, 10, "0a"), (5, 1337, "1f9a0a"), (8, 42, "2a")] {
        let mut out = Vec::new();
        primitive::integer(prefix_bits, 0, value, &mut out);
        assert_eq!(out, hex(bytes));
        assert_eq!(primitive::Reader::new(&out).integer(prefix_bits), Ok(value));
    }
}

#[test]
fn representations_of_appendix_c_2() {
    for (block, lines, table_bytes) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header\n",
            55,
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", 0),
        ("82", ":method: GET\n", 0),
    ] {
        let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
        assert_eq!(decode(&mut decoder, &hex(block)).as_deref(), Ok(lines));
        assert_eq!(decoder.table_bytes(), table_bytes);
    }
    assert!(
        fields(&mut Decoder::new(0), &hex("1008 7061 7373 776f 7264 0673 6563 7265 74"))[0].is_never_indexed
    );
}

#[test]
fn the_encoder_writes_the_determined_ones_of_appendix_c_2() {
    let (mut encoder, mut out) = (Encoder::new(TABLE_BYTES_DEFAULT), Vec::new());
    encoder.path(b"/sample/path", &mut out);
    assert_eq!(out, hex("040c 2f73 616d 706c 652f 7061 7468"));
    out.clear();
    encoder.field(Known::Other, b"Password", b"secret", Indexing::Never, &mut out);
    assert_eq!(out, hex("1008 7061 7373 776f 7264 0673 6563 7265 74"));
}

const REQUESTS: [(&str, usize); 3] = [
    (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n", 57),
    (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n", 110),
    (
        ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
        164,
    ),
];

const CODED_REQUESTS: [&str; 3] = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
];

#[test]
fn requests_of_appendix_c_3_and_c_4() {
    let raw = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    for blocks in [raw, CODED_REQUESTS] {
        let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
        for (block, (lines, table_bytes)) in blocks.into_iter().zip(REQUESTS) {
            assert_eq!(decode(&mut decoder, &hex(block)).as_deref(), Ok(lines));
            assert_eq!(decoder.table_bytes(), table_bytes);
        }
    }
}

#[test]
fn the_encoder_writes_the_requests_of_appendix_c_4() {
    let mut encoder = Encoder::new(TABLE_BYTES_DEFAULT);
    for (block, (lines, table_bytes)) in CODED_REQUESTS.into_iter().zip(REQUESTS) {
        assert_eq!(encode(&mut encoder, lines), hex(block));
        assert_eq!(encoder.table_bytes(), table_bytes);
    }
}

/// Encodes lines with all fields stored that the interface does not decide on.
fn encode(encoder: &mut Encoder, lines: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for line in lines.lines() {
        let Some((name, value)) = line.split_once(": ") else { panic!("a line without a colon") };
        let bytes = value.as_bytes();
        match name {
            ":method" => encoder.method(bytes, &mut out),
            ":scheme" => encoder.scheme(value == "https", &mut out),
            ":path" => encoder.path(bytes, &mut out),
            ":authority" => encoder.authority(bytes, &mut out),
            ":protocol" => encoder.protocol(bytes, &mut out),
            ":status" => encoder.status(value.parse().unwrap_or(0), &mut out),
            _ => {
                let known = Known::of(name.as_bytes());
                encoder.field(known, name.as_bytes(), bytes, Indexing::Stored, &mut out);
            }
        }
    }
    out
}

/// Responses with a table of 256 bytes, which evicts entries.
const RESPONSES: [(&str, usize); 3] = [
    (
        ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com\n",
        222,
    ),
    (
        ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com\n",
        222,
    ),
    (
        ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n\
         location: https://www.example.com\ncontent-encoding: gzip\n\
         set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
        215,
    ),
];

const CODED_RESPONSES: [&str; 3] = [
    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 \
     8f0b 97c8 e9ae 82ae 43d3",
    "4883 640e ffc1 c0bf",
    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 \
     dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
];

#[test]
fn responses_of_appendix_c_5_and_c_6() {
    let raw = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d \
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f \
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b \
         2076 6572 7369 6f6e 3d31",
    ];
    for blocks in [raw, CODED_RESPONSES] {
        let mut decoder = Decoder::new(256);
        assert_eq!(decode(&mut decoder, &hex("3fe101")).as_deref(), Ok(""));
        decoder.settings_acknowledged();
        for (block, (lines, table_bytes)) in blocks.into_iter().zip(RESPONSES) {
            assert_eq!(decode(&mut decoder, &hex(block)).as_deref(), Ok(lines));
            assert_eq!(decoder.table_bytes(), table_bytes);
        }
    }
}

#[test]
fn the_encoder_writes_the_responses_of_appendix_c_6() {
    // The RFC's encoder prefers the Huffman code of "307" to the text of the same length; ours does not.
    let raw_307 = "4803 3330 37c1 c0bf";
    let blocks = [CODED_RESPONSES[0], raw_307, CODED_RESPONSES[2]];
    let mut encoder = Encoder::new(256);
    assert_eq!(encode(&mut encoder, ""), hex("3fe101"));
    for (block, (lines, table_bytes)) in blocks.into_iter().zip(RESPONSES) {
        assert_eq!(encode(&mut encoder, lines), hex(block));
        assert_eq!(encoder.table_bytes(), table_bytes);
    }
}

// === Broken blocks ===

#[test]
fn indexes_without_an_entry_are_refused() {
    broken("80");
    broken("be");
    broken("ff00");
    broken("7f0001 61");
    broken("0f80ff7f0161");
    assert!(decode(&mut Decoder::new(0), &hex("bd")).is_ok());
}

#[test]
fn integers_that_overflow_or_end_early_are_refused() {
    broken("ff");
    broken("ff80");
    broken("ffffffffff7f");
    broken("ffffffffffff7f");
    broken("ff808080808000");
    broken("007fffffffff0f");
    broken("40");
    broken("4001");
    broken("400161");
    broken("40016102 61");
    broken("04");
}

#[test]
fn the_huffman_code_has_to_end_in_less_than_a_byte_of_ones() {
    let text = |coded: &str| {
        let mut out = Vec::new();
        huffman::decode(&hex(coded), &mut out).map(|()| String::from_utf8_lossy(&out).into_owned())
    };
    // "a" is 00011, "0" is 00000, and "&" is 11111000.
    assert_eq!(text("1f").as_deref(), Ok("a"));
    assert_eq!(text("").as_deref(), Ok(""));
    assert_eq!(text("f8").as_deref(), Ok("&"));
    assert_eq!(text("1f ff"), Err(BrokenBlock), "more than seven bits");
    assert_eq!(text("ff"), Err(BrokenBlock), "eight bits");
    assert_eq!(text("18"), Err(BrokenBlock), "zeros");
    assert_eq!(text("1e"), Err(BrokenBlock), "a zero at the end");
    assert_eq!(text("ff ff fe"), Err(BrokenBlock), "a code that is cut off");
    assert_eq!(text("ff ff ff ff"), Err(BrokenBlock), "EOS");
    assert_eq!(text("1f ff ff ff ff ff"), Err(BrokenBlock), "EOS after a symbol");
    broken("0001618118");
}

#[test]
fn size_updates_come_first_and_twice_at_most() {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    assert_eq!(decode(&mut decoder, &hex("20 3fe11f 82")).as_deref(), Ok(":method: GET\n"));
    broken("20 20 20");
    broken("20 20 20 82");
    broken("82 20");
    broken("3fe21f");
    let mut large = Decoder::new(8192);
    assert!(decode(&mut large, &hex("3fe13f")).is_ok());
    assert_eq!(decode(&mut large, &hex("3fe23f")), Err(BrokenBlock));
}

#[test]
fn a_smaller_table_is_demanded_after_the_acknowledgement_only() {
    let mut decoder = Decoder::new(100);
    assert!(decode(&mut decoder, &hex("400161 0162")).is_ok());
    decoder.settings_acknowledged();
    assert_eq!(decode(&mut decoder, &hex("82")), Err(BrokenBlock));
    assert!(decode(&mut decoder, &hex("3f45 be")).is_ok());
    assert_eq!(decode(&mut decoder, &hex("3f46")), Err(BrokenBlock));
}

// === Tables ===

#[test]
fn an_entry_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    assert!(decode(&mut decoder, &hex("3f03 400161 0162")).is_ok());
    assert_eq!(decoder.table_bytes(), 34);
    assert_eq!(decode(&mut decoder, &hex("be")).as_deref(), Ok("a: b\n"));
    assert_eq!(decode(&mut decoder, &hex("7e 03636465")).as_deref(), Ok("a: cde\n"), "its own name evicted");
    assert_eq!(decoder.table_bytes(), 0);
    assert_eq!(decode(&mut decoder, &hex("be")), Err(BrokenBlock));
}

#[test]
fn the_encoder_announces_the_least_and_the_last_size() {
    let mut encoder = Encoder::new(TABLE_BYTES_DEFAULT);
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    let block = encode(&mut encoder, "server: one\n");
    assert!(decode(&mut decoder, &block).is_ok());
    encoder.set_peer_table_bytes(0);
    encoder.set_peer_table_bytes(1 << 20);
    let block = encode(&mut encoder, "server: one\n");
    assert!(block.starts_with(&hex("20 3fe11f 76")));
    assert_eq!(decode(&mut decoder, &block).as_deref(), Ok("server: one\n"));
    assert_eq!(encode(&mut encoder, "server: one\n"), hex("be"));
    encoder.set_peer_table_bytes(4096);
    assert_eq!(encode(&mut encoder, "server: one\n"), hex("be"), "no change");
    encoder.set_peer_table_bytes(10);
    assert_eq!(encode(&mut encoder, "server: 1\n"), hex("2a 0f27 0131"), "no room for any entry");
}

#[test]
fn entries_are_found_wherever_bytes_were_moved_to() {
    for table_bytes in [512, TABLE_BYTES_DEFAULT, 1 << 16] {
        let (mut encoder, mut decoder) = (Encoder::new(table_bytes), Decoder::new(table_bytes));
        encoder.set_peer_table_bytes(table_bytes);
        let mut coded_bytes = 0;
        for nth in 0..3000 {
            let lines =
                format!("server: forebay\nx-counter: {nth}{}\nx-Half: {}\n", "-".repeat(nth % 90), nth / 2);
            let block = encode(&mut encoder, &lines);
            coded_bytes += block.len();
            assert_eq!(decode(&mut decoder, &block).unwrap_or_default(), lines.to_ascii_lowercase());
            assert_eq!(encoder.table_bytes(), decoder.table_bytes());
        }
        assert!(coded_bytes < 3000 * 46, "{coded_bytes}");
    }
}

// === Lists ===

#[test]
fn a_list_that_is_too_large_is_cut_off_and_the_table_kept_in_step() {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    // An entry of 1000 bytes, and its index 10,000 times.
    let mut bomb = hex("400161");
    primitive::raw(&[b'x'; 1000], &mut bomb);
    bomb.extend([0xbe; 10_000]);
    bomb.extend(hex("400162 0163"));
    let (mut out, mut count) = (b"before".to_vec(), 0);
    let outcome = decoder.decode::<ListTooLarge>(&bomb, 10_000, &mut out, |_, _| {
        count += 1;
        Ok(())
    });
    assert_eq!(outcome, Ok(Err(ListTooLarge)));
    assert_eq!(count, 9);
    assert_eq!(out.len(), 6 + count * (1000 + 5));
    assert_eq!(decode(&mut decoder, &hex("be")).as_deref(), Ok("b: c\n"));
}

#[test]
fn the_first_error_of_the_caller_is_returned_after_the_block() {
    #[derive(Debug, PartialEq)]
    enum Fault {
        Large,
        Mine(Token),
    }
    impl From<ListTooLarge> for Fault {
        fn from(_: ListTooLarge) -> Self {
            Self::Large
        }
    }
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    let mut out = Vec::new();
    let block = hex("82 84 400162 0163");
    let outcome = decoder.decode(&block, LIST_BYTES_MAX, &mut out, |out, field| {
        out.truncate(field.name.start);
        if field.token == Token::Path { Err(Fault::Mine(field.token)) } else { Ok(()) }
    });
    assert_eq!(outcome, Ok(Err(Fault::Mine(Token::Path))));
    assert_eq!(out, b"");
    assert_eq!(decode(&mut decoder, &hex("be")).as_deref(), Ok("b: c\n"));
    assert_eq!(decoder.decode(&block, 20, &mut out, |_, _| Ok(())), Ok(Err(Fault::Large)));
}

// === Names and values ===

/// The field of a name and a value, once from a literal and once from the table, which has to say the same.
fn checked(name: &[u8], value: &[u8]) -> Decoded {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    let mut block = vec![0x40];
    primitive::raw(name, &mut block);
    primitive::raw(value, &mut block);
    block.push(0xbe);
    let [literal, mut indexed] =
        fields(&mut decoder, &block).try_into().unwrap_or_else(|_| panic!("two fields"));
    indexed.name = literal.name.clone();
    indexed.value = literal.value.clone();
    assert_eq!(literal, indexed);
    literal
}

#[test]
fn names_are_checked() {
    for (name, token, is_plain, is_valid) in [
        (&b"host"[..], Token::Field(Known::Host), true, true),
        (b"x-forwarded-proto", Token::Field(Known::XForwardedProto), true, true),
        (b"cookie", Token::Cookie, true, true),
        (b"x-7", Token::Field(Known::Other), true, true),
        (b"x_7", Token::Field(Known::Other), false, true),
        (b"Host", Token::Field(Known::Other), true, false),
        (b"a-name-of-more-than-a-block-X", Token::Field(Known::Other), true, false),
        (b"", Token::Field(Known::Other), false, false),
        (b"a b", Token::Field(Known::Other), false, false),
        (b"a:b", Token::Field(Known::Other), false, false),
        (b"a\r\nb", Token::Field(Known::Other), false, false),
        (b"a\0", Token::Field(Known::Other), false, false),
        (b"caf\xe9", Token::Field(Known::Other), false, false),
        (b":protocol", Token::Protocol, false, true),
        (b":authority", Token::Authority, false, true),
        (b":status", Token::Status, false, true),
        (b":other", Token::UnknownPseudo, false, true),
        (b":Path", Token::UnknownPseudo, false, false),
        (b":", Token::UnknownPseudo, false, false),
        (b"::path", Token::UnknownPseudo, false, false),
    ] {
        let field = checked(name, b"value");
        let text = String::from_utf8_lossy(name);
        assert_eq!(
            (field.token, field.is_plain_name, field.name_is_valid),
            (token, is_plain, is_valid),
            "{text}"
        );
        assert!(field.value_is_valid);
    }
}

#[test]
fn values_are_checked() {
    for (value, is_valid) in [
        (&b""[..], true),
        (b"a value", true),
        (b"a\tvalue \xc3\xa9 \xff", true),
        (b" a", false),
        (b"a ", false),
        (b"\ta", false),
        (b"a value of more than a block\t", false),
        (b" ", false),
        (b"a\0b", false),
        (b"a\rb", false),
        (b"a\nb", false),
        (b"a\r\nb: c", false),
        (b"a\x1fb", false),
        (b"a\x7fb", false),
    ] {
        let field = checked(b"x-a", value);
        assert_eq!(field.value_is_valid, is_valid, "{}", String::from_utf8_lossy(value));
        assert!(field.name_is_valid);
    }
}

#[test]
fn indexing_suits_the_field() {
    let of =
        |name: &str, value_len| Encoder::indexing_of(Known::of(name.as_bytes()), name.as_bytes(), value_len);
    for name in
        ["Content-Length", "etag", "Location", "x-request-id", "Traceparent", "referer", "if-none-match"]
    {
        assert_eq!(of(name, 30), Indexing::Once, "{name}");
    }
    for name in ["Set-Cookie", "authorization", "proxy-authorization"] {
        assert_eq!(of(name, 30), Indexing::Never, "{name}");
    }
    for name in ["server", "Date", "content-type", "x-real-ip", "x-forwarded-for", "x-other", "a"] {
        assert_eq!(of(name, 30), Indexing::Stored, "{name}");
        assert_eq!(of(name, 1000), Indexing::Once, "{name}");
    }
    assert_eq!(of("cookie", 19), Indexing::Never);
    assert_eq!(of("cookie", 20), Indexing::Stored);
    assert_eq!(of("cookie", 2000), Indexing::Once);
}

// === Any input ===

proptest! {
    #[test]
    fn strings_survive_the_huffman_code(bytes in prop::collection::vec(any::<u8>(), 0..100), text in "[ -~]{0,60}") {
        for bytes in [&bytes[..], text.as_bytes()] {
            let (mut coded, mut out) = (Vec::new(), Vec::new());
            huffman::encode(bytes.iter().copied(), &mut coded);
            prop_assert_eq!(huffman::decode(&coded, &mut out), Ok(()));
            prop_assert_eq!(&out[..], bytes);
            coded.push(0xff);
            prop_assert_eq!(huffman::decode(&coded, &mut out), Err(BrokenBlock));
        }
    }

    #[test]
    fn the_huffman_code_is_read_as_bit_by_bit(coded in prop::collection::vec(any::<u8>(), 0..20)) {
        let mut out = Vec::new();
        let outcome = huffman::decode(&coded, &mut out);
        prop_assert_eq!(outcome.map(|()| out), huffman::decode_bit_by_bit(&coded));
    }

    #[test]
    fn long_integers_survive(prefix_bits in 4_u32..=8, value in any::<u32>(), shift in 0_u32..32) {
        let value = (value >> shift) as usize;
        let mut out = Vec::new();
        primitive::integer(prefix_bits, 0, value, &mut out);
        prop_assert_eq!(primitive::Reader::new(&out).integer(prefix_bits), Ok(value));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        table_bytes in 0_usize..5000,
        blocks in prop::collection::vec(prop::collection::vec(any_block_byte(), 0..60), 1..5),
        list_bytes_max in 0_usize..300,
    ) {
        let mut decoder = Decoder::new(table_bytes);
        for block in blocks {
            let mut out = Vec::new();
            let each = |_: &mut Vec<u8>, _| Ok::<_, ListTooLarge>(());
            let outcome = decoder.decode(&block, list_bytes_max, &mut out, each);
            if outcome.is_ok() {
                prop_assert!(out.len() <= list_bytes_max);
            }
        }
    }

    #[test]
    fn what_is_encoded_is_decoded(blocks in prop::collection::vec(any_block(), 1..12), own_bytes in 0_usize..600) {
        let (mut encoder, mut decoder) = (Encoder::new(own_bytes), Decoder::new(TABLE_BYTES_DEFAULT));
        for (peer_table_bytes, fields) in blocks {
            for bytes in peer_table_bytes {
                encoder.set_peer_table_bytes(bytes);
            }
            let mut block = Vec::new();
            let mut expected = String::new();
            encoder.begin(&mut block);
            for (name, value, indexing) in fields {
                expected.extend([&name.to_ascii_lowercase(), ": ", &value, "\n"]);
                let known = Known::of(name.as_bytes());
                match indexing {
                    Some(indexing) => {
                        encoder.field(known, name.as_bytes(), value.as_bytes(), indexing, &mut block);
                    }
                    None => encoder.usual_field(known, name.as_bytes(), value.as_bytes(), &mut block),
                }
            }
            prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
            prop_assert_eq!(decoder.table_bytes(), encoder.table_bytes());
        }
    }
}

/// Any byte; more often one that begins a short representation.
fn any_block_byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        any::<u8>(),
        prop::sample::select(vec![0x82, 0xbe, 0xbf, 0x40, 0x00, 0x01, 0x02, 0x81, 0x3f, 0x7e])
    ]
}

type AnyField = (String, String, Option<Indexing>);

/// Sizes that the peer announces before a block, and the block's fields.
fn any_block() -> impl Strategy<Value = (Vec<usize>, Vec<AnyField>)> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "server",
            "Content-Type",
            "X-Request-Id",
            "x-real-ip",
            "x-a",
            "X-A",
            "x_b",
            "x-^",
            "x-~"
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9_-]{1,12}",
    ];
    let value = prop_oneof![
        "[ab]{0,2}",
        "[!-~]{0,40}",
        "[a-c]{100,300}",
        Just("text/html; charset=utf-8".to_owned())
    ];
    let indexing = prop_oneof![
        4 => Just(Some(Indexing::Stored)),
        1 => Just(Some(Indexing::Once)),
        1 => Just(Some(Indexing::Never)),
        2 => Just(None),
    ];
    (prop::collection::vec(0_usize..700, 0..2), prop::collection::vec((name, value, indexing), 0..12))
}
