//! Attackers over QUIC: forged addresses, handshakes that are not gone on with, and floods on connections.
//!
//! Must not be in here: how others are measured.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, VarInt,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testkit::{TlsClient, h3_head};

use super::attackers::Attacker;
use super::optimist::Optimist;

/// The behaviour of an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
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
    /// Long downloads, of which more is acknowledged than has come.
    OptimisticAcks,
}

/// First packets that a thread sends between two pauses.
const INITIALS_AT_ONCE: u16 = 16;
const RESETS_EACH: usize = 10;
const INSTRUCTIONS_EACH: usize = 1000;
/// Longest wait for a packet.
const WAIT_MAX: Duration = Duration::from_millis(100);

const REQUEST_CANCELLED: u32 = 0x10c;
/// The stream types of control and of QPACK's encoder (RFC 9114 section 6.2.1, RFC 9204 section 4.2), the
/// first with empty SETTINGS.
const CONTROL: [u8; 3] = [0, 4, 0];
const ENCODER: u8 = 2;
/// Sets the capacity to 4,096 bytes, and inserts a field with a name and a value of one byte.
const SET_CAPACITY: [u8; 3] = [0x3f, 0xe1, 0x1f];
const INSERT: [u8; 4] = [0x41, b'a', 0x01, b'b'];

/// A connection with its own socket.
pub(crate) struct Client {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    is_open: bool,
    encoder: Option<quinn_proto::StreamId>,
    /// The stream of a download.
    download: Option<quinn_proto::StreamId>,
    lost: Option<ConnectionError>,
    round: u32,
}

/// Packets that an optimistic client acknowledges and that have not come.
const AHEAD: u64 = 4;

/// Attacks until it is over; the number of connections that were begun is added to `connections`.
pub(super) fn attack(
    way: Way,
    attacker: &Attacker,
    address: SocketAddr,
    thread: usize,
    is_over: &AtomicBool,
    connections: &AtomicU64,
) {
    let config = client_config((way == Way::OptimisticAcks).then_some(AHEAD));
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

/// A client's configuration. With `ahead`, it acknowledges so many packets more than have come.
pub(crate) fn client_config(ahead: Option<u64>) -> ClientConfig {
    let tls = TlsClient::new("web.test").alpn(&["h3"]).only_13();
    let crypto = Arc::new(QuicClientConfig::try_from(tls.config()).expect("a suite for Initial packets"));
    match ahead {
        Some(ahead) => ClientConfig::new(Arc::new(Optimist { inner: crypto, ahead })),
        None => ClientConfig::new(crypto),
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
    pub(crate) fn begin(config: &ClientConfig, address: SocketAddr, source: Ipv4Addr) -> Option<Client> {
        let socket = UdpSocket::bind((source, 0)).ok()?;
        socket.set_nonblocking(true).ok()?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let (handle, connection) =
            endpoint.connect(Instant::now(), config.clone(), address, "web.test").ok()?;
        Some(Client {
            socket,
            endpoint,
            handle,
            connection,
            is_open: false,
            encoder: None,
            download: None,
            lost: None,
            round: 0,
        })
    }

    /// Receives, does what belongs to a round, and sends; `None` when the connection has ended.
    pub(crate) fn act(&mut self, way: Way, packet: &mut [u8]) -> Option<()> {
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
                Event::ConnectionLost { reason } => {
                    self.lost = Some(reason);
                    return None;
                }
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

    /// Why the connection has ended.
    pub(crate) fn lost(&self) -> Option<&ConnectionError> {
        self.lost.as_ref()
    }

    /// Whether a download has been asked for.
    pub(crate) fn has_asked(&self) -> bool {
        self.download.is_some()
    }

    /// Waits for a packet, or for the next timer.
    pub(crate) fn await_packet(&mut self) {
        let due = self.connection.poll_timeout().map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = due.unwrap_or(WAIT_MAX).clamp(Duration::from_millis(1), WAIT_MAX);
        let timeout = Timespec::try_from(timeout).expect("a short time");
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout));
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
                    let _ = self.connection.send_stream(id).write(&request("/1k"));
                    // It is on its way before it is given up.
                    self.transmit();
                    let _ = self.connection.send_stream(id).reset(code);
                    let _ = self.connection.recv_stream(id).stop(code);
                }
            }
            Way::Unfinished => {
                let request = request("/1k");
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
            Way::OptimisticAcks => self.download(),
            Way::Addresses => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
                socket.set_nonblocking(true).ok()?;
                self.socket = socket;
                self.connection.ping();
            }
        }
        Some(())
    }

    /// Goes on with a download, or begins another one.
    fn download(&mut self) {
        let Some(id) = self.download else {
            self.download = self.connection.streams().open(Dir::Bi);
            if let Some(id) = self.download {
                let mut stream = self.connection.send_stream(id);
                let _ = stream.write(&request("/1m"));
                let _ = stream.finish();
            }
            return;
        };
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { return self.download = None };
        let is_over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(_)) => {}
                Ok(None) | Err(ReadError::Reset(_)) => break true,
                Err(ReadError::Blocked) => break false,
            }
        };
        let _ = chunks.finalize();
        if is_over {
            self.download = None;
        }
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

fn request(path: &str) -> Vec<u8> {
    h3_head(&[
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", b"evil.test"),
        (b":path", path.as_bytes()),
    ])
}
