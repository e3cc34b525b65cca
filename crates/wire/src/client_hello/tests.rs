use proptest::prelude::*;

use super::*;

fn vector16(content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap();
    [&len.to_be_bytes(), content].concat()
}

fn name(kind: u8, name: &[u8]) -> Vec<u8> {
    [&[kind], &*vector16(name)].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), &*vector16(content)].concat()
}

fn sni(host: &[u8]) -> Vec<u8> {
    extension(SERVER_NAME, &vector16(&name(HOST_NAME, host)))
}

/// A hello with these extensions; none for a hello without a list of extensions.
fn message(extensions: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; RANDOM_BYTES]);
    body.extend([2, 1, 1]);
    body.extend(vector16(&[0x13, 0x01, 0x13, 0x02]));
    body.extend([1, 0]);
    body.extend(extensions.map(vector16).unwrap_or_default());
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[CLIENT_HELLO], &len[1..], &body].concat()
}

/// A message in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|part| [&[RECORD_HANDSHAKE, 3, 1], &*vector16(part)].concat()).collect()
}

fn hello(extensions: &[u8]) -> Vec<u8> {
    records(&message(Some(extensions)), RECORD_BYTES_MAX)
}

fn named(host: &[u8]) -> Peek<'_> {
    Peek::Hello { server_name: Some(Cow::Borrowed(host)) }
}

const NAMELESS: Peek<'static> = Peek::Hello { server_name: None };

#[test]
fn the_name_is_found_among_other_extensions() {
    let before = extension(0x0a0a, b"");
    let after = extension(43, &[2, 3, 4]);
    assert_eq!(server_name(&hello(&[before, sni(b"A.test"), after].concat())), named(b"A.test"));
}

#[test]
fn a_hello_need_not_have_a_name() {
    assert_eq!(server_name(&hello(b"")), NAMELESS);
    assert_eq!(server_name(&hello(&extension(43, &[2, 3, 4]))), NAMELESS);
    assert_eq!(server_name(&records(&message(None), RECORD_BYTES_MAX)), NAMELESS);
}

#[test]
fn names_of_other_types_are_passed_over() {
    let list = [name(9, b"x"), name(HOST_NAME, b"a.test")].concat();
    assert_eq!(server_name(&hello(&extension(SERVER_NAME, &vector16(&list)))), named(b"a.test"));
}

#[test]
fn a_hello_in_several_records_is_put_together() {
    let message = message(Some(&sni(b"a.test")));
    for size in 1..message.len() {
        assert_eq!(server_name(&records(&message, size)), named(b"a.test"), "{size}");
    }
}

#[test]
fn what_follows_plays_no_part() {
    let early_data = [hello(&sni(b"a.test")), b"\x17\x03\x03\x00\x01x".to_vec()].concat();
    assert_eq!(server_name(&early_data), named(b"a.test"));
}

#[test]
fn other_protocols_are_told_by_their_first_bytes() {
    for bytes in
        ["GET / HTTP/1.1\r\n", "\x15\x03\x01", "\x16\x02", "\x16\x03\x01\x00\x00", "\x16\x03\x01\x40\x01"]
    {
        assert_eq!(server_name(bytes.as_bytes()), Peek::NotHello, "{bytes:?}");
    }
    assert_eq!(server_name(&records(&[2, 0, 0, 1, 0], 9)), Peek::NotHello, "a ServerHello");
    assert_eq!(server_name(b""), Peek::Partial);
}

#[test]
fn what_is_ambiguous_or_malformed_is_refused() {
    let two_hosts = [name(HOST_NAME, b"a.test"), name(HOST_NAME, b"b.test")].concat();
    let host = name(HOST_NAME, b"a.test");
    for (what, extensions) in [
        ("two extensions", [sni(b"a.test"), sni(b"a.test")].concat()),
        ("two hosts", extension(SERVER_NAME, &vector16(&two_hosts))),
        ("no host", extension(SERVER_NAME, &vector16(b""))),
        ("an empty host", sni(b"")),
        ("a long host", sni(&[b'a'; NAME_BYTES_MAX + 1])),
        ("a NUL", sni(b"a.test\0")),
        ("not ASCII", sni("ä.test".as_bytes())),
        ("an empty extension", extension(SERVER_NAME, b"")),
        ("bytes after the list", extension(SERVER_NAME, &[vector16(&host), vec![0]].concat())),
        ("a list cut short", extension(SERVER_NAME, &vector16(&host)[..6])),
        ("an extension cut short", sni(b"a.test")[..8].to_vec()),
    ] {
        assert_eq!(server_name(&hello(&extensions)), Peek::NotHello, "{what}");
    }
}

#[test]
fn the_body_is_checked_as_far_as_it_is_read() {
    let good = message(Some(&sni(b"a.test")));
    for (what, at, byte) in
        [("version", 4, 2), ("long session id", 38, 33), ("odd suites", 42, 3), ("no compression", 47, 0)]
    {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(server_name(&records(&bad, RECORD_BYTES_MAX)), Peek::NotHello, "{what}");
    }
    let mut longer = good;
    longer.push(0);
    longer[3] += 1;
    assert_eq!(
        server_name(&records(&longer, RECORD_BYTES_MAX)),
        Peek::NotHello,
        "bytes after the extensions"
    );
}

#[test]
fn a_hello_is_bounded() {
    let announced = |len: u32| [&[22, 3, 1, 0x10, 0, CLIENT_HELLO], &len.to_be_bytes()[1..]].concat();
    let max = (HELLO_BYTES_MAX - RECORD_HEADER_BYTES - MESSAGE_HEADER_BYTES) as u32;
    assert_eq!(server_name(&announced(max)), Peek::Partial);
    assert_eq!(server_name(&announced(max + 1)), Peek::NotHello);
    let large = message(Some(&extension(21, &[0; 4000])));
    assert_eq!(server_name(&records(&large, 4)), NAMELESS);
    assert_eq!(server_name(&records(&large, 1)), Peek::NotHello, "its records take more room than it does");
}

proptest! {
    #[test]
    fn every_prefix_is_partial(
        host in "[a-zA-Z0-9.-]{1,60}",
        padding in 0_usize..600,
        size in 1_usize..900,
    ) {
        let extensions = [extension(21, &vec![0; padding]), sni(host.as_bytes())].concat();
        let bytes = records(&message(Some(&extensions)), size);
        prop_assert_eq!(server_name(&bytes), named(host.as_bytes()));
        for end in 0..bytes.len() {
            prop_assert_eq!(server_name(&bytes[..end]), Peek::Partial);
        }
    }

    /// However a hello is damaged, its prefixes never contain a name that the whole does not contain.
    #[test]
    fn no_prefix_tells_a_wrong_name(
        at in 0_usize..120,
        byte in any::<u8>(),
        size in 1_usize..150,
    ) {
        let mut bytes = records(&message(Some(&sni(b"a.test"))), size);
        let at = at % bytes.len();
        bytes[at] = byte;
        let whole = server_name(&bytes);
        for end in 0..bytes.len() {
            let peek = server_name(&bytes[..end]);
            prop_assert!(peek == Peek::Partial || peek == whole);
        }
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        server_name(&bytes);
        server_name(&records(&bytes, RECORD_BYTES_MAX));
        server_name(&hello(&bytes));
        server_name(&hello(&extension(SERVER_NAME, &bytes)));
    }
}
