//! Attackers over QUIC: forged addresses, handshakes that are not gone on with, and floods on connections.
//!
//! Must not be in here: how others are measured.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, VarInt,
};
use testkit::{TlsClient, h3_head};

use super::attackers::Attacker;

/// The behaviour of an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// First packets, each from an address of its own that never answers.
    ForgedAddresses,
    /// A first packet, and one that shows that the address is right where the server asks for that; no more.
    HalfOpen,
    /// Requests that are given up at once.
    Resets,
    /// As many streams as the server allows, each with the beginning of a request.
    Unfinished,
    /// Instructions for the dynamic table of QPACK, many in each round.
    Qpack,
    /// Another address of the client in each round.
    Addresses,
}

/// First packets that a thread sends between two pauses.
const INITIALS_AT_ONCE: u16 = 16;
const RESETS_EACH: usize = 10;
const INSTRUCTIONS_EACH: usize = 1000;

const REQUEST_CANCELLED: u32 = 0x10c;
/// The stream types of control and of QPACK's encoder (RFC 9114 section 6.2.1, RFC 9204 section 4.2), the
/// first with empty SETTINGS.
const CONTROL: [u8; 3] = [0, 4, 0];
const ENCODER: u8 = 2;
/// Sets the capacity to 4,096 bytes, and inserts a field with a name and a value of one byte.
const SET_CAPACITY: [u8; 3] = [0x3f, 0xe1, 0x1f];
const INSERT: [u8; 4] = [0x41, b'a', 0x01, b'b'];

/// A connection with its own socket.
struct Client {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    is_open: bool,
    encoder: Option<quinn_proto::StreamId>,
    round: u32,
}

/// Attacks until it is over; the number of connections that were begun is added to `connections`.
pub(super) fn attack(
    way: Way,
    attacker: &Attacker,
    address: SocketAddr,
    thread: usize,
    is_over: &AtomicBool,
    connections: &AtomicU64,
) {
    let tls = TlsClient::new("web.test").alpn(&["h3"]).only_13();
    let crypto = QuicClientConfig::try_from(tls.config()).expect("a suite for Initial packets");
    let config = ClientConfig::new(Arc::new(crypto));
    if way == Way::ForgedAddresses {
        return forge(&config, attacker, address, thread, is_over, connections);
    }
    let mut clients: Vec<Option<Client>> =
        (0..attacker.connections / super::crowd::THREADS).map(|_| None).collect();
    let mut packet = vec![0; 1 << 16];
    while !is_over.load(Ordering::Relaxed) {
        for client in &mut clients {
            if client.is_none() {
                *client = Client::begin(&config, address, Ipv4Addr::UNSPECIFIED);
                connections.fetch_add(u64::from(client.is_some()), Ordering::Relaxed);
            }
            if client.as_mut().is_some_and(|one| one.act(way, &mut packet).is_none()) {
                *client = None;
            }
        }
        thread::sleep(attacker.pace);
    }
}

fn forge(
    config: &ClientConfig,
    attacker: &Attacker,
    address: SocketAddr,
    thread: usize,
    is_over: &AtomicBool,
    connections: &AtomicU64,
) {
    let mut number = 0_u16;
    while !is_over.load(Ordering::Relaxed) {
        let [high, low] = number.to_be_bytes();
        let source = Ipv4Addr::new(127, 100 + thread as u8, high, low);
        if let Some(mut client) = Client::begin(config, address, source) {
            client.transmit();
            connections.fetch_add(1, Ordering::Relaxed);
        }
        number = number.wrapping_add(1);
        if number.is_multiple_of(INITIALS_AT_ONCE) {
            thread::sleep(attacker.pace);
        }
    }
}

impl Client {
    fn begin(config: &ClientConfig, address: SocketAddr, source: Ipv4Addr) -> Option<Client> {
        let socket = UdpSocket::bind((source, 0)).ok()?;
        socket.set_nonblocking(true).ok()?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let (handle, connection) =
            endpoint.connect(Instant::now(), config.clone(), address, "web.test").ok()?;
        Some(Client { socket, endpoint, handle, connection, is_open: false, encoder: None, round: 0 })
    }

    /// Receives, does what belongs to a round, and sends; `None` when the connection has ended.
    fn act(&mut self, way: Way, packet: &mut [u8]) -> Option<()> {
        self.receive(way, packet);
        if self.connection.poll_timeout().is_some_and(|due| due <= Instant::now()) {
            self.connection.handle_timeout(Instant::now());
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.is_open = true;
                    self.send_uni(&CONTROL);
                }
                Event::ConnectionLost { .. } => return None,
                _ => {}
            }
        }
        if self.is_open {
            self.round += 1;
            self.play(way)?;
        }
        self.transmit();
        Some(())
    }

    fn receive(&mut self, way: Way, packet: &mut [u8]) {
        loop {
            let (length, from) = match self.socket.recv_from(packet) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            let datagram = &packet[..length];
            // Retry packets alone are answered (RFC 9000 section 17.2.5).
            if way == Way::HalfOpen && datagram[0] & 0xf0 != 0xf0 {
                continue;
            }
            let mut answer = Vec::new();
            let datagram = BytesMut::from(datagram);
            let event = self.endpoint.handle(Instant::now(), from, None, None, datagram, &mut answer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
    }

    fn play(&mut self, way: Way) -> Option<()> {
        match way {
            Way::ForgedAddresses | Way::HalfOpen => {}
            Way::Resets => {
                let code = VarInt::from_u32(REQUEST_CANCELLED);
                for _ in 0..RESETS_EACH {
                    let Some(id) = self.connection.streams().open(Dir::Bi) else { break };
                    let _ = self.connection.send_stream(id).write(&request());
                    // It is on its way before it is given up.
                    self.transmit();
                    let _ = self.connection.send_stream(id).reset(code);
                    let _ = self.connection.recv_stream(id).stop(code);
                }
            }
            Way::Unfinished => {
                let request = request();
                while let Some(id) = self.connection.streams().open(Dir::Bi) {
                    let _ = self.connection.send_stream(id).write(&request[..request.len() - 1]);
                }
            }
            Way::Qpack => {
                if self.encoder.is_none() {
                    let begin = [&[ENCODER][..], &SET_CAPACITY].concat();
                    self.encoder = self.send_uni(&begin);
                }
                let instructions = INSERT.repeat(INSTRUCTIONS_EACH);
                let _ = self.connection.send_stream(self.encoder?).write(&instructions);
            }
            Way::Addresses => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
                socket.set_nonblocking(true).ok()?;
                self.socket = socket;
                self.connection.ping();
            }
        }
        Some(())
    }

    fn send_uni(&mut self, bytes: &[u8]) -> Option<quinn_proto::StreamId> {
        let id = self.connection.streams().open(Dir::Uni)?;
        let _ = self.connection.send_stream(id).write(bytes);
        Some(id)
    }

    fn transmit(&mut self) {
        let mut bytes = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut bytes) {
            let _ = self.socket.send_to(&bytes[..transmit.size], transmit.destination);
            bytes.clear();
        }
    }
}

impl Drop for Client {
    /// The server is told of the end of what was open.
    fn drop(&mut self) {
        if self.is_open {
            self.connection.close(Instant::now(), VarInt::from_u32(0x100), Bytes::new());
            self.transmit();
        }
    }
}

fn request() -> Vec<u8> {
    h3_head(&[
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", b"evil.test"),
        (b":path", b"/1k"),
    ])
}
