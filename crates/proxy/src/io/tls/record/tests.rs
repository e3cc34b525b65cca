//! Records of ours against rustls' own, in both roles and for all cipher suites.

use std::io::{BufRead, IoSlice, Read, Write};
use std::sync::Arc;

use model::{CipherSuite, TlsSettings};
use proptest::prelude::*;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection, SupportedProtocolVersion,
};

use super::super::negotiation::Negotiation;
use super::super::provider::provider;
use super::super::tests::{client, compiled, configured, server_name, shared_tls};
use super::format::HEADER_BYTES;
use super::*;

/// Our end of a connection after its handshake, and rustls' end.
struct Met {
    records: Records,
    rustls: Connection,
    /// Bytes for rustls, and bytes that it has sent.
    to_rustls: Vec<u8>,
    to_us: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Server,
    Client,
}

fn meet(role: Role, version: &'static SupportedProtocolVersion, suite: usize) -> Met {
    let (client, server) = (client_config(version, suite), server_config());
    let (mut ours, mut rustls) = match role {
        Role::Server => (
            Negotiation::server(server).unwrap(),
            Connection::Client(ClientConnection::new(client, server_name(None)).unwrap()),
        ),
        Role::Client => (
            Negotiation::client(client, server_name(None)).unwrap(),
            Connection::Server(ServerConnection::new(server).unwrap()),
        ),
    };
    let (mut to_rustls, mut to_us) = (Vec::new(), Vec::new());
    while !ours.is_over() || rustls.is_handshaking() {
        ours.advance(&mut to_rustls).unwrap();
        give(&mut rustls, &mut to_rustls).unwrap();
        take(&mut rustls, &mut to_us);
        // Cut into the smallest pieces.
        for byte in to_us.drain(..) {
            ours.receive(&[byte]);
            ours.advance(&mut to_rustls).unwrap();
        }
    }
    Met::new(ours, rustls, to_rustls)
}

fn client_config(version: &'static SupportedProtocolVersion, suite: usize) -> Arc<ClientConfig> {
    let mut provider = (*provider(CipherSuite::DEFAULT)).clone();
    let mut suites = provider.cipher_suites.iter().copied().filter(|suite| suite.version() == version);
    provider.cipher_suites = vec![suites.nth(suite).expect("there is such a suite")];
    let base = client();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(super::super::upstream::Verifier::new(
            &model::UpstreamTls::default(),
        )))
        .with_no_client_auth();
    config.alpn_protocols = base.alpn_protocols;
    config.enable_secret_extraction = true;
    Arc::new(config)
}

fn server_config() -> Arc<ServerConfig> {
    let snapshot = compiled(Vec::new(), TlsSettings::default());
    let server_configs = configured(&snapshot, &shared_tls(), None);
    server_configs.select(None).unwrap().server_config.config().unwrap()
}

fn give(rustls: &mut Connection, bytes: &mut Vec<u8>) -> Result<(), Error> {
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        rustls.read_tls(&mut rest).unwrap();
        rustls.process_new_packets()?;
    }
    bytes.clear();
    Ok(())
}

fn take(rustls: &mut Connection, bytes: &mut Vec<u8>) {
    while rustls.wants_write() {
        rustls.write_tls(bytes).unwrap();
    }
}

impl Met {
    fn new(mut ours: Negotiation, rustls: Connection, mut to_rustls: Vec<u8>) -> Self {
        ours.advance(&mut to_rustls).unwrap();
        let (records, mut received) = ours.finish().unwrap();
        // A session ticket may have come with the handshake's last record.
        let mut to_us = vec![0; 4096];
        let len = received.hand_over(&mut to_us);
        to_us.truncate(len);
        Self { records, rustls, to_rustls, to_us }
    }

    /// Sends `content` from our side, and returns what rustls has read.
    fn ours(&mut self, content: &[&[u8]]) -> Vec<u8> {
        let slices: Vec<_> = content.iter().map(|part| IoSlice::new(part)).collect();
        self.records.seal(&slices, &mut self.to_rustls).unwrap();
        let (bytes, mut read) = (std::mem::take(&mut self.to_rustls), Vec::new());
        // rustls keeps no more than a record's content.
        for mut piece in bytes.chunks(4096).map(<[u8]>::to_vec) {
            give(&mut self.rustls, &mut piece).unwrap();
            while let Ok(chunk) = self.rustls.reader().into_first_chunk() {
                read.extend_from_slice(chunk);
                let len = chunk.len();
                self.rustls.reader().consume(len);
            }
        }
        read
    }

    /// Sends `content` from rustls' side, and returns what we have read.
    fn theirs(&mut self, content: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut read = Vec::new();
        for piece in content.chunks(40_000) {
            self.rustls.writer().write_all(piece).unwrap();
            take(&mut self.rustls, &mut self.to_us);
            read.extend(self.receive()?);
        }
        Ok(read)
    }

    /// Opens all records that are there.
    fn receive(&mut self) -> Result<Vec<u8>, Fault> {
        let mut bytes = std::mem::take(&mut self.to_us);
        let (mut read, mut rest) = (Vec::new(), &mut bytes[..]);
        while let Some(len) = record_len(rest) {
            let (record, after) = rest.split_at_mut(len);
            let content = self.records.open(record, &mut self.to_rustls)?;
            read.extend_from_slice(&record[content]);
            rest = after;
        }
        assert!(rest.is_empty(), "whole records");
        Ok(read)
    }
}

/// All versions and suites, in both roles. The certificate decides which suites of TLS 1.2 can be had.
fn all() -> impl Iterator<Item = Met> {
    let kinds = [(&TLS13, 3), (&TLS12, 1)];
    let each = kinds.into_iter().flat_map(|(version, suites)| (0..suites).map(move |suite| (version, suite)));
    each.flat_map(|(version, suite)| [Role::Server, Role::Client].map(|role| meet(role, version, suite)))
}

#[test]
fn content_passes_both_ways_with_every_suite() {
    for mut met in all() {
        let long: Vec<u8> = (0..50_000_u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(met.ours(&[b"head", b"", &long]), [b"head", &long[..]].concat());
        assert_eq!(met.theirs(&long).unwrap(), long);
        assert_eq!(met.theirs(b"x").unwrap(), b"x");
    }
}

#[test]
fn the_first_records_fit_into_a_segment_and_later_ones_are_as_long_as_allowed() {
    let mut met = meet(Role::Server, &TLS13, 0);
    let mut lens = Vec::new();
    met.to_rustls.clear();
    for _ in 0..3 {
        let len = met.records.seal(&[IoSlice::new(&vec![b'x'; 40_000])], &mut met.to_rustls).unwrap();
        assert!(len <= BATCH_BYTES_MAX);
        let mut rest = &met.to_rustls[..];
        while let Some(len) = record_len(rest) {
            lens.push(len);
            rest = &rest[len..];
        }
        met.to_rustls.clear();
    }
    let short = lens.iter().take_while(|&&len| len == HEADER_BYTES + SEGMENT_BYTES + 17).count();
    assert_eq!(short as u64, SHORT_RECORDS_BYTES.div_ceil(SEGMENT_BYTES as u64), "{lens:?}");
    assert_eq!(lens.iter().max(), Some(&(HEADER_BYTES + CONTENT_BYTES_MAX + 17)));
}

#[test]
fn keys_are_changed_by_either_side_and_by_number() {
    for role in [Role::Server, Role::Client] {
        let mut met = meet(role, &TLS13, 1);
        // rustls changes its key, and asks for a change of ours.
        met.rustls.refresh_traffic_keys().unwrap();
        assert_eq!(met.theirs(b"after").unwrap(), b"after");
        assert!(met.records.owes_key_update);
        assert_eq!(met.ours(&[b"ours"]), b"ours");
        assert!(!met.records.owes_key_update);
        // Our key has encrypted as much as it may.
        met.records.key_records_max = 2;
        for _ in 0..5 {
            assert_eq!(met.ours(&[b"more"]), b"more");
            assert_eq!(met.theirs(b"more").unwrap(), b"more");
        }
        assert!(met.records.outgoing.number() <= 2);
    }
    let mut old = meet(Role::Server, &TLS12, 0);
    old.records.key_records_max = 2;
    let fault = (0..5).find_map(|_| old.records.seal(&[IoSlice::new(b"x")], &mut old.to_rustls).err());
    assert_eq!(fault.map(|fault| fault.reason), Some("the keys of the connection are used up"));
}

#[test]
fn an_end_is_told_once_and_nothing_after_it_is_read() {
    for mut met in all() {
        met.records.end(&mut met.to_rustls).unwrap();
        let len = met.to_rustls.len();
        met.records.end(&mut met.to_rustls).unwrap();
        assert_eq!(met.to_rustls.len(), len);
        give(&mut met.rustls, &mut met.to_rustls).unwrap();
        assert_eq!(met.rustls.reader().read(&mut [0; 8]).unwrap(), 0);
        met.rustls.send_close_notify();
        take(&mut met.rustls, &mut met.to_us);
        met.to_us.extend_from_slice(&[23, 3, 3, 0, 1, 0]);
        assert_eq!(met.receive().unwrap(), b"");
        assert!(met.records.is_ended());
    }
}

#[test]
fn a_session_ticket_of_the_server_is_kept() {
    let (client, server) = (client_config(&TLS13, 0), server_config());
    let mut resumed = Vec::new();
    for _ in 0..2 {
        let mut ours = Negotiation::client(Arc::clone(&client), server_name(None)).unwrap();
        let mut rustls = Connection::Server(ServerConnection::new(Arc::clone(&server)).unwrap());
        let (mut to_rustls, mut to_us) = (Vec::new(), Vec::new());
        while !ours.is_over() || rustls.is_handshaking() {
            ours.advance(&mut to_rustls).unwrap();
            give(&mut rustls, &mut to_rustls).unwrap();
            take(&mut rustls, &mut to_us);
            ours.receive(&std::mem::take(&mut to_us));
        }
        resumed.push(ours.facts().handshake_kind() == Some(rustls::HandshakeKind::Resumed));
        let mut met = Met::new(ours, rustls, to_rustls);
        assert_eq!(met.theirs(b"x").unwrap(), b"x");
    }
    assert_eq!(resumed, [false, true]);
}

// === faults ===

/// A record of any kind.
fn record(records: &mut Records, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    records.outgoing.seal(kind, &[content], &mut out).unwrap();
    out
}

/// Two ends of ours: a client's and a server's.
fn ends(version: &'static SupportedProtocolVersion) -> (Records, Records) {
    let (client, server) = (client_config(version, 0), server_config());
    let mut near = Negotiation::client(client, server_name(None)).unwrap();
    let mut far = Negotiation::server(server).unwrap();
    let (mut to_far, mut to_near) = (Vec::new(), Vec::new());
    while !near.is_over() || !far.is_over() {
        near.advance(&mut to_far).unwrap();
        far.receive(&std::mem::take(&mut to_far));
        far.advance(&mut to_near).unwrap();
        near.receive(&std::mem::take(&mut to_near));
    }
    (near.finish().unwrap().0, far.finish().unwrap().0)
}

const NONE: &[u8] = &[];
const HELLO: &[u8] = &[message::CLIENT_HELLO, 0, 0, 0];

#[test]
fn each_fault_has_its_alert() {
    type Case = (&'static SupportedProtocolVersion, u8, &'static [&'static [u8]], Option<u8>);
    let cases: &[Case] = &[
        (&TLS13, kind::HANDSHAKE, &[&[message::KEY_UPDATE, 0, 0, 1, 2]], Some(alert::DECODE_ERROR)),
        (&TLS13, kind::HANDSHAKE, &[&[message::KEY_UPDATE, 0, 0, 1, 0, 0]], Some(alert::UNEXPECTED_MESSAGE)),
        (
            &TLS13,
            kind::HANDSHAKE,
            &[&[message::NEW_SESSION_TICKET, 0, 0, 0]],
            Some(alert::UNEXPECTED_MESSAGE),
        ),
        (&TLS13, kind::HANDSHAKE, &[HELLO], Some(alert::UNEXPECTED_MESSAGE)),
        (&TLS13, kind::HANDSHAKE, &[&[13, 0xff, 0xff, 0xff]], Some(alert::DECODE_ERROR)),
        (&TLS13, kind::HANDSHAKE, &[b""], Some(alert::UNEXPECTED_MESSAGE)),
        (&TLS13, 20, &[&[1]], Some(alert::UNEXPECTED_MESSAGE)),
        (&TLS13, kind::ALERT, &[&[2, 40]], None),
        (&TLS13, kind::ALERT, &[&[1, 40]], None),
        (&TLS13, kind::ALERT, &[&[2]], Some(alert::DECODE_ERROR)),
        (&TLS13, kind::DATA, &[NONE; 40], Some(alert::UNEXPECTED_MESSAGE)),
        (&TLS12, kind::DATA, &[NONE; 40], Some(alert::UNEXPECTED_MESSAGE)),
        (&TLS12, kind::ALERT, &[&[1, 41], &[1, 41], &[1, 41], &[1, 41], &[1, 41]], None),
        (&TLS12, kind::HANDSHAKE, &[HELLO; 5], Some(alert::UNEXPECTED_MESSAGE)),
        (&TLS12, kind::HANDSHAKE, &[&[message::KEY_UPDATE, 0, 0, 1, 0]], Some(alert::UNEXPECTED_MESSAGE)),
    ];
    for (version, kind, contents, expected) in cases {
        let (mut near, mut far) = ends(version);
        let fault = contents.iter().find_map(|content| {
            let mut record = record(&mut near, *kind, content);
            far.open(&mut record, &mut Vec::new()).err()
        });
        assert_eq!(fault.expect("a fault").alert, *expected, "{kind} {contents:?}");
    }
}

#[test]
fn a_message_in_two_records_is_one_and_nothing_comes_between() {
    let (mut near, mut far) = ends(&TLS13);
    let mut first = record(&mut near, kind::HANDSHAKE, &[message::KEY_UPDATE, 0, 0]);
    far.open(&mut first, &mut Vec::new()).unwrap();
    let mut between = record(&mut near, kind::DATA, b"x");
    assert_eq!(far.open(&mut between, &mut Vec::new()), Err(Fault::UNEXPECTED));
    let (mut near, mut far) = ends(&TLS13);
    for part in [&[message::KEY_UPDATE, 0][..], &[0, 1], &[1]] {
        let mut record = record(&mut near, kind::HANDSHAKE, part);
        far.open(&mut record, &mut Vec::new()).unwrap();
    }
    assert!(far.owes_key_update);
}

#[test]
fn a_changed_record_does_not_decrypt() {
    for version in [&TLS13, &TLS12] {
        let len = record(&mut ends(version).0, kind::DATA, b"content").len();
        // A record is cut by the length in its header, which is not looked at again.
        for at in (0..len).filter(|at| ![3, 4].contains(at)) {
            let (mut near, mut far) = ends(version);
            let mut record = record(&mut near, kind::DATA, b"content");
            record[at] ^= 1;
            let opened = far.open(&mut record, &mut Vec::new());
            assert!(opened.is_err(), "byte {at} of {version:?}: {opened:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever a peer sends in place of a handshake, it is refused.
    #[test]
    fn a_changed_handshake_fails_in_order(
        is_server in any::<bool>(),
        is_old in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        piece in 1..400_usize,
        from in 0..3_usize,
    ) {
        let (version, suite) = if is_old { (&TLS12, 0) } else { (&TLS13, 0) };
        let (client, server) = (client_config(version, suite), server_config());
        let mut near = Negotiation::client(client, server_name(None)).unwrap();
        let mut far = Negotiation::server(server).unwrap();
        if is_server {
            std::mem::swap(&mut near, &mut far);
        }
        let (mut to_far, mut to_near) = (Vec::new(), Vec::new());
        let mut turn = 0;
        // `far` gets changed bytes from its turn `from` on.
        for _ in 0..6 {
            near.advance(&mut to_far).unwrap();
            let mut bytes = std::mem::take(&mut to_far);
            if turn >= from && !bytes.is_empty() {
                for (at, value) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *value;
                }
            }
            turn += usize::from(!bytes.is_empty());
            for bytes in bytes.chunks(piece) {
                far.receive(bytes);
                if far.advance(&mut to_near).is_err() {
                    return Ok(());
                }
            }
            near.receive(&std::mem::take(&mut to_near));
            if near.advance(&mut to_far).is_err() {
                return Ok(());
            }
        }
    }

    #[test]
    fn no_bytes_make_a_record_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, mut far) = ends(&TLS13);
        prop_assert!(far.open(&mut bytes, &mut Vec::new()).is_err());
    }
}
