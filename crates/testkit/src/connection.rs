//! One end of a connection, byte by byte, in clear or over TLS. A client and an upstream are alike in that.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use crate::response::field;
use crate::session::Session;
use crate::socket::{is_timeout, set_patience};
use crate::{PATIENCE, Response, TlsInfo};

/// An open connection, with the bytes that have been received but not read yet.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    unread: Vec<u8>,
}

#[derive(Debug)]
enum Stream {
    Clear(TcpStream),
    Tls(Session),
}

/// How the other end has closed its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An orderly end.
    Closed,
    /// By a reset.
    Reset,
    /// TLS ended without a `close_notify`: the data may have been cut off.
    Truncated,
}

const PIECE_BYTES: usize = 16 * 1024;
/// Reads of the kernel's tables until they have a connection.
const READS_MAX: usize = 1000;

impl Connection {
    /// Connects to an address.
    pub fn to(address: SocketAddr) -> Self {
        Self::new(
            TcpStream::connect(address)
                .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}")),
        )
    }

    /// Connects from an address of one's own.
    pub fn from_to(source: IpAddr, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::new(source, 0).into()).expect("an address of this machine");
        socket.connect(&address.into()).expect("somebody listens");
        Self::new(socket.into())
    }

    /// Connects with a small receive buffer, so that it soon stands full.
    pub fn narrow_to(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a size");
        socket.connect(&address.into()).expect("somebody listens");
        Self::new(socket.into())
    }

    pub(crate) fn new(stream: TcpStream) -> Self {
        set_patience(&stream);
        Self { stream: Stream::Clear(stream), unread: Vec::new() }
    }

    pub(crate) fn tls(session: Session) -> Self {
        Self { stream: Stream::Tls(session), unread: Vec::new() }
    }

    /// The socket of a connection without TLS.
    pub(crate) fn into_stream(self) -> TcpStream {
        assert!(self.unread.is_empty(), "unread: {:?}", self.unread_text());
        match self.stream {
            Stream::Clear(stream) => stream,
            Stream::Tls(_) => panic!("TLS in TLS"),
        }
    }

    /// The result of the handshake. TLS only.
    pub fn tls_info(&self) -> TlsInfo {
        match &self.stream {
            Stream::Tls(session) => session.info(),
            Stream::Clear(_) => panic!("in clear"),
        }
    }

    /// The address of the other end.
    pub fn peer_address(&self) -> SocketAddr {
        self.socket().peer_addr().expect("it is connected")
    }

    /// The address of this end.
    pub fn address(&self) -> SocketAddr {
        self.socket().local_addr().expect("it is connected")
    }

    /// The number of bytes on their way to the other end, which the kernel holds: sent from here and not
    /// read there.
    pub fn in_flight_to_peer(&self) -> usize {
        queued(self.address(), self.peer_address())
    }

    /// The number of bytes on their way from the other end, which the kernel holds.
    pub fn in_flight_from_peer(&self) -> usize {
        queued(self.peer_address(), self.address())
    }

    // === Sending ===

    /// Sends bytes, all of which the other end has to take.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the other end takes it");
    }

    /// Sends bytes to a peer that may be gone.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends bytes until the other end has taken none for `quiet`; returns how many were taken.
    pub fn send_until_blocked(&mut self, quiet: Duration, max: usize) -> usize {
        self.socket().set_write_timeout(Some(quiet)).expect("a socket option");
        let mut sent = 0;
        while sent < max {
            match self.stream.write(&[b'x'; PIECE_BYTES][..PIECE_BYTES.min(max - sent)]) {
                Ok(len) => sent += len,
                Err(error) if is_timeout(&error) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("cannot send: {error}"),
            }
        }
        self.socket().set_write_timeout(Some(PATIENCE)).expect("a socket option");
        sent
    }

    /// Closes the sending direction.
    pub fn shutdown_write(&mut self) {
        if let Stream::Tls(session) = &self.stream {
            session.close().expect("it is open");
        }
        self.socket().shutdown(Shutdown::Write).expect("it is open");
    }

    /// Closes by a reset.
    pub fn reset(self) {
        SockRef::from(self.socket()).set_linger(Some(Duration::ZERO)).expect("a socket option");
    }

    /// Another handle to the same connection, for a thread that only sends.
    #[must_use]
    pub fn sender(&self) -> Self {
        let stream = match &self.stream {
            Stream::Clear(stream) => Stream::Clear(stream.try_clone().expect("a descriptor")),
            Stream::Tls(session) => Stream::Tls(session.again()),
        };
        Self { stream, unread: Vec::new() }
    }

    // === Receiving ===

    /// Reads up to and including an empty line.
    pub fn read_head(&mut self) -> String {
        let len = self.read_until(b"\r\n\r\n");
        String::from_utf8(self.take(len)).expect("heads in tests are text")
    }

    /// Reads a line; returns it without its CRLF.
    pub fn read_line(&mut self) -> String {
        let len = self.read_until(b"\r\n");
        let line = self.take(len);
        String::from_utf8(line[..len - 2].to_vec()).expect("lines in tests are text")
    }

    /// Reads a line from a peer that may close instead.
    pub fn try_read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.try_read_exactly(1)?);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8(line).expect("lines in tests are text"))
    }

    /// Reads so many bytes.
    pub fn read_exactly(&mut self, len: usize) -> Vec<u8> {
        while self.unread.len() < len {
            self.read_more_of("bytes");
        }
        self.take(len)
    }

    /// Reads so many bytes from a peer that may close instead.
    pub fn try_read_exactly(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < len {
            if self.read_more()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.take(len))
    }

    /// Reads a chunked body with its framing.
    pub fn read_raw_chunks(&mut self) -> String {
        let len = self.read_until(b"0\r\n");
        let mut raw = String::from_utf8(self.take(len)).expect("bodies in tests are text");
        loop {
            let line = self.read_line();
            raw += &line;
            raw += "\r\n";
            if line.is_empty() {
                return raw;
            }
        }
    }

    /// Reads until the other end is done.
    pub fn read_to_end(&mut self) -> (Vec<u8>, Ending) {
        let ending = loop {
            match self.read_more() {
                Ok(0) => break Ending::Closed,
                Ok(_) => {}
                Err(error) if is_reset(&error) => break Ending::Reset,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break Ending::Truncated,
                Err(error) => panic!("the other end does not close: {error}, after {:?}", self.unread_text()),
            }
        };
        (std::mem::take(&mut self.unread), ending)
    }

    /// Waits for the other end to close without another byte.
    pub fn ending(&mut self) -> Ending {
        let (bytes, ending) = self.read_to_end();
        assert!(bytes.is_empty(), "closed, but after {:?}", String::from_utf8_lossy(&bytes));
        ending
    }

    /// Whether nothing unread has arrived, not even an end.
    pub fn is_quiet(&self) -> bool {
        self.socket().set_nonblocking(true).expect("a socket option");
        let peeked = self.socket().peek(&mut [0]);
        self.socket().set_nonblocking(false).expect("a socket option");
        let all_read = match &self.stream {
            Stream::Clear(_) => true,
            Stream::Tls(session) => session.is_quiet(),
        };
        all_read
            && self.unread.is_empty()
            && matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Waits for data or an end in clear. True if nothing arrives within this time.
    pub fn is_quiet_for(&self, time: Duration) -> bool {
        self.socket().set_read_timeout(Some(time)).expect("a socket option");
        let peeked = self.socket().peek(&mut [0]);
        self.socket().set_read_timeout(Some(PATIENCE)).expect("a socket option");
        self.unread.is_empty() && peeked.is_err_and(|error| is_timeout(&error))
    }

    /// Reads a response to a request that was not HEAD.
    pub fn read_response(&mut self) -> Response {
        self.read_response_to("GET")
    }

    /// Reads a response to a HEAD.
    pub fn read_response_to_head(&mut self) -> Response {
        self.read_response_to("HEAD")
    }

    /// Sends a request and reads the response.
    pub fn ask(&mut self, request: &str) -> Response {
        self.send(request);
        self.read_response_to(request.split(' ').next().unwrap_or_default())
    }

    /// Sends a GET for `host` and reads the response.
    pub fn get(&mut self, host: &str, target: &str) -> Response {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    }

    fn read_response_to(&mut self, method: &str) -> Response {
        let mut response = Response::from_head(&self.read_head());
        let is_chunked = response.header("transfer-encoding").is_some();
        let length = response.header("content-length").map(|text| text.parse().expect("a length"));
        if method == "HEAD" || matches!(response.status, 100..200 | 204 | 304) {
            return response;
        }
        match (is_chunked, length) {
            (true, None) => self.read_chunks(&mut response),
            (false, Some(length)) => response.body = self.read_exactly(length),
            (false, None) => response.body = self.read_to_end().0,
            (true, Some(_)) => panic!("framed twice: {response:?}"),
        }
        response
    }

    fn read_chunks(&mut self, response: &mut Response) {
        loop {
            let line = self.read_line();
            let len = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("no chunk size: {line:?}"));
            if len == 0 {
                break;
            }
            response.body.extend(self.read_exactly(len));
            assert_eq!(self.read_line(), "", "after a chunk");
        }
        loop {
            match self.read_line() {
                line if line.is_empty() => return,
                line => response.trailers.push(field(&line)),
            }
        }
    }

    fn read_until(&mut self, end: &[u8]) -> usize {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|window| window == end) {
                return at + end.len();
            }
            self.read_more_of("text");
        }
    }

    fn read_more_of(&mut self, what: &str) {
        match self.read_more() {
            Ok(0) => panic!("closed instead of {what}, after {:?}", self.unread_text()),
            Ok(_) => {}
            Err(error) => panic!("no {what}: {error}, after {:?}", self.unread_text()),
        }
    }

    fn read_more(&mut self) -> io::Result<usize> {
        let mut piece = [0; PIECE_BYTES];
        let len = loop {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.unread.extend_from_slice(&piece[..len]);
        Ok(len)
    }

    fn socket(&self) -> &TcpStream {
        match &self.stream {
            Stream::Clear(stream) => stream,
            Stream::Tls(session) => &session.stream,
        }
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        self.unread.drain(..len).collect()
    }

    fn unread_text(&self) -> String {
        String::from_utf8_lossy(&self.unread[..self.unread.len().min(500)]).into_owned()
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(out),
            Self::Tls(session) => session.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.write(bytes),
            Self::Tls(session) => session.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// The bytes of one direction of a connection over IPv4 between sockets of this network namespace: in the
/// queue of the sender, and in that of the receiver (`proc_net_tcp` of the kernel's documentation). The
/// kernel writes its tables piece by piece, and leaves rows out where connections come and go meanwhile: they
/// are read until they have both.
fn queued(from: SocketAddr, to: SocketAddr) -> usize {
    let reads = std::iter::repeat_with(|| queues(from, to)).take(READS_MAX);
    reads.flatten().next().expect("both ends of the connection are in the kernel's tables")
}

fn queues(from: SocketAddr, to: SocketAddr) -> Option<usize> {
    // A socket that was accepted at an address for both families is in the table of IPv6.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| std::fs::read_to_string(path).expect("the kernel's table of connections"));
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let rows: Vec<Vec<_>> = lines.map(|line| line.split_whitespace().collect()).collect();
    // The queues of the socket with these addresses: sent and not yet acknowledged, received and not read.
    let of = |own: SocketAddr, peer: SocketAddr| {
        let (own, peer) = (in_table(own), in_table(peer));
        // An address of IPv4 is the end of one of IPv6.
        rows.iter().find(|row| row[1].ends_with(&own) && row[2].ends_with(&peer))?[4].split_once(':')
    };
    let bytes = |text| usize::from_str_radix(text, 16).expect("a number of bytes");
    let ((sending, _), (_, unread)) = (of(from, to)?, of(to, from)?);
    Some(bytes(sending) + bytes(unread))
}

/// An address as that table writes it: the bytes of the address in the machine's order, then the port.
fn in_table(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("{address} is not of IPv4") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}
