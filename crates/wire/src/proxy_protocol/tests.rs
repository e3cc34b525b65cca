use proptest::prelude::*;

use super::*;

fn between(source: &str, destination: &str) -> Addresses {
    Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

fn said(bytes: &[u8]) -> Option<Addresses> {
    let (header, len) = parse(bytes).unwrap().unwrap();
    assert_eq!(&bytes[len..], b"next");
    header.addresses
}

/// A header of version 2 before `next`.
fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let len = u16::try_from(block.len()).unwrap().to_be_bytes();
    [&V2_SIGNATURE[..], &[command, family], &len, block, b"next"].concat()
}

const V4_BLOCK: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0, 80];

#[test]
fn version_1() {
    assert_eq!(
        said(b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\nnext"),
        Some(between("192.0.2.7:4711", "198.51.100.1:80"))
    );
    assert_eq!(
        said(b"PROXY TCP6 2001:db8::7 ::1 0 65535\r\nnext"),
        Some(between("[2001:db8::7]:0", "[::1]:65535"))
    );
    assert_eq!(said(b"PROXY UNKNOWN\r\nnext"), None);
    assert_eq!(said(b"PROXY UNKNOWN ffff::1 what ever\xff\r\nnext"), None);
}

#[test]
fn version_1_is_bounded() {
    let of_len = |len: usize| [b"PROXY UNKNOWN ", &*vec![b'x'; len - 16], b"\r\nnext"].concat();
    assert_eq!(said(&of_len(V1_BYTES_MAX)), None);
    assert_eq!(parse(&of_len(V1_BYTES_MAX + 1)), Err(Malformed));
    assert_eq!(parse(&of_len(V1_BYTES_MAX)[..V1_BYTES_MAX - 1]), Ok(None));
    assert_eq!(parse(&of_len(V1_BYTES_MAX + 1)[..V1_BYTES_MAX]), Err(Malformed));
}

#[test]
fn version_1_is_exact() {
    for line in [
        "GET / HTTP/1.1\r\n",
        "proxy UNKNOWN\r\n",
        "PROXY \r\n",
        "PROXY\r\n",
        "PROXY TCP\r\n",
        "PROXY TCP4\r\n",
        "PROXY UNKNOWN\n",
        "PROXY UNKNOWN\rx",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4\t1.2.3.4 1 2\r\n",
        "PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
    ] {
        assert_eq!(parse(line.as_bytes()), Err(Malformed), "{line:?}");
    }
}

#[test]
fn version_2() {
    assert_eq!(said(&v2(0x21, 0x11, &V4_BLOCK)), Some(between("192.0.2.7:4711", "198.51.100.1:80")));
    assert_eq!(said(&v2(0x21, 0x12, &V4_BLOCK)), Some(between("192.0.2.7:4711", "198.51.100.1:80")));
    let mut block = [0; 36];
    block[..2].copy_from_slice(&[0x20, 0x01]);
    block[15] = 7;
    block[31] = 1;
    block[32..].copy_from_slice(&[0, 1, 0, 2]);
    assert_eq!(said(&v2(0x21, 0x21, &block)), Some(between("[2001::7]:1", "[::1]:2")));
    assert_eq!(said(&v2(0x21, 0x31, &[b'/'; 216])), None, "Unix sockets");
    assert_eq!(said(&v2(0x21, 0x00, b"")), None, "UNSPEC");
    assert_eq!(said(&v2(0x20, 0x00, b"")), None, "LOCAL");
    assert_eq!(said(&v2(0x20, 0xff, b"whatever")), None, "LOCAL, whatever it comes with");
}

#[test]
fn version_2_is_exact() {
    for (what, command, family, block) in [
        ("version 1", 0x11, 0x11, &V4_BLOCK[..]),
        ("version 3", 0x31, 0x11, &V4_BLOCK),
        ("an unknown command", 0x22, 0x11, &V4_BLOCK),
        ("an unknown family", 0x21, 0x41, &V4_BLOCK),
        ("an unknown protocol", 0x21, 0x13, &V4_BLOCK),
        ("no protocol", 0x21, 0x10, &V4_BLOCK),
        ("IPv4 cut short", 0x21, 0x11, &V4_BLOCK[..11]),
        ("IPv6 cut short", 0x21, 0x21, &[0; 35]),
        ("a path cut short", 0x21, 0x31, &[0; 215]),
        ("an extension without length", 0x21, 0x00, &[4, 0]),
        ("an extension cut short", 0x21, 0x00, &[4, 0, 2, 0]),
        ("a checksum of another size", 0x21, 0x00, &[TLV_CRC32C, 0, 3, 0, 0, 0]),
    ] {
        assert_eq!(parse(&v2(command, family, block)), Err(Malformed), "{what}");
    }
    assert_eq!(parse(b"\r\n\r\n\0\r\nQUIT\r"), Err(Malformed));
    assert_eq!(parse(&v2(0x21, 0x11, &[0; HEADER_BYTES_MAX])[..16]), Err(Malformed), "longer than is held");
}

#[test]
fn extensions_are_passed_over() {
    let block = [&V4_BLOCK[..], &[4, 0, 0], &[0xee, 0, 3, 1, 2, 3]].concat();
    assert_eq!(said(&v2(0x21, 0x11, &block)), Some(between("192.0.2.7:4711", "198.51.100.1:80")));
}

#[test]
fn a_checksum_must_be_right() {
    // RFC 3720 appendix B.4: the checksums of 32 bytes of zeroes, and of ascending ones.
    assert_eq!(!crc32c(!0, &[0; 32]), 0x8a91_36aa);
    assert_eq!(!crc32c(!0, &std::array::from_fn::<u8, 32, _>(|at| at as u8)), 0x46dd_794e);

    let block = [&V4_BLOCK[..], &[TLV_CRC32C, 0, 4, 0, 0, 0, 0], &[4, 0, 1, 9]].concat();
    let mut header = v2(0x21, 0x11, &block);
    let len = header.len() - b"next".len();
    let checksum = !crc32c(!0, &header[..len]);
    header[V2_FIXED_BYTES + 15..][..4].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(said(&header), Some(between("192.0.2.7:4711", "198.51.100.1:80")));
    // Without its type the block would be another extension.
    let kind = V2_FIXED_BYTES + 12;
    for at in (V2_FIXED_BYTES..len).filter(|&at| at != kind) {
        let mut damaged = header.clone();
        damaged[at] ^= 1;
        assert_eq!(parse(&damaged), Err(Malformed), "at {at}");
    }
}

#[test]
fn two_families_become_one() {
    let mixed = Some(between("192.0.2.7:4711", "[2001:db8::1]:80"));
    let mapped = Some(between("[::ffff:192.0.2.7]:4711", "[2001:db8::1]:80"));
    let mut out = Vec::new();
    write_v1(mixed, &mut out);
    assert_eq!(out, b"PROXY TCP6 ::ffff:192.0.2.7 2001:db8::1 4711 80\r\n");
    out.extend(b"next");
    assert_eq!(said(&out), mapped);
    out.clear();
    write_v2(mixed, Carrier::Datagram, &mut out);
    out.extend(b"next");
    assert_eq!(said(&out), mapped);
}

fn any_addresses() -> impl Strategy<Value = Option<Addresses>> {
    let v4 = any::<([u8; 4], u16, [u8; 4], u16)>()
        .prop_map(|(a, p, b, q)| Addresses { source: (a, p).into(), destination: (b, q).into() });
    let v6 = any::<([u16; 8], u16, [u16; 8], u16)>()
        .prop_map(|(a, p, b, q)| Addresses { source: (a, p).into(), destination: (b, q).into() });
    prop::option::of(prop_oneof![v4, v6])
}

proptest! {
    #[test]
    fn what_is_written_is_read(addresses in any_addresses(), version in 0..3) {
        let mut bytes = Vec::new();
        match version {
            0 => write_v1(addresses, &mut bytes),
            1 => write_v2(addresses, Carrier::Stream, &mut bytes),
            _ => write_v2(addresses, Carrier::Datagram, &mut bytes),
        }
        for end in 0..bytes.len() {
            prop_assert_eq!(parse(&bytes[..end]), Ok(None));
        }
        bytes.extend(b"next");
        prop_assert_eq!(said(&bytes), addresses);
    }

    #[test]
    fn no_input_panics(
        start in prop::sample::select(vec![&b""[..], V1_START, b"PROXY TCP6 ", V2_SIGNATURE, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0"]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [start, &rest].concat();
        if let Ok(Some((_, len))) = parse(&bytes) {
            prop_assert!(len <= bytes.len() && len <= HEADER_BYTES_MAX);
        }
    }
}
